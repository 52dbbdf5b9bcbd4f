//! Tasks that failed too often and were put aside.

use axum::Json as Reply;
use axum::extract::State;
use kiln_proto::api;

use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::extract::OptionalJson;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::tasks;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(retry))
}

/// Tasks that failed too often and were put aside, the latest first.
#[utoipa::path(
    get, path = "/api/tasks", tag = "about",
    responses((status = 200, body = Vec<api::ParkedTask>), Problems)
)]
async fn list(State(app): State<Shared>, caller: Caller) -> Answer<Reply<Vec<api::ParkedTask>>> {
    tasks::parked(&app, &caller).await.map(Reply)
}

/// Tries them again, all or some of them, once their reason was mended.
#[utoipa::path(
    post, path = "/api/tasks/retry", tag = "about", request_body = Option<api::RetryTasks>,
    responses((status = 200, body = api::RetriedTasks), Problems)
)]
async fn retry(
    State(app): State<Shared>,
    caller: Caller,
    OptionalJson(which): OptionalJson<api::RetryTasks>,
) -> Answer<Reply<api::RetriedTasks>> {
    let retried = tasks::retry(&app, &caller, which.ids).await?;
    Ok(Reply(api::RetriedTasks { retried }))
}
