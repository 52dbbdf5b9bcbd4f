//! Settings of a repository: what is set, and the buttons that change it.

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_proto::api;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::repositories::Repository;
use maud::{Markup, html};
use serde::Deserialize;

use super::badge;
use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::repos::head;
use super::visitor::{Posted, Visitor};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::pause::{self, What};
use crate::service::repos;
use crate::service::settings;

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<(String, String)>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let found = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let shown = repos::shown(&found);
    let grants = visitor.caller.grants();
    let may = |right| grants.allow(right, Some(found.0.org)).is_ok();
    let (may_write, may_administer) = (may(Right::Write), may(Right::Admin));
    let set = if may_write { Some(Set::of(&app, &found.0).await?) } else { None };
    let badge = badge::address(&app, &name);
    let body = html! {
        (head(&name, "settings"))
        dl.facts.tall {
            div { dt { "Source" } dd { code { (shown.source) } } }
            div { dt { "Default branch" } dd { code { (shown.default_branch) } } }
            div { dt { "Runs" } dd { @if shown.enabled { "start when something happens" } @else { "do not start: it is disabled" } } }
        }
        @if may_administer { (default_branch(&visitor, &name, &shown)) }
        @if let Some(set) = &set { (set.show()) }
        @if may_write { (pausing(&visitor, &name, shown.paused.as_deref())) }
        @if may_administer { (starting(&visitor, &name, shown.enabled)) }
        section.card.stack {
            h2 { "Badge" }
            p { img src=(badge) alt="How the last run on the default branch ended"; }
            pre { "![build](" (app.config.public_url) (badge) ")" }
            p.quiet { "Whoever has this address sees the badge, and nothing else. Add " code { "&branch=…" } " or " code { "&workflow=…" } " for others." }
        }
        @if may_administer { (removal(&visitor, &name)) }
    };
    let title = format!("Settings of {name}");
    Ok(Page { title: &title, section: Section::Repositories, live: None, body }.show(&visitor))
}

/// Names of what jobs are given. Values of variables are not shown, either: they are seen by whoever needs them.
struct Set {
    secrets: Vec<String>,
    variables: Vec<String>,
    /// Of the organization.
    secrets_above: Vec<String>,
    variables_above: Vec<String>,
}

impl Set {
    async fn of(app: &App, repo: &Repository) -> Answer<Self> {
        let (own, above) = ((repo.org, Holder::Repo(repo.id)), (repo.org, Holder::Org(repo.org)));
        let secrets = async |whose| {
            let all = settings::secrets(app, whose).await?;
            Ok::<_, Failure>(all.into_iter().map(|secret| secret.name).collect::<Vec<_>>())
        };
        let variables = async |whose| {
            let all = settings::variables(app, whose).await?;
            Ok::<_, Failure>(all.into_iter().map(|variable| variable.name).collect::<Vec<_>>())
        };
        Ok(Self {
            secrets: secrets(own).await?,
            variables: variables(own).await?,
            secrets_above: secrets(above).await?,
            variables_above: variables(above).await?,
        })
    }

    fn show(&self) -> Markup {
        let lists = [
            ("Secrets", &self.secrets),
            ("Secrets of the organization", &self.secrets_above),
            ("Variables", &self.variables),
            ("Variables of the organization", &self.variables_above),
        ];
        html! {
            section #set.card.stack aria-labelledby="set-title" {
                h2 #set-title { "Secrets and variables" }
                @for (title, names) in lists {
                    div {
                        p.quiet { (title) }
                        @if names.is_empty() { p { "none" } } @else {
                            p.labels { @for name in names { code { (name) } } }
                        }
                    }
                }
                p.quiet { "Values of secrets are for jobs alone." }
            }
        }
    }
}

fn default_branch(visitor: &Visitor, name: &str, shown: &api::Repo) -> Markup {
    html! {
        section.card.stack {
            h2 { "Default branch" }
            p { "Its workflows are started by schedules and by what comes without a branch; all runs may read its caches." }
            form.row method="post" action={ "/" (name) "/settings/default-branch" } {
                (form_token(visitor))
                label { span { "Branch" } input name="branch" value=(shown.default_branch) required maxlength="255"; }
                button type="submit" { "Change" }
            }
        }
    }
}

fn starting(visitor: &Visitor, name: &str, enabled: bool) -> Markup {
    let order = if enabled { ("disable", "Disable") } else { ("enable", "Enable") };
    html! {
        section.card.stack {
            h2 { "Starting runs" }
            p { @if enabled { "A disabled repository starts no runs; what it ran stays." } @else { "It starts no runs now." } }
            (button(visitor, name, order))
        }
    }
}

fn removal(visitor: &Visitor, name: &str) -> Markup {
    html! {
        section.card.stack {
            h2 { "Removal" }
            p { "Removes it from Kiln with its workflows, secrets and variables, once its runs, caches and artifacts are gone. "
                "The source stays as it is." }
            form.row method="post" action={ "/" (name) "/settings/remove" } {
                (form_token(visitor))
                label { span { "Write " code { (name) } " to confirm" } input name="confirm" required autocomplete="off"; }
                button.danger type="submit" { "Remove" }
            }
        }
    }
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
    branch: String,
    confirm: String,
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
        "default-branch" => repos::set_default_branch(&app, caller, &name, &form.branch).await?,
        "remove" => {
            // Whoever may not even see it hears nothing about names.
            repos::find(&app, caller, Right::Admin, &name).await?;
            if form.confirm.trim() != name {
                return Err(Failure::invalid("what was written is not its name").into());
            }
            repos::remove(&app, caller, &name).await?;
            return Ok(Redirect::to("/repositories").into_response());
        }
        _ => return Err(Failure::not_found("button").into()),
    }
    Ok(Redirect::to(&format!("/{name}/settings")).into_response())
}
