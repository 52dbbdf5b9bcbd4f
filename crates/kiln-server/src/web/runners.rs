//! Runners: what they are, what they do, and whether they may take more.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::id::RunnerId;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_store::Page as Piece;
use kiln_store::runs::{RunFilter, RunStatus};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::parts;
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::runners::Order;
use crate::service::{runners, runs};

/// How many runs under way are asked which runners have their jobs.
const RUNS: u32 = 30;

pub(super) async fn show(State(app): State<Shared>, visitor: Visitor) -> Shown<Html<String>> {
    let page = Piece::first(Piece::LARGEST);
    let mut found = runners::list(&app, &visitor.caller, page).await?;
    found.retain(|runner| runner.status != "forgotten");
    let work = current(&app, &visitor).await?;
    let may_order = visitor.caller.grants().allow(Right::Runners, None).is_ok();
    let body = html! {
        div.head { h1 { "Runners" } }
        section #runners data-part="" aria-label="Runners" {
            @if found.is_empty() {
                (parts::empty("No runner is there", &html! {
                    "On a machine that shall do the work: " code { "kiln runner --help" } " says how it comes in."
                }))
            } @else {
                ul.runners {
                    @for runner in &found {
                        (card(&visitor, runner, work.get(&runner.id).map_or(&[], Vec::as_slice), may_order))
                    }
                }
            }
        }
    };
    Ok(Page { title: "Runners", section: Section::Runners, live: Some(0), body }.show(&visitor))
}

/// A job that a runner has: where it is, and its name.
type Work = (String, String);

/// What runners do now, as far as the runs show it that began last.
async fn current(app: &App, visitor: &Visitor) -> Answer<BTreeMap<i64, Vec<Work>>> {
    let open = RunFilter { status: Some(RunStatus::InProgress), ..RunFilter::default() };
    let found = runs::list(app, &visitor.caller, open, Piece::first(RUNS)).await?;
    let mut work: BTreeMap<i64, Vec<Work>> = BTreeMap::new();
    for named in found {
        let attempt = runs::attempt(app, &visitor.caller, named.run.id, None).await?;
        for job in attempt.jobs.iter().filter(|job| job.status == "in_progress") {
            if let (Some(runner), Some(id)) = (job.runner, job.id) {
                let entry = (super::job::address(&named, id), job.name.clone());
                work.entry(runner.0).or_default().push(entry);
            }
        }
    }
    Ok(work)
}

/// Colour, shape and word of a status.
fn light(status: &str) -> Markup {
    let (class, word) = match status {
        "idle" => ("success", "Idle"),
        "busy" => ("running", "Busy"),
        "draining" => ("tolerated", "Draining"),
        _ => ("cancelled", "Offline"),
    };
    html! { span class={ "pill " (class) } { (word) } }
}

fn card(visitor: &Visitor, runner: &api::Runner, work: &[Work], may_order: bool) -> Markup {
    let slots = runner.max_parallel.max(1);
    let seen = Timestamp::parse_rfc3339(&runner.last_seen_at);
    html! {
        li.card data-entry="" {
            div.runner-head {
                h2 { (runner.name) }
                (light(&runner.status))
                @if may_order && runner.status != "offline" { (order_form(visitor, runner)) }
            }
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
