//! What workers of document E call: the same services as runners have, in its words.
//!
//! A worker builds apps. It gets jobs that ask for the feature `app-build` on a system that is one of its
//! platforms, and no others. The key counts when a worker registers; from then on its token says who it is.

use axum::Json as JsonAnswer;
use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::from_fn;
use kiln_proto::headers::{API_KEY, WORKER_TOKEN};
use kiln_proto::problem::Problem;
use kiln_proto::worker::{Poll, Register, Registered, Unregistered};

use super::runner::caller_of;
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::Json;
use crate::http::middleware;
use crate::http::routes::{Routes, routes};
use crate::service::{register, worker};

pub fn routes() -> Routes {
    // The key is checked after the body: one that never ends must not be waited for.
    let strangers =
        Routes::new().routes(routes!(register_worker)).layer(from_fn(middleware::in_time));
    Routes::new().merge(strangers).routes(routes!(poll)).routes(routes!(unregister_worker))
}

/// The registration key. Known before any body is read.
#[derive(Debug)]
struct Key(String);

impl FromRequestParts<Shared> for Key {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Answer<Self> {
        let key = word(&parts.headers, API_KEY);
        key.map(|key| Self(key.to_owned())).ok_or_else(|| {
            Failure::forbidden("the header `X-API-Key` is missing; it takes a registration key")
        })
    }
}

fn word<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// Register a worker
#[utoipa::path(
    post,
    path = "/api/workers/register",
    tag = "workers",
    params(("x-api-key" = String, Header, description = "A registration key")),
    request_body = Register,
    responses(
        (status = 200, body = Registered),
        (status = 403, description = "The key is missing, wrong, expired, used up or revoked", body = Problem),
        (status = 404, description = "There is no such worker, or the credential is not its own", body = Problem),
        (status = 422, description = "A field is missing or wrong", body = Problem),
    )
)]
async fn register_worker(
    State(app): State<Shared>,
    Key(key): Key,
    headers: HeaderMap,
    Json(mut asked): Json<Register>,
) -> Answer<JsonAnswer<Registered>> {
    if asked.credential.is_none() {
        asked.credential = word(&headers, WORKER_TOKEN).map(ToOwned::to_owned);
    }
    worker::register(&app, &key, asked).await.map(JsonAnswer)
}

/// Ask for a build
#[utoipa::path(
    get,
    path = "/api/workers/poll",
    tag = "workers",
    params(("x-worker-token" = String, Header, description = "The last access token")),
    responses(
        (status = 200, body = Poll),
        (status = 400, description = "The token is missing", body = Problem),
        (status = 401, description = "The token is wrong or too old", body = Problem),
        (status = 404, description = "There is no such worker any more", body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn poll(State(app): State<Shared>, headers: HeaderMap) -> Answer<JsonAnswer<Poll>> {
    if word(&headers, WORKER_TOKEN).is_none() && !headers.contains_key("authorization") {
        return Err(Failure::bad_request("the header `X-Worker-Token` is missing"));
    }
    let member = caller_of(&app, &headers, None).await?;
    app.fleet.seen(member.runner.id);
    worker::poll(&app, member).await.map(JsonAnswer)
}

/// Unregister a worker
///
/// Its builds go back to the queue.
#[utoipa::path(
    post,
    path = "/api/workers/unregister",
    tag = "workers",
    params(("x-worker-token" = String, Header, description = "The last access token")),
    responses(
        (status = 200, body = Unregistered),
        (status = 401, description = "The token is missing, wrong or too old", body = Problem),
        (status = 404, description = "There is no such worker any more", body = Problem),
        (status = 429, body = Problem),
    )
)]
async fn unregister_worker(
    State(app): State<Shared>,
    headers: HeaderMap,
) -> Answer<JsonAnswer<Unregistered>> {
    let member = caller_of(&app, &headers, None).await?;
    let builds_reassigned = register::unregister(&app, member.runner.id).await?;
    Ok(JsonAnswer(Unregistered { success: true, builds_reassigned }))
}
