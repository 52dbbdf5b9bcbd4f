//! Hints for pages that something changed. What it is, the page asks for itself, as whoever looks at it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_store::Signal;
use serde::Deserialize;

use super::failure::Shown;
use super::visitor::Visitor;
use crate::app::Shared;
use crate::service::runs;

/// How often a stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);
/// After so long a browser has to come again: its session may have ended.
const LONGEST: Duration = Duration::from_mins(5);
/// Changes within this time are told once: a run of its own is watched closely, all of them from afar.
const CALM_OF_ONE: Duration = Duration::from_millis(150);
const CALM_OF_ALL: Duration = Duration::from_secs(1);

/// Proxies pass on what comes when it comes.
pub(super) const UNBUFFERED: [(HeaderName, &str); 1] =
    [(HeaderName::from_static("x-accel-buffering"), "no")];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    /// 0 for all.
    run: i64,
}

pub(super) async fn follow(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(which): Query<Which>,
) -> Shown<Response> {
    let only = (which.run > 0).then_some(RunId(which.run));
    if let Some(run) = only {
        runs::find(&app, &visitor.caller, Right::Read, run).await?;
    }
    let calm = if only.is_some() { CALM_OF_ONE } else { CALM_OF_ALL };
    let ear = app.bus.listen();
    let hints = stream::unfold((app, ear), move |(app, mut ear)| async move {
        let concerns = |signal| match signal {
            Signal::Run(run) => only.is_none_or(|only| only == run),
            Signal::Work(_) | Signal::Runner(_) => only.is_none(),
            _ => false,
        };
        tokio::select! {
            () = ear.until(concerns) => {}
            () = app.stopping.cancelled() => return None,
        }
        tokio::time::sleep(calm).await;
        let event = Event::default().event("changed").data("{}");
        Some((Ok::<_, Infallible>(event), (app, ear)))
    });
    let hints = hints.take_until(tokio::time::sleep(LONGEST));
    let answer = Sse::new(hints).keep_alive(KeepAlive::new().interval(ALIVE));
    Ok((UNBUFFERED, answer).into_response())
}
