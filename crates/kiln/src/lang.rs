//! The one place where the command line calls the language.
//!
//! TEMPORARY BODIES: the reader, the evaluator and the compiler are being built in `kiln-lang`.
//! Until they are connected, each function says so in its answer instead of inventing one.

use std::ops::Range;

use kiln_core::plan::Plan;
use kiln_core::value::{Object, Value};
use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{FileId, SourceMap, Span};

/// Everything read for one invocation of the language: the file asked for and those it led to.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Gives the text of another file of the repository, named by its path from the root.
pub(crate) type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(crate) struct CheckOptions<'a> {
    /// Whether to look for likely mistakes too.
    pub(crate) checks: bool,
    /// For reusable workflows and local actions.
    pub(crate) files: Files<'a>,
}

/// What kind of file a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Workflow,
    Action,
}

impl FileKind {
    pub(crate) fn of(path: &str) -> Self {
        match path.rsplit(['/', '\\']).next() {
            Some("action.yml" | "action.yaml") => Self::Action,
            _ => Self::Workflow,
        }
    }
}

/// Checks one file. Its text is added to `sources` first, so it is there whatever the answer is.
pub(crate) fn check_file(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
    options: &CheckOptions<'_>,
) -> Vec<Diagnostic> {
    let file = sources.add(path, text);
    let _ = (options.checks, options.files);
    vec![match FileKind::of(path) {
        FileKind::Workflow => not_connected(file, "check workflows"),
        FileKind::Action => not_connected(file, "check actions"),
    }]
}

/// One event that starts a workflow, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) event: String,
    /// A filter and its patterns, such as `branches` and `main`.
    pub(crate) filters: Vec<(String, Vec<String>)>,
}

/// Compiles a workflow; there is a plan unless there are errors.
pub(crate) fn compile(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
    files: Files<'_>,
) -> (Option<Plan>, Vec<Trigger>, Vec<Diagnostic>) {
    let file = sources.add(path, text);
    let _ = files;
    let mut found = not_connected(file, "compile workflows");
    found.severity = kiln_lang::diag::Severity::Error;
    (None, Vec::new(), vec![found])
}

/// What happened, as far as the caller knows.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// The payload; empty when there is none.
    pub(crate) payload: Object,
    /// The full ref, `refs/heads/main`; for pull requests the base branch.
    pub(crate) reference: Option<String>,
    /// `None` when it is not known which files changed.
    pub(crate) changed: Option<Vec<String>>,
}

/// Whether an event starts a workflow, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Run(String),
    Skip(String),
}

/// Decides for a workflow that compiled without errors.
pub(crate) fn triggers(path: &str, text: &str, event: &Event) -> Decision {
    let _ = (text, &event.payload, &event.reference, &event.changed);
    let _: fn(String) -> Decision = Decision::Run;
    Decision::Skip(format!(
        "this build of kiln cannot decide yet whether `{}` starts `{path}`",
        event.name
    ))
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvalError {
    /// `lexing`, `parsing` or `evaluation`.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// Bytes of the expression.
    pub(crate) span: Range<usize>,
    pub(crate) help: Option<String>,
}

/// Evaluates an expression without `${{ }}`; `hashFiles` looks at the current directory.
pub(crate) fn evaluate(expr: &str, contexts: &Object) -> Result<Value, EvalError> {
    let _ = contexts;
    Err(EvalError {
        kind: "evaluation",
        message: "this build of kiln cannot evaluate expressions yet".into(),
        span: 0..expr.len(),
        help: None,
    })
}

fn not_connected(file: FileId, what: &str) -> Diagnostic {
    let message = format!("this build of kiln cannot {what} yet");
    Diagnostic::warning("language-not-connected", Span::new(file, 0, 0), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_action_names_are_actions() {
        assert_eq!(FileKind::of("a/action.yml"), FileKind::Action);
        assert_eq!(FileKind::of("action.yaml"), FileKind::Action);
        assert_eq!(FileKind::of("my-action.yml"), FileKind::Workflow);
        assert_eq!(FileKind::of(".github/workflows/ci.yml"), FileKind::Workflow);
    }
}
