//! Diagnostics as plain text for the expectations: every field, nothing that depends on a terminal.

use std::fmt::Write as _;

use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{SourceMap, Span};

/// All diagnostics, with a blank line between them.
pub(super) fn all(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let texts: Vec<String> = diagnostics.iter().map(|found| one(found, sources)).collect();
    texts.join("\n")
}

fn one(found: &Diagnostic, sources: &SourceMap) -> String {
    let mut text = format!(
        "{} {}[{}] {}\n",
        place(found.span, sources),
        found.severity.as_str(),
        found.code,
        found.message
    );
    excerpt(&mut text, found.span, found.label.as_deref().unwrap_or_default(), sources);
    for related in &found.related {
        writeln!(text, "{} related", place(related.span, sources)).expect("strings take all");
        excerpt(&mut text, related.span, &related.label, sources);
    }
    if let Some(help) = &found.help {
        writeln!(text, "help: {help}").expect("strings take all");
    }
    text
}

fn place(span: Span, sources: &SourceMap) -> String {
    let (start, end) = (sources.start(span), sources.end(span));
    format!("{}:{}-{}:{}", start.line, start.column, end.line, end.column)
}

/// The first line of a span with the part of it that belongs to the span underlined.
fn excerpt(text: &mut String, span: Span, label: &str, sources: &SourceMap) {
    let (start, end) = (sources.start(span), sources.end(span));
    let line = sources.file(span.file).line(start.line);
    let length = if start.line == end.line {
        end.column - start.column
    } else {
        (line.chars().count() + 1).saturating_sub(start.column)
    };
    // Tabs are kept, so that the marks stand below what they mark.
    let blank: String = line
        .chars()
        .take(start.column - 1)
        .map(|char| if char == '\t' { '\t' } else { ' ' })
        .collect();
    let marks = "^".repeat(length.max(1));
    writeln!(text, "  | {}", shorten(line)).expect("strings take all");
    writeln!(text, "  | {}", shorten(format!("{blank}{marks} {label}").trim_end()))
        .expect("strings take all");
}

/// Lines of files that test limits can be very long.
fn shorten(line: &str) -> String {
    const MOST: usize = 160;
    if line.chars().count() <= MOST {
        return line.to_owned();
    }
    line.chars().take(MOST).chain("…".chars()).collect()
}
