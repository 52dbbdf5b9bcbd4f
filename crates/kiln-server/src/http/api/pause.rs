//! Queues, and what is paused: the server, a queue, a repository.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::QueueId;
use kiln_proto::api;

use super::page::{Paging, piece};
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::pause::{self, What};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(paused, pause_server, resume_server))
        .routes(routes!(pause_queue, resume_queue))
        .routes(routes!(pause_repo, resume_repo))
        .routes(routes!(queues))
}

fn queue_id(text: &str) -> Answer<QueueId> {
    text.parse().map_err(|_| Failure::not_found("queue"))
}

/// What is paused, with the reasons.
#[utoipa::path(
    get, path = "/api/pause", tag = "queues",
    responses((status = 200, body = api::Paused), Problems)
)]
async fn paused(State(app): State<Shared>, caller: Caller) -> Answer<Reply<api::Paused>> {
    pause::paused(&app, &caller).await.map(Reply)
}

/// Hands out no jobs at all; those that run go on.
#[utoipa::path(
    put, path = "/api/pause", tag = "queues", request_body = api::Pause,
    responses((status = 204), Problems)
)]
async fn pause_server(
    State(app): State<Shared>,
    caller: Caller,
    Json(asked): Json<api::Pause>,
) -> Answer<StatusCode> {
    pause::pause(&app, &caller, What::Server, asked.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/api/pause", tag = "queues", responses((status = 204), Problems))]
async fn resume_server(State(app): State<Shared>, caller: Caller) -> Answer<StatusCode> {
    pause::resume(&app, &caller, What::Server).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hands out no jobs with these requirements.
#[utoipa::path(
    put, path = "/api/queues/{id}/pause", tag = "queues", params(("id" = String, Path)),
    request_body = api::Pause, responses((status = 204), Problems)
)]
async fn pause_queue(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Json(asked): Json<api::Pause>,
) -> Answer<StatusCode> {
    pause::pause(&app, &caller, What::Queue(queue_id(&id)?), asked.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(
    delete, path = "/api/queues/{id}/pause", tag = "queues", params(("id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn resume_queue(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    pause::resume(&app, &caller, What::Queue(queue_id(&id)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hands out no jobs of a repository.
#[utoipa::path(
    put, path = "/api/repos/{owner}/{repo}/pause", tag = "queues",
    params(("owner" = String, Path), ("repo" = String, Path)),
    request_body = api::Pause, responses((status = 204), Problems)
)]
async fn pause_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    Json(asked): Json<api::Pause>,
) -> Answer<StatusCode> {
    pause::pause(&app, &caller, What::Repo(format!("{owner}/{repo}")), asked.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(
    delete, path = "/api/repos/{owner}/{repo}/pause", tag = "queues",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 204), Problems)
)]
async fn resume_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<StatusCode> {
    pause::resume(&app, &caller, What::Repo(format!("{owner}/{repo}"))).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets of requirements, and how much waits for each.
#[utoipa::path(
    get, path = "/api/queues", tag = "queues", params(Paging),
    responses((status = 200, body = api::Page<api::Queue>), Problems)
)]
async fn queues(
    State(app): State<Shared>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<api::Queue>>> {
    let page = paging.page()?;
    let queues = pause::queues(&app, &caller, page).await?;
    Ok(Reply(piece(queues, page, |queue| queue.id)))
}
