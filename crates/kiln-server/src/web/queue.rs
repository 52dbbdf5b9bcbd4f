//! What waits for a runner: in which order, why, and for how long yet.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Html;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::held::Held;
use kiln_store::Page as Piece;
use kiln_store::claims::COUNTED;
use kiln_store::runs::FIRST;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::{Shown, sentence};
use super::layout::{Page, Section, form_token};
use super::parts::{self, Look};
use super::visitor::Visitor;
use crate::app::Shared;
use crate::percent::encoded;
use crate::service::queue::{Asked, Movable};
use crate::service::{pause, queue};

/// How many jobs a page has.
const JOBS: usize = 100;
/// How many runs and jobs that groups hold.
const HELD: usize = 200;
/// How many runners are named.
const NAMES: usize = 4;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    /// The page begins behind this place.
    after: String,
}

/// S16
pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    let is_first = which.after.is_empty();
    let asked = Asked { after: (!is_first).then_some(which.after), ..Asked::default() };
    let api::Page { items: waiting, next } =
        queue::waiting(&app, &visitor.caller, asked, JOBS).await?;
    let movable = queue::movable(&app, &visitor.caller).await?;
    let total = queue::total(&app, &visitor.caller).await?;
    let held = queue::held(&app, &visitor.caller, Asked::default(), HELD).await?;
    let queues = pause::queues(&app, &visitor.caller, Piece::first(Piece::LARGEST)).await?;
    let paused = pause::paused(&app, &visitor.caller).await?;
    let body = html! {
        div.head { h1 { "Queue" } }
        section #queue data-part="" aria-label="Waiting jobs" {
            @if let Some(reason) = &paused.server {
                p.notice.bad { "The server is paused: " (reason) }
            }
            @for repo in &paused.repos {
                p.notice { (repo.owner) "/" (repo.name) " is paused: " (repo.paused.as_deref().unwrap_or_default()) }
            }
            @if waiting.is_empty() && !is_first {
                p.calm { "No job waits that far behind any more." }
                (pages(is_first, None))
            } @else if waiting.is_empty() {
                (parts::empty("No job waits for a runner", &html! { "What is started finds a runner at once." }))
            } @else {
                p.quiet { (how_many(total)) }
                (table(&visitor, &waiting, &movable))
                (pages(is_first, next.as_deref()))
            }
            @if is_first && !held.items.is_empty() {
                h2 #held-title { "Held by concurrency groups " span.number { (held.items.len()) } }
                ol.waits aria-labelledby="held-title" { @for one in &held.items { (held_row(one)) } }
                @if held.next.is_some() { p.quiet { "There are more: " code { "kiln queue" } " lists them all." } }
            }
        }
        section #queues data-part="" aria-labelledby="queues-title" {
            @if !queues.is_empty() {
                h2 #queues-title { "What runners are asked for" }
                (demands(&queues))
            }
        }
    };
    Ok(Page { title: "Queue", section: Section::Queue, live: Some(0), body }.show(&visitor))
}

fn how_many(total: u64) -> String {
    if total >= u64::from(COUNTED) {
        return format!("{total} jobs or more wait.");
    }
    let number = usize::try_from(total).unwrap_or(usize::MAX);
    format!("{}.", parts::count(number, "job waits", "jobs wait"))
}

fn pages(is_first: bool, next: Option<&str>) -> Markup {
    html! {
        @if !is_first || next.is_some() {
            nav.pages aria-label="Pages" {
                @if !is_first { a.button href="/queue" rel="first" { "First in line" } }
                @if let Some(next) = next { a.button href={ "/queue?after=" (encoded(next)) } rel="next" { "Next" } }
            }
        }
    }
}

fn table(visitor: &Visitor, waiting: &[api::Waiting], movable: &Movable) -> Markup {
    html! {
        ol.waits {
            @for job in waiting {
                li data-entry="" {
                    span.position aria-label={ "Position " (job.position) } { (job.position) }
                    (Look::Queued.icon())
                    div.what {
                        a.title href={ "/" (job.repo) "/actions/runs/" (job.run_id) "/job/" (job.job_id) } data-open="" {
                            (job.name)
                        }
                        p.about { (job.repo) " · " (sentence(&job.reason)) }
                        p.about { "Asks for " (job.requirements) ". " (able(&job.runners)) }
                    }
                    div.times {
                        @match job.estimate {
                            Some(seconds) => span.length { "in about " (parts::length(Duration::from_secs(seconds))) },
                            None => span.quiet { "no estimate" },
                        }
                        @if let Some(at) = Timestamp::parse_rfc3339(&job.queued_at) {
                            span.quiet { "waits for " (parts::clocked(Some(at), None)) }
                        }
                        @if movable.has(&job.repo) { (move_form(visitor, job)) }
                    }
                }
            }
        }
    }
}

/// The button that puts the run of a job before all others, or back.
fn move_form(visitor: &Visitor, job: &api::Waiting) -> Markup {
    let (order, name, title) = if job.priority < FIRST {
        ("first", "First", "All jobs of its run go before all others")
    } else {
        ("usual", "Back in line", "The jobs of its run take their turn")
    };
    html! {
        form method="post" action={ "/" (job.repo) "/actions/runs/" (job.run_id) "/" (order) } {
            (form_token(visitor))
            button.small type="submit" title=(title) { (name) }
        }
    }
}

/// A run, or a job of one, that waits for its group.
pub(super) fn held_row(one: &Held) -> Markup {
    let run = format!("/{}/actions/runs/{}", one.repo, one.run_id);
    let before = usize::try_from(one.before).unwrap_or(usize::MAX);
    let href = one.job_id.map_or_else(|| run.clone(), |job| format!("{run}/job/{job}"));
    html! {
        li data-entry="" {
            (Look::Waiting.icon())
            div.what {
                a.title href=(href) data-open="" { (one.name) }
                p.about { (one.repo) " · " (one.workflow) " #" (one.number) " · " (sentence(&one.reason)) }
                @if let Some(holder) = &one.holder {
                    p.about { "It is held by "
                        a href={ "/" (one.repo) "/actions/runs/" (holder.run_id) } { (holder.workflow) " #" (holder.number) }
                        @if one.before > 0 { ", and " (parts::count(before, "other waits", "others wait")) " before it" } "."
                    }
                }
            }
            @if let Some(at) = Timestamp::parse_rfc3339(&one.since) {
                div.times { span.quiet { "since " (parts::when(at)) } }
            }
        }
    }
}

fn able(runners: &[String]) -> String {
    match runners {
        [] => "No runner that is there could take it.".to_owned(),
        few if few.len() <= NAMES => format!("{} could take it.", few.join(", ")),
        many => {
            format!("{} and {} more could take it.", many[..NAMES].join(", "), many.len() - NAMES)
        }
    }
}

fn demands(queues: &[api::Queue]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th scope="col" { "Asked for" } th.number scope="col" { "Waiting" } th.number scope="col" { "Runners" } } }
            tbody {
                @for queue in queues {
                    tr {
                        td { (queue.requirements)
                            @if let Some(paused) = &queue.paused { " " span.tag { "paused: " (paused) } } }
                        td.number { (queue.waiting) }
                        td.number { (queue.runners) }
                    }
                }
            }
        } }
    }
}
