//! One run: how it stands in words, its jobs as a graph, a list and a waterfall, what was remarked, what can be done.

mod artifacts;
mod attempts;
mod graph;
mod groups;
mod head;
mod layers;
mod list;
mod remarks;
mod summaries;
mod waterfall;

use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::id::{JobId, RunId};
use kiln_store::runs::FIRST;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section};
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::content::seen;
use crate::service::runs::{Attempt, Named};
use crate::service::{change, runs};

pub(super) use artifacts::{
    Place as OfArtifact, download, one as artifact, order as order_artifact,
};
pub(super) use remarks::in_log as annotation;
pub(super) use summaries::page as summary;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    attempt: Option<u32>,
    view: Option<String>,
}

/// A run of the repository that the address names.
pub(super) async fn find(
    app: &App,
    visitor: &Visitor,
    right: Right,
    (owner, repo, run): &(String, String, String),
) -> Answer<Named> {
    let id: RunId = run.parse().map_err(|_| Failure::not_found("run"))?;
    runs::find_in(app, &visitor.caller, right, (&format!("{owner}/{repo}"), id)).await
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<(String, String, String)>,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    let named = find(&app, &visitor, Right::Read, &place).await?;
    let found = runs::attempt(&app, &visitor.caller, named.run.id, which.attempt).await?;
    let (id, attempt) = (named.run.id, found.view.attempt);
    let remarks = remarks::of_attempt(&app, &found).await?;
    let summaries = summaries::of_run(&app, &found).await?;
    let left = seen::of_run(&app, &visitor.caller, id).await?.artifacts;
    let may_change = visitor.caller.grants().allow(Right::Write, Some(named.run.org)).is_ok();
    let view = View::of(which.view.as_deref(), &found);
    let side_by_side = match view {
        View::Attempts => runs::attempts(&app, &named, attempts::MOST).await?,
        _ => Vec::new(),
    };
    let body = html! {
        (head::show(&visitor, &found, may_change))
        (tabs(view, &found))
        section #jobs data-part="" aria-label="Jobs" {
            @if view == View::Attempts { (attempts::show(&side_by_side, attempt)) } @else { (jobs(view, &found)) }
        }
        (artifacts::show(&visitor, &found, &left, may_change))
        (remarks::show(&found, &remarks))
        (summaries::show(&found, &summaries))
    };
    let title = format!("{} · {}", named.run.title, named.repo.full());
    let live = found.named.run.conclusion.is_none() && attempt == found.named.run.attempt;
    let live = live.then_some(id.0);
    Ok(Page { title: &title, section: Section::Runs, live, body }.show(&visitor))
}

/// How the jobs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Graph,
    List,
    Waterfall,
    /// All attempts side by side.
    Attempts,
}

impl View {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Graph, "graph", "Graph"),
        (Self::List, "list", "List"),
        (Self::Waterfall, "waterfall", "Waterfall"),
        (Self::Attempts, "attempts", "Attempts"),
    ];

    /// One attempt stands beside nothing.
    fn has_sense(self, found: &Attempt) -> bool {
        self != Self::Attempts || found.named.run.attempt > 1
    }

    /// A run with a single job has no graph to look at.
    fn of(word: Option<&str>, found: &Attempt) -> Self {
        let chosen =
            Self::ALL.iter().find(|(_, own, _)| Some(*own) == word).map(|(view, ..)| *view);
        let chosen = chosen.filter(|view| view.has_sense(found));
        let usual = if found.jobs.len() > 1 { Self::Graph } else { Self::List };
        chosen.unwrap_or(usual)
    }
}

fn tabs(view: View, found: &Attempt) -> Markup {
    let attempt = found.view.attempt;
    let is_last = attempt == found.named.run.attempt;
    html! {
        nav.tabs #views aria-label="Views of the jobs" {
            @for (own, word, name) in View::ALL.into_iter().filter(|(own, ..)| own.has_sense(found)) {
                @let more = if is_last { String::new() } else { format!("&attempt={attempt}") };
                a href={ "?view=" (word) (more) } aria-current=[(own == view).then_some("true")] { (name) }
            }
        }
    }
}

fn jobs(view: View, found: &Attempt) -> Markup {
    if found.jobs.is_empty() {
        return html! { p.calm { "The run has no jobs." } };
    }
    match view {
        View::Graph => html! { (graph::show(found)) (list::waits(found)) },
        View::List => list::show(found),
        View::Waterfall => waterfall::show(found),
        // Drawn by whoever has read them.
        View::Attempts => html! {},
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    job: String,
    step: Option<String>,
}

/// The buttons.
pub(super) async fn order(
    State(app): State<Shared>,
    Path((owner, repo, run, order)): Path<(String, String, String, String)>,
    Posted { visitor, form }: Posted<Asked>,
) -> Shown<Response> {
    let place = (owner, repo, run);
    let named = find(&app, &visitor, Right::Write, &place).await?;
    let (caller, id) = (&visitor.caller, named.run.id);
    let what = match order.as_str() {
        "cancel" | "force-cancel" => {
            change::cancel(&app, caller, id, None, order == "force-cancel").await?;
            None
        }
        "first" | "usual" => {
            let priority = if order == "first" { FIRST } else { 0 };
            change::prioritize(&app, caller, id, priority).await?;
            return Ok(Redirect::to("/queue").into_response());
        }
        "rerun" => Some(change::What::All),
        "rerun-failed" => Some(change::What::Failed),
        "rerun-job" => Some(change::What::Job { job: form.job, step: form.step }),
        _ => return Err(Failure::not_found("button").into()),
    };
    if let Some(what) = what {
        change::rerun(&app, caller, id, what).await?;
    }
    Ok(Redirect::to(&super::runs::address(&named)).into_response())
}

/// Where the log of a job is.
pub(super) fn job_address(found: &Attempt, id: JobId) -> String {
    format!("{}/job/{id}", super::runs::address(&found.named))
}
