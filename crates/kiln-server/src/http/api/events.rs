//! What happened: a page of it, or all of it as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use kiln_proto::api;
use kiln_store::events::Cursor;

use super::params::OfOwner;
use super::runs::run_id;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::events::{self, Channel};

/// How often a stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);
const USUAL: u32 = 100;
const MOST: u32 = 1_000;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(all)).routes(routes!(of_run))
}

/// What happened in all runs. With `Accept: text/event-stream` it is a stream, which goes on after
/// `Last-Event-ID`.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    params(OfOwner, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = api::Page<api::Event>), Problems)
)]
async fn all(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Params(which): Params<OfOwner>,
) -> Answer<Response> {
    let channel = events::of_owner(&app, &caller, which.owner.clone()).await?;
    answer(app, channel, &headers, &which).await
}

/// What happened in one run, as a page or as a stream.
#[utoipa::path(
    get, path = "/api/runs/{run}/events", tag = "events",
    params(("run" = String, Path), OfOwner, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = api::Page<api::Event>), Problems)
)]
async fn of_run(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    headers: HeaderMap,
    Params(which): Params<OfOwner>,
) -> Answer<Response> {
    let channel = events::of_run(&app, &caller, run_id(&run)?).await?;
    answer(app, channel, &headers, &which).await
}

async fn answer(
    app: Shared,
    channel: Channel,
    headers: &HeaderMap,
    which: &OfOwner,
) -> Answer<Response> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let last = text("last-event-id").map(str::to_owned);
    let after = match last.or_else(|| which.after.clone()) {
        Some(cursor) => cursor.parse::<Cursor>().map_err(Failure::from)?,
        None => Cursor::default(),
    };
    let accepts = text(header::ACCEPT.as_str()).unwrap_or_default();
    if accepts.contains("text/event-stream") {
        // A cursor that cannot be is refused before the stream begins.
        events::page(&app, channel, after, 1).await?;
        return Ok(stream(app, channel, after));
    }
    let limit = which.limit.unwrap_or(USUAL).clamp(1, MOST);
    let piece = events::page(&app, channel, after, limit).await?;
    let next = piece.more.then(|| piece.next.to_string());
    Ok(Reply(api::Page { items: piece.events, next }).into_response())
}

fn stream(app: Shared, channel: Channel, after: Cursor) -> Response {
    let events = events::follow(app, channel, after).map(|event| {
        let data = serde_json::to_string(&event).unwrap_or_default();
        let shown = Event::default().event(event.kind).id(event.cursor).data(data);
        Ok::<_, Infallible>(shown)
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}
