//! The log as it grows: rows in small batches.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use kiln_core::time::Timestamp;
use kiln_proto::live::{LogLine, Message};
use serde::Deserialize;
use serde_json::json;

use super::rows::{self, Row};
use super::{Place, find_job};
use crate::app::Shared;
use crate::http::error::Failure;
use crate::service::jobs::Seen;
use crate::service::log::live::{self, From, Seat, Told};
use crate::web::failure::Shown;
use crate::web::live::UNBUFFERED;
use crate::web::visitor::Visitor;

const ALIVE: Duration = Duration::from_secs(15);
/// After so long a browser has to come again: its session may have ended.
const LONGEST: Duration = Duration::from_mins(5);
/// How many lines go out together at most.
const TOGETHER: usize = 400;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct After {
    /// What the page has: `claim-line`.
    after: String,
}

pub(in crate::web) async fn follow(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
    Query(which): Query<After>,
    headers: HeaderMap,
) -> Shown<Response> {
    let (_, job) = find_job(&app, &visitor, &place).await?;
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let text = seen.unwrap_or(&which.after);
    let after: Option<Seat> = if text.is_empty() {
        None
    } else {
        Some(text.parse().map_err(|()| Failure::invalid("`after` is `claim-line`"))?)
    };
    let from = From { after, ..From::default() };
    let messages = live::follow(Shared::clone(&app), &job, from).await?;
    let batches = messages.ready_chunks(TOGETHER);
    let mut step = None;
    let events = batches.flat_map(move |batch| {
        futures_util::stream::iter(
            events_of(&job, &mut step, batch).into_iter().map(Ok::<_, Infallible>),
        )
    });
    let events = events.take_until(tokio::time::sleep(LONGEST));
    let answer = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE));
    Ok((UNBUFFERED, answer).into_response())
}

/// Lines in a row become one event.
fn events_of(job: &Seen, step: &mut Option<u32>, batch: Vec<std::io::Result<Told>>) -> Vec<Event> {
    let (mut events, mut rows, mut seat) = (Vec::new(), Vec::new(), None);
    for (place, message) in batch.into_iter().filter_map(Result::ok) {
        match message {
            Message::LogLine(line) => {
                seat = place.or(seat);
                rows.push(row(&line));
            }
            Message::Restarted { attempt } => {
                events.extend(lines(job, step, &std::mem::take(&mut rows), seat));
                *step = None;
                let data = json!({ "claim": attempt }).to_string();
                events.push(named("restarted", place, data));
            }
            Message::JobComplete { conclusion, .. } => {
                events.extend(lines(job, step, &std::mem::take(&mut rows), seat));
                let data = json!({ "conclusion": conclusion }).to_string();
                events.push(named("complete", None, data));
            }
            Message::StepStatus { .. } => {}
        }
    }
    events.extend(lines(job, step, &rows, seat));
    events
}

fn row(line: &LogLine) -> Row {
    let at = Timestamp::parse_rfc3339(&line.timestamp).unwrap_or_default();
    Row::new(line.line_number, line.step.saturating_sub(1), at.0, line.content.as_bytes())
}

fn lines(job: &Seen, step: &mut Option<u32>, rows: &[Row], seat: Option<Seat>) -> Option<Event> {
    let (first, last) = (rows.first()?.number, rows.last()?.number);
    let html = rows::show(job, *step, rows).into_string();
    *step = rows.last().map(|row| row.step);
    let data = json!({ "first": first, "last": last, "html": html }).to_string();
    Some(named("lines", seat, data))
}

fn named(name: &str, seat: Option<Seat>, data: String) -> Event {
    let event = Event::default().event(name).data(data);
    match seat {
        Some(seat) => event.id(seat.to_string()),
        None => event,
    }
}
