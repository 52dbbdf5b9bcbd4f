//! What all who follow one log on this server share: its newest lines, written once for all of them, and how far
//! its job is, asked for once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use kiln_core::id::JobId;
use kiln_proto::live::Message;
use kiln_proto::log::Line;
use kiln_store::runs::StepView;
use kiln_store::{StoreError, Tx, runs};
use tokio::time::Instant;

use super::cursor::{Cursor, Piece, Spot};
use super::live::{Seat, write_event};
use super::shape::told;
use super::watch::{Life, life};
use crate::app::Shared;
use crate::logs::index::Index;
use crate::logs::{LogError, LogId};
use crate::service::runs::FIND;

/// How many of the newest parts of a log are at hand. Whoever is further behind reads for himself, and more at once.
const KEPT: usize = 4;

/// The rooms in which somebody is. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Rooms(Arc<Mutex<HashMap<Key, Weak<Room>>>>);

/// A job that was taken over has its log elsewhere, and its steps here.
type Key = (LogId, JobId);

impl Rooms {
    /// The room of a log, for those who follow it as this job.
    pub(super) fn enter(&self, log: LogId, job: JobId) -> Arc<Room> {
        let mut rooms = locked(&self.0);
        if let Some(room) = rooms.get(&(log, job)).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let (parts, looked, indexed) = Default::default();
        let room = Arc::new(Room { log, job, parts, looked, indexed });
        rooms.insert((log, job), Arc::downgrade(&room));
        room
    }
}

#[derive(Debug)]
pub(super) struct Room {
    log: LogId,
    job: JobId,
    /// The newest, each with the offset at which its reader began.
    parts: Mutex<VecDeque<(u64, Arc<Part>, Spot)>>,
    /// Held by the one who looks.
    looked: tokio::sync::Mutex<Option<Arc<Looked>>>,
    /// The same for where its lines are, with the moment at which it was read.
    indexed: tokio::sync::Mutex<Option<(Instant, Arc<Index>)>>,
}

/// How far a job is.
#[derive(Debug)]
pub(super) struct Looked {
    /// It is true of some moment after this one.
    began: Instant,
    pub(super) life: Life,
    pub(super) steps: Vec<StepView>,
    /// How long the log was after that.
    pub(super) length: u64,
}

impl Room {
    /// The next whole lines of a log; none if there are none now. The first who comes to a place reads them, the
    /// others take what he has read. The log was known to have this length before.
    pub(super) async fn next(
        &self,
        cursor: &mut Cursor,
        length: u64,
    ) -> io::Result<Option<Arc<Part>>> {
        let from = cursor.offset();
        if let Some((_, part, spot)) = locked(&self.parts).iter().find(|(at, ..)| *at == from) {
            cursor.go_to(spot, length);
            return Ok(Some(Arc::clone(part)));
        }
        // Nobody waits for somebody else here: viewers are not always asked for more, and one that holds something
        // then would hold up all others.
        let Some(piece) = cursor.next().await? else { return Ok(None) };
        let part = Arc::new(Part::new(self.log.claim, piece));
        let mut parts = locked(&self.parts);
        if parts.len() == KEPT {
            parts.pop_front();
        }
        parts.push_back((from, Arc::clone(&part), cursor.spot()));
        Ok(Some(part))
    }

    /// Where the lines of the log are: as it was at some moment since this was asked. When many come at once, one
    /// of them reads it for all.
    pub(super) async fn index(&self, app: &Shared) -> Result<Arc<Index>, LogError> {
        let asked = Instant::now();
        let mut last = self.indexed.lock().await;
        if let Some((_, fresh)) = last.as_ref().filter(|(began, _)| *began >= asked) {
            return Ok(Arc::clone(fresh));
        }
        let began = Instant::now();
        let index = app.logs.index(self.log).await?;
        *last = Some((began, Arc::clone(&index)));
        Ok(index)
    }

    /// How far the job is: as it was at some moment since then.
    pub(super) async fn look(
        self: &Arc<Self>,
        app: &Shared,
        since: Instant,
    ) -> io::Result<Arc<Looked>> {
        if let Ok(last) = self.looked.try_lock()
            && let Some(fresh) = last.as_ref().filter(|last| last.began >= since)
        {
            return Ok(Arc::clone(fresh));
        }
        let (room, app) = (Arc::clone(self), Shared::clone(app));
        // In a task of its own, which goes on whether its viewer is asked for more or not.
        let looking = tokio::spawn(async move { room.look_in_turn(&app, since).await });
        looking.await.map_err(io::Error::other)?
    }

    async fn look_in_turn(&self, app: &Shared, since: Instant) -> io::Result<Arc<Looked>> {
        let mut last = self.looked.lock().await;
        if let Some(fresh) = last.as_ref().filter(|last| last.began >= since) {
            return Ok(Arc::clone(fresh));
        }
        let began = Instant::now();
        let (log, job) = (self.log, self.job);
        let read = async move |tx: &mut Tx<'_>| {
            let life = life(tx, log.job, log.claim).await?;
            let mut steps = runs::steps(tx, FIND, job.run(), None).await?;
            steps.retain(|step| step.job == job);
            Ok::<_, StoreError>((life, steps))
        };
        let (life, steps) = app.store.read(read).await.map_err(io::Error::other)?;
        // Once nothing more can come, what another server wrote at the very end is known here by this, too.
        let length = app.logs.length(log).await.map_err(io::Error::other)?;
        let looked = Arc::new(Looked { began, life, steps, length });
        *last = Some(Arc::clone(&looked));
        Ok(looked)
    }
}

/// Whole lines that viewers are told at once.
#[derive(Debug)]
pub struct Part {
    claim: u32,
    piece: Piece,
    events: OnceLock<Bytes>,
}

impl Part {
    pub(super) fn new(claim: u32, piece: Piece) -> Self {
        Self { claim, piece, events: OnceLock::new() }
    }

    /// Without the lines before one; none if nothing is left.
    pub(super) fn starting_at(self: Arc<Self>, line: u64) -> Option<Arc<Self>> {
        if self.piece.first >= line {
            return Some(self);
        }
        let piece = self.piece.clone().starting_at(line);
        (!piece.bytes.is_empty()).then(|| Arc::new(Self::new(self.claim, piece)))
    }

    /// Its lines, each with its number.
    pub fn lines(&self) -> impl Iterator<Item = (u64, Line<'_>)> {
        self.piece.lines()
    }

    /// The place behind a line of it.
    pub fn seat(&self, line: u64) -> Seat {
        Seat { claim: self.claim, line }
    }

    /// As `text/event-stream` has it: written by the first who wants it.
    pub fn events(&self) -> Bytes {
        let written = self.events.get_or_init(|| {
            let mut events = Vec::with_capacity(self.piece.bytes.len() * 2);
            for (number, line) in self.lines() {
                let message = Message::LogLine(told(number, &line));
                write_event(Some(self.seat(number)), &message, &mut events);
            }
            events.shrink_to_fit();
            events.into()
        });
        written.clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
