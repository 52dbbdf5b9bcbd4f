//! What steps said for this page: remarks about places in the source, and summaries.

use kiln_core::id::JobId;
use kiln_store::events::{Annotation, EventKind, Level};
use maud::{Markup, html};

use super::job_address;
use crate::service::runs::Attempt;

/// How many are shown before the rest is folded away.
const OPEN: usize = 6;

pub(super) fn show(found: &Attempt, remarks: &[(Option<JobId>, EventKind)]) -> Markup {
    let mut said: Vec<(Option<JobId>, &Annotation)> = remarks
        .iter()
        .filter_map(|(job, kind)| match kind {
            EventKind::Annotation(annotation) => Some((*job, annotation)),
            _ => None,
        })
        .collect();
    // Errors are what one looks for; otherwise as they came.
    said.sort_by_key(|(_, annotation)| match annotation.level {
        Level::Error => 0,
        Level::Warning => 1,
        Level::Notice => 2,
    });
    let summaries: Vec<(Option<JobId>, &str)> = remarks
        .iter()
        .filter_map(|(job, kind)| match kind {
            EventKind::Summary { text, .. } => Some((*job, text.as_str())),
            _ => None,
        })
        .collect();
    let (first, rest) = said.split_at(said.len().min(OPEN));
    html! {
        section #annotations data-part="" aria-label="Annotations" {
            @if !said.is_empty() {
                h2 { "Annotations " span.number { (said.len()) } }
                ul.remarks { @for (job, annotation) in first { (row(found, *job, annotation)) } }
                @if !rest.is_empty() {
                    details {
                        summary { (rest.len()) " more" }
                        ul.remarks { @for (job, annotation) in rest { (row(found, *job, annotation)) } }
                    }
                }
            }
            @for (job, text) in summaries { (summary(found, job, text)) }
        }
    }
}

/// As it was written: nothing of it is taken for markup.
fn summary(found: &Attempt, job: Option<JobId>, text: &str) -> Markup {
    let name = job.and_then(|id| found.jobs.iter().find(|job| job.id == Some(id)));
    html! {
        details.summary.card open {
            summary { "Summary" @if let Some(job) = name { " of " (job.name) } }
            pre { (text) }
        }
    }
}

fn row(found: &Attempt, job: Option<JobId>, annotation: &Annotation) -> Markup {
    let (class, word) = match annotation.level {
        Level::Error => ("error", "Error"),
        Level::Warning => ("warning", "Warning"),
        Level::Notice => ("note", "Notice"),
    };
    let name = job.and_then(|id| found.jobs.iter().find(|job| job.id == Some(id)));
    let step = annotation.step.map(|step| step.saturating_add(1));
    html! {
        li class=(class) {
            p.about {
                strong { (word) }
                @if let Some(file) = &annotation.file {
                    code { (file) @if let Some(line) = annotation.line { ":" (line) } }
                }
                @if let (Some(id), Some(job)) = (job, name) {
                    a href={ (job_address(found, id)) "" @if let Some(step) = step { "?step=" (step) } } { (job.name) }
                }
            }
            @if let Some(title) = &annotation.title { p { strong { (title) } } }
            pre { (annotation.message) }
        }
    }
}
