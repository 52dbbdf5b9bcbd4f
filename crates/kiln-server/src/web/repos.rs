//! Repositories: which there are, and what one has.

use axum::extract::{Path, Query, State};
use axum::response::Html;
use kiln_core::access::Right;
use kiln_store::directory::repositories::Repository;
use kiln_store::directory::workflows::{self, Workflow};
use kiln_store::runs::{RunFilter, RunSummary};
use kiln_store::{Page as Piece, Scope, Tx};
use maud::{Markup, html};

use super::bars::{self, History};
use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts::{self, Look};
use super::sought::{ENTRIES, Sought};
use super::visitor::Visitor;
use crate::app::{App, Shared};
use crate::http::error::Answer;
use crate::service::{repos, runs};

/// How many runs the page of a repository shows.
const RUNS: u32 = 10;
/// How many of its workflows have bars.
const HISTORIES: u32 = 50;

type Name = (String, String);

pub(super) async fn list(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(sought): Query<Sought>,
) -> Shown<Html<String>> {
    let piece = (sought.after()?, ENTRIES);
    let (found, next) = repos::sift(&app, &visitor.caller, sought.text(), piece).await?;
    let last = repos::last_runs(&app, found.iter().map(|(repo, _)| repo.id).collect()).await?;
    let rows = found
        .iter()
        .map(|(repo, owner)| (repo, format!("{owner}/{}", repo.name), last.get(&repo.id)));
    let rows: Vec<_> = rows.collect();
    let body = html! {
        div.head { h1 { "Repositories" } }
        @if !(rows.is_empty() && sought.is_plain()) {
            (sought.form("/repositories", "Filter repositories", "owner/name"))
        }
        section #repos data-part="" aria-label="Repositories" {
            @if rows.is_empty() && !sought.is_plain() {
                (parts::empty("No repository fits", &html! { "Leave something out of the filter above." }))
            } @else if rows.is_empty() {
                (parts::empty("Kiln knows no repository yet", &html! {
                    "In a repository with workflows: " code { "kiln trigger --add" } "."
                }))
            } @else {
                ul.repos { @for (repo, name, last) in &rows { (repo_row(repo, name, *last)) } }
            }
            (sought.pages("/repositories", next))
        }
    };
    let page = Page { title: "Repositories", section: Section::Repositories, live: Some(0), body };
    Ok(page.show(&visitor))
}

fn repo_row(repo: &Repository, name: &str, last: Option<&RunSummary>) -> Markup {
    html! {
        li data-entry="" {
            @match last {
                Some(last) => (Look::of_run(last).icon()),
                None => (Look::Skipped.icon()),
            }
            div.what {
                a.title href={ "/" (name) } data-open="" { (name) }
                p.about { (repo.default_branch) (state(repo)) }
            }
            @match last {
                Some(last) => (parts::when(last.created)),
                None => span.quiet { "never ran" },
            }
        }
    }
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
        ("/logs", "logs", "Logs"),
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
    let histories = bars::histories(&app, &visitor, Some(row.id), HISTORIES).await?;
    let filter = RunFilter { repo: Some(row.id), ..RunFilter::default() };
    let latest = runs::list(&app, &visitor.caller, filter, Piece::first(RUNS)).await?;
    let body = html! {
        (head(&name, "overview"))
        @if let Some(paused) = &row.paused { p.notice { "Paused: " (paused) } }
        @if !row.enabled { p.notice { "Disabled: it starts no runs." } }
        section #workflows data-part="" aria-labelledby="workflows-title" {
            h2 #workflows-title { "Workflows" }
            @if workflows.is_empty() { p.calm { "None has been seen yet; the first trigger brings them." } } @else {
                ul.workflows {
                    @for workflow in &workflows {
                        (workflow_row(&name, workflow, histories.iter().find(|own| own.is_of(workflow.id))))
                    }
                }
            }
        }
        section #latest data-part="" aria-labelledby="latest-title" {
            h2 #latest-title { "Latest runs" }
            @if latest.is_empty() { p.calm { "Nothing has run yet." } } @else { (super::runs::list(&latest, false)) }
        }
    };
    Ok(Page { title: &name, section: Section::Repositories, live: Some(0), body }.show(&visitor))
}

fn workflow_row(repo: &str, workflow: &Workflow, history: Option<&History>) -> Markup {
    let file = workflow.path.rsplit('/').next().unwrap_or_default();
    html! {
        li data-entry="" {
            div.what {
                a.title href={ "/" (repo) "/actions/workflows/" (file) } data-open="" { (workflow.name) }
                p.about { code { (workflow.path) } @if !workflow.enabled { " " span.tag { "disabled" } } }
            }
            @if let Some(history) = history { (history.bars()) }
            a.quiet href={ "/" (repo) "/actions?workflow=" (file) } { (parts::count(usize::try_from(workflow.runs).unwrap_or(0), "run", "runs")) }
        }
    }
}
