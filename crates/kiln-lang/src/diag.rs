//! Diagnostics: what is wrong, where, what was expected, and how to mend it.

use std::fmt::Write as _;

use crate::source::{SourceMap, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A further place that explains the main one.
#[derive(Debug, Clone)]
pub struct Related {
    pub span: Span,
    pub label: String,
}

/// One finding about a source.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// A stable kebab-case name that the documentation explains, such as `unknown-key`.
    pub code: &'static str,
    pub severity: Severity,
    /// A sentence fragment without a full stop that can stand alone.
    pub message: String,
    pub span: Span,
    /// Short words beneath the underlined text.
    pub label: Option<String>,
    pub related: Vec<Related>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, span, message)
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, span, message)
    }

    fn new(code: &'static str, severity: Severity, span: Span, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, severity, message, span, label: None, related: Vec::new(), help: None }
    }

    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push(Related { span, label: label.into() });
        self
    }
}

/// Sorts by file and place, so that people read findings in the order of the text, and drops
/// repetitions, which come from aliases that are used more than once.
pub fn tidy(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|found| (found.span.file, found.span.start, found.span.end));
    diagnostics.dedup_by(|later, earlier| {
        later.code == earlier.code && later.span == earlier.span && later.message == earlier.message
    });
}

/// The errors among these as plain text, each with its place and the line that it is about; at most
/// `most` of them.
pub fn errors_as_text(sources: &SourceMap, diagnostics: &[Diagnostic], most: usize) -> String {
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let mut text = String::new();
    for found in errors.clone().take(most) {
        let (start, file) = (sources.start(found.span), sources.file(found.span.file));
        let (line, column) = (start.line, start.column);
        // A string takes everything.
        let _ =
            writeln!(text, "{}:{line}:{column}: {} ({})", file.name(), found.message, found.code);
        let written: String = file.line(line).chars().take(200).collect();
        if !written.trim().is_empty() {
            let _ =
                writeln!(text, "  {written}\n  {}^", " ".repeat(column.saturating_sub(1).min(200)));
        }
        if let Some(help) = &found.help {
            let _ = writeln!(text, "  help: {help}");
        }
    }
    match errors.count().saturating_sub(most) {
        0 => {}
        further => {
            let _ = writeln!(text, "and {further} more");
        }
    }
    text
}
