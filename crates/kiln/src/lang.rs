//! The one place where the command line calls the language.

use std::ops::Range;

use kiln_core::plan::Plan;
use kiln_core::value::{Object, Value};
use kiln_lang::compile::{self, Files, Repository};
use kiln_lang::diag::Diagnostic;
use kiln_lang::expr::eval::{self, Env, STANDALONE_MEMORY};
use kiln_lang::expr::names::{Names, STEP_CONDITION};
use kiln_lang::expr::{self, ErrorKind, ExprError};
use kiln_lang::hash_files;
use kiln_lang::lint;
use kiln_lang::source::{FileId, SourceMap, Span};
use kiln_lang::workflow::{self, FileKind};
use kiln_runner::files::Tree;

use crate::events::Triggers;

/// Everything read for one invocation of the language: the file asked for and those it led to.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

pub(crate) struct CheckOptions<'a> {
    /// Whether to look for likely mistakes too.
    pub(crate) checks: bool,
    /// For reusable workflows and companions.
    pub(crate) files: Files<'a>,
}

/// Checks one file. Its text is added to `sources` first, so it is there whatever the answer is.
///
/// A workflow is compiled, so that calls are held to what the called files declare, and faults of
/// those files are found too.
pub(crate) fn check_file(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
    options: &CheckOptions<'_>,
) -> Vec<Diagnostic> {
    let kind = FileKind::of(path, text);
    let (document, mut diagnostics) = if kind == FileKind::Workflow {
        let library = Repository(options.files);
        let compiled = compile::compile(sources, path, text, &library, None);
        (compiled.document, compiled.diagnostics)
    } else {
        let file = sources.add(path, text);
        let (document, mut diagnostics) = workflow::read(file, kind, sources);
        if kind == FileKind::Companion {
            diagnostics.extend(with_workflow(sources, file, path, options.files));
        }
        (document, diagnostics)
    };
    if let Some(document) = document.filter(|_| options.checks) {
        diagnostics.extend(lint::check(&document, sources));
    }
    diagnostics
}

/// What a companion does to its workflow. One whose workflow is gone does nothing, which nobody wants.
fn with_workflow(
    sources: &mut SourceMap,
    file: FileId,
    path: &str,
    files: Files<'_>,
) -> Vec<Diagnostic> {
    let workflow = path.replacen(".kiln/workflows/", ".github/workflows/", 1);
    let Some(text) = files(&workflow) else {
        let message = format!("there is no workflow `{workflow}` that this file could add to");
        let found = Diagnostic::error("missing-file", Span::new(file, 0, 0), message);
        return vec![found.help("a companion has the file name of its workflow")];
    };
    let compiled = compile::compile(sources, &workflow, &text, &Repository(files), None);
    let own = compiled.diagnostics.into_iter();
    own.filter(|found| sources.file(found.span.file).name() == path).collect()
}

/// A workflow and what it led to.
pub(crate) struct Compiled {
    /// There is one unless there are errors.
    pub(crate) plan: Option<Plan>,
    pub(crate) triggers: Triggers,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

pub(crate) fn compile(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
    files: Files<'_>,
) -> Compiled {
    let compiled = compile::compile(sources, path, text, &Repository(files), None);
    Compiled {
        plan: compiled.plan,
        triggers: Triggers(compiled.triggers),
        diagnostics: compiled.diagnostics,
    }
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

impl From<ExprError> for EvalError {
    fn from(error: ExprError) -> Self {
        let kind = match error.kind {
            ErrorKind::Lexing => "lexing",
            ErrorKind::Parsing => "parsing",
            ErrorKind::Evaluation => "evaluation",
        };
        Self { kind, message: error.message, span: error.span, help: error.help }
    }
}

/// Contexts from the caller, files from the current directory.
struct Here<'a>(&'a Object);

impl Env for Here<'_> {
    fn context(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    fn hash_files(&self, patterns: &[String]) -> Result<String, String> {
        let tree = Tree::at(std::path::Path::new("."))?;
        hash_files::hash_files(&tree, patterns, tree.places())
    }

    fn memory(&self) -> usize {
        STANDALONE_MEMORY
    }
}

/// Evaluates an expression without `${{ }}`; `hashFiles` looks at the current directory.
pub(crate) fn evaluate(expr: &str, contexts: &Object) -> Result<Value, EvalError> {
    let given = contexts.iter().map(|(name, _)| name.to_owned());
    let names = Names::with_contexts(given, STEP_CONDITION);
    let parsed = expr::parse_checked(expr, &names).map_err(|error| {
        // Without any context, the list of what is there says nothing.
        if contexts.is_empty() && error.message.contains("context") {
            error.help("give contexts with `--context FILE`")
        } else {
            error
        }
    });
    match parsed? {
        Some(expr) => Ok(eval::evaluate(&expr, &Here(contexts))?),
        None => Ok(Value::Null),
    }
}
