//! Repositories, and what starts runs of them.

use std::time::Duration;

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_core::value::Object;
use kiln_proto::api;
use kiln_proto::headers::IDEMPOTENCY_KEY;
use kiln_proto::workflow::WorkflowFile;

use super::page::{Paging, piece};
use super::params::OfFile;
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::names::RepoName;
use crate::service::trigger::{self, Ask, Outcome, Started};
use crate::service::{repos, runs, workflows};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, add))
        .routes(routes!(one, change, disable))
        .routes(routes!(enable))
        .routes(routes!(start))
        .routes(routes!(file))
}

/// Repositories that the caller may see.
#[utoipa::path(
    get, path = "/api/repos", tag = "repositories", params(Paging),
    responses((status = 200, body = api::Page<api::Repo>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<api::Repo>>> {
    let page = paging.page()?;
    let found = repos::list(&app, &caller, page).await?;
    Ok(Reply(piece(found.iter().map(repos::shown).collect(), page, |repo| repo.id)))
}

/// Makes a repository known.
#[utoipa::path(
    post, path = "/api/repos", tag = "repositories", request_body = api::NewRepo,
    responses((status = 201, body = api::Repo), Problems)
)]
async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Json(new): Json<api::NewRepo>,
) -> Answer<(StatusCode, Reply<api::Repo>)> {
    let made = repos::add(&app, &caller, new).await?;
    Ok((StatusCode::CREATED, Reply(repos::shown(&made))))
}

#[utoipa::path(
    get, path = "/api/repos/{owner}/{repo}", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 200, body = api::Repo), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<Reply<api::Repo>> {
    let found = repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    Ok(Reply(repos::shown(&found)))
}

/// Changes its default branch, where it comes from, its shares, or whether it starts runs.
#[utoipa::path(
    patch, path = "/api/repos/{owner}/{repo}", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path)), request_body = api::ChangeRepo,
    responses((status = 200, body = api::Repo), Problems)
)]
async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    OptionalJson(wish): OptionalJson<api::ChangeRepo>,
) -> Answer<Reply<api::Repo>> {
    let changed = repos::change(&app, &caller, &format!("{owner}/{repo}"), wish).await?;
    Ok(Reply(repos::shown(&changed)))
}

/// Starts no runs from now on; what it ran stays. Adding it again brings it back.
#[utoipa::path(
    delete, path = "/api/repos/{owner}/{repo}", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 200, body = api::Repo), Problems)
)]
async fn disable(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<Reply<api::Repo>> {
    let found = repos::set_enabled(&app, &caller, &format!("{owner}/{repo}"), false).await?;
    Ok(Reply(repos::shown(&found)))
}

/// Starts runs again.
#[utoipa::path(
    post, path = "/api/repos/{owner}/{repo}/enable", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 200, body = api::Repo), Problems)
)]
async fn enable(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<Reply<api::Repo>> {
    let found = repos::set_enabled(&app, &caller, &format!("{owner}/{repo}"), true).await?;
    Ok(Reply(repos::shown(&found)))
}

/// Tells that something happened, which starts the workflows that listen to it.
#[utoipa::path(
    post, path = "/api/repos/{owner}/{repo}/trigger", tag = "repositories",
    params(
        ("owner" = String, Path), ("repo" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key makes no second run within a day; for another request it is refused"),
    ),
    request_body = api::Trigger,
    responses((status = 201, body = api::Triggered), Problems)
)]
async fn start(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    headers: HeaderMap,
    OptionalJson(asked): OptionalJson<api::Trigger>,
) -> Answer<(StatusCode, Reply<api::Triggered>)> {
    let ask = Ask {
        workflow: asked.workflow,
        event: asked.event,
        reference: asked.reference,
        sha: asked.sha,
        inputs: trigger::texts_of(asked.inputs)?,
        payload: payload(asked.payload)?,
        key: idempotency_key(&headers)?,
        strict: false,
        priority: asked.priority.unwrap_or_default(),
        within: asked.within.map(Duration::from_secs),
    };
    let outcome = trigger::trigger(&app, &caller, &format!("{owner}/{repo}"), ask).await?;
    let name = RepoName { owner, name: repo };
    Ok((StatusCode::CREATED, Reply(shown(&app, &name, outcome))))
}

/// The file of a workflow with what is wrong in it
///
/// `workflow_id` is its id, its path or the name of its file. Findings are those of `kiln lint`.
#[utoipa::path(
    get, path = "/api/repos/{owner}/{repo}/workflows/{workflow_id}/file", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path), OfFile),
    responses((status = 200, body = WorkflowFile), Problems)
)]
async fn file(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
    Params(which): Params<OfFile>,
) -> Answer<Reply<WorkflowFile>> {
    let name = format!("{owner}/{repo}");
    let which = which.reference.as_deref();
    workflows::file(&app, &caller, (&name, &workflow), which).await.map(Reply)
}

fn shown(app: &App, repo: &RepoName, outcome: Outcome) -> api::Triggered {
    let run = |started: Started| api::TriggeredRun {
        id: started.run.0,
        slug: started.run.slug(),
        workflow: started.workflow,
        existed: started.existed,
        url: runs::url(app, repo, started.run),
    };
    let runs = outcome.started.into_iter().map(run).collect();
    api::Triggered { runs, skipped: outcome.skipped }
}

fn payload(given: Option<serde_json::Value>) -> Answer<Object> {
    match given {
        None | Some(serde_json::Value::Null) => Ok(Object::new()),
        Some(value) => serde_json::from_value(value)
            .map_err(|error| Failure::invalid(format!("`payload` is not an object: {error}"))),
    }
}

/// By which the caller knows a request again.
pub(in crate::http) fn idempotency_key(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match key.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(Failure::invalid("`Idempotency-Key` is 1 to 255 visible characters")),
    }
}
