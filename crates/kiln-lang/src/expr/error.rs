//! What can be wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// The stage that refused an expression. GitHub's test vectors tell these apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Lexing,
    Parsing,
    Evaluation,
}

/// An error with the bytes of the text that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprError {
    pub kind: ErrorKind,
    /// A lower-case fragment that can stand alone.
    pub message: String,
    pub span: Range<usize>,
    /// What to do about it.
    pub help: Option<String>,
}

impl ExprError {
    pub fn lexing(span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Lexing, span, message)
    }

    pub fn parsing(span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Parsing, span, message)
    }

    pub fn evaluation(span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Evaluation, span, message)
    }

    fn new(kind: ErrorKind, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), span, help: None }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExprError {}
