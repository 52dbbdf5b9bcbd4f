//! What the scanner's complaint means to the person who wrote the file.
//!
//! The scanner says which of its rules broke and where it stood then, which is often a line after
//! the mistake. The usual mistakes are few; each is recognized from the text around that place.

mod line;
mod quotes;
mod rest;
mod stray;

use crate::diag::Diagnostic;
use crate::source::{FileId, Span};

use line::Line;

/// The diagnostic for a syntax error at byte `at`.
pub(super) fn explain(file: FileId, text: &str, at: usize, complaint: &str) -> Diagnostic {
    let place = Place::new(file, text, at);
    place
        .conflict_marker()
        .or_else(|| place.odd_indentation())
        .or_else(|| place.tab_after_colon(complaint))
        .or_else(|| place.trailing_content(complaint))
        .or_else(|| place.invalid_escape(complaint))
        .or_else(|| place.unclosed_quote(complaint))
        .or_else(|| place.glued_comment(complaint))
        .or_else(|| place.braces_without_dollar())
        .or_else(|| place.unclosed_bracket(complaint))
        .or_else(|| place.reserved_character(complaint))
        .or_else(|| place.unknown_alias(complaint))
        .or_else(|| place.nameless_anchor(complaint))
        .or_else(|| place.colon_in_value(complaint))
        .or_else(|| place.list_on_key_line(complaint))
        .or_else(|| place.missing_colon_of_parent(complaint))
        .or_else(|| place.stray_line(complaint))
        .or_else(|| place.missing_colon(complaint))
        .or_else(|| place.item_among_keys(complaint))
        .or_else(|| place.indentation())
        .unwrap_or_else(|| place.other(complaint))
}

struct Place<'t> {
    file: FileId,
    text: &'t str,
    at: usize,
    line: Line<'t>,
}

impl<'t> Place<'t> {
    fn new(file: FileId, text: &'t str, at: usize) -> Self {
        let at = text.floor_char_boundary(at.min(text.len()));
        Self { file, text, at, line: Line::at(text, at) }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    fn error(&self, start: usize, end: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error("yaml-syntax", self.span(start, end), message)
    }

    fn rest_of_line(&self) -> Span {
        let end = self.line.start + self.line.text.trim_ascii_end().len();
        self.span(self.at, end.max(self.at))
    }

    /// The content of the line, as a span.
    fn whole_line(&self) -> (usize, usize) {
        let start = self.line.start + self.line.indent();
        (start, start + self.line.content().len())
    }

    fn lines_before(&self) -> impl Iterator<Item = Line<'t>> {
        let text = &self.text[..self.line.start];
        let start_of = move |line: &'t str| line.as_ptr() as usize - text.as_ptr() as usize;
        text.lines()
            .rev()
            .map(move |line| Line { start: start_of(line), text: line })
            .filter(|line| !line.content().is_empty() && !line.content().starts_with('#'))
    }

    /// The line that a merge left behind, wherever the scanner stumbled over its like.
    fn conflict_marker(&self) -> Option<Diagnostic> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            if line.starts_with("<<<<<<< ") {
                let end = start + line.trim_ascii_end().len();
                let found =
                    self.error(start, end, "the file contains an unresolved merge conflict");
                return Some(found.help(
                    "choose one side and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`",
                ));
            }
            start += line.len();
        }
        None
    }

    /// White space that looks like indentation but is none, on this line or on one beside it: the
    /// scanner often notices a line too late or too early.
    fn odd_indentation(&self) -> Option<Diagnostic> {
        let next = self.text[self.line.start + self.line.text.len()..].find(|char| char != '\n');
        let next =
            next.map(|skip| Line::at(self.text, self.line.start + self.line.text.len() + skip));
        let lines = [Some(self.line), next, self.lines_before().next()];
        lines.into_iter().flatten().find_map(|line| {
            let white = line.text.len() - line.text.trim_start().len();
            let odd = line.text[..white].find(|char: char| !matches!(char, ' ' | '\r'))?;
            let start = line.start + odd;
            let char = self.text[start..].chars().next()?;
            let (name, label) = if char == '\t' {
                ("a tab", "tab here")
            } else {
                ("white space other than the plain space", "looks like a space, but is none")
            };
            let found =
                self.error(start, start + char.len_utf8(), format!("{name} cannot indent YAML"));
            Some(found.label(label).help("indent with spaces; most editors can convert the file"))
        })
    }

    fn tab_after_colon(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("':' must be followed by") {
            return None;
        }
        let tab = self.line.text.find(":\t")? + self.line.start + 1;
        let found = self.error(tab, tab + 1, "a tab stands between a key and its value");
        Some(found.label("tab here").help("put a space after the colon"))
    }

    fn unclosed_bracket(&self, complaint: &str) -> Option<Diagnostic> {
        let parts = ["flow", "illegal placement of ':'", "invalid indentation"];
        if !parts.iter().any(|part| complaint.contains(part)) {
            return None;
        }
        let (open, bracket) = open_brackets(&self.text[..self.at], false).pop()?;
        if complaint.contains("invalid indentation")
            && open_brackets(&self.text[open..], true).is_empty()
        {
            return Some(self.too_far_left(self.line, "the brackets", open));
        }
        let close = if bracket == '[' { ']' } else { '}' };
        let found = self.error(open, open + 1, format!("this `{bracket}` is never closed"));
        let found = found.label("opened here").help(format!("add the closing `{close}`"));
        Some(if bracket == '{' && self.text[..open].ends_with("${") {
            self.error(open - 1, open + 1, "an expression that starts a value needs quotes here")
                .help("write the value in quotes: \"${{ … }}\"")
        } else {
            found.related(self.rest_of_line(), "still inside it here")
        })
    }

    /// A line of a string or of brackets that stands left of the key they belong to.
    fn too_far_left(&self, line: Line<'_>, what: &str, opened: usize) -> Diagnostic {
        let start = line.start + line.indent();
        let end = start + line.content().len();
        let owner = Line::at(self.text, opened).key_column();
        self.error(start, end, format!("this line is indented too little for {what} it is in"))
            .label(format!("{} here", spaces(line.indent())))
            .related(self.span(opened, opened + 1), "opened here")
            .help(format!("indent it by at least {}", spaces(owner + 1)))
    }

    fn reserved_character(&self, complaint: &str) -> Option<Diagnostic> {
        let reserved =
            self.text[self.at..].chars().next().filter(|char| matches!(char, '@' | '`' | '%'))?;
        complaint.contains("unexpected character").then(|| {
            let end = self.rest_of_line().range().end;
            self.error(self.at, end, format!("a value cannot start with `{reserved}`"))
                .help("put the value in quotes")
        })
    }

    fn unknown_alias(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("unknown anchor") && !complaint.contains("anchor or alias") {
            return None;
        }
        let here = self.text[self.at..].starts_with('*').then_some(self.at);
        let before = || self.text[..self.at].rfind('*').filter(|at| *at >= self.line.start);
        let at = here.or_else(before)?;
        let written = &self.text[at..];
        let length = written.find(|char: char| char.is_whitespace() || ",]}".contains(char));
        let alias = &written[..length.unwrap_or(written.len())];
        let name = alias.strip_prefix('*').unwrap_or(alias);
        let found = self.error(
            at,
            at + alias.len(),
            match name {
                "" => "this `*` names no anchor".to_owned(),
                _ => format!("no anchor is called `{name}`"),
            },
        );
        let help = if self.line.content().contains("*/")
            || alias.len() <= 1
            || name.starts_with(['*', '.', '/'])
        {
            "a leading `*` names an anchor in YAML; put a pattern in quotes".to_owned()
        } else {
            format!(
                "define it before this line with `&{name}`, or quote the value if it is a pattern"
            )
        };
        Some(found.help(help))
    }

    /// `name: build: fast`: the second colon makes a mapping where there can be none.
    fn colon_in_value(&self, complaint: &str) -> Option<Diagnostic> {
        let first = self.line.text.find(": ")?;
        let colon = self.at - self.line.start;
        if !complaint.contains("mapping values are not allowed") || colon <= first {
            return None;
        }
        let value = first + 2;
        let end = self.line.text.trim_ascii_end().len();
        let text = &self.line.text[value..end];
        let start = self.line.start;
        let found = self.error(
            start + colon,
            start + colon + 1,
            "a value cannot contain `: ` unless it is quoted",
        );
        Some(
            found
                .label("read as a second key")
                .help(format!("quote the value: '{}'", text.replace('\'', "''"))),
        )
    }

    fn list_on_key_line(&self, complaint: &str) -> Option<Diagnostic> {
        complaint.contains("block sequence entries are not allowed").then(|| {
            self.error(self.at, self.at + 1, "a list cannot start on the line of its key")
                .help("start the list on the next line, indented by two spaces")
        })
    }

    /// A line without a colon right before one that has it: `runs-on ubuntu-latest`.
    fn missing_colon(&self, complaint: &str) -> Option<Diagnostic> {
        let before = self.lines_before().next()?;
        let applies = complaint.contains("mapping values are not allowed")
            || complaint.contains("could not find expected ':'");
        if !applies || before.indent() != self.line.indent() || before.is_key() {
            return None;
        }
        let start = before.start + before.indent();
        let content = before.content();
        if let Some((key, value)) = content.split_once(':') {
            return Some(self.no_space_after_colon(start + key.len(), key, value));
        }
        let key = content.split_whitespace().next().unwrap_or_default();
        let found = self.error(start, start + content.len(), "this line has no `:`");
        Some(
            found
                .label("not a key and a value")
                .help(format!("a key is followed by a colon and a space: `{key}: …`")),
        )
    }

    /// The line stands at a column where none of the open mappings has its keys.
    fn indentation(&self) -> Option<Diagnostic> {
        let indent = self.line.indent();
        let before: Vec<Line<'_>> = self.lines_before().take(200).collect();
        let (start, end) = self.whole_line();
        let columns = open_columns(&before, self.line.content().starts_with("- "));
        let name = key_name(self.line.content());
        let message =
            format!("{name} is indented by {}, which matches nothing above", spaces(indent));
        let mut found = self.error(start, end, message).label(format!("{} here", spaces(indent)));
        let (nearest, line) =
            columns.iter().min_by_key(|(column, _)| column.abs_diff(indent)).copied()?;
        if nearest == indent {
            return None;
        }
        let at = line.start + nearest;
        let length = line.text[nearest..].trim_ascii_end().len();
        found = found.related(self.span(at, at + length), format!("{} here", spaces(nearest)));
        let parent =
            columns.iter().filter(|(column, _)| *column < nearest).map(|(_, line)| line).next();
        let context = parent
            .map(|line| key_name(line.content()))
            .map_or(String::new(), |parent| format!(" in {parent}"));
        Some(found.help(format!(
            "indent it by {} to stand beside {}{context}",
            spaces(nearest),
            key_name(&line.text[nearest..]),
        )))
    }
}

fn spaces(count: usize) -> String {
    match count {
        0 => "no spaces".to_owned(),
        1 => "1 space".to_owned(),
        _ => format!("{count} spaces"),
    }
}

fn key_name(content: &str) -> String {
    let content = content.trim_ascii().trim_start_matches("- ");
    match content.split_once(':') {
        Some((key, _)) => format!("`{}`", key.trim_ascii()),
        None => "this line".to_owned(),
    }
}

/// The columns at which a key (or a list item) could stand after these lines (nearest line first),
/// each with the line that opened it.
fn open_columns<'t>(before: &[Line<'t>], items: bool) -> Vec<(usize, Line<'t>)> {
    let mut columns: Vec<(usize, Line<'t>)> = Vec::new();
    let mut limit = usize::MAX;
    for line in before {
        let is_item = line.content().starts_with("- ");
        let column = if items { line.indent() } else { line.key_column() };
        if column < limit && (if items { is_item } else { line.is_key() }) {
            columns.push((column, *line));
            limit = column;
        }
        if line.indent() == 0 {
            break;
        }
    }
    columns
}

/// The brackets that are open at the end of the text, or none as soon as the first one is closed, if
/// that is asked. Quotes and comments are skipped as far as a look at single lines can tell.
fn open_brackets(text: &str, until_closed: bool) -> Vec<(usize, char)> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut previous = ' ';
    let mut comment = false;
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (_, '\n') => comment = false,
            (Some(end), _) if end == char => quote = None,
            _ if comment || quote.is_some() => {}
            (None, '\'' | '"') if matches!(previous, ' ' | '[' | '{' | ',') => quote = Some(char),
            (None, '#') if previous.is_whitespace() => comment = true,
            (None, '[' | '{') => open.push((at, char)),
            (None, ']' | '}') => {
                open.pop();
                if until_closed && open.is_empty() {
                    return open;
                }
            }
            _ => {}
        }
        previous = char;
    }
    open
}

#[cfg(test)]
mod tests;
