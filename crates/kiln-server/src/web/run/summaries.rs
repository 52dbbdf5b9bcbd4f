//! What steps wrote for people (`GITHUB_STEP_SUMMARY`): on the page of the run as far as it is short, all of it on a page
//! of its own.

use axum::extract::{Path, Query, State};
use axum::response::Html;
use kiln_core::access::Right;
use kiln_core::id::JobId;
use kiln_proto::api;
use kiln_proto::summary::StepSummary;
use maud::{Markup, html};
use serde::Deserialize;

use super::{find, job_address};
use crate::app::{App, Shared};
use crate::http::error::Answer;
use crate::service::runs::{self, Attempt};
use crate::service::summaries;
use crate::web::failure::Shown;
use crate::web::layout::{Page, Section};
use crate::web::markdown;
use crate::web::runs::address;
use crate::web::visitor::Visitor;

/// How many bytes of Markdown the page of a run draws, unless the first summary alone is larger; it is drawn anew
/// whenever something changes.
const ON_RUN: u64 = 128 << 10;
/// And a page of summaries.
const ON_PAGE: u64 = 1 << 20;
/// A summary that is larger than this is not drawn on the page of its run.
const LARGEST_ON_RUN: usize = 256 << 10;

pub(super) async fn of_run(app: &App, found: &Attempt) -> Answer<api::Page<StepSummary>> {
    summaries::list(app, found, 0, ON_RUN).await
}

pub(super) fn show(found: &Attempt, summaries: &api::Page<StepSummary>) -> Markup {
    let (short, long): (Vec<_>, Vec<_>) =
        summaries.items.iter().partition(|one| one.markdown.len() <= LARGEST_ON_RUN);
    html! {
        section #summaries data-part="" aria-label="Summaries" {
            @if !summaries.items.is_empty() { h2 { "Summary" } }
            @for one in short { (card(found, one)) }
            @if !long.is_empty() || summaries.next.is_some() {
                p { a.button href={ (address(&found.named)) "/summary?attempt=" (found.view.attempt) } {
                    "All summaries"
                } }
            }
        }
    }
}

/// One summary, and whose it is.
fn card(found: &Attempt, one: &StepSummary) -> Markup {
    let step = one.job_id.map(JobId).and_then(|id| {
        let job = found.jobs.iter().find(|job| job.id == Some(id))?;
        let step = job.steps.iter().find(|step| step.number + 1 == one.step);
        Some((id, step.map(|step| step.name.clone())))
    });
    html! {
        details.summary.card #{ "summary-" (one.id) } open {
            summary {
                @match &one.job { Some(job) => (job), None => "A job" }
                @if let Some((_, Some(name))) = &step { span.number { " · " (name) } }
            }
            div.markdown { (markdown::show(&one.markdown)) }
            @if let Some((id, _)) = step {
                p.about { a href={ (job_address(found, id)) "?step=" (one.step) } { "To the log of this step" } }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct Piece {
    attempt: Option<u32>,
    after: i64,
}

/// All of them, in pieces.
pub(in crate::web) async fn page(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<(String, String, String)>,
    Query(piece): Query<Piece>,
) -> Shown<Html<String>> {
    let named = find(&app, &visitor, Right::Read, &place).await?;
    let found = runs::attempt(&app, &visitor.caller, named.run.id, piece.attempt).await?;
    let some = summaries::list(&app, &found, piece.after, ON_PAGE).await?;
    let here = address(&named);
    let attempt = found.view.attempt;
    let body = html! {
        div.head { div {
            p.crumbs { a href=(here) { (named.run.title) " #" (named.run.number) } }
            h1 { "Summaries" }
        } }
        @if some.items.is_empty() { p.calm { "No step wrote a summary." } }
        @for one in &some.items { (card(&found, one)) }
        @if let Some(next) = &some.next {
            nav.pages aria-label="Pages" {
                a.button rel="next" href={ (here) "/summary?attempt=" (attempt) "&after=" (next) } { "More" }
            }
        }
    };
    let title = format!("Summaries of {}", named.run.title);
    Ok(Page { title: &title, section: Section::Runs, live: None, body }.show(&visitor))
}
