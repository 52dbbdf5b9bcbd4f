//! About one job: its log, its events, its end.

use axum::Json as JsonAnswer;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use kiln_proto::problem::Problem;
use kiln_proto::report::{Complete, Completed, Ended, Ends, Events, GiveBack, Heard, Stored};
use serde::Deserialize;

use super::who::{Caller, OfJob};
use crate::app::Shared;
use crate::http::error::Answer;
use crate::http::extract::{Body, Json, OptionalJson, Query};
use crate::http::routes::{Routes, routes};
use crate::service::report;

/// The most bytes of a log in one request.
const LOG: usize = 4 << 20;
/// The most bytes of events, and of a last word with its outputs, in one request.
const WORDS: usize = 8 << 20;

pub(super) fn routes() -> Routes {
    let log = Routes::new().routes(routes!(append)).layer(DefaultBodyLimit::max(LOG));
    let words = Routes::new()
        .routes(routes!(events))
        .routes(routes!(complete))
        .routes(routes!(complete_all))
        .routes(routes!(give_back))
        .layer(DefaultBodyLimit::max(WORDS));
    log.merge(words)
}

#[derive(Debug, Deserialize)]
struct Offset {
    from: u64,
}

/// Add to the log of a job
///
/// What the server has is skipped; a gap is 409 with the offset that it wants.
#[utoipa::path(
    put,
    path = "/actions/jobs/{id}/attempts/{attempt}/log",
    tag = "runners",
    params(
        ("id" = i64, Path, description = "The job"),
        ("attempt" = u32, Path, description = "The claim"),
        ("from" = u64, Query, description = "The offset in the log at which the body begins, in bytes"),
    ),
    request_body(content = String, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = Stored),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "A gap, or the job is not this runner's any more", body = Problem),
        (status = 413, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn append(
    State(app): State<Shared>,
    OfJob(access): OfJob,
    Query(Offset { from }): Query<Offset>,
    Body(bytes): Body,
) -> Answer<JsonAnswer<Stored>> {
    report::append(&app, access, from, bytes).await.map(JsonAnswer)
}

/// Say what happened in a job
///
/// Numbered from 1 without gaps; what the server has heard is skipped.
#[utoipa::path(
    post,
    path = "/actions/jobs/{id}/attempts/{attempt}/events",
    tag = "runners",
    params(
        ("id" = i64, Path, description = "The job"),
        ("attempt" = u32, Path, description = "The claim"),
    ),
    request_body = Events,
    responses(
        (status = 200, body = Heard),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "A gap, or the job is not this runner's any more", body = Problem),
        (status = 413, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn events(
    State(app): State<Shared>,
    OfJob(access): OfJob,
    Json(said): Json<Events>,
) -> Answer<JsonAnswer<Heard>> {
    report::events(&app, access, said).await.map(JsonAnswer)
}

/// Say how a job ended
///
/// 409 names what has not arrived yet. Repeating it has the same answer.
#[utoipa::path(
    post,
    path = "/actions/jobs/{id}/attempts/{attempt}/complete",
    tag = "runners",
    params(
        ("id" = i64, Path, description = "The job"),
        ("attempt" = u32, Path, description = "The claim"),
    ),
    request_body = Complete,
    responses(
        (status = 200, body = Completed),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "Something is missing, or the job is not this runner's any more", body = Problem),
        (status = 413, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn complete(
    State(app): State<Shared>,
    OfJob(access): OfJob,
    Json(said): Json<Complete>,
) -> Answer<JsonAnswer<Completed>> {
    report::complete(&app, access, said).await.map(JsonAnswer)
}

/// Say how several jobs ended
///
/// For a runner of which several jobs end at the same time. An end that is not heard is answered with null: told alone,
/// its answer says why.
#[utoipa::path(
    post,
    path = "/actions/runners/{id}/jobs/complete",
    tag = "runners",
    params(("id" = i64, Path, description = "The runner")),
    request_body = Ends,
    responses(
        (status = 200, body = Ended),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 413, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn complete_all(
    State(app): State<Shared>,
    Caller(member): Caller,
    Json(said): Json<Ends>,
) -> Answer<JsonAnswer<Ended>> {
    report::complete_all(&app, member.runner.id, said).await.map(JsonAnswer)
}

/// Give a job back that was not begun
#[utoipa::path(
    post,
    path = "/actions/jobs/{id}/attempts/{attempt}/return",
    tag = "runners",
    params(
        ("id" = i64, Path, description = "The job"),
        ("attempt" = u32, Path, description = "The claim"),
    ),
    request_body = GiveBack,
    responses(
        (status = 204, description = "It is in the queue again"),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "It has begun, or is not this runner's any more", body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn give_back(
    State(app): State<Shared>,
    OfJob(access): OfJob,
    OptionalJson(said): OptionalJson<GiveBack>,
) -> Answer<StatusCode> {
    report::give_back(&app, access, &said.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}
