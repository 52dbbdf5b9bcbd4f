//! Findings for people: the source with the place underlined, in the manner of rustc.

use std::ops::Range;
use std::time::Duration;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use kiln_lang::diag::Severity;
use kiln_lang::source::{FileId, SourceFile, Span};

use super::Finding;
use crate::lang::EvalError;

/// All findings, with styles; the console drops those where they do not belong.
pub(crate) fn render(findings: &[Finding<'_>]) -> String {
    let renderer = Renderer::styled();
    findings.iter().map(|found| one(found, &renderer) + "\n\n").collect()
}

fn one(found: &Finding<'_>, renderer: &Renderer) -> String {
    let diagnostic = found.diagnostic;
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code);
    let mut group = Group::with_title(title);
    for (file, marks) in by_file(found) {
        let source = found.sources().file(file);
        let shown = found.file(Span::new(file, 0, 0));
        group = if source.text().is_empty() {
            group.element(Origin::path(shown).line(1).char_column(1))
        } else {
            group.element(snippet(source, &marks).path(shown))
        };
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// A place to underline: what kind, where, and the words beneath.
type Mark<'a> = (AnnotationKind, Range<usize>, Option<&'a str>);

/// The places of a finding, the file of the main one first.
fn by_file<'a>(found: &Finding<'a>) -> Vec<(FileId, Vec<Mark<'a>>)> {
    let diagnostic = found.diagnostic;
    let main = (AnnotationKind::Primary, diagnostic.span.range(), diagnostic.label.as_deref());
    let mut files = vec![(diagnostic.span.file, vec![main])];
    for related in &diagnostic.related {
        let mark = (AnnotationKind::Context, related.span.range(), Some(related.label.as_str()));
        match files.iter_mut().find(|(file, _)| *file == related.span.file) {
            Some((_, marks)) => marks.push(mark),
            None => files.push((related.span.file, vec![mark])),
        }
    }
    files
}

/// Only the lines around the marks go to the renderer, which looks at all it gets: a thousand
/// findings in a large file would otherwise take a thousand passes over it.
fn snippet<'a>(source: &'a SourceFile, marks: &[Mark<'a>]) -> Snippet<'a, Annotation<'a>> {
    let text = source.text();
    let clamp = |at: usize| text.floor_char_boundary(at.min(text.len()));
    let first = marks.iter().map(|(_, range, _)| clamp(range.start)).min().unwrap_or(0);
    let last = marks.iter().map(|(_, range, _)| clamp(range.end)).max().unwrap_or(0);
    let start = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let end = text[last..].find('\n').map_or(text.len(), |at| last + at + 1);
    let annotations = marks.iter().map(|(kind, range, label)| {
        let from = clamp(range.start);
        let to = clamp(range.end).max(from);
        kind.span(from - start..to - start).label(*label)
    });
    Snippet::source(&text[start..end])
        .line_start(source.position(first).line)
        .annotations(annotations)
}

/// `checked 12 files: 2 errors, 1 warning (0.03 s)`
pub(crate) fn summary(files: usize, findings: &[Finding<'_>], took: Duration) -> String {
    let errors = findings.iter().filter(|found| found.diagnostic.severity == Severity::Error);
    let errors = errors.count();
    let warnings = findings.len() - errors;
    let verdict = match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        (errors, 0) => count(errors, "error"),
        (0, warnings) => count(warnings, "warning"),
        (errors, warnings) => {
            format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
        }
    };
    let files = count(files, "file");
    format!("checked {files}: {verdict} ({:.2} s)\n", took.as_secs_f64())
}

fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// An expression that has no value, with the part at fault underlined.
pub(crate) fn expression(text: &str, error: &EvalError) -> String {
    let clamp = |at: usize| text.floor_char_boundary(at.min(text.len()));
    let from = clamp(error.span.start);
    let span = from..clamp(error.span.end).max(from);
    let title = Level::ERROR.primary_title(&error.message).id(error.kind);
    let annotation = AnnotationKind::Primary.span(span);
    let mut group = title.element(Snippet::source(text).annotation(annotation));
    if let Some(help) = &error.help {
        group = group.element(Level::HELP.message(help));
    }
    Renderer::styled().render(&[group]) + "\n"
}

#[cfg(test)]
mod tests {
    use kiln_lang::diag::Diagnostic;

    use super::*;
    use crate::output::{Checked, findings};
    use crate::testing::checked;

    fn plain(checked: &Checked) -> String {
        let all = findings(std::slice::from_ref(checked));
        let renderer = Renderer::plain();
        all.iter().map(|found| one(found, &renderer)).collect::<Vec<_>>().join("\n\n")
    }

    #[test]
    fn the_place_is_underlined_with_words_and_help() {
        let text = "on: push\njobs:\n  build:\n    step:\n      - run: make\n";
        let checked = checked("ci.yml", text, |file| {
            let key = Span::new(file, 28, 32);
            let job = Span::new(file, 17, 22);
            vec![
                Diagnostic::error("unknown-key", key, "unknown key `step`")
                    .label("not a key of a job")
                    .related(job, "in this job")
                    .help("did you mean `steps`?"),
            ]
        });
        let expect = "\
error[unknown-key]: unknown key `step`
 --> ci.yml:4:5
  |
3 |   build:
  |   ----- in this job
4 |     step:
  |     ^^^^ not a key of a job
  |
  = help: did you mean `steps`?";
        assert_eq!(plain(&checked), expect);
    }

    #[test]
    fn a_place_in_another_file_is_shown_with_that_file() {
        let mut checked = checked("ci.yml", "uses: ./b.yml\n", |_| Vec::new());
        let other = checked.read.sources.add("./b.yml", "on: push\n");
        let span = Span::new(FileId(0), 6, 13);
        checked.read.diagnostics.push(
            Diagnostic::error("not-callable", span, "`./b.yml` cannot be called")
                .related(Span::new(other, 0, 8), "has no `workflow_call`"),
        );
        let expect = "\
error[not-callable]: `./b.yml` cannot be called
 --> ci.yml:1:7
  |
1 | uses: ./b.yml
  |       ^^^^^^^
  |
 ::: b.yml:1:1
  |
1 | on: push
  | -------- has no `workflow_call`";
        assert_eq!(plain(&checked), expect);
    }

    #[test]
    fn an_empty_file_shows_its_name_only() {
        let checked = checked("empty.yml", "", |file| {
            vec![Diagnostic::error("empty-file", Span::new(file, 0, 0), "the file is empty")]
        });
        let expect = "error[empty-file]: the file is empty\n--> empty.yml:1:1";
        assert_eq!(plain(&checked), expect);
    }

    #[test]
    fn a_span_that_does_not_fit_the_text_never_panics() {
        let text = "jöbs: 1\n";
        for (start, end) in [(0, 999), (500, 999), (2, 3), (2, 2), (9, 9), (8, 9)] {
            let checked = checked("a.yml", text, |file| {
                vec![Diagnostic::warning("x", Span::new(file, start, end), "m")]
            });
            assert!(plain(&checked).starts_with("warning[x]: m"));
        }
    }

    #[test]
    fn a_thousand_findings_in_a_large_file_are_all_shown() {
        let text = "key: value\n".repeat(50_000);
        let checked = checked("big.yml", &text, |file| {
            let at = |index: usize| Span::new(file, index * 550, index * 550 + 3);
            (0..1000).map(|index| Diagnostic::error("x", at(index), "m")).collect()
        });
        let text = plain(&checked);
        assert!(text.contains("\n49951 |"));
        assert_eq!(text.matches("error[x]: m").count(), 1000);
    }

    #[test]
    fn the_summary_counts_in_words() {
        let checked = [checked("a.yml", "x", |file| {
            let span = Span::new(file, 0, 1);
            vec![
                Diagnostic::error("a", span, "m"),
                Diagnostic::error("b", span, "m"),
                Diagnostic::warning("c", span, "m"),
            ]
        })];
        let all = findings(&checked);
        let took = Duration::from_millis(34);
        assert_eq!(summary(12, &all, took), "checked 12 files: 2 errors, 1 warning (0.03 s)\n");
        assert_eq!(summary(1, &all[2..], took), "checked 1 file: 1 warning (0.03 s)\n");
        assert_eq!(summary(2, &[], took), "checked 2 files: no problems (0.03 s)\n");
    }

    #[test]
    fn an_expression_error_points_into_the_expression() {
        let error = EvalError {
            kind: "parsing",
            message: "unknown function `foo`".into(),
            span: 6..9,
            help: Some("did you mean `format`?".into()),
        };
        let text = anstream::adapter::strip_str(&expression("1 && (foo('a'))", &error)).to_string();
        assert!(text.starts_with("error[parsing]: unknown function `foo`\n"), "{text}");
        assert!(text.contains("1 | 1 && (foo('a'))\n  |       ^^^\n"), "{text}");
        assert!(text.contains("help: did you mean `format`?"), "{text}");
    }
}
