//! Calls of reusable workflows: the file, its depth, and what it takes.

use std::sync::Arc;

use kiln_core::plan::{Call, CallInterface, CallSecrets, Input, InputKind};
use kiln_core::value::Value;

use crate::diag::{Diagnostic, Severity};
use crate::source::Span;
use crate::suggest::closest;
use crate::workflow::uses::{self, CallTarget};
use crate::workflow::{self, Document, FileKind, Job};
use crate::yaml::Node;

use super::{Compiler, Known, LoadedFile, Lookup, MAX_CALL_DEPTH, MAX_FILES, data};

impl Compiler<'_> {
    pub(super) fn call(&mut self, document: &Document, job: Job<'_>) -> Call {
        let written = job.get("uses").and_then(|node| node.text()).unwrap_or_default();
        let span = job.get("uses").map_or(job.key.span, |node| node.span);
        let workflow = self.resolve(written, span);
        if let Some(index) = workflow {
            self.check_call(index, document, job, span);
        }
        let secrets = match job.get("secrets") {
            None => CallSecrets::None,
            Some(node) if node.text() == Some("inherit") => CallSecrets::Inherit,
            Some(node) => CallSecrets::Named(data::tree(document, node)),
        };
        Call {
            uses: written.to_owned(),
            workflow,
            with: job.get("with").map(|node| data::tree(document, node)),
            secrets,
        }
    }

    /// The place in the plan of the file that a call names; compiles it at the first call.
    fn resolve(&mut self, written: &str, span: Span) -> Option<usize> {
        let target = uses::workflow(written).ok()?;
        let key = match &target {
            CallTarget::Local(path) => format!("./{path}"),
            CallTarget::Remote { .. } => written.to_owned(),
        };
        match self.known.get(&key) {
            Some(Known::Done { index, height }) => {
                let (index, height) = (*index, *height);
                self.height = self.height.max(height + 1);
                if self.depth + height >= MAX_CALL_DEPTH {
                    self.diagnostics.push(too_deep(span));
                    return None;
                }
                return Some(index);
            }
            Some(Known::Broken) => return None,
            Some(Known::Open) => {
                let message = format!("`{written}` ends up calling itself");
                self.diagnostics.push(Diagnostic::error("call-cycle", span, message));
                return None;
            }
            None => {}
        }
        let file = match self.library.workflow(&target) {
            Lookup::Found(file) => file,
            Lookup::OutOfReach => return None,
            Lookup::Missing => {
                let message = format!("there is no file `{}`", key.trim_start_matches("./"));
                self.diagnostics.push(Diagnostic::error("missing-file", span, message));
                self.known.insert(key, Known::Broken);
                return None;
            }
        };
        if let Some(too_many) = self.limit(span) {
            self.diagnostics.push(too_many);
            return None;
        }
        self.known.insert(key.clone(), Known::Open);
        let outer = std::mem::take(&mut self.height);
        let index = self.load(&file, span);
        let height = std::mem::replace(&mut self.height, outer);
        self.height = self.height.max(height + 1);
        self.known.insert(key, index.map_or(Known::Broken, |index| Known::Done { index, height }));
        index
    }

    fn limit(&self, span: Span) -> Option<Diagnostic> {
        if self.depth >= MAX_CALL_DEPTH {
            return Some(too_deep(span));
        }
        (self.known.len() >= MAX_FILES).then(|| {
            let message = format!("the run needs more than {MAX_FILES} workflow files");
            Diagnostic::error("too-many-calls", span, message)
        })
    }

    fn load(&mut self, file: &LoadedFile, span: Span) -> Option<usize> {
        let id = self.sources.add(&file.path, &file.text);
        let (document, diagnostics) = workflow::read(id, FileKind::Workflow, self.sources);
        let broken = diagnostics.iter().any(|found| found.severity == Severity::Error);
        self.diagnostics.extend(diagnostics);
        let document = document.filter(|_| !broken);
        let Some(document) = document else {
            let message = format!("the called workflow `{}` has errors of its own", file.path);
            self.diagnostics.push(Diagnostic::error("broken-call", span, message));
            return None;
        };
        if document.event("workflow_call").is_none() {
            let message =
                format!("`{}` cannot be called: it does not listen to `workflow_call`", file.path);
            let found = Diagnostic::error("not-callable", span, message);
            self.diagnostics.push(found.help("add `workflow_call:` under its `on`"));
            return None;
        }
        self.depth += 1;
        let index = self.document(&document, &file.path);
        self.depth -= 1;
        Some(index)
    }

    /// Inputs and secrets of a call against what the called file declares.
    fn check_call(&mut self, index: usize, document: &Document, job: Job<'_>, span: Span) {
        let workflow = &self.workflows[index].workflow;
        let Some(interface) = &workflow.call else { return };
        let mut found = Vec::new();
        inputs(interface, document, job, span, &workflow.path, &mut found);
        secrets(interface, job, span, &workflow.path, &mut found);
        self.diagnostics.extend(found);
    }
}

fn too_deep(span: Span) -> Diagnostic {
    let message = format!("reusable workflows are nested deeper than {MAX_CALL_DEPTH} levels");
    Diagnostic::error("too-many-calls", span, message)
}

fn inputs(
    interface: &CallInterface,
    document: &Document,
    job: Job<'_>,
    span: Span,
    path: &str,
    found: &mut Vec<Diagnostic>,
) {
    let given = job.get("with").map_or(&[][..], |node| node.entries());
    for entry in given {
        let declared =
            interface.inputs.iter().find(|input| input.name.eq_ignore_ascii_case(entry.name()));
        match declared {
            Some(input) => found.extend(wrong_type(input, document, &entry.value)),
            None => {
                let names = interface.inputs.iter().map(|input| input.name.as_str());
                found.push(undeclared("input", entry.name(), entry.key.span, path, names));
            }
        }
    }
    let is_given = |name: &str| given.iter().any(|entry| entry.name().eq_ignore_ascii_case(name));
    for input in interface.inputs.iter().filter(|input| input.required && !is_given(&input.name)) {
        let message = format!("`{path}` requires the input `{}`", input.name);
        found.push(Diagnostic::error("missing-input", span, message).help(format!(
            "add `{}: …` under `with` (a {})",
            input.name,
            input.kind.as_str()
        )));
    }
}

/// Expressions are known only when the run comes to it; literals are checked now.
fn wrong_type(input: &Input, document: &Document, node: &Arc<Node>) -> Option<Diagnostic> {
    let value = &node.scalar()?.value;
    let fits = match &input.kind {
        _ if document.checked.template(node).is_some() => true,
        InputKind::Boolean => matches!(value, Value::Bool(_)),
        InputKind::Number => matches!(value, Value::Number(_)),
        _ => true,
    };
    (!fits).then(|| {
        let kind = input.kind.as_str();
        let message = format!("the input `{}` is a {kind}, found {}", input.name, node.describe());
        Diagnostic::error("wrong-type", node.span, message)
    })
}

fn secrets(
    interface: &CallInterface,
    job: Job<'_>,
    span: Span,
    path: &str,
    found: &mut Vec<Diagnostic>,
) {
    let given = job.get("secrets");
    if given.is_some_and(|node| node.text() == Some("inherit")) {
        return;
    }
    let given = given.map_or(&[][..], |node| node.entries());
    for entry in given {
        if !interface.secrets.iter().any(|secret| secret.name.eq_ignore_ascii_case(entry.name())) {
            let names = interface.secrets.iter().map(|secret| secret.name.as_str());
            found.push(undeclared("secret", entry.name(), entry.key.span, path, names));
        }
    }
    let is_given = |name: &str| given.iter().any(|entry| entry.name().eq_ignore_ascii_case(name));
    for secret in
        interface.secrets.iter().filter(|secret| secret.required && !is_given(&secret.name))
    {
        let message = format!("`{path}` requires the secret `{}`", secret.name);
        let help = format!(
            "add `{}: ${{{{ secrets.… }}}}` under `secrets`, or `secrets: inherit`",
            secret.name
        );
        found.push(Diagnostic::error("missing-input", span, message).help(help));
    }
}

fn undeclared<'n>(
    what: &str,
    name: &str,
    span: Span,
    path: &str,
    declared: impl Iterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let found =
        Diagnostic::error("unknown-input", span, format!("`{path}` declares no {what} `{name}`"));
    match closest(name, declared.clone()) {
        Some(meant) => found.label(format!("did you mean `{meant}`?")),
        None => {
            let names: Vec<String> = declared.map(|name| format!("`{name}`")).collect();
            if names.is_empty() {
                found.help(format!("it declares no {what}s"))
            } else {
                found.help(format!("it declares {}", names.join(", ")))
            }
        }
    }
}
