//! From a few letters to a page: repositories, workflows, runs and the pages of the bar. The palette of `palette.js` asks
//! here, and whoever has no JavaScript looks at it as it is.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_store::directory::places::{self, Place};
use kiln_store::runs::{Look as Glance, RunFilter};
use kiln_store::{StoreError, Tx};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{PLACES, Page, Section};
use super::parts::{self, Look};
use super::visitor::Visitor;
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::percent::encoded;
use crate::service::runs::{self, Named};

/// How many of each kind are offered.
const OFFERED: u32 = 6;
/// How many runs are looked at: somebody waits for the answer at every letter.
const LOOKED: u32 = 2_000;
/// What is longer is no name.
const LONGEST: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
}

/// A page that one can go to.
struct Target {
    kind: &'static str,
    href: String,
    name: String,
    about: String,
    look: Option<Look>,
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Shown<Html<String>> {
    let text: String = asked.q.trim().chars().take(LONGEST).collect();
    let targets = targets(&app, &visitor.caller, &text).await?;
    let body = html! {
        div.head { h1 { "Jump to" } }
        form.filter method="get" action="/jump" role="search" aria-label="Jump to" {
            label.wide { span { "A repository, workflow, run or page" }
                input #search type="search" name="q" value=(text) placeholder="name, branch or number   /" autofocus;
            }
            div.do { button type="submit" { "Find" } }
        }
        section #found aria-label="Pages" {
            @if targets.is_empty() {
                (parts::empty("Nothing is called so", &html! { "Fewer letters find more." }))
            } @else {
                ul.waits { @for target in &targets { (row(target)) } }
            }
        }
    };
    Ok(Page { title: "Jump to", section: Section::None, live: None, body }.show(&visitor))
}

fn row(target: &Target) -> Markup {
    html! {
        li data-entry="" {
            @if let Some(look) = target.look { (look.icon()) }
            div.what {
                a.title href=(target.href) data-open="" data-kind=(target.kind) { (target.name) }
                @if !target.about.is_empty() { p.about { (target.about) } }
            }
            span.tag { (target.kind) }
        }
    }
}

/// What the text may mean, the likeliest first. Without one, where people go most.
async fn targets(app: &App, caller: &Caller, text: &str) -> Answer<Vec<Target>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut found = Vec::new();
    found.extend(numbered(app, caller, text).await?);
    found.extend(pages(&words));
    if !words.is_empty() {
        found.extend(named(app, caller, words).await?);
    }
    for run in titled(app, caller, text).await? {
        if found.iter().all(|target| target.href != run.href) {
            found.push(run);
        }
    }
    Ok(found)
}

/// The run that has this number or short name, for those who may see it.
async fn numbered(app: &App, caller: &Caller, text: &str) -> Answer<Option<Target>> {
    let Ok(id) = text.trim_start_matches('#').parse::<RunId>() else { return Ok(None) };
    match runs::find(app, caller, Right::Read, id).await {
        Ok(named) => Ok(Some(run(named))),
        Err(failure) if failure.status() == StatusCode::NOT_FOUND => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn pages(words: &[String]) -> impl Iterator<Item = Target> {
    let fits = |name: &str| words.iter().all(|word| name.to_lowercase().contains(word.as_str()));
    PLACES.iter().filter(move |(_, _, name)| fits(name)).map(|(_, href, name)| Target {
        kind: "page",
        href: (*href).to_owned(),
        name: (*name).to_owned(),
        about: String::new(),
        look: None,
    })
}

/// Repositories and workflows with these words.
async fn named(app: &App, caller: &Caller, words: Vec<String>) -> Answer<Vec<Target>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (mut repos, mut workflows) = (Vec::new(), Vec::new());
        for scope in &scopes {
            repos.extend(places::repositories(tx, *scope, &words, OFFERED).await?);
            workflows.extend(places::workflows(tx, *scope, &words, OFFERED).await?);
        }
        // As each organization has them: the shorter first.
        repos.sort_by_key(|place| place.repo.len());
        workflows.sort_by_key(|place| place.workflow.as_ref().map_or(0, |(_, name)| name.len()));
        repos.truncate(OFFERED as usize);
        workflows.truncate(OFFERED as usize);
        repos.append(&mut workflows);
        Ok::<_, StoreError>(repos)
    };
    Ok(app.store.read(work).await?.into_iter().map(place).collect())
}

fn place(place: Place) -> Target {
    let Place { repo, workflow } = place;
    let Some((path, name)) = workflow else {
        let href = format!("/{repo}");
        return Target { kind: "repository", href, name: repo, about: String::new(), look: None };
    };
    let file = path.rsplit('/').next().unwrap_or_default();
    let href = format!("/{repo}/actions/workflows/{}", encoded(file));
    Target { kind: "workflow", href, name, about: format!("{repo} · {file}"), look: None }
}

/// The newest runs whose title or branch has the text.
async fn titled(app: &App, caller: &Caller, text: &str) -> Answer<Vec<Target>> {
    let text = (!text.is_empty()).then(|| text.to_owned());
    let filter = RunFilter { text, ..RunFilter::default() };
    let look = Glance { from: None, newer: false, limit: OFFERED, most: LOOKED };
    let found = runs::sift(app, caller, filter, look).await?;
    Ok(found.runs.into_iter().map(run).collect())
}

fn run(named: Named) -> Target {
    let Named { run, repo, workflow, .. } = named;
    let branch = run.head_branch.as_ref().map(|branch| format!(" · {branch}")).unwrap_or_default();
    Target {
        kind: "run",
        href: format!("/{}/actions/runs/{}", repo.full(), run.id),
        about: format!("{} · {} #{}{branch}", repo.full(), workflow.name, run.number),
        look: Some(Look::of_run(&run)),
        name: run.title,
    }
}
