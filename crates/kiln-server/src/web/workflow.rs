//! A workflow: its file with what is wrong in it, its runs, and the form that starts it.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::plan::{Input, InputKind, Template};
use kiln_core::value::Value;
use kiln_store::Page as Piece;
use kiln_store::directory::repositories::Repository;
use kiln_store::runs::RunFilter;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::service::trigger::{self, Ask};
use crate::service::{repos, runs};
use crate::sources::{Location, SourceError, Workflow};

const RUNS: u32 = 10;
/// A file of a workflow is not larger.
const LARGEST: usize = 1 << 20;
/// What stands before the names of inputs in the form.
const INPUT: &str = "input.";

type Place = (String, String, String);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    #[serde(rename = "ref")]
    reference: String,
}

/// A file of a commit, as it is and as Kiln understands it.
struct File {
    text: String,
    path: String,
    name: String,
    is_dispatched: bool,
    inputs: Vec<Input>,
    problem: Option<String>,
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo, file)): Path<Place>,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let chosen = which.reference.trim();
    let branch = if chosen.is_empty() { row.default_branch.clone() } else { chosen.to_owned() };
    let read = read(&app, &row, &branch, &file).await?;
    let filter = RunFilter {
        repo: Some(row.id),
        workflow_named: Some(file.clone()),
        ..RunFilter::default()
    };
    let latest = runs::list(&app, &visitor.caller, filter, Piece::first(RUNS)).await?;
    if latest.is_empty() && read.is_err() {
        return Err(Failure::not_found("workflow").into());
    }
    let may_start = visitor.caller.grants().allow(Right::Write, Some(row.org)).is_ok();
    let title = read.as_ref().map_or_else(|_| file.clone(), |file| file.name.clone());
    let here = format!("/{name}/actions/workflows/{}", encoded(&file));
    let body = html! {
        div.head { div {
            p.crumbs { a href={ "/" (name) } { (name) } span aria-hidden="true" { "/" } span { "Workflows" } }
            h1 { (title) }
        } }
        @match &read {
            Ok(file) => {
                @if file.is_dispatched && may_start { (form(&visitor, &here, &branch, file)) }
                @if let Some(problem) = &file.problem {
                    div.notice.bad role="alert" { p { "The file cannot be used:" } pre { (problem) } }
                }
            }
            Err(reason) => p.notice { (reason) },
        }
        section #latest data-part="" aria-labelledby="latest-title" {
            h2 #latest-title { "Latest runs" }
            @if latest.is_empty() { p.calm { "It has not run yet." } } @else { (super::runs::list(&latest, false)) }
            p { a href={ "/" (name) "/actions?workflow=" (encoded(&file)) } { "All its runs" } }
        }
        @if let Ok(file) = &read { (source(file, &branch)) }
    };
    Ok(Page { title: &title, section: Section::Repositories, live: None, body }.show(&visitor))
}

/// The file, or in words why it cannot be shown.
async fn read(
    app: &App,
    repo: &Repository,
    branch: &str,
    file: &str,
) -> Answer<Result<File, String>> {
    let Some(source) = repo.clone_url.clone() else {
        return Ok(Err("The repository has no source.".to_owned()));
    };
    if branch.starts_with('-') || branch.len() > 255 {
        return Err(Failure::invalid("that is no branch"));
    }
    match look(app, Location { id: repo.id.0, source }, branch.to_owned(), file).await {
        Ok(Some(file)) => Ok(Ok(file)),
        Ok(None) => Ok(Err(format!("There is no such file on {branch}."))),
        Err(SourceError::NotFound(_)) => Ok(Err(format!("There is no branch or tag {branch}."))),
        Err(error) => Ok(Err(format!("The repository cannot be read now: {error}."))),
    }
}

async fn look(
    app: &App,
    location: Location,
    branch: String,
    file: &str,
) -> Result<Option<File>, SourceError> {
    let place = location.clone();
    let commit = app.workflows.ask(move |sources| sources.resolve(&place, &branch)).await?.commit;
    let snapshot = app.workflows.at(&location, &commit).await?;
    let Some(found) = snapshot.files.iter().find(|own| own.file_name() == file) else {
        return Ok(None);
    };
    let paths = vec![found.path.clone()];
    let texts =
        app.workflows.ask(move |sources| sources.read(&location, &commit, &paths, LARGEST)).await?;
    let text = texts.into_iter().next().flatten().unwrap_or_default();
    Ok(Some(understood(found, &text)))
}

fn understood(found: &Workflow, text: &[u8]) -> File {
    let inputs = found.plan.as_ref().ok().map(|plan| plan.root().dispatch_inputs.clone());
    File {
        text: String::from_utf8_lossy(text).into_owned(),
        path: found.path.clone(),
        name: found.name.clone(),
        is_dispatched: found.plan.is_ok()
            && found.triggers.iter().any(|trigger| &*trigger.event == "workflow_dispatch"),
        inputs: inputs.unwrap_or_default(),
        problem: found.plan.as_ref().err().cloned(),
    }
}

/// The lines that the problem names, by `path:line:`.
fn wrong_lines(file: &File) -> Vec<usize> {
    let Some(problem) = &file.problem else { return Vec::new() };
    let start = format!("{}:", file.path);
    let places = problem.split(start.as_str()).skip(1);
    places.filter_map(|rest| rest.split(':').next()?.parse().ok()).collect()
}

fn source(file: &File, branch: &str) -> Markup {
    let wrong = wrong_lines(file);
    html! {
        section aria-labelledby="file-title" {
            h2 #file-title { code { (file.path) } " on " (branch) }
            div.source tabindex="0" role="region" aria-labelledby="file-title" {
                @for (at, line) in file.text.lines().enumerate() {
                    div.l.error[wrong.contains(&(at + 1))] id={ "S" (at + 1) } {
                        a.n href={ "#S" (at + 1) } data-n=(at + 1) aria-label={ "Line " (at + 1) } {}
                        span.t { (line) }
                    }
                }
            }
        }
    }
}

fn form(visitor: &Visitor, here: &str, branch: &str, file: &File) -> Markup {
    html! {
        details.card.dispatch #dispatch {
            summary { "Start it by hand" }
            form.stack method="post" action={ (here) "/dispatch" } {
                (form_token(visitor))
                label { span { "Branch or tag" } input name="ref" value=(branch) required maxlength="255"; }
                @for input in &file.inputs { (field(input)) }
                div { button.primary type="submit" { "Start" } }
            }
        }
    }
}

/// A field of the type that the file declares.
fn field(input: &Input) -> Markup {
    let name = format!("{INPUT}{}", input.name);
    let default = default_of(input);
    let about = html! {
        span { (input.description.as_deref().unwrap_or(&input.name))
            @if input.required { " " abbr title="required" { "*" } } }
    };
    html! {
        @match &input.kind {
            InputKind::Boolean => {
                // What is not ticked is not sent: then this counts.
                input type="hidden" name=(name) value="false";
                label.tick { input type="checkbox" name=(name) value="true" checked[default == "true"]; (about) }
            }
            InputKind::Choice(options) => label { (about)
                select name=(name) required[input.required] {
                    @for option in options { option value=(option) selected[*option == default] { (option) } }
                }
            },
            kind => label { (about)
                input name=(name) value=(default) required[input.required]
                    inputmode=[(*kind == InputKind::Number).then_some("decimal")];
            },
        }
    }
}

fn default_of(input: &Input) -> String {
    match &input.default {
        Some(Template::Literal(value)) => text_of(value),
        _ => String::new(),
    }
}

/// A default as a form has it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
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
        .filter_map(|(key, value)| Some((key.strip_prefix(INPUT)?.to_owned(), value)))
        .collect();
    let ask = Ask {
        workflow: Some(file),
        event: Some("workflow_dispatch".to_owned()),
        reference: reference.filter(|reference| !reference.is_empty()),
        inputs: inputs.into_iter().collect(),
        strict: true,
        ..Ask::default()
    };
    let outcome = trigger::trigger(&app, &visitor.caller, &name, ask).await?;
    let run = outcome.started.first().map(|started| started.run);
    let run = run.ok_or_else(|| Failure::invalid("the dispatch started nothing"))?;
    Ok(Redirect::to(&format!("/{name}/actions/runs/{run}")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_problem_names_are_marked() {
        let file = File {
            text: String::new(),
            path: "a/ci.yml".to_owned(),
            name: String::new(),
            is_dispatched: false,
            inputs: Vec::new(),
            problem: Some("a/ci.yml:4:5: no\n  x\na/ci.yml:12:1: also".to_owned()),
        };
        assert_eq!(wrong_lines(&file), [4, 12]);
    }
}
