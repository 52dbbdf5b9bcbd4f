//! The rarer complaints, so that none reaches a person in the scanner's words.

use crate::diag::Diagnostic;

use super::line::Line;
use super::{Place, key_name};

impl Place<'_> {
    /// `- deploy:` where the keys of a mapping stand.
    pub(super) fn item_among_keys(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("did not find expected key") || !self.line.is_item() {
            return None;
        }
        // Below an item of the same list it is only indented too far.
        let parent = self.lines_before().find(|line| line.indent() < self.line.indent());
        if parent.is_some_and(Line::is_item) {
            return None;
        }
        let (start, end) = self.whole_line();
        let content = self.line.content().trim_start_matches("- ");
        let beside = self
            .lines_before()
            .find(|line| line.indent() == self.line.indent() && line.is_key())
            .map(|line| (line, key_name(line.content())));
        let found = self.error(start, end, "a list item stands where a key is expected");
        let help = format!("remove the `- ` before `{content}`, or indent it below its list");
        Some(match beside {
            Some((line, name)) => {
                let at = line.start + line.indent();
                let related = self.span(at, at + line.content().len());
                found.related(related, format!("{name} is a key at the same depth")).help(help)
            }
            None => found.help(help),
        })
    }

    /// `[one]# two`: a comment starts after white space only.
    pub(super) fn glued_comment(&self, complaint: &str) -> Option<Diagnostic> {
        if !complaint.contains("comments must be separated") {
            return None;
        }
        let at = self.line.text.find('#').map_or(self.at, |at| self.line.start + at);
        let found = self.error(
            at,
            self.line.start + self.line.text.trim_ascii_end().len(),
            "a comment needs a space before its `#`",
        );
        Some(found.help("put a space before it, or quotes around the value"))
    }

    /// An anchor without a name: `&` starts a value.
    pub(super) fn nameless_anchor(&self, complaint: &str) -> Option<Diagnostic> {
        let here = self.text[self.at..].starts_with('&').then_some(self.at);
        let at = here.or_else(|| self.text[..self.at].rfind('&'))?;
        let applies = complaint.contains("anchor or alias") && at >= self.line.start;
        applies.then(|| {
            self.error(at, at + 1, "this `&` names nothing")
                .help("a leading `&` gives a value a name in YAML; put the text in quotes")
        })
    }

    /// `{{ matrix.os }}` without its dollar sign is a mapping within a mapping.
    pub(super) fn braces_without_dollar(&self) -> Option<Diagnostic> {
        let at = self.line.text.find("{{")?;
        let before = self.line.text[..at].trim_ascii_end();
        let starts_value = before.ends_with([':', '-', '[', ',']) || before.is_empty();
        let end = self.line.text[at..].find("}}").map(|end| at + end + 2)?;
        let braces = &self.line.text[at..end];
        starts_value.then(|| {
            let start = self.line.start;
            self.error(start + at, start + end, "an expression starts with `${{`, not with `{{`")
                .help(format!("write `${braces}`, in quotes if anything but a space follows it"))
        })
    }

    /// Whatever is left, in words of our own.
    pub(super) fn other(&self, complaint: &str) -> Diagnostic {
        let words = WORDS.iter().find(|(part, ..)| complaint.contains(part));
        let (message, help) = words.map_or(
            (
                "this cannot be read as YAML",
                "check the indentation and the quotes of this line and of those above it",
            ),
            |(_, message, help)| (*message, *help),
        );
        Diagnostic::error("yaml-syntax", self.rest_of_line(), message).help(help)
    }
}

/// A part of the scanner's complaint, what is said instead, and the remedy.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "unprintable",
        "a character that cannot be printed",
        "remove it, or write it as an escape in double quotes",
    ),
    (
        "byte order mark",
        "a byte order mark stands inside the file",
        "remove this invisible character",
    ),
    (
        "document end marker",
        "text after the end of the document",
        "keep one workflow per file, without `...`",
    ),
    (
        "indentation indicator",
        "a block cannot be indented by 0 spaces",
        "remove the digit after `|` or `>`",
    ),
    (
        "while scanning a block scalar",
        "text cannot follow `|` or `>` on its line",
        "start it on the next line, indented below its key",
    ),
    (
        "directive",
        "a line that starts with `%` is a directive of YAML",
        "put the value in quotes, or remove the line",
    ),
    (
        "TAG",
        "a line that starts with `%` is a directive of YAML",
        "put the value in quotes, or remove the line",
    ),
    ("tag", "this tag cannot be read", "a value that starts with `!` needs quotes"),
    ("node content", "a value is expected here", "check the brackets and commas of this line"),
    ("duplicated anchor", "this name is given twice", "give the second anchor another name"),
    ("'-' must be followed", "a space is missing after `-`", "write `- ` before each item"),
    ("cannot start with '-'", "a value cannot start with `-` here", "put the value in quotes"),
    ("tab", "a tab cannot stand here", "use spaces"),
    (
        "simple key",
        "a key and a `:` are expected",
        "check the indentation of this line and of those above it",
    ),
    (
        "expected '-' indicator",
        "an item that starts with `- ` is expected",
        "check the indentation of this line and of those above it",
    ),
];
