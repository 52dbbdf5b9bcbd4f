//! Between jobs: registration, claims, heartbeats, the end.

use axum::Json as JsonAnswer;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use kiln_proto::headers::{ACCESS_TOKEN, QUEUE_SIZE};
use kiln_proto::job::Job;
use kiln_proto::problem::Problem;
use kiln_proto::runner::{
    Claim, Heartbeat, HeartbeatAnswer, Jobs, Register, Registered, Unregistered,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::who::Caller;
use crate::app::{App, Shared};
use crate::fleet::Member;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, OptionalJson};
use crate::http::middleware;
use crate::http::routes::{Routes, routes};
use crate::service;

pub(super) fn routes() -> Routes {
    // Whoever registers has not said yet who they are: a body that never ends must not be waited for.
    let strangers = Routes::new().routes(routes!(register)).layer(from_fn(middleware::in_time));
    Routes::new()
        .merge(strangers)
        .routes(routes!(unregister))
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
}

/// Register a runner
///
/// With a registration key a new runner, with `id` and `credential` one that comes back.
#[utoipa::path(
    post,
    path = "/api/runners/register",
    tag = "runners",
    request_body = Register,
    responses(
        (status = 200, body = Registered),
        (status = 403, description = "The key is wrong, expired, used up or revoked, or the pool does not admit such runners", body = Problem),
        (status = 404, description = "There is no such runner, or the credential is not its own", body = Problem),
        (status = 409, description = "The pool has a runner of that name", body = Problem),
        (status = 422, description = "A field is missing or wrong", body = Problem),
        (status = 426, description = "The runner is too old", body = Problem),
    )
)]
async fn register(State(app): State<Shared>, Json(asked): Json<Register>) -> Answer<Response> {
    let registered = service::register::register(&app, asked).await?;
    Ok(JsonAnswer(registered).into_response())
}

/// Unregister a runner
///
/// Its jobs go back to the queue.
#[utoipa::path(
    post,
    path = "/api/runners/{id}/unregister",
    tag = "runners",
    params(("id" = i64, Path, description = "The runner")),
    responses(
        (status = 200, body = Unregistered),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn unregister(
    State(app): State<Shared>,
    Caller(member): Caller,
) -> Answer<JsonAnswer<Unregistered>> {
    let jobs_returned = service::register::unregister(&app, member.runner.id).await?;
    Ok(JsonAnswer(Unregistered { jobs_returned }))
}

/// What a claim gives: one job, or several to a runner that wants several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Given {
    One(Box<Job>),
    Several(Jobs),
}

/// Claim a job
///
/// A long poll. Both answers bring a fresh access token and the size of the queue in headers. With a `want` of more than one,
/// the answer is an object with `jobs`: as many as there are, but one while other runners wait for the same work.
#[utoipa::path(
    post,
    path = "/actions/runners/{id}/jobs/claim",
    tag = "runners",
    params(("id" = i64, Path, description = "The runner")),
    request_body = Claim,
    responses(
        (status = 200, body = Given),
        (status = 204, description = "There was none in time"),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn claim(
    State(app): State<Shared>,
    Caller(member): Caller,
    Json(asked): Json<Claim>,
) -> Answer<Response> {
    let id = member.runner.id;
    app.fleet.seen(id);
    let wants_several = asked.want > 1;
    let mut jobs = service::claim::claim(&app, member, asked).await?;
    // It may have changed while it waited. Boxed, as what comes after the wait is not to be waited with.
    let member = Box::pin(app.fleet.member(id)).await?;
    let given = if wants_several && !jobs.is_empty() {
        Some(Given::Several(Jobs { jobs }))
    } else {
        jobs.pop().map(|job| Given::One(Box::new(job)))
    };
    let none = || StatusCode::NO_CONTENT.into_response();
    let answer = given.map_or_else(none, |given| JsonAnswer(given).into_response());
    Box::pin(with_token(&app, &member, answer)).await
}

/// Adds what every answer to a poll has.
async fn with_token(app: &App, member: &Member, mut answer: Response) -> Answer<Response> {
    let token = service::register::access_token(app, member.runner.id, member.runner.epoch);
    let size = app.fleet.queue_size(member, member.queues()).await?;
    let token = HeaderValue::try_from(token).map_err(Failure::internal)?;
    let headers = answer.headers_mut();
    headers.insert(HeaderName::from_static(ACCESS_TOKEN), token);
    headers.insert(HeaderName::from_static(QUEUE_SIZE), size.into());
    Ok(answer)
}

/// Say what a runner has
///
/// Renews its leases. The answer comes when there is a command that is new to the runner, or after
/// `wait` seconds.
#[utoipa::path(
    post,
    path = "/actions/runners/{id}/heartbeat",
    tag = "runners",
    params(("id" = i64, Path, description = "The runner")),
    request_body = Heartbeat,
    responses(
        (status = 200, body = HeartbeatAnswer),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 422, body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn heartbeat(
    State(app): State<Shared>,
    Caller(member): Caller,
    OptionalJson(said): OptionalJson<Heartbeat>,
) -> Answer<JsonAnswer<HeartbeatAnswer>> {
    service::heartbeat::heartbeat(&app, &member, said).await.map(JsonAnswer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, F>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Q5: thousands wait in it.
    #[test]
    fn a_runner_that_waits_takes_little_room() {
        assert!(size(claim) <= 1_400, "{}", size(claim));
    }
}
