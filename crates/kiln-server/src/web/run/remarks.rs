//! What steps said for this page: remarks about places in the source.

use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use kiln_core::access::Right;
use kiln_core::id::JobId;
use kiln_store::events::{self, Annotation, Level};
use kiln_store::{Scope, Tx};
use maud::{Markup, html};

use super::{Which, find, job_address};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::jobs::Seen;
use crate::service::log::Matcher;
use crate::service::log::search::{self, Place as Searched, Query as Wanted};
use crate::service::runs::{self, Attempt};
use crate::web::failure::Shown;
use crate::web::runs::address;
use crate::web::visitor::Visitor;

/// How many remarks of steps a page shows.
const REMARKS: u32 = 200;
/// How much of a remark is looked for in the log, and how many lines with it are looked at.
const LOOKED_FOR: usize = 300;
const LINES: usize = 20;
/// How many are shown before the rest is folded away.
const OPEN: usize = 6;

/// What was remarked, and by which job.
pub(super) type Remark = (Option<JobId>, Annotation);

/// The first remarks of an attempt, as they came.
pub(super) async fn of_attempt(app: &App, found: &Attempt) -> Answer<Vec<Remark>> {
    let (scope, id) = (Scope::Org(found.named.run.org), found.named.run.id);
    let attempt = found.view.attempt;
    let work =
        async move |tx: &mut Tx<'_>| events::annotations(tx, scope, id, attempt, REMARKS).await;
    Ok(app.store.read(work).await?)
}

pub(super) fn show(found: &Attempt, remarks: &[Remark]) -> Markup {
    let mut said: Vec<(usize, &Remark)> = remarks.iter().enumerate().collect();
    // Errors are what one looks for; otherwise as they came.
    said.sort_by_key(|(_, (_, annotation))| match annotation.level {
        Level::Error => 0,
        Level::Warning => 1,
        Level::Notice => 2,
    });
    let (first, rest) = said.split_at(said.len().min(OPEN));
    html! {
        section #annotations data-part="" aria-label="Annotations" {
            @if !said.is_empty() {
                h2 { "Annotations " span.number { (said.len()) } }
                ul.remarks { @for (at, remark) in first { (row(found, *at, remark)) } }
                @if !rest.is_empty() {
                    details #more-annotations {
                        summary { (rest.len()) " more" }
                        ul.remarks { @for (at, remark) in rest { (row(found, *at, remark)) } }
                    }
                }
            }
        }
    }
}

fn row(found: &Attempt, at: usize, (job, annotation): &Remark) -> Markup {
    let (class, word) = match annotation.level {
        Level::Error => ("error", "Error"),
        Level::Warning => ("warning", "Warning"),
        Level::Notice => ("note", "Notice"),
    };
    let name = job.and_then(|id| found.jobs.iter().find(|job| job.id == Some(id)));
    let (here, attempt) = (address(&found.named), found.view.attempt);
    html! {
        li class=(class) {
            p.about {
                strong { (word) }
                @if let Some(file) = &annotation.file {
                    code { (file) @if let Some(line) = annotation.line { ":" (line) } }
                }
                @if let Some(job) = name {
                    a href={ (here) "/annotations/" (at) "?attempt=" (attempt) } { (job.name) }
                }
            }
            @if let Some(title) = &annotation.title { p { strong { (title) } } }
            pre { (annotation.message) }
        }
    }
}

/// To the line of the log that a remark was made in; to its step where no line has it.
pub(in crate::web) async fn in_log(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo, run, at)): Path<(String, String, String, String)>,
    Query(which): Query<Which>,
) -> Shown<Redirect> {
    let missing = || Failure::not_found("annotation");
    let named = find(&app, &visitor, Right::Read, &(owner, repo, run)).await?;
    let found = runs::attempt(&app, &visitor.caller, named.run.id, which.attempt).await?;
    let at: usize = at.parse().map_err(|_| missing())?;
    let remarks = of_attempt(&app, &found).await?;
    let (job, annotation) = remarks.get(at).ok_or_else(missing)?;
    let id = job.ok_or_else(missing)?;
    let job = found.jobs.iter().find(|job| job.id == Some(id)).ok_or_else(missing)?;
    let there = job_address(&found, id);
    Ok(Redirect::to(&match line_of(&app, job, annotation).await? {
        Some(line) => format!("{there}?line={line}#L{line}"),
        None => match annotation.step {
            Some(step) => format!("{there}?step={}", step.saturating_add(1)),
            None => there,
        },
    }))
}

/// The line that says what the remark says. Commands stand there with their level; what matchers found, as it was printed.
async fn line_of(app: &App, job: &Seen, annotation: &Annotation) -> Answer<Option<u64>> {
    let first = annotation.message.lines().map(str::trim).find(|line| !line.is_empty());
    let Some((log, first)) = job.log(job.claim).zip(first) else { return Ok(None) };
    let end = first.floor_char_boundary(LOOKED_FOR);
    let Ok(matcher) = Matcher::new(&first[..end], false, false) else { return Ok(None) };
    let query = Wanted {
        matcher,
        steps: annotation.step.into_iter().collect(),
        context: 0,
        limit: LINES,
        after: None,
        attempt: None,
        patience: search::PATIENCE,
    };
    let places = vec![Searched { log, job: String::new(), run_attempt: job.run_attempt }];
    let hits = search::in_logs(app, places, query).await?.items;
    let mark = match annotation.level {
        Level::Error => "##[error]",
        Level::Warning => "##[warning]",
        Level::Notice => "##[notice]",
    };
    let marked = hits.iter().find(|hit| hit.text.starts_with(mark));
    Ok(marked.or_else(|| hits.first()).map(|hit| hit.line))
}
