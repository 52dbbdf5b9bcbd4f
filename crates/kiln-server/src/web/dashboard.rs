//! The first page: what runs, what waits and why, what broke since yesterday, how workflows did lately.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::response::Html;
use kiln_core::id::WorkflowId;
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_store::Page as Piece;
use kiln_store::runs::{RunFilter, RunStatus, RunSummary};
use maud::{Markup, html};

use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts::{self, Look};
use super::runs::{address, list};
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
/// How many workflows have bars, and how many runs each.
const WORKFLOWS: usize = 9;
const BARS: u32 = 30;
/// Among how many of the latest runs workflows are looked for.
const LATEST: u32 = 150;

pub(super) async fn show(State(app): State<Shared>, visitor: Visitor) -> Shown<Html<String>> {
    let caller = &visitor.caller;
    let open = |status| RunFilter { status: Some(status), ..RunFilter::default() };
    let shown = Piece::first(SHOWN);
    let running = runs::list(&app, caller, open(RunStatus::InProgress), shown).await?;
    let waiting = queue::waiting(&app, caller, None, None, SHOWN as usize).await?;
    let broke = broke(&app, caller).await?;
    let histories = histories(&app, &visitor).await?;
    let body = html! {
        div.head { h1 { "Dashboard" } }
        @if histories.is_empty() { div #first data-part="" data-whole="" { (first_steps()) } } @else {
            div.columns {
                (part("running", "Running now", &in_progress(&running)))
                (part("waiting", "Waiting", &queued(&waiting)))
            }
            (part("broke", "Broke since yesterday", &broken(&broke)))
            (part("workflows", "Workflows", &html! {
                ul.histories { @for history in &histories { (history_row(history)) } }
            }))
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

fn queued(waiting: &[api::Waiting]) -> Markup {
    html! {
        @if waiting.is_empty() { p.calm { "No job waits for a runner." } } @else {
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
            }
            p { a href="/queue" { "The whole queue" } }
        }
    }
}

/// The last runs of a workflow, the newest first.
struct History {
    newest: Named,
    runs: Vec<RunSummary>,
}

/// Of those workflows that ran lately.
async fn histories(app: &App, visitor: &Visitor) -> Answer<Vec<History>> {
    let caller = &visitor.caller;
    let latest = runs::list(app, caller, RunFilter::default(), Piece::first(LATEST)).await?;
    let mut newest: BTreeMap<WorkflowId, Named> = BTreeMap::new();
    for named in latest {
        newest.entry(named.run.workflow).or_insert(named);
    }
    let mut newest: Vec<Named> = newest.into_values().collect();
    newest.sort_by_key(|named| std::cmp::Reverse(named.run.id));
    newest.truncate(WORKFLOWS);
    let mut histories = Vec::new();
    for named in newest {
        let filter = RunFilter {
            repo: Some(named.run.repo),
            workflow: Some(named.run.workflow),
            ..RunFilter::default()
        };
        let found = runs::list(app, caller, filter, Piece::first(BARS)).await?;
        let runs = found.into_iter().map(|found| found.run).collect();
        histories.push(History { newest: named, runs });
    }
    Ok(histories)
}

fn history_row(history: &History) -> Markup {
    let History { newest, runs } = history;
    let (repo, file) = (newest.repo.full(), newest.workflow.path.rsplit('/').next());
    let done: Vec<&RunSummary> = runs.iter().filter(|run| run.conclusion.is_some()).collect();
    let good = done.iter().filter(|run| run.conclusion == Some(Conclusion::Success)).count();
    html! {
        li data-entry="" {
            (Look::of_run(&newest.run).icon())
            div.what {
                a.title href={ "/" (repo) "/actions/workflows/" (file.unwrap_or_default()) } data-open="" {
                    (newest.workflow.name)
                }
                p.about { (repo) }
            }
            (bars(newest, runs))
            p.rate {
                @if let Some(usual) = median(&done) { span { (parts::length(usual)) } }
                @if !done.is_empty() { span.quiet { (good * 100 / done.len()) " % green" } }
            }
        }
    }
}

/// How long half of the runs took at most.
fn median(done: &[&RunSummary]) -> Option<Duration> {
    let mut took: Vec<Duration> =
        done.iter().filter_map(|run| Some(run.ended?.since(run.started?))).collect();
    took.sort();
    took.get(took.len() / 2).copied()
}

/// A bar for each run, the oldest at the left, as high as it took long.
fn bars(newest: &Named, runs: &[RunSummary]) -> Markup {
    let took =
        |run: &RunSummary| parts::took(run.started, run.ended).unwrap_or_default().as_millis();
    let longest = runs.iter().map(took).max().unwrap_or_default().max(1);
    let width = 8 * BARS;
    html! {
        svg.bars viewBox={ "0 0 " (width) " 36" } role="img" aria-label={ "The last " (runs.len()) " runs" } {
            @for (at, run) in runs.iter().enumerate() {
                @let look = Look::of_run(run);
                @let height = 5 + u64::try_from(took(run) * 30 / longest).unwrap_or_default();
                @let named = Named { run: run.clone(), ..newest.clone() };
                a href=(address(&named)) {
                    rect.run.(look.class()) x=(i64::from(width) - 8 * (i64::try_from(at).unwrap_or_default() + 1))
                        y=(36 - height) width="6" height=(height) rx="1.5" {
                        title { "#" (run.number) " · " (look.word()) " · " (run.title) }
                    }
                    @if look.is_bad() {
                        path.notch d={ "M" (i64::from(width) - 8 * (i64::try_from(at).unwrap_or_default() + 1)) " 36h6" } {}
                    }
                }
            }
        }
    }
}
