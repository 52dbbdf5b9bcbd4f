//! A picture that says how the last run ended, for READMEs.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::run::Conclusion;
use kiln_store::directory::repositories::{self, Repository};
use kiln_store::runs::{self, RunFilter, RunStatus};
use kiln_store::{Page as Piece, Scope, Tx};
use maud::html;
use serde::Deserialize;

use crate::app::{App, Shared};
use crate::auth::{Caller, session};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::percent::encoded;
use crate::service::repos;
use crate::service::runs::FIND;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(of_repo)).routes(routes!(of_workflow))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Lets those in who are not signed in; the settings of the repository show it.
    key: String,
    /// The default branch when it is left out.
    branch: Option<String>,
    /// Only runs of this event.
    event: Option<String>,
    /// The path, the file name or the name of a workflow; all of them when it is left out.
    workflow: Option<String>,
}

/// Where the badge of a repository is, for everybody who is told.
pub(super) fn address(app: &App, name: &str) -> String {
    let key = session::badge_key(&app.signer, name);
    format!("/{name}/badge.svg?key={}", encoded(&key))
}

/// How the last run of a repository ended, as a picture
///
/// For those who are signed in, and for those who have the key.
#[utoipa::path(
    get, path = "/{owner}/{repo}/badge.svg", tag = "badges",
    params(("owner" = String, Path), ("repo" = String, Path), Which),
    responses((status = 200, description = "A picture", body = String, content_type = "image/svg+xml"), Problems),
    security(())
)]
async fn of_repo(
    State(app): State<Shared>,
    Path((owner, repo)): Path<(String, String)>,
    Params(which): Params<Which>,
    headers: HeaderMap,
) -> Answer<Response> {
    drawn(&app, &headers, format!("{owner}/{repo}"), which).await
}

/// How the last run of a workflow ended, as a picture
///
/// It is where GitHub has it. The key is that of the repository.
#[utoipa::path(
    get, path = "/{owner}/{repo}/actions/workflows/{file}/badge.svg", tag = "badges",
    params(("owner" = String, Path), ("repo" = String, Path), ("file" = String, Path), Which),
    responses((status = 200, description = "A picture", body = String, content_type = "image/svg+xml"), Problems),
    security(())
)]
async fn of_workflow(
    State(app): State<Shared>,
    Path((owner, repo, file)): Path<(String, String, String)>,
    Params(which): Params<Which>,
    headers: HeaderMap,
) -> Answer<Response> {
    let which = Which { workflow: Some(file), ..which };
    drawn(&app, &headers, format!("{owner}/{repo}"), which).await
}

async fn drawn(app: &Shared, headers: &HeaderMap, name: String, which: Which) -> Answer<Response> {
    let repo = find(app, headers, name, &which.key).await?;
    let filter = RunFilter {
        repo: Some(repo.id),
        workflow_named: which.workflow,
        branch: which.branch.or(Some(repo.default_branch)),
        event: which.event,
        status: Some(RunStatus::Completed),
        ..RunFilter::default()
    };
    let scope = Scope::Org(repo.org);
    let work = async move |tx: &mut Tx<'_>| runs::search(tx, scope, &filter, Piece::first(1)).await;
    let last = app.store.read(work).await?.into_iter().next();
    let end = last.and_then(|run| run.conclusion);
    let (word, colour) = match end.map(Conclusion::github) {
        Some("success") => ("passing", "#2e7d4f"),
        Some("failure" | "startup_failure" | "timed_out") => ("failing", "#b3261e"),
        Some("skipped") => ("skipped", "#6b6560"),
        Some(_) => ("cancelled", "#6b6560"),
        None => ("no runs", "#6b6560"),
    };
    let kind = (header::CONTENT_TYPE, "image/svg+xml");
    let keep = (header::CACHE_CONTROL, "max-age=60");
    Ok(([kind, keep], picture("build", word, colour)).into_response())
}

/// The repository, for those who have its key and for those who may see it.
async fn find(app: &Shared, headers: &HeaderMap, name: String, key: &str) -> Answer<Repository> {
    if session::check_badge(&app.signer, &name, key) {
        let work = async move |tx: &mut Tx<'_>| repositories::by_name(tx, FIND, &name).await;
        return Ok(app.store.read(work).await?);
    }
    let caller = Caller::of_session(headers, app, None).await?;
    let caller = caller.ok_or_else(|| Failure::not_found("badge"))?;
    Ok(repos::find(app, &caller, Right::Read, &name).await?.0)
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
