//! Runners: who does the work, and what can be told to them.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::{JobId, RunnerId};
use kiln_proto::api;
use kiln_proto::history::RunnerJob;

use super::page::{Paging, piece};
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::runners::{self, Order};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(one, remove))
        .routes(routes!(jobs))
        .routes(routes!(drain))
        .routes(routes!(undrain))
        .routes(routes!(revoke))
}

fn runner_id(text: &str) -> Answer<RunnerId> {
    text.parse().map_err(|_| Failure::not_found("runner"))
}

/// Runners that the caller may see.
#[utoipa::path(
    get, path = "/api/runners", tag = "runners", params(Paging),
    responses((status = 200, body = api::Page<api::Runner>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<api::Runner>>> {
    let page = paging.page()?;
    let found = runners::list(&app, &caller, page).await?;
    Ok(Reply(piece(found, page, |runner| runner.id)))
}

#[utoipa::path(
    get, path = "/api/runners/{id}", tag = "runners", params(("id" = String, Path)),
    responses((status = 200, body = api::Runner), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<api::Runner>> {
    runners::one(&app, &caller, runner_id(&id)?).await.map(Reply)
}

/// What a runner has done, the newest first
///
/// Jobs of all runners are looked through for it, some thousands for each request: an answer may be short, or empty, and
/// have a `next` all the same.
#[utoipa::path(
    get, path = "/api/runners/{id}/jobs", tag = "runners", params(("id" = String, Path), Paging),
    responses((status = 200, body = api::Page<RunnerJob>), Problems)
)]
async fn jobs(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<RunnerJob>>> {
    let page = paging.page()?;
    let piece = (page.after.map(JobId), page.limit);
    runners::history(&app, &caller, runner_id(&id)?, piece).await.map(Reply)
}

/// Takes no more jobs; those it has go on.
#[utoipa::path(
    post, path = "/api/runners/{id}/drain", tag = "runners", params(("id" = String, Path)),
    responses((status = 200, body = api::Runner), Problems)
)]
async fn drain(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<api::Runner>> {
    runners::order(&app, &caller, runner_id(&id)?, Order::Drain).await.map(Reply)
}

/// Takes jobs again.
#[utoipa::path(
    post, path = "/api/runners/{id}/undrain", tag = "runners", params(("id" = String, Path)),
    responses((status = 200, body = api::Runner), Problems)
)]
async fn undrain(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<api::Runner>> {
    runners::order(&app, &caller, runner_id(&id)?, Order::Undrain).await.map(Reply)
}

/// Makes its access tokens useless; it has to show its credential.
#[utoipa::path(
    post, path = "/api/runners/{id}/revoke", tag = "runners", params(("id" = String, Path)),
    responses((status = 200, body = api::Runner), Problems)
)]
async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<api::Runner>> {
    runners::order(&app, &caller, runner_id(&id)?, Order::Revoke).await.map(Reply)
}

/// Sends it away for good. Its jobs go to others.
#[utoipa::path(
    delete, path = "/api/runners/{id}", tag = "runners", params(("id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    runners::remove(&app, &caller, runner_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
