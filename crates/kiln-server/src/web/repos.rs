//! Repositories: which there are, what one has, and its settings.

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_store::directory::repositories::Repository;
use kiln_store::directory::workflows::{self, Workflow};
use kiln_store::runs::RunFilter;
use kiln_store::{Page as Piece, Scope, Tx};
use maud::{Markup, html};
use serde::Deserialize;

use super::badge;
use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::parts::{self, Look};
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::pause::{self, What};
use crate::service::{repos, runs};

/// How many runs the page of a repository shows.
const RUNS: u32 = 10;

type Name = (String, String);

pub(super) async fn list(State(app): State<Shared>, visitor: Visitor) -> Shown<Html<String>> {
    let found = repos::list(&app, &visitor.caller, Piece::first(Piece::LARGEST)).await?;
    let mut rows = Vec::new();
    for (repo, owner) in &found {
        let last = RunFilter { repo: Some(repo.id), ..RunFilter::default() };
        let last = runs::list(&app, &visitor.caller, last, Piece::first(1)).await?;
        rows.push((repo, format!("{owner}/{}", repo.name), last.into_iter().next()));
    }
    let body = html! {
        div.head { h1 { "Repositories" } }
        @if rows.is_empty() {
            (parts::empty("Kiln knows no repository yet", &html! {
                "In a repository with workflows: " code { "kiln trigger --add" } "."
            }))
        } @else {
            ul.repos {
                @for (repo, name, last) in &rows {
                    li data-entry="" {
                        @match last {
                            Some(last) => (Look::of_run(&last.run).icon()),
                            None => (Look::Skipped.icon()),
                        }
                        div.what {
                            a.title href={ "/" (name) } data-open="" { (name) }
                            p.about { (repo.default_branch) (state(repo)) }
                        }
                        @match last {
                            Some(last) => (parts::when(last.run.created)),
                            None => span.quiet { "never ran" },
                        }
                    }
                }
            }
        }
    };
    let page = Page { title: "Repositories", section: Section::Repositories, live: None, body };
    Ok(page.show(&visitor))
}

fn state(repo: &Repository) -> Markup {
    html! {
        @if !repo.enabled { " " span.tag { "disabled" } }
        @if let Some(paused) = &repo.paused { " " span.tag { "paused: " (paused) } }
    }
}

/// The head of all pages of a repository.
pub(super) fn head(name: &str, tab: &str) -> Markup {
    let tabs = [
        ("", "overview", "Overview"),
        ("/actions", "runs", "Runs"),
        ("/caches", "caches", "Caches"),
        ("/settings", "settings", "Settings"),
    ];
    html! {
        div.head { h1 { (name) } }
        nav.tabs aria-label="Repository" {
            @for (path, own, word) in tabs {
                a href={ "/" (name) (path) } aria-current=[(own == tab).then_some("page")] { (word) }
            }
        }
    }
}

async fn workflows_of(app: &App, repo: &Repository) -> Answer<Vec<Workflow>> {
    let (scope, id) = (Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        workflows::list(tx, scope, id, Piece::first(Piece::LARGEST)).await
    };
    Ok(app.store.read(work).await?)
}

pub(super) async fn one(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<Name>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let workflows = workflows_of(&app, &row).await?;
    let filter = RunFilter { repo: Some(row.id), ..RunFilter::default() };
    let latest = runs::list(&app, &visitor.caller, filter, Piece::first(RUNS)).await?;
    let body = html! {
        (head(&name, "overview"))
        @if let Some(paused) = &row.paused { p.notice { "Paused: " (paused) } }
        @if !row.enabled { p.notice { "Disabled: it starts no runs." } }
        section aria-labelledby="workflows-title" {
            h2 #workflows-title { "Workflows" }
            @if workflows.is_empty() { p.calm { "None has been seen yet; the first trigger brings them." } } @else {
                ul.workflows { @for workflow in &workflows { (workflow_row(&name, workflow)) } }
            }
        }
        section #latest data-part="" aria-labelledby="latest-title" {
            h2 #latest-title { "Latest runs" }
            @if latest.is_empty() { p.calm { "Nothing has run yet." } } @else { (super::runs::list(&latest, false)) }
        }
    };
    Ok(Page { title: &name, section: Section::Repositories, live: Some(0), body }.show(&visitor))
}

fn workflow_row(repo: &str, workflow: &Workflow) -> Markup {
    let file = workflow.path.rsplit('/').next().unwrap_or_default();
    html! {
        li data-entry="" {
            div.what {
                a.title href={ "/" (repo) "/actions/workflows/" (file) } data-open="" { (workflow.name) }
                p.about { code { (workflow.path) } @if !workflow.enabled { " " span.tag { "disabled" } } }
            }
            a.quiet href={ "/" (repo) "/actions?workflow=" (file) } { (parts::count(usize::try_from(workflow.runs).unwrap_or(0), "run", "runs")) }
        }
    }
}

pub(super) async fn settings(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<Name>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let found = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let shown = repos::shown(&found);
    let grants = visitor.caller.grants();
    let may = |right| grants.allow(right, Some(found.0.org)).is_ok();
    let badge = badge::address(&app, &name);
    let body = html! {
        (head(&name, "settings"))
        dl.facts.tall {
            div { dt { "Source" } dd { code { (shown.source) } } }
            div { dt { "Default branch" } dd { code { (shown.default_branch) } } }
            div { dt { "Runs" } dd { @if shown.enabled { "start when something happens" } @else { "do not start: it is disabled" } } }
        }
        @if may(Right::Write) { (pausing(&visitor, &name, shown.paused.as_deref())) }
        @if may(Right::Admin) {
            section.card.stack {
                h2 { "Starting runs" }
                p { @if shown.enabled { "A disabled repository starts no runs; what it ran stays." } @else { "It starts no runs now." } }
                (button(&visitor, &name, if shown.enabled { ("disable", "Disable") } else { ("enable", "Enable") }))
            }
        }
        section.card.stack {
            h2 { "Badge" }
            p { img src=(badge) alt="How the last run on the default branch ended"; }
            pre { "![build](" (app.config.public_url) (badge) ")" }
            p.quiet { "Whoever has this address sees the badge, and nothing else. Add " code { "&branch=…" } " or " code { "&workflow=…" } " for others." }
        }
    };
    let title = format!("Settings of {name}");
    Ok(Page { title: &title, section: Section::Repositories, live: None, body }.show(&visitor))
}

fn button(visitor: &Visitor, name: &str, (what, word): (&str, &str)) -> Markup {
    html! {
        form method="post" action={ "/" (name) "/settings/" (what) } {
            (form_token(visitor))
            button type="submit" { (word) }
        }
    }
}

fn pausing(visitor: &Visitor, name: &str, paused: Option<&str>) -> Markup {
    html! {
        section.card.stack {
            h2 { "Pause" }
            @if let Some(reason) = paused {
                p { "Its jobs wait: " (reason) }
                (button(visitor, name, ("resume", "Resume")))
            } @else {
                p { "Jobs of a paused repository wait; those that run go on." }
                form.row method="post" action={ "/" (name) "/settings/pause" } {
                    (form_token(visitor))
                    label { span { "Reason, shown to those who wait" } input name="reason" required maxlength="200"; }
                    button type="submit" { "Pause" }
                }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change {
    reason: String,
}

pub(super) async fn change(
    State(app): State<Shared>,
    Path((owner, repo, what)): Path<(String, String, String)>,
    Posted { visitor, form }: Posted<Change>,
) -> Shown<Response> {
    let (name, caller) = (format!("{owner}/{repo}"), &visitor.caller);
    match what.as_str() {
        "pause" => pause::pause(&app, caller, What::Repo(name.clone()), form.reason).await?,
        "resume" => pause::resume(&app, caller, What::Repo(name.clone())).await?,
        "enable" | "disable" => {
            repos::set_enabled(&app, caller, &name, what == "enable").await?;
        }
        _ => return Err(Failure::not_found("button").into()),
    }
    Ok(Redirect::to(&format!("/{name}/settings")).into_response())
}
