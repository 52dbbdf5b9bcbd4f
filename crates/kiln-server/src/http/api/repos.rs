//! Repositories, and what starts runs of them.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_core::value::Object;
use kiln_proto::api;
use kiln_proto::headers::IDEMPOTENCY_KEY;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page::{Paging, piece};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::service::names::RepoName;
use crate::service::trigger::{self, Ask, Outcome, Started};
use crate::service::{repos, runs};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, disable))
        .routes(routes!(enable))
        .routes(routes!(start))
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

/// Starts no runs from now on; what it ran stays.
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
        ("Idempotency-Key" = Option<String>, Header, description = "The same key makes no second run within a day"),
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
    };
    let outcome = trigger::trigger(&app, &caller, &format!("{owner}/{repo}"), ask).await?;
    let name = RepoName { owner, name: repo };
    Ok((StatusCode::CREATED, Reply(shown(&app, &name, outcome))))
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
