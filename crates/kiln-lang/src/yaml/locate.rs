//! From a place in a scalar's value back to the text that was written.
//!
//! Quotes, escapes, folded lines and stripped indentation make the two differ. Both are walked side
//! by side, which is exact for everything but odd escapes, where the nearest place is good enough.

use crate::source::{SourceMap, Span};

use super::{Node, Style};

impl Node {
    /// The span in the file of a range of bytes of this scalar's text.
    pub fn locate(&self, range: std::ops::Range<usize>, sources: &SourceMap) -> Span {
        let Some(scalar) = self.scalar() else {
            return self.span;
        };
        let raw = sources.snippet(self.span);
        let offsets = align(&scalar.text, raw, scalar.style, [range.start, range.end]);
        let base = self.span.start as usize;
        Span::new(self.span.file, base + offsets[0], base + offsets[1])
    }
}

/// The offsets in `raw` of two ascending offsets in `text`.
fn align(text: &str, raw: &str, style: Style, wanted: [usize; 2]) -> [usize; 2] {
    let mut found = [raw.len(); 2];
    let mut at = skip_properties(raw);
    if matches!(style, Style::SingleQuoted | Style::DoubleQuoted) {
        at += 1;
    }
    let mut next = 0;
    for (offset, char) in text.char_indices() {
        if next < 2 && offset >= wanted[next] {
            // An end lies right after the last character, not after the white space that follows.
            let start =
                if next == 0 || wanted[0] == wanted[1] { seek(raw, at, char, style) } else { at };
            found[next] = start;
            next += 1;
            if next == 2 {
                return found;
            }
            if offset >= wanted[1] {
                found[1] = start;
                return found;
            }
        }
        at = seek(raw, at, char, style);
        at += width(raw, at, char, style);
    }
    for place in &mut found[next..] {
        *place = at.min(raw.len());
    }
    found
}

/// Anchors and tags stand before the value within its span.
fn skip_properties(raw: &str) -> usize {
    let mut rest = raw;
    while rest.starts_with(['&', '!']) {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_start();
    }
    raw.len() - rest.len()
}

/// Where `char` is written, at or after `at`: white space in between belongs to layout.
fn seek(raw: &str, at: usize, char: char, style: Style) -> usize {
    let rest = raw.get(at..).unwrap_or_default();
    if rest.starts_with(char) && char != ' ' {
        return at;
    }
    if char.is_whitespace() {
        // A folded line break is a space or a newline of the value: the break itself is its place.
        return at + rest.find([char, '\n']).unwrap_or(0);
    }
    let skipped = rest.len() - rest.trim_start().len();
    let rest = &rest[skipped..];
    // A backslash before a line break inside double quotes joins the lines.
    if style == Style::DoubleQuoted && rest.starts_with("\\\n") {
        return seek(raw, at + skipped + 2, char, style);
    }
    at + skipped
}

/// How many bytes of the raw text stand for `char`.
fn width(raw: &str, at: usize, char: char, style: Style) -> usize {
    let rest = raw.get(at..).unwrap_or_default();
    match style {
        Style::SingleQuoted if rest.starts_with("''") => 2,
        Style::DoubleQuoted if rest.starts_with('\\') => match rest.as_bytes().get(1) {
            Some(b'x') => 4,
            Some(b'u') => 6,
            Some(b'U') => 10,
            _ => 2,
        }
        .min(rest.len()),
        _ => rest.chars().next().map_or(0, |found| {
            if found == char || char.is_whitespace() { found.len_utf8() } else { 0 }
        }),
    }
}

#[cfg(test)]
mod tests {
    use crate::source::SourceMap;

    /// Finds `needle` in the value of key `k` and expects the text it is located at.
    fn check(yaml: &str, needle: &str, expect: &str) {
        let mut sources = SourceMap::new();
        let file = sources.add("t.yml", yaml);
        let (root, diagnostics) = super::super::read(file, &sources);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let root = root.expect("the document has a root");
        let node = root.get("k").expect("there is a key k");
        let start = node.text().and_then(|text| text.find(needle)).expect("the needle is there");
        let span = node.locate(start..start + needle.len(), &sources);
        assert_eq!(sources.snippet(span), expect);
    }

    #[test]
    fn a_range_is_found_again_whatever_the_style() {
        check("k: a ${{ b }} c\n", "${{ b }}", "${{ b }}");
        check("k: 'it''s ${{ b }}'\n", "${{ b }}", "${{ b }}");
        check("k: \"\\u0041 \\\"q\\\" ${{ b }}\"\n", "${{ b }}", "${{ b }}");
        check("k: |\n    one\n      two ${{ b }}\n    three\n", "${{ b }}", "${{ b }}");
        check("k: |\n    one ${{\n      b }}\n", "${{\n  b }}", "${{\n      b }}");
        check("k: >\n    one\n    ${{ b }} two\n\n    three\n", "${{ b }}", "${{ b }}");
        check("k: one\n  ${{ b }}\n  two\n", "two", "two");
        check("k: &anchor !!str über ${{ ü }}\n", "ü }", "ü }");
        check("k: |\n  tail", "tail", "tail");
    }
}
