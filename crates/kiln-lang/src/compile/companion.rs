//! What a companion file (`.kiln/workflows/<same name>`) adds to the jobs and steps of a workflow.

use std::sync::Arc;

use kiln_core::plan::{Job, JobKind, Preference, Retry, RetryOn, Step, StepKind, Workflow};
use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::filter::Pattern;
use crate::suggest::closest;
use crate::workflow::{self, Document, FileKind, one_or_more};
use crate::yaml::{Entry, Node};

use super::{Compiler, resources};

/// Bounds of a declared retry.
const MAX_RETRIES: f64 = 10.0;
const MAX_SECONDS: f64 = 86_400.0;
/// How long an entry of a preference list is tried alone when it does not say.
const DEFAULT_PATIENCE: u32 = 30;

impl Compiler<'_> {
    /// Reads the companion of a workflow file, if there is one, and applies it.
    pub(super) fn companion(&mut self, workflow: &mut Workflow, path: &str) {
        let Some(file) = self.library.companion(path) else { return };
        let id = self.sources.add(&file.path, &file.text);
        let (document, diagnostics) = workflow::read(id, FileKind::Companion, self.sources);
        self.diagnostics.extend(diagnostics);
        if let Some(document) = document {
            apply(&document, workflow, &mut self.diagnostics);
        }
    }
}

fn apply(document: &Document, workflow: &mut Workflow, found: &mut Vec<Diagnostic>) {
    let ids: Vec<String> = workflow.jobs.iter().map(|job| job.id.clone()).collect();
    for settings in document.jobs() {
        let job = workflow.jobs.iter_mut().find(|job| job.id.eq_ignore_ascii_case(settings.id()));
        match job {
            Some(job) => apply_job(settings, job, found),
            None => found.push(unknown(
                "job",
                settings.id(),
                settings.key,
                ids.iter().map(String::as_str),
            )),
        }
    }
}

fn unknown<'n>(
    what: &str,
    id: &str,
    node: &Node,
    ids: impl Iterator<Item = &'n str>,
) -> Diagnostic {
    let message = format!("the workflow has no {what} `{id}`");
    let found = Diagnostic::error("unknown-id", node.span, message);
    match closest(id, ids) {
        Some(meant) => found.label(format!("did you mean `{meant}`?")),
        None => found.help(format!(
            "a companion can only name {what}s of the workflow with the same file name"
        )),
    }
}

fn apply_job(settings: workflow::Job<'_>, job: &mut Job, found: &mut Vec<Diagnostic>) {
    job.retry = settings.get("retry").and_then(|node| retry(node, found));
    let JobKind::Steps(steps_job) = &mut job.kind else {
        for key in ["cache-result", "requires", "prefer", "limits", "steps"] {
            if let Some(entry) = settings.node.entry(key) {
                let message = format!("`{key}` does not apply to a job that calls a workflow");
                found.push(Diagnostic::error("unsupported", entry.key.span, message));
            }
        }
        return;
    };
    if let Some(node) = settings.get("cache-result") {
        steps_job.result_cache = result_cache(node, found);
    }
    if let Some(node) = settings.get("prefer") {
        steps_job.prefer = node.items().iter().filter_map(|node| preference(node, found)).collect();
    }
    if let Some(node) = settings.get("requires") {
        steps_job.requires = resources::requires(node, found);
    }
    if let Some(node) = settings.get("limits") {
        steps_job.limits = resources::limits(node, found);
    }
    resources::check(steps_job, settings.key, found);
    for entry in settings.get("steps").map_or(&[][..], |node| node.entries()) {
        apply_step(entry, &mut steps_job.steps, found);
    }
}

fn apply_step(entry: &Entry, steps: &mut [Step], found: &mut Vec<Diagnostic>) {
    let ids: Vec<String> =
        steps.iter().map(|step| step.id.clone()).filter(|id| !id.starts_with("__")).collect();
    match find_step(steps, entry.name()) {
        Some(step) => step.retry = entry.value.get("retry").and_then(|node| retry(node, found)),
        None => {
            found.push(unknown("step", entry.name(), &entry.key, ids.iter().map(String::as_str)));
        }
    }
}

fn find_step<'s>(steps: &'s mut [Step], id: &str) -> Option<&'s mut Step> {
    for step in steps {
        if step.id.eq_ignore_ascii_case(id) {
            return Some(step);
        }
        if let StepKind::Parallel(inner) = &mut step.kind
            && let Some(step) = find_step(inner, id)
        {
            return Some(step);
        }
    }
    None
}

fn retry(node: &Arc<Node>, found: &mut Vec<Diagnostic>) -> Option<Retry> {
    Some(Retry {
        max: whole(node.get("max")?, 1.0, MAX_RETRIES, found)?,
        backoff_seconds: match node.get("backoff") {
            Some(backoff) => whole(backoff, 0.0, MAX_SECONDS, found)?,
            None => 0,
        },
        on: match node.get("on").and_then(|node| node.text()) {
            Some("timeout") => RetryOn::Timeout,
            Some("any") => RetryOn::Any,
            _ => RetryOn::Failure,
        },
    })
}

/// A whole number within bounds, or a report that it is none.
pub(super) fn whole(node: &Node, min: f64, max: f64, found: &mut Vec<Diagnostic>) -> Option<u32> {
    let Some(Value::Number(number)) = node.scalar().map(|scalar| &scalar.value) else {
        return None;
    };
    let text = node.text().unwrap_or_default();
    let whole = text.parse::<u32>().ok().filter(|_| (min..=max).contains(number));
    if whole.is_none() {
        let message = format!("expected a whole number from {min} to {max}, found `{text}`");
        found.push(Diagnostic::error("wrong-type", node.span, message));
    }
    whole
}

fn result_cache(node: &Node, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    if let Some(text) = node.text() {
        return text.eq_ignore_ascii_case("true").then(Vec::new);
    }
    let inputs = node.get("inputs").map_or(&[][..], |node| node.items());
    for (node, text) in inputs.iter().filter_map(|node| Some((node, node.text()?))) {
        if let Err(error) = Pattern::parse(text) {
            found.push(Diagnostic::error("pattern", node.span, error.message));
        }
    }
    Some(inputs.iter().filter_map(|node| node.text()).map(str::to_owned).collect())
}

fn preference(node: &Arc<Node>, found: &mut Vec<Diagnostic>) -> Option<Preference> {
    let labels = one_or_more(node.get("labels")).into_iter();
    let pool = node.get("pool").and_then(|node| node.text()).map(str::to_owned);
    if pool.is_none() && labels.len() == 0 {
        let message = "a preference needs `labels` or a `pool`";
        found.push(Diagnostic::error("missing-key", node.span, message));
        return None;
    }
    Some(Preference {
        pool,
        labels: labels.filter_map(|node| node.text()).map(str::to_owned).collect(),
        after_seconds: match node.get("after") {
            Some(after) => whole(after, 0.0, MAX_SECONDS, found)?,
            None => DEFAULT_PATIENCE,
        },
    })
}
