//! The log as it grows: rows in small batches.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use kiln_proto::live::Message;
use serde::Deserialize;
use serde_json::json;

use super::rows::{self, Past, Row};
use super::{Place, find_job, read};
use crate::app::Shared;
use crate::http::error::Failure;
use crate::service::jobs::Seen;
use crate::service::log::live::{self, From, Seat, Told};
use crate::service::log::room::Part;
use crate::service::runs::{self, Named};
use crate::web::failure::Shown;
use crate::web::live::UNBUFFERED;
use crate::web::visitor::Visitor;

const ALIVE: Duration = Duration::from_secs(15);
/// After so long a browser has to come again: its session may have ended.
const LONGEST: Duration = Duration::from_mins(5);
/// How many lines are one event at most.
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
    let (run, job) = find_job(&app, &visitor, &place).await?;
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let text = seen.unwrap_or(&which.after);
    let after: Option<Seat> = if text.is_empty() {
        None
    } else {
        Some(text.parse().map_err(|()| Failure::invalid("`after` is `claim-line`"))?)
    };
    let from = From { after, ..From::default() };
    let messages = live::follow(Shared::clone(&app), &job, from).await?;
    let past = match after {
        Some(seat) => read::past(&app, &job, seat.claim, seat.line.saturating_add(1)).await?,
        None => Past::default(),
    };
    let teller = Teller { app, run, job, past };
    // What cannot be read is not passed over: the page comes again, and goes on where it was.
    let viewer = Box::new((teller, Box::pin(messages)));
    let events = stream::unfold(viewer, async |mut viewer| {
        let (teller, messages) = &mut *viewer;
        let events = teller.events_of(messages.next().await?.ok()?).await;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), viewer))
    });
    let events = events.flatten().take_until(tokio::time::sleep(LONGEST));
    let answer = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE));
    Ok((UNBUFFERED, answer).into_response())
}

/// Draws what comes for one viewer.
struct Teller {
    app: Shared,
    run: Named,
    /// As it was when a step last began to print.
    job: Seen,
    past: Past,
}

impl Teller {
    async fn events_of(&mut self, told: Told) -> Vec<Event> {
        match told {
            Told::Lines(part) => {
                self.look(&part).await;
                let rows: Vec<Row> =
                    part.lines().map(|(number, line)| self.past.draw(number, &line)).collect();
                rows.chunks(TOGETHER).filter_map(|rows| self.lines(&part, rows)).collect()
            }
            Told::Message(seat, Message::Restarted { attempt }) => {
                self.past = Past::default();
                vec![named("restarted", seat, json!({ "claim": attempt }).to_string())]
            }
            Told::Message(seat, Message::JobComplete { conclusion, .. }) => {
                vec![named("complete", seat, json!({ "conclusion": conclusion }).to_string())]
            }
            // The page looks at its steps itself, whenever the run has changed.
            Told::Message(..) => Vec::new(),
        }
    }

    /// Where a step begins, the job is read again: it may not have had that step before. Should that fail, the
    /// step is called by its number until the page asks again.
    async fn look(&mut self, part: &Part) {
        let begins = part.lines().any(|(_, line)| self.past.is_before(line.step));
        let Some(id) = self.job.id.filter(|_| begins) else { return };
        if let Ok(job) = runs::job_of(&self.app, &self.run, id).await {
            self.job = job;
        }
    }

    fn lines(&self, part: &Part, rows: &[Row]) -> Option<Event> {
        let (first, last) = (rows.first()?.number, rows.last()?.number);
        let html = rows::show_by_block(&self.job, rows);
        let data = json!({ "first": first, "last": last, "html": html }).to_string();
        Some(named("lines", Some(part.seat(last)), data))
    }
}

fn named(name: &str, seat: Option<Seat>, data: String) -> Event {
    let event = Event::default().event(name).data(data);
    match seat {
        Some(seat) => event.id(seat.to_string()),
        None => event,
    }
}
