//! The commands of a shell script, read as far as checks need them.
//!
//! This is no shell parser: it finds simple commands, how they are joined, and the substitutions in
//! their words, and passes over quotes, comments, here-documents, patterns of `case` and `${{ }}`. On
//! text that it does not understand it finds fewer commands, never an error.

use std::ops::Range;

/// How deep substitutions may nest before the rest is passed over.
const MAX_DEPTH: usize = 16;

/// A simple command such as `cargo test --all`.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    /// What stands behind it.
    pub(super) joined_by: Join,
    /// Whether its failure only decides a branch: it stands after `if`, `while`, `until` or `!`.
    pub(super) in_condition: bool,
}

#[derive(Debug)]
pub(super) struct Word {
    pub(super) range: Range<usize>,
    /// What stands inside `$( )` and backquotes.
    pub(super) substitutions: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Pipe,
    Or,
    /// `&&`, `;`, `&`, a line break, a parenthesis or the end.
    Other,
}

/// The commands within a part of a text; all ranges count in the whole text.
pub(super) fn commands(text: &str, within: Range<usize>) -> Vec<Command> {
    let mut scanner = Scanner {
        text: &text.as_bytes()[..within.end],
        at: within.start,
        commands: Vec::new(),
        words: Vec::new(),
        in_condition: false,
        open_cases: 0,
        heredocs: Vec::new(),
    };
    scanner.run();
    scanner.commands
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    commands: Vec<Command>,
    words: Vec<Word>,
    in_condition: bool,
    /// `case` commands that wait for their `esac`.
    open_cases: usize,
    /// Delimiters of here-documents that start on the next line.
    heredocs: Vec<Vec<u8>>,
}

/// Words after which a command starts anew.
const PREFIXES: [&[u8]; 10] =
    [b"then", b"else", b"do", b"if", b"elif", b"while", b"until", b"!", b"{", b"time"];

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.peek(1) == Some(b'\n') => self.at += 2,
                b'#' => self.at = self.find(b"\n").unwrap_or(self.text.len()),
                b'\n' => self.line_end(),
                b'|' if self.peek(1) == Some(b'|') => self.end(Join::Or, 2),
                b'|' if self.peek(1) == Some(b'&') => self.end(Join::Pipe, 2),
                b'|' => self.end(Join::Pipe, 1),
                b'&' if self.peek(1) == Some(b'>') => self.word(),
                b'(' if self.words.is_empty() && self.peek(1) == Some(b'(') => {
                    self.at = skip_parentheses(self.text, self.at + 1, 0);
                }
                b';' if matches!(self.peek(1), Some(b';' | b'&')) && self.open_cases > 0 => {
                    self.end(Join::Other, 2);
                    self.pattern();
                }
                b'&' | b';' | b'(' | b')' => self.end(Join::Other, 1),
                _ => self.word(),
            }
        }
        self.end(Join::Other, 0);
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Where the given bytes come next.
    fn find(&self, wanted: &[u8]) -> Option<usize> {
        let rest = self.text.get(self.at..)?;
        rest.windows(wanted.len()).position(|found| found == wanted).map(|found| self.at + found)
    }

    fn end(&mut self, joined_by: Join, width: usize) {
        self.at += width;
        let words = std::mem::take(&mut self.words);
        // A pipe behind a group or a loop still counts as a pipe, after something unknown.
        if !words.is_empty() || joined_by == Join::Pipe {
            self.commands.push(Command { words, joined_by, in_condition: self.in_condition });
        }
    }

    /// A line break ends a command and starts the here-documents that it announced.
    fn line_end(&mut self) {
        self.end(Join::Other, 1);
        for delimiter in std::mem::take(&mut self.heredocs) {
            loop {
                let end = self.find(b"\n").unwrap_or(self.text.len());
                let line = self.text.get(self.at..end).unwrap_or_default();
                let is_last = end == self.text.len();
                self.at = (end + 1).min(self.text.len());
                if is_last || line.trim_ascii() == delimiter {
                    break;
                }
            }
        }
    }

    fn word(&mut self) {
        let start = self.at;
        let mut substitutions = Vec::new();
        self.at = skip_word(self.text, start, &mut substitutions, 0);
        if self.at == start {
            self.at += 1;
            return;
        }
        let word = &self.text[start..self.at];
        if word.windows(2).any(|two| two == b"<<") {
            self.heredoc(start);
        }
        let word = &self.text[start..self.at];
        if self.words.is_empty() {
            if PREFIXES.contains(&word) {
                match word {
                    b"if" | b"elif" | b"while" | b"until" | b"!" => self.in_condition = true,
                    b"then" | b"do" | b"else" => self.in_condition = false,
                    _ => {}
                }
                return;
            }
            if word == b"[[" {
                self.at = self.find(b"]]").map_or(self.text.len(), |end| end + 2);
            } else if word == b"esac" {
                self.open_cases = self.open_cases.saturating_sub(1);
            }
        }
        let starts_case = word == b"in" && self.first_word_is(b"case");
        self.words.push(Word { range: start..self.at, substitutions });
        if starts_case {
            self.open_cases += 1;
            self.end(Join::Other, 0);
            self.pattern();
        }
    }

    fn first_word_is(&self, wanted: &[u8]) -> bool {
        self.words.first().is_some_and(|word| &self.text[word.range.clone()] == wanted)
    }

    /// Remembers the delimiter of `<<WORD`, which may stand apart and in quotes.
    fn heredoc(&mut self, start: usize) {
        let word = &self.text[start..self.at];
        let Some(operator) = word.windows(2).position(|two| two == b"<<") else { return };
        let mut rest = &word[operator + 2..];
        if rest.first() == Some(&b'<') {
            return;
        }
        rest = rest.strip_prefix(b"-").unwrap_or(rest);
        if rest.is_empty() {
            while matches!(self.peek(0), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            let from = self.at;
            self.at = skip_word(self.text, from, &mut Vec::new(), 0);
            rest = &self.text[from..self.at];
        }
        let delimiter = rest.iter().copied().filter(|byte| !matches!(byte, b'"' | b'\'' | b'\\'));
        self.heredocs.push(delimiter.collect());
    }

    /// Passes over a pattern of `case` and its parenthesis; `esac` is no pattern.
    fn pattern(&mut self) {
        while matches!(self.peek(0), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        if self.text[self.at..].starts_with(b"esac") {
            return;
        }
        self.at += usize::from(self.peek(0) == Some(b'('));
        while let Some(byte) = self.peek(0) {
            match byte {
                b')' => return self.at += 1,
                b'\'' | b'"' => self.at = skip_quoted(self.text, self.at, &mut Vec::new(), 0),
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

/// The end of a word that starts at `at`.
fn skip_word(text: &[u8], mut at: usize, found: &mut Vec<Range<usize>>, depth: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        let previous = at.checked_sub(1).map(|before| text[before]);
        let redirects = matches!(previous, Some(b'>' | b'<'));
        match byte {
            b'|' | b'&' if redirects => at += 1,
            b'&' if text.get(at + 1) == Some(&b'>') => at += 1,
            b'(' if redirects => at = skip_parentheses(text, at, depth),
            b' ' | b'\t' | b'\r' | b'\n' | b';' | b')' | b'|' | b'&' | b'(' => break,
            b'\\' => at += 2,
            b'\'' | b'"' | b'`' | b'$' => at = skip_quoted(text, at, found, depth),
            _ => at += 1,
        }
    }
    at.min(text.len())
}

/// The end of a quotation, a substitution or an expansion that starts at `at`.
fn skip_quoted(text: &[u8], at: usize, found: &mut Vec<Range<usize>>, depth: usize) -> usize {
    if depth >= MAX_DEPTH {
        return text.len();
    }
    let rest = &text[at..];
    let behind = |wanted: &[u8], from: usize| {
        let tail = text.get(from..).unwrap_or_default();
        let place = tail.windows(wanted.len()).position(|two| two == wanted);
        place.map_or(text.len(), |place| from + place + wanted.len())
    };
    if rest.starts_with(b"${{") {
        return behind(b"}}", at + 3);
    }
    if rest.starts_with(b"$((") {
        return skip_parentheses(text, at + 1, depth);
    }
    if rest.starts_with(b"$(") {
        let end = skip_parentheses(text, at + 1, depth + 1);
        found.push(inside(text, at + 2, end, b')'));
        return end;
    }
    match rest[0] {
        b'\'' => skip_single(text, at + 1, false),
        b'$' if rest.starts_with(b"$'") => skip_single(text, at + 2, true),
        b'`' => {
            let end = behind(b"`", at + 1);
            found.push(inside(text, at + 1, end, b'`'));
            end
        }
        b'"' => skip_double(text, at + 1, found, depth),
        b'$' if rest.starts_with(b"${") => behind(b"}", at + 2),
        _ => at + 1,
    }
}

/// What stands between an opening and its closing byte, which may be missing at the end.
fn inside(text: &[u8], start: usize, end: usize, closing: u8) -> Range<usize> {
    let closed = end > start && text[end - 1] == closing;
    start..if closed { end - 1 } else { end.max(start) }
}

fn skip_single(text: &[u8], mut at: usize, escapes: bool) -> usize {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\'' => return at + 1,
            b'\\' if escapes => at += 2,
            // The quotes inside an expression are gone before the shell looks.
            b'$' if text[at..].starts_with(b"${{") => {
                at = skip_quoted(text, at, &mut Vec::new(), 0);
            }
            _ => at += 1,
        }
    }
    text.len()
}

fn skip_double(text: &[u8], mut at: usize, found: &mut Vec<Range<usize>>, depth: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            b'$' if text.get(at + 1) == Some(&b'\'') => at += 1,
            b'$' | b'`' => at = skip_quoted(text, at, found, depth + 1),
            _ => at += 1,
        }
    }
    text.len()
}

/// Behind the parenthesis that closes the one at `at`.
fn skip_parentheses(text: &[u8], at: usize, depth: usize) -> usize {
    let mut open = 0_usize;
    let mut at = at;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'(' => open += 1,
            b')' => {
                open = open.saturating_sub(1);
                if open == 0 {
                    return at + 1;
                }
            }
            b'\\' => at += 1,
            b'\'' | b'"' | b'`' | b'$' if !text[at..].starts_with(b"$(") => {
                at = skip_quoted(text, at, &mut Vec::new(), depth + 1);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
#[path = "shell/tests.rs"]
mod tests;
