//! Logs as they grow, and what is in them.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json as Reply;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message as Frame, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, Stream, StreamExt as _, stream};
use kiln_core::access::Right;
use kiln_proto::api::LogMatches;
use kiln_proto::live::{LiveEvent, Message};
use kiln_store::Scope;
use kiln_store::runs::LoggedJob;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::jobs::{job_id, steps};
use super::params::{OfLive, OfSearch};
use super::runs::run_id;
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::jobs::Seen;
use crate::service::log::Matcher;
use crate::service::log::live::{self, From, Told};
use crate::service::log::search::{self, Place, Query};
use crate::service::{repos, runs};

/// How often a stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);
/// Room for what is heard from and said to a viewer's socket before it is passed on.
const HEARD: usize = 1 << 10;
const SAID: usize = 8 << 10;
const USUAL: usize = 100;
const MOST: usize = 1_000;
const MOST_CONTEXT: u64 = 10;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(follow))
        .routes(routes!(search_job))
        .routes(routes!(search_run))
        .routes(routes!(search_repo))
}

/// What a job prints, as it prints it
///
/// A stream of events (`log_line`, `step_status`, `restarted`, `job_complete`) that goes on after `Last-Event-ID`, or
/// the same messages on a WebSocket if the request asks for an upgrade.
#[utoipa::path(
    get, path = "/api/jobs/{job}/log/live", tag = "runs",
    params(("job" = String, Path), OfLive, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 101, description = "A WebSocket, in which each text is a message", body = Message),
        (status = 200, body = LiveEvent, content_type = "text/event-stream"),
        Problems,
    )
)]
async fn follow(
    State(app): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(which): Params<OfLive>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let (_, job) = runs::job(&app, &caller, Right::Read, job_id(&job)?).await?;
    live(app, &job, &which, &headers, upgrade).await
}

/// The answer with a log that is followed, also at document A's address.
pub(in crate::http) async fn live(
    app: Shared,
    job: &Seen,
    which: &OfLive,
    headers: &HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let after = text("last-event-id").or(which.after.as_deref());
    let wrong = |()| Failure::invalid("what was seen last is `attempt-line`, such as `1-145`");
    let from = From {
        claim: which.attempt,
        after: after.map(|seat| seat.parse().map_err(wrong)).transpose()?,
        line: which.from_line,
        tail: which.tail,
    };
    let messages = live::follow(Shared::clone(&app), job, from).await?;
    if let Ok(upgrade) = upgrade {
        same_origin(&app, headers)?;
        let busy = || Failure::unavailable("too many watch logs at the moment; try again");
        let seat = app.tails.seat().ok_or_else(busy)?;
        // Viewers have nothing to say; the usual buffers have room for 128 KiB, and are filled with zeros.
        let upgrade = upgrade.read_buffer_size(HEARD).max_message_size(HEARD);
        return Ok(upgrade.write_buffer_size(SAID).on_upgrade(async move |socket| {
            talk(app, socket, messages).await;
            drop(seat);
        }));
    }
    let asked = text(header::UPGRADE.as_str()).unwrap_or_default();
    if asked.eq_ignore_ascii_case("websocket") {
        return Err(Failure::bad_request("this is no request for a WebSocket of version 13"));
    }
    let events = stream::unfold(Box::pin(messages), async |mut messages| {
        let events = match timeout(ALIVE, messages.next()).await {
            // What cannot be read is not passed over: the client comes again, and goes on where it was.
            Ok(told) => told?.ok()?.events(),
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(events), messages))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// Browsers let any page open a WebSocket anywhere; only our own pages may read logs.
fn same_origin(app: &App, headers: &HeaderMap) -> Answer<()> {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if origin == app.config.public_url || (host.is_some() && host == text(header::HOST)) {
        return Ok(());
    }
    Err(Failure::forbidden("a page of another site must not follow logs"))
}

/// Sends messages until they end, or nobody takes them.
async fn talk(
    app: Shared,
    mut socket: WebSocket,
    messages: impl Stream<Item = std::io::Result<Told>>,
) {
    let too_slow = app.tails.too_slow();
    let mut messages = std::pin::pin!(messages);
    let mut alive = interval(ALIVE);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            told = messages.next() => match told {
                Some(Ok(told)) => timeout(too_slow, send(&mut socket, told.events())).await,
                Some(Err(_)) => return,
                None => break,
            },
            frame = socket.recv() => match frame {
                Some(Ok(_)) => continue,
                _ => return,
            },
            _ = alive.tick() => {
                timeout(too_slow, async { socket.send(Frame::Ping(Bytes::new())).await.is_ok() }).await
            }
            () = app.stopping.cancelled() => break,
        };
        if sent != Ok(true) {
            return;
        }
    }
    let _ = timeout(too_slow, socket.send(Frame::Close(None))).await;
}

/// Whether all of it went out.
async fn send(socket: &mut WebSocket, events: Bytes) -> bool {
    for message in live::messages_of(&events) {
        let Ok(text) = message.try_into() else { return false };
        if socket.feed(Frame::Text(text)).await.is_err() {
            return false;
        }
    }
    socket.flush().await.is_ok()
}

impl OfSearch {
    fn query(&self) -> Answer<Query> {
        let (regex, ignore_case) = (self.regex.unwrap_or(false), self.ignore_case.unwrap_or(false));
        let matcher = Matcher::new(&self.q, regex, ignore_case);
        let spot = |text: &String| {
            text.parse().map_err(|()| Failure::invalid("`after` is not the `next` of an answer"))
        };
        Ok(Query {
            matcher: matcher.map_err(|why| Failure::invalid(format!("q: {why}")))?,
            steps: steps(self.step.as_deref())?,
            context: self.context.unwrap_or_default().min(MOST_CONTEXT),
            limit: self.limit.unwrap_or(USUAL).clamp(1, MOST),
            after: self.after.as_ref().map(spot).transpose()?,
            attempt: self.attempt,
            patience: search::PATIENCE,
        })
    }
}

/// Search in the log of a job
#[utoipa::path(
    get, path = "/api/jobs/{job}/log/search", tag = "runs",
    params(("job" = String, Path), OfSearch),
    responses((status = 200, body = LogMatches), Problems)
)]
async fn search_job(
    State(app): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(which): Params<OfSearch>,
) -> Answer<Reply<LogMatches>> {
    let (_, job) = runs::job(&app, &caller, Right::Read, job_id(&job)?).await?;
    let query = which.query()?;
    let (attempt, claims) = (job.run_attempt, job.claim);
    let job = job.logged().map(|id| LoggedJob { id, name: job.name, attempt, claims });
    let places = job.iter().flat_map(Place::of);
    let is_meant = |place: &Place| which.attempt.is_none_or(|claim| place.log.claim == claim);
    let places = places.filter(is_meant).collect();
    search::in_logs(&app, places, query).await.map(Reply)
}

/// Search in the logs of all jobs of a run
#[utoipa::path(
    get, path = "/api/runs/{run}/log/search", tag = "runs",
    params(("run" = String, Path), OfSearch),
    responses((status = 200, body = LogMatches), Problems)
)]
async fn search_run(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    Params(which): Params<OfSearch>,
) -> Answer<Reply<LogMatches>> {
    let named = runs::find(&app, &caller, Right::Read, run_id(&run)?).await?;
    let query = which.query()?;
    let places =
        search::of_run(&app, Scope::Org(named.run.org), named.run.id, query.attempt).await?;
    search::in_logs(&app, places, query).await.map(Reply)
}

/// Search in the logs of all runs of a repository, the newest first
#[utoipa::path(
    get, path = "/api/repos/{owner}/{repo}/log/search", tag = "repositories",
    params(("owner" = String, Path), ("repo" = String, Path), OfSearch),
    responses((status = 200, body = LogMatches), Problems)
)]
async fn search_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    Params(which): Params<OfSearch>,
) -> Answer<Reply<LogMatches>> {
    let (repo, _) = repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    let query = which.query()?;
    search::in_repo(&app, Scope::Org(repo.org), repo.id, query).await.map(Reply)
}
