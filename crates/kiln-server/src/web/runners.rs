//! Runners: what they are, what they do, and whether they may take more.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::history::RunnerJob;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::parts::{self, Look};
use super::sought::{ENTRIES, Sought};
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::runners::{self, Order};

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(sought): Query<Sought>,
) -> Shown<Html<String>> {
    let piece = (sought.after()?, ENTRIES);
    let (found, next) = runners::sift(&app, &visitor.caller, sought.text(), piece).await?;
    let work = current(&app, &visitor, found.iter().map(|(runner, _)| runner)).await?;
    let body = html! {
        div.head { h1 { "Runners" } }
        @if !(found.is_empty() && sought.is_plain()) {
            (sought.form("/runners", "Filter runners", "name, label, pool, status"))
        }
        section #runners data-part="" aria-label="Runners" {
            @if found.is_empty() && !sought.is_plain() {
                (parts::empty("No runner fits", &html! { "Leave something out of the filter above." }))
            } @else if found.is_empty() {
                (parts::empty("No runner is there", &html! {
                    code { "kiln runners key --owner NAME" } " makes a key, and says how a machine comes in with it."
                }))
            } @else {
                ul.runners {
                    @for (runner, may_order) in &found {
                        (card(&visitor, runner, work.get(&runner.id).map_or(&[], Vec::as_slice), *may_order))
                    }
                }
            }
            (sought.pages("/runners", next))
        }
    };
    Ok(Page { title: "Runners", section: Section::Runners, live: Some(0), body }.show(&visitor))
}

/// A job that a runner has: where it is, and its name.
type Job = (String, String);

async fn current(
    app: &App,
    visitor: &Visitor,
    found: impl Iterator<Item = &api::Runner>,
) -> Answer<BTreeMap<i64, Vec<Job>>> {
    let ids = found.map(|runner| RunnerId(runner.id)).collect();
    let mut work: BTreeMap<i64, Vec<Job>> = BTreeMap::new();
    for one in runners::work(app, &visitor.caller, ids).await? {
        let address = format!("/{}/actions/runs/{}/job/{}", one.repo, one.run, one.job);
        work.entry(one.runner.0).or_default().push((address, one.name));
    }
    Ok(work)
}

/// Colour, shape and word of a status.
fn light(status: &str) -> Markup {
    let (class, word) = match status {
        "idle" => ("success", "Idle"),
        "busy" => ("running", "Busy"),
        "draining" => ("tolerated", "Draining"),
        "forgotten" => ("cancelled", "Removed"),
        _ => ("cancelled", "Offline"),
    };
    html! { span class={ "pill " (class) } { (word) } }
}

fn card(visitor: &Visitor, runner: &api::Runner, work: &[Job], may_order: bool) -> Markup {
    html! {
        li.card data-entry="" {
            div.runner-head {
                h2 { a.title href={ "/runners/" (runner.id) } data-open="" { (runner.name) } }
                (light(&runner.status))
                @if may_order && runner.status != "offline" { (order_form(visitor, runner)) }
            }
            (facts(runner, work))
        }
    }
}

/// What it is and does.
fn facts(runner: &api::Runner, work: &[Job]) -> Markup {
    let slots = runner.max_parallel.max(1);
    let seen = Timestamp::parse_rfc3339(&runner.last_seen_at);
    html! {
        @if let Some(trouble) = &runner.trouble { p.notice.bad { (trouble) } }
        p.load {
            meter min="0" max=(slots) value=(runner.jobs) aria-label="Load" {}
            span { (runner.jobs) " of " (parts::count(slots as usize, "job", "jobs")) }
        }
        @if !work.is_empty() {
            ul.work { @for (href, name) in work { li { a href=(href) { (name) } } } }
        }
        p.labels { @for label in &runner.labels { span.tag { (label) } } }
        p.about {
            (runner.os) " " (runner.architecture) " · " (runner.cores) " cores · "
            (runner.memory_mb / 1_024) " GB · pool " (runner.pool)
            @if let Some(owner) = &runner.owner { " · " (owner) }
            " · Kiln " (runner.version)
        }
        p.about {
            (runner.completed) " done, " (runner.failed) " failed"
            @if let Some(seen) = seen { " · seen " (parts::when(seen)) }
        }
    }
}

fn order_form(visitor: &Visitor, runner: &api::Runner) -> Markup {
    let (order, name) = if runner.status == "draining" {
        ("undrain", "Take jobs again")
    } else {
        ("drain", "Drain")
    };
    html! {
        form method="post" action={ "/runners/" (runner.id) "/" (order) } {
            (form_token(visitor))
            button.small type="submit" title="It finishes what it has and takes nothing new" { (name) }
        }
    }
}

/// How many jobs of a history a page has.
const PAST: u32 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    after: String,
}

/// One runner, with what it has done.
pub(super) async fn one(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    let id: RunnerId = id.parse().map_err(|_| Failure::not_found("runner"))?;
    let caller = &visitor.caller;
    let (runner, may_order) = runners::one_with_orders(&app, caller, id).await?;
    let before = match which.after.as_str() {
        "" => None,
        after => Some(after.parse::<JobId>().map_err(|_| Failure::invalid("`after` is no job"))?),
    };
    let work = current(&app, &visitor, std::iter::once(&runner)).await?;
    let work = work.get(&runner.id).map_or(&[][..], Vec::as_slice);
    let past = runners::history(&app, caller, id, (before, PAST)).await?;
    let may_order = may_order && !["offline", "forgotten"].contains(&runner.status.as_str());
    let body = html! {
        div.head {
            div {
                p.crumbs { a href="/runners" { "Runners" } }
                h1 { (runner.name) " " (light(&runner.status)) }
            }
            @if may_order { div.actions { (order_form(&visitor, &runner)) } }
        }
        section #runner.card.stack data-part="" aria-label="What it is" { (facts(&runner, work)) }
        section #history data-part="" aria-labelledby="history-title" {
            h2 #history-title { "History" }
            (history(&past))
        }
        @if before.is_some() || past.next.is_some() { (pages(id, before.is_some(), &past)) }
    };
    let title = format!("Runner {}", runner.name);
    Ok(Page { title: &title, section: Section::Runners, live: Some(0), body }.show(&visitor))
}

fn history(past: &api::Page<RunnerJob>) -> Markup {
    html! {
        @if past.items.is_empty() {
            p.calm {
                @if past.next.is_some() { "It had none of the jobs that were looked at; there are older ones." }
                @else { "It has had no job yet." }
            }
        } @else {
            ol.waits { @for job in &past.items { (past_row(job)) } }
        }
    }
}

fn past_row(job: &RunnerJob) -> Markup {
    let time = |text: &Option<String>| text.as_deref().and_then(Timestamp::parse_rfc3339);
    let (began, ended) =
        (time(&job.started_at).or_else(|| time(&job.claimed_at)), time(&job.ended_at));
    let (look, word) = outcome(&job.outcome);
    html! {
        li data-entry="" {
            (look.icon())
            div.what {
                a.title href={ "/" (job.repo) "/actions/runs/" (job.run_id) "/job/" (job.job_id) } data-open="" { (job.name) }
                p.about {
                    (job.repo) " · " (word)
                    @if let Some(reason) = &job.reason { ": " (reason) }
                    @if job.attempt > 1 { " · claim " (job.attempt) }
                }
            }
            div.times {
                (parts::clocked(began, ended))
                @if let Some(began) = began { (parts::when(began)) }
            }
        }
    }
}

/// How a claim of a job ended, in a shape and in words.
fn outcome(word: &str) -> (Look, &'static str) {
    match word {
        "in_progress" => (Look::Running, "Running"),
        "lost" => (Look::Failed, "Lost: the runner was not heard of any more"),
        "returned" => (Look::Cancelled, "Given back to the queue"),
        "retried" => (Look::Tolerated, "Failed, and tried again"),
        ended => {
            let look = Conclusion::of_github(ended).map_or(Look::Skipped, Look::ended);
            (look, look.word())
        }
    }
}

fn pages(id: RunnerId, is_later: bool, past: &api::Page<RunnerJob>) -> Markup {
    let is_cut = past.items.len() < PAST as usize;
    html! {
        nav.pages aria-label="Pages" {
            @if is_later { a.button href={ "/runners/" (id) } rel="first" { "Newest" } }
            @if let Some(next) = &past.next {
                a.button href={ "/runners/" (id) "?after=" (next) } rel="next" {
                    @if is_cut { "Look further back" } @else { "Older" }
                }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Nothing {}

pub(super) async fn order(
    State(app): State<Shared>,
    Path((id, order)): Path<(String, String)>,
    Posted { visitor, .. }: Posted<Nothing>,
) -> Shown<Response> {
    let id: RunnerId = id.parse().map_err(|_| Failure::not_found("runner"))?;
    let order = match order.as_str() {
        "drain" => Order::Drain,
        "undrain" => Order::Undrain,
        _ => return Err(Failure::not_found("button").into()),
    };
    runners::order(&app, &visitor.caller, id, order).await?;
    Ok(Redirect::to("/runners").into_response())
}
