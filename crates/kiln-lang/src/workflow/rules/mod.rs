//! What the language demands beyond the table: rules between keys.

mod concurrency;
mod dispatch;
mod events;
mod matrix;
mod needs;
mod runner;
mod steps;

use crate::diag::Diagnostic;
use crate::source::SourceMap;

use super::Document;
use super::{Job, ids, uses};

pub(super) fn workflow(document: &Document, sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    events::check(document, sources, found);
    dispatch::check(document, found);
    concurrency::check(document.root.get("concurrency"), found);
    needs::check(document, found);
    for job in document.jobs() {
        job_id(job, found);
        concurrency::check(job.get("concurrency"), found);
        matrix::check(job, found);
        runner::check(job, found);
        if let Some(node) = job.get("uses") {
            let fault = node.text().and_then(|text| uses::workflow(text).err());
            found.extend(fault.map(|fault| Diagnostic::error("uses-syntax", node.span, fault)));
        }
        steps::check(&job.steps(), found);
    }
}

pub(super) fn action(document: &Document, found: &mut Vec<Diagnostic>) {
    steps::check(&document.action_steps(), found);
}

fn job_id(job: Job<'_>, found: &mut Vec<Diagnostic>) {
    found.extend(
        ids::fault(job.id()).map(|fault| Diagnostic::error("invalid-id", job.key.span, fault)),
    );
}
