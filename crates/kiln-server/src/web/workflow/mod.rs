//! A workflow: its file with what is wrong in it, its runs, and the form that starts it.

mod form;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_store::directory::environments;
use kiln_store::directory::repositories::Repository;
use kiln_store::runs::RunFilter;
use kiln_store::{Page as Piece, Scope, Tx};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::service::runs::Named;
use crate::service::trigger::{self, Ask};
use crate::service::workflows::{self, File, Unreadable};
use crate::service::{repos, runs};
use form::{Offer, Sent};

const RUNS: u32 = 10;

type Place = (String, String, String);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    #[serde(rename = "ref")]
    reference: String,
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    page(&app, &visitor, place, &which.reference, None).await
}

/// The page, perhaps with a form that was sent and could not be used.
async fn page(
    app: &App,
    visitor: &Visitor,
    (owner, repo, file): Place,
    reference: &str,
    sent: Option<&Sent>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(app, &visitor.caller, Right::Read, &name).await?;
    let read = workflows::file_of(app, &row, &file, Some(reference)).await?;
    let filter = RunFilter {
        repo: Some(row.id),
        workflow_named: Some(file.clone()),
        ..RunFilter::default()
    };
    let latest = runs::list(app, &visitor.caller, filter, Piece::first(RUNS)).await?;
    if latest.is_empty() && read.is_err() {
        return Err(Failure::not_found("workflow").into());
    }
    let may_start = visitor.caller.grants().allow(Right::Write, Some(row.org)).is_ok();
    let (file_name, encoded_name) = (file.clone(), encoded(&file));
    let title = read.as_ref().map_or(file, |file| file.checked.workflow.name.clone());
    let here = format!("/{name}/actions/workflows/{encoded_name}");
    let chosen = match &read {
        Ok(file) => file.reference.as_str(),
        Err(_) if reference.trim().is_empty() => &row.default_branch,
        Err(_) => reference.trim(),
    };
    let environments = if may_start { environments_of(app, &row).await? } else { Vec::new() };
    let findings = read.as_ref().map(File::findings).unwrap_or_default();
    let body = html! {
        div.head {
            div {
                p.crumbs { a href={ "/" (name) } { (name) } span aria-hidden="true" { "/" } span { "Workflows" } }
                h1 { (title) }
            }
            @if let Ok(file) = &read { @if may_start { (switch(visitor, &here, file)) } }
        }
        (elsewhere(&here, chosen, &row, &latest))
        @match &read {
            Ok(file) => (about(visitor, &here, file, may_start.then_some((&environments[..], sent)))),
            Err(reason) => p.notice { (why(reason, chosen)) },
        }
        (source::verdict(&findings))
        section #latest data-part="" aria-labelledby="latest-title" {
            h2 #latest-title { "Latest runs" }
            @if latest.is_empty() { p.calm { "It has not run yet." } } @else { (super::runs::list(&latest, false)) }
            p { a href={ "/" (name) "/actions?workflow=" (encoded(&file_name)) } { "All its runs" } }
        }
        @if let Ok(file) = &read { (source::show(file, &findings)) }
    };
    let page = Page { title: &title, section: Section::Repositories, live: Some(0), body };
    Ok(page.show(visitor))
}

/// The names of the repository's environments.
async fn environments_of(app: &App, repo: &Repository) -> Answer<Vec<String>> {
    let (scope, id) = (Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        environments::list(tx, scope, id, Piece::first(Piece::LARGEST)).await
    };
    Ok(app.store.read(work).await?.into_iter().map(|one| one.name).collect())
}

/// Where else to look at it: another branch, tag or commit.
fn elsewhere(here: &str, chosen: &str, repo: &Repository, latest: &[Named]) -> Markup {
    let branches = latest.iter().filter_map(|named| named.run.head_branch.as_deref());
    let known: BTreeSet<&str> = branches.chain([repo.default_branch.as_str()]).collect();
    html! {
        form.row.reference method="get" action=(here) {
            label { span { "Branch, tag or commit" }
                input name="ref" value=(chosen) required maxlength="255" list="references" autocomplete="off";
            }
            datalist #references { @for branch in known { option value=(branch) {} } }
            button type="submit" { "Show" }
        }
    }
}

fn why(reason: &Unreadable, chosen: &str) -> String {
    match reason {
        Unreadable::NoSource => "The repository has no source.".to_owned(),
        Unreadable::NoSuchReference => format!("There is no branch, tag or commit {chosen}."),
        Unreadable::NoSuchFile => format!("There is no such file on {chosen}."),
        Unreadable::Broken(why) => format!("The repository cannot be read now: {why}."),
    }
}

/// The form that starts it, or why there is none. Whoever may start it brings environments, and what they sent before.
fn about(
    visitor: &Visitor,
    here: &str,
    file: &File,
    starter: Option<(&[String], Option<&Sent>)>,
) -> Markup {
    let workflow = &file.checked.workflow;
    let by_hand = workflow.triggers.iter().any(|trigger| &*trigger.event == "workflow_dispatch");
    html! {
        @if !file.is_enabled() {
            p.notice { "It is disabled and starts no runs." }
        } @else if let (true, Some((environments, sent)), Ok(plan)) = (by_hand, starter, &workflow.plan) {
            @let (reference, inputs) = (file.reference.as_str(), &plan.root().dispatch_inputs[..]);
            (form::show(visitor, here, &Offer { reference, inputs, environments, sent }))
        }
    }
}

/// What has never been triggered is not known yet, and cannot be disabled.
fn switch(visitor: &Visitor, here: &str, file: &File) -> Markup {
    let (order, word) =
        if file.is_enabled() { ("disable", "Disable") } else { ("enable", "Enable") };
    html! {
        @if file.row.is_some() {
            div.actions {
                form method="post" action={ (here) "/" (order) } {
                    (form_token(visitor))
                    button type="submit" title="A disabled workflow starts no runs; what it ran stays" { (word) }
                }
            }
        }
    }
}

/// The buttons.
pub(super) async fn order(
    State(app): State<Shared>,
    Path((owner, repo, file, order)): Path<(String, String, String, String)>,
    Posted { visitor, .. }: Posted<Vec<(String, String)>>,
) -> Shown<Response> {
    let name = format!("{owner}/{repo}");
    if !["enable", "disable"].contains(&order.as_str()) {
        return Err(Failure::not_found("button").into());
    }
    let enabled = order == "enable";
    workflows::set_enabled(&app, &visitor.caller, (&name, &file), enabled).await?;
    let here = format!("/{name}/actions/workflows/{}", encoded(&file));
    Ok(Redirect::to(&here).into_response())
}

pub(super) async fn dispatch(
    State(app): State<Shared>,
    Path((owner, repo, file)): Path<Place>,
    Posted { visitor, form }: Posted<Vec<(String, String)>>,
) -> Shown<Response> {
    let name = format!("{owner}/{repo}");
    let reference = form.iter().find(|(key, _)| key == "ref").map(|(_, value)| value.clone());
    // Of a name that comes twice the last one counts: the ticked box behind its hidden `false`.
    let inputs: BTreeMap<String, String> = form
        .into_iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(form::INPUT)?.to_owned(), value)))
        .collect();
    let ask = Ask {
        workflow: Some(file.clone()),
        event: Some("workflow_dispatch".to_owned()),
        reference: reference.clone().filter(|reference| !reference.is_empty()),
        inputs: inputs.clone().into_iter().collect(),
        strict: true,
        ..Ask::default()
    };
    let outcome = match trigger::trigger(&app, &visitor.caller, &name, ask).await {
        // What was typed is not lost: it comes back with what is wrong.
        Err(wrong) if wrong.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            let reference = reference.unwrap_or_default();
            let sent = Sent { reference, inputs, problem: wrong.detail().to_owned() };
            let place = (owner, repo, file);
            let page = page(&app, &visitor, place, &sent.reference, Some(&sent)).await?;
            return Ok((wrong.status(), page).into_response());
        }
        outcome => outcome?,
    };
    let run = outcome.started.first().map(|started| started.run);
    let run = run.ok_or_else(|| Failure::invalid("the dispatch started nothing"))?;
    Ok(Redirect::to(&format!("/{name}/actions/runs/{run}")).into_response())
}
