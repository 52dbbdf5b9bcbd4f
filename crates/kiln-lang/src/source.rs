//! Source files and places in them.

use std::sync::Arc;

/// Which file of a [`SourceMap`] a span lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(file: FileId, start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { file, start: clamp(start), end: clamp(end.max(start)) }
    }

    /// From the start of this span to the end of the other one.
    #[must_use]
    pub fn to(self, end: Span) -> Self {
        Self { end: end.end.max(self.start), ..self }
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A place as people count it: lines and columns from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// A file's name and text, with its lines found once.
#[derive(Debug, Clone)]
pub struct SourceFile {
    name: Arc<str>,
    text: Arc<str>,
    line_starts: Vec<usize>,
}

impl SourceFile {
    fn new(name: &str, text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        Self { name: name.into(), text: text.into(), line_starts }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The position of a byte offset; one past the end of the text is its end.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        Position { line, column: without_mark(&self.text[start..offset]).chars().count() + 1 }
    }

    /// The text of a line, counted from one, without its line break; empty past the end.
    pub fn line(&self, number: usize) -> &str {
        let Some(start) = number.checked_sub(1).and_then(|at| self.line_starts.get(at)) else {
            return "";
        };
        let end = self.line_starts.get(number).map_or(self.text.len(), |next| next - 1);
        without_mark(self.text[*start..end].trim_end_matches('\r'))
    }
}

/// A line without the byte order mark that some editors put before the first one.
fn without_mark(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

/// All files that took part in one reading.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, name: &str, text: &str) -> FileId {
        let id = FileId(u32::try_from(self.files.len()).expect("fewer than 2^32 files are read"));
        self.files.push(SourceFile::new(name, text));
        id
    }

    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    pub fn snippet(&self, span: Span) -> &str {
        self.file(span.file).text().get(span.range()).unwrap_or_default()
    }

    pub fn start(&self, span: Span) -> Position {
        self.file(span.file).position(span.start as usize)
    }

    pub fn end(&self, span: Span) -> Position {
        self.file(span.file).position(span.end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let mut map = SourceMap::new();
        let id = map.add("a.yml", "über: 1\r\nb: 2\n");
        let file = map.file(id);
        assert_eq!(file.position(0), Position { line: 1, column: 1 });
        assert_eq!(file.position(6), Position { line: 1, column: 6 });
        assert_eq!(file.position(10), Position { line: 2, column: 1 });
        assert_eq!(file.position(999), Position { line: 3, column: 1 });
        assert_eq!(file.line(1), "über: 1");
        assert_eq!(file.line(2), "b: 2");
        assert_eq!(file.line(9), "");
        let id = map.add("b.yml", "\u{feff}on: push\n");
        let file = map.file(id);
        assert_eq!(file.position(0), Position { line: 1, column: 1 });
        assert_eq!(file.position(3), Position { line: 1, column: 1 });
        assert_eq!(file.position(5), Position { line: 1, column: 3 });
        assert_eq!(file.line(1), "on: push");
    }
}
