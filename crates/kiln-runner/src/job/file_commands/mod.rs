//! The files a step writes to: `GITHUB_ENV`, `GITHUB_OUTPUT`, `GITHUB_STATE`, `GITHUB_PATH` and
//! `GITHUB_STEP_SUMMARY`.
//!
//! Bytes go in, values come out; bytes that are not UTF-8 become replacement characters.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

/// The largest file of pairs or paths that is read.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// The largest summary of a step.
pub const MAX_SUMMARY_BYTES: usize = 1 << 20;
/// How much of a faulty line a message repeats.
const MAX_QUOTED_CHARS: usize = 80;

/// What a file said up to its first fault. As on GitHub, the pairs before a fault count, although
/// the fault fails the step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    pub pairs: Vec<(String, String)>,
    pub fault: Option<Fault>,
}

/// Why a file cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct Fault {
    /// Counted from one.
    pub line: usize,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    #[error("expected `name=value` or `name<<delimiter`, found `{0}`")]
    NoPair(String),
    #[error("expected a name before `=`, found `{0}`")]
    NoName(String),
    #[error("expected `name<<delimiter` with both a name and a delimiter, found `{0}`")]
    NoNameOrDelimiter(String),
    #[error("expected a later line that is exactly `{0}`, found the end of the file")]
    NoDelimiter(String),
    #[error("expected text without NUL bytes in `{0}`")]
    Nul(String),
    #[error("expected at most {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge,
}

/// Reads pairs: `name=value`, or `name<<delimiter`, the lines of the value, and the delimiter.
/// Only LF ends a line, so that a CR stays in the value.
pub fn pairs(bytes: &[u8]) -> Pairs {
    let mut read = Pairs::default();
    if bytes.len() > MAX_FILE_BYTES {
        read.fault = Some(Fault { line: 1, kind: FaultKind::TooLarge });
        return read;
    }
    let text = decode(bytes);
    let mut lines = Lines { rest: &text, number: 0 };
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let number = lines.number;
        match pair(line, &mut lines) {
            Ok(pair) => read.pairs.push(pair),
            Err(kind) => {
                read.fault = Some(Fault { line: number, kind });
                break;
            }
        }
    }
    read
}

/// What `GITHUB_ENV` said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub pairs: Vec<(String, String)>,
    /// Names that may not be set this way, each with an annotation; they do not fail the step.
    pub refused: Vec<Refusal>,
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It would run code in every JavaScript action that follows. An error annotation.
    Dangerous(String),
    /// One of the runner's own variables. A warning.
    Protected(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dangerous(name) => write!(f, "`{name}` cannot be set through GITHUB_ENV"),
            Self::Protected(name) => {
                write!(f, "`{name}` belongs to the runner: GITHUB_ENV cannot change it")
            }
        }
    }
}

/// Names no step may set for the ones after it, in any case.
pub fn is_dangerous(name: &str) -> bool {
    name.eq_ignore_ascii_case("NODE_OPTIONS")
}

/// Reads `GITHUB_ENV`. `is_protected` knows the variables that the runner itself sets; other names
/// that begin with `GITHUB_`, such as `GITHUB_TOKEN`, are free.
pub fn environment(bytes: &[u8], is_protected: impl Fn(&str) -> bool) -> Environment {
    let Pairs { pairs, fault } = pairs(bytes);
    let mut read = Environment { fault, ..Environment::default() };
    for (name, value) in pairs {
        if is_dangerous(&name) {
            read.refused.push(Refusal::Dangerous(name));
        } else if is_protected(&name) {
            read.refused.push(Refusal::Protected(name));
        } else {
            read.pairs.push((name, value));
        }
    }
    read
}

/// Reads `GITHUB_PATH`: the entries in the order of the file, without blank lines. Give them to
/// [`super::environment::PathAdditions`], which puts the last one first.
pub fn path(bytes: &[u8]) -> Result<Vec<String>, Fault> {
    let fault = |line, kind| Fault { line, kind };
    if bytes.len() > MAX_FILE_BYTES {
        return Err(fault(1, FaultKind::TooLarge));
    }
    let text = decode(bytes).replace("\r\n", "\n");
    let mut entries = Vec::new();
    for (index, line) in text.split(['\n', '\r']).enumerate() {
        if line.contains('\0') {
            return Err(fault(index + 1, FaultKind::Nul(quoted(line))));
        }
        if !line.is_empty() {
            entries.push(line.to_owned());
        }
    }
    Ok(entries)
}

/// A summary that is larger than [`MAX_SUMMARY_BYTES`]: an error annotation, but the step goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the step summary has {} KiB and is not shown: at most {} KiB are",
    .bytes.div_ceil(1024),
    MAX_SUMMARY_BYTES >> 10
)]
pub struct SummaryTooLarge {
    pub bytes: usize,
}

/// Reads `GITHUB_STEP_SUMMARY`; nothing when the step wrote none. It still holds its secrets.
pub fn summary(bytes: &[u8]) -> Result<Option<String>, SummaryTooLarge> {
    match bytes.len() {
        0 => Ok(None),
        1..=MAX_SUMMARY_BYTES => Ok(Some(decode(bytes).into_owned())),
        bytes => Err(SummaryTooLarge { bytes }),
    }
}

/// Text without the byte order mark that PowerShell and others put before it.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(line)
    }
}

fn pair(line: &str, lines: &mut Lines<'_>) -> Result<(String, String), FaultKind> {
    let (name, value) = match (line.find('='), line.find("<<")) {
        (Some(equals), heredoc) if heredoc.is_none_or(|at| equals < at) => {
            if equals == 0 {
                return Err(FaultKind::NoName(quoted(line)));
            }
            (&line[..equals], line[equals + 1..].to_owned())
        }
        (_, Some(heredoc)) => {
            let (name, delimiter) = (&line[..heredoc], &line[heredoc + 2..]);
            if name.is_empty() || delimiter.is_empty() {
                return Err(FaultKind::NoNameOrDelimiter(quoted(line)));
            }
            (name, heredoc_value(delimiter, lines)?.to_owned())
        }
        _ => return Err(FaultKind::NoPair(quoted(line))),
    };
    // Neither an environment nor a message can carry one.
    if name.contains('\0') || value.contains('\0') {
        return Err(FaultKind::Nul(quoted(name)));
    }
    Ok((name.to_owned(), value))
}

/// The text up to the line that is the delimiter, without the line end before it.
fn heredoc_value<'a>(delimiter: &str, lines: &mut Lines<'a>) -> Result<&'a str, FaultKind> {
    let text = lines.rest;
    loop {
        let length = text.len() - lines.rest.len();
        match lines.next() {
            Some(line) if line == delimiter => return Ok(&text[..length.saturating_sub(1)]),
            Some(_) => {}
            None => return Err(FaultKind::NoDelimiter(quoted(delimiter))),
        }
    }
}

/// The beginning of the text, for a message; control characters do not reach the log.
fn quoted(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut shown: String = chars.by_ref().take(MAX_QUOTED_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
