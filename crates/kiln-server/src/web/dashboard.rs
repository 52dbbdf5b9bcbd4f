//! The first page: what runs, what waits and why, what broke since yesterday, how workflows did lately.

use axum::extract::State;
use axum::response::Html;
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::held::Held;
use kiln_store::Page as Piece;
use kiln_store::runs::{RunFilter, RunStatus};
use maud::{Markup, html};

use super::bars;
use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts::{self, Look};
use super::runs::list;
use super::visitor::Visitor;
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::clock;
use crate::http::error::Answer;
use crate::service::runs::Named;
use crate::service::{queue, runs};

const DAY_IN_MILLIS: u64 = 24 * 60 * 60 * 1_000;
/// How many runs each part shows.
const SHOWN: u32 = 6;
/// How many workflows have bars.
const WORKFLOWS: u32 = 12;

pub(super) async fn show(State(app): State<Shared>, visitor: Visitor) -> Shown<Html<String>> {
    let caller = &visitor.caller;
    let open = |status| RunFilter { status: Some(status), ..RunFilter::default() };
    let shown = Piece::first(SHOWN);
    let running = runs::list(&app, caller, open(RunStatus::InProgress), shown).await?;
    let waiting =
        queue::waiting(&app, caller, queue::Asked::default(), SHOWN as usize).await?.items;
    let broke = broke(&app, caller).await?;
    let held = queue::held(&app, caller, queue::Asked::default(), SHOWN as usize).await?.items;
    let histories = bars::histories(&app, &visitor, None, WORKFLOWS).await?;
    let body = html! {
        div.head { h1 { "Dashboard" } }
        @if histories.is_empty() { div #first data-part="" data-whole="" { (first_steps()) } } @else {
            div.columns {
                (part("running", "Running now", &in_progress(&running)))
                (part("waiting", "Waiting", &waits(&waiting, &held)))
            }
            (part("broke", "Broke since yesterday", &broken(&broke)))
            (part("workflows", "Workflows", &bars::list(&histories, true)))
        }
    };
    Ok(Page { title: "Dashboard", section: Section::Dashboard, live: Some(0), body }.show(&visitor))
}

/// What ended badly since yesterday, the newest first.
async fn broke(app: &App, caller: &Caller) -> Answer<Vec<Named>> {
    let yesterday = Timestamp(clock::now().0.saturating_sub(DAY_IN_MILLIS));
    let mut broke = Vec::new();
    for bad in [Conclusion::Failure, Conclusion::TimedOut, Conclusion::StartupFailure] {
        let filter = RunFilter {
            conclusion: Some(bad),
            ended_since: Some(yesterday),
            ..RunFilter::default()
        };
        broke.extend(runs::list(app, caller, filter, Piece::first(SHOWN)).await?);
    }
    broke.sort_by_key(|named| std::cmp::Reverse(named.run.id));
    broke.truncate(SHOWN as usize);
    Ok(broke)
}

fn part(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section.part id=(id) data-part="" aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (title) }
            (content)
        }
    }
}

fn first_steps() -> Markup {
    parts::empty(
        "Kiln is up, and nothing has run yet",
        &html! {
            "In a repository with workflows: " code { "kiln trigger --add" }
            ". What it starts appears here by itself."
        },
    )
}

fn in_progress(running: &[Named]) -> Markup {
    html! {
        @if running.is_empty() { p.calm { "All is quiet." } } @else { (list(running, true)) }
    }
}

fn broken(broke: &[Named]) -> Markup {
    html! {
        @if broke.is_empty() { p.calm { "Nothing. Well done." } } @else {
            (list(broke, true))
            p { a href="/runs?status=failure" { "All that failed" } }
        }
    }
}

/// Jobs that wait for a runner, and what waits for a concurrency group.
fn waits(waiting: &[api::Waiting], held: &[Held]) -> Markup {
    html! {
        @if waiting.is_empty() && held.is_empty() { p.calm { "Nothing waits." } } @else {
            ol.waits {
                @for job in waiting {
                    li data-entry="" {
                        (Look::Queued.icon())
                        div.what {
                            a.title href={ "/" (job.repo) "/actions/runs/" (job.run_id) } data-open="" { (job.name) }
                            p.about { (super::failure::sentence(&job.reason)) }
                        }
                        span.quiet { "#" (job.position) }
                    }
                }
                @for one in held { (super::queue::held_row(one)) }
            }
            p { a href="/queue" { "The whole queue" } }
        }
    }
}
