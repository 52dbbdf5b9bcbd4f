//! Strings in quotes: those that never end, end too early or contain what they cannot.

use crate::diag::Diagnostic;

use super::Place;
use super::line::Line;

impl Place<'_> {
    pub(super) fn unclosed_quote(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("quoted scalar") {
            return None;
        }
        let here = self.text[self.at..].starts_with(['"', '\'']).then_some(self.at);
        let start = here.or_else(|| self.text[..self.at].rfind(['"', '\'']))?;
        let quote = self.text[start..].chars().next()?;
        if complaint.contains("invalid indentation")
            && let Some(line) = self.line_left_of_key(start, quote)
        {
            return Some(self.too_far_left(line, "the string", start));
        }
        let found = self.error(start, start + 1, format!("this {quote} is never closed"));
        Some(found.label("the string starts here").help(format!("add the closing {quote}")))
    }

    /// The first line of a string that does not stand deeper than its key, if it looks like text: a
    /// key there rather says that the string should have ended before.
    fn line_left_of_key(&self, start: usize, quote: char) -> Option<Line<'_>> {
        let end = start + 1 + self.text[start + 1..].find(quote)?;
        let owner = Line::at(self.text, start).key_column();
        let breaks = self.text[start..end].match_indices('\n').map(|(at, _)| start + at + 1);
        let mut lines = breaks.map(|at| Line::at(self.text, at));
        lines
            .find(|line| !line.content().is_empty() && line.indent() <= owner)
            .filter(|line| line.is_bare_text())
    }

    /// `"\d+"`: a backslash means something inside double quotes.
    pub(super) fn invalid_escape(&self, complaint: &str) -> Option<Diagnostic> {
        let applies = ["unknown escape", "hexadecimal number", "escape code"];
        if !applies.iter().any(|part| complaint.contains(part)) {
            return None;
        }
        let open =
            self.text[..self.at].rfind('"').filter(|_| !self.text[self.at..].starts_with('"'));
        let mut rest = &self.text[open.unwrap_or(self.at)..];
        let backslash = loop {
            rest = &rest[rest.find('\\')?..];
            if !is_escape(&rest[1..]) {
                break self.text.len() - rest.len();
            }
            rest = &rest[1 + rest[1..].chars().next()?.len_utf8()..];
        };
        let letter = self.text[backslash + 1..].chars().next()?;
        let end = backslash + 1 + letter.len_utf8();
        let message = if matches!(letter, 'x' | 'u' | 'U') {
            format!("`\\{letter}` must be followed by the hexadecimal number of a character")
        } else {
            format!("`\\{letter}` means nothing inside double quotes")
        };
        Some(self.error(backslash, end, message).help(format!(
            "write `\\\\{letter}`, or use single quotes, in which a backslash is only itself"
        )))
    }

    pub(super) fn trailing_content(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("trailing content after") {
            return None;
        }
        let found =
            self.error(self.at, self.rest_of_line().range().end, "text after the closing quote");
        Some(found.label("does not belong to the string").help(
            "quote the whole value; inside single quotes write '' for a quote, inside double quotes \\\"",
        ))
    }
}

/// Whether what follows a backslash makes it an escape.
fn is_escape(after: &str) -> bool {
    let digits = match after.chars().next() {
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        Some(letter) => return "0abt\tnvfre \"/\\N_LP\n\r".contains(letter),
        None => return false,
    };
    after
        .get(1..=digits)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .is_some_and(|code| char::from_u32(code).is_some())
}
