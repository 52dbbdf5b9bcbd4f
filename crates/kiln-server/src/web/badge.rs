//! A picture that says how the last run ended, for READMEs.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_store::directory::repositories;
use kiln_store::runs::{self, RunFilter, RunStatus};
use kiln_store::{Page as Piece, Scope, Tx};
use maud::html;
use serde::Deserialize;

use super::failure::Shown;
use crate::app::{App, Shared};
use crate::auth::{Caller, session};
use crate::http::error::Failure;
use crate::percent::encoded;
use crate::service::repos;
use crate::service::runs::FIND;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    /// Lets those in who are not signed in.
    key: String,
    branch: Option<String>,
    workflow: Option<String>,
}

/// Where the badge of a repository is, for everybody who is told.
pub(super) fn address(app: &App, name: &str) -> String {
    let key = session::badge_key(&app.signer, name);
    format!("/{name}/badge.svg?key={}", encoded(&key))
}

pub(super) async fn show(
    State(app): State<Shared>,
    Path((owner, repo)): Path<(String, String)>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Shown<Response> {
    let name = format!("{owner}/{repo}");
    let repo = if session::check_badge(&app.signer, &name, &which.key) {
        let work = async move |tx: &mut Tx<'_>| repositories::by_name(tx, FIND, &name).await;
        app.store.read(work).await?
    } else {
        let caller = Caller::of_session(&headers, &app, None).await?;
        let caller = caller.ok_or_else(|| Failure::not_found("badge"))?;
        repos::find(&app, &caller, Right::Read, &name).await?.0
    };
    let filter = RunFilter {
        repo: Some(repo.id),
        workflow_named: which.workflow,
        branch: which.branch.or(Some(repo.default_branch)),
        status: Some(RunStatus::Completed),
        ..RunFilter::default()
    };
    let scope = Scope::Org(repo.org);
    let work = async move |tx: &mut Tx<'_>| runs::search(tx, scope, &filter, Piece::first(1)).await;
    let last = app.store.read(work).await?.into_iter().next();
    let end = last.and_then(|run| run.conclusion);
    let (word, colour) = match end.map(kiln_core::run::Conclusion::github) {
        Some("success") => ("passing", "#2e7d4f"),
        Some("failure" | "startup_failure" | "timed_out") => ("failing", "#b3261e"),
        Some(_) => ("cancelled", "#6b6560"),
        None => ("no runs", "#6b6560"),
    };
    let kind = (header::CONTENT_TYPE, "image/svg+xml");
    let keep = (header::CACHE_CONTROL, "max-age=60");
    Ok(([kind, keep], picture("build", word, colour)).into_response())
}

/// Two words beside each other.
fn picture(left: &str, right: &str, colour: &str) -> String {
    let wide = |text: &str| 12 + 7 * text.len();
    let (one, two) = (wide(left), wide(right));
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(one + two) height="20" role="img" aria-label={ (left) ": " (right) } {
            title { (left) ": " (right) }
            clipPath id="r" { rect width=(one + two) height="20" rx="4" {} }
            g clip-path="url(#r)" {
                rect width=(one) height="20" fill="#44403c" {}
                rect x=(one) width=(two) height="20" fill=(colour) {}
            }
            g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle" {
                text x=(one / 2) y="14" { (left) }
                text x=(one + two / 2) y="14" { (right) }
            }
        }
    }
    .into_string()
}
