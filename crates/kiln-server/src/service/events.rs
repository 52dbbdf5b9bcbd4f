//! What happened, as pages and as streams.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{Stream, stream};
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_proto::api;
use kiln_store::directory::organizations;
use kiln_store::events::{self, Cursor, EventKind, Filter, StoredEvent};
use kiln_store::{Scope, Signal, StoreError, Tx};

use super::runs::{self, FIND};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::bus::Listener;
use crate::http::error::{Answer, Failure};

/// How many events are read at once.
const PIECE: u32 = 500;
/// How long a stream trusts hints before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Whose events somebody may follow.
#[derive(Debug, Clone, Copy)]
pub struct Channel {
    scope: Scope,
    filter: Filter,
}

/// The events of one run.
pub async fn of_run(app: &App, caller: &Caller, run: RunId) -> Answer<Channel> {
    let named = runs::find(app, caller, Right::Read, run).await?;
    Ok(Channel { scope: Scope::Org(named.run.org), filter: Filter::Run(run) })
}

/// The events of an organization, or of everything that the caller sees.
pub async fn of_owner(app: &App, caller: &Caller, owner: Option<String>) -> Answer<Channel> {
    if let Some(owner) = owner {
        let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
        let org = app.store.read(work).await?.id;
        let scope = caller.require(Right::Read, Some(org), "organization")?;
        return Ok(Channel { scope, filter: Filter::Org(org) });
    }
    match caller.scopes(Right::Read).as_slice() {
        [scope @ Scope::System(_)] => Ok(Channel { scope: *scope, filter: Filter::All }),
        [scope @ Scope::Org(org)] => Ok(Channel { scope: *scope, filter: Filter::Org(*org) }),
        [] => Err(Failure::forbidden("you belong to no organization")),
        _ => Err(Failure::invalid("you belong to several organizations: say `owner`")),
    }
}

/// A page of events after a cursor.
pub async fn page(app: &App, channel: Channel, after: Cursor, limit: u32) -> Answer<Piece> {
    Ok(read(app, channel, after, limit).await?)
}

/// Some events, and where to go on.
#[derive(Debug)]
pub struct Piece {
    pub events: Vec<api::Event>,
    pub next: Cursor,
    pub more: bool,
}

async fn read(app: &App, channel: Channel, after: Cursor, limit: u32) -> Result<Piece, StoreError> {
    let Channel { scope, filter } = channel;
    let work = async move |tx: &mut Tx<'_>| events::read(tx, scope, filter, after, limit).await;
    let page = app.store.read(work).await?;
    let last = page.events.len();
    // Only the end of a page is a place to go on from; what is before it comes again.
    let cursor = |at: usize| if at + 1 == last { page.next } else { after };
    let events = page.events.iter().enumerate();
    let events = events.map(|(at, stored)| shown(stored, cursor(at))).collect();
    Ok(Piece { events, next: page.next, more: page.more })
}

fn shown(stored: &StoredEvent, cursor: Cursor) -> api::Event {
    let (kind, detail) = words(&stored.event.kind);
    api::Event {
        cursor: cursor.to_string(),
        at: stored.at.rfc3339(),
        kind,
        run_id: stored.event.run.0,
        attempt: stored.event.attempt,
        job_id: stored.event.job.map(|job| job.0),
        detail,
    }
}

/// The word of an event and what it carries.
fn words(kind: &EventKind) -> (String, serde_json::Value) {
    let empty = || serde_json::Value::Object(serde_json::Map::new());
    if let EventKind::Other { kind, payload } = kind {
        let detail = payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
        return (kind.clone(), detail.unwrap_or_else(empty));
    }
    let mut value = serde_json::to_value(kind).unwrap_or_default();
    let word = value["kind"].as_str().unwrap_or_default().to_owned();
    let detail = value.get_mut("payload").map(serde_json::Value::take);
    (word, detail.unwrap_or_else(empty))
}

/// Events as they happen, until the server stops or the database fails; whoever follows comes back with
/// the last cursor.
pub fn follow(
    app: Shared,
    channel: Channel,
    after: Cursor,
) -> impl Stream<Item = api::Event> + Send + 'static {
    let follower =
        Follower { ear: app.bus.listen(), app, channel, after, ready: VecDeque::new(), more: true };
    stream::unfold(follower, async |mut follower| {
        let event = follower.next().await?;
        Some((event, follower))
    })
}

struct Follower {
    app: Shared,
    channel: Channel,
    after: Cursor,
    ready: VecDeque<api::Event>,
    ear: Listener,
    more: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<api::Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.more {
                self.wait().await?;
            }
            let piece = read(&self.app, self.channel, self.after, PIECE).await;
            match piece {
                Ok(piece) => {
                    self.after = piece.next;
                    self.more = piece.more;
                    self.ready.extend(piece.events);
                }
                Err(error) => {
                    tracing::warn!(%error, "events cannot be read; the stream ends");
                    return None;
                }
            }
        }
    }

    /// Until there may be more; none when the server stops.
    async fn wait(&mut self) -> Option<()> {
        let only = match self.channel.filter {
            Filter::Run(run) => Some(run),
            _ => None,
        };
        let concerns = |signal| match (signal, only) {
            (Signal::Run(run), Some(only)) => run == only,
            (Signal::Run(_), None) => true,
            _ => false,
        };
        tokio::select! {
            () = self.app.stopping.cancelled() => None,
            () = self.ear.until(concerns) => Some(()),
            () = tokio::time::sleep(LOOK_AGAIN) => Some(()),
        }
    }
}
