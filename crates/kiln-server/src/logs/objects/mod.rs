//! Logs in a store of objects that several servers share, such as S3.
//!
//! | object | what |
//! |---|---|
//! | `live/<job>.<claim>/<from>-<to>` | bytes of a log that grows, as they were acknowledged |
//! | `runs/<run>/<job>.<claim>.zst` | the log after its end ([`super::archive`]) |
//!
//! Objects never change. The same bytes may be in more than one: when a request that was believed to be lost arrives
//! at another server after all. What a log is follows from the names alone, so that any server can go on with it.
//!
//! Whoever writes waits for nobody who reads: what is known of a log is locked to be looked at, never while the
//! store is asked.

mod chunks;
mod lists;
mod logs;
mod pack;
mod place;
mod read;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kiln_blob::Backend;
use kiln_core::id::RunId;
use tokio::sync::{Mutex as Turn, watch};
use tokio::time::Instant;

use super::archive::Table;
use super::index::Builder;
use super::marker::append_within;
use super::recent::Recent;
use super::{LogError, LogId};
use chunks::Chunks;
use lists::Live;
use place::Objects;
use read::Extent;

/// How many logs are remembered when nobody writes or watches.
const REMEMBERED: usize = 256;

/// Logs as objects. Clones are the same.
#[derive(Debug, Clone)]
pub struct ObjectLogs(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    objects: Objects,
    /// What is longer is cut.
    limit: u64,
    logs: Mutex<HashMap<LogId, Arc<Log>>>,
    live: Live,
}

/// A log as this server knows it.
#[derive(Debug)]
struct Log {
    /// Held by whoever writes: the pieces of a log come one after the other, as its runner sends them.
    writing: Turn<()>,
    /// Held by the reader who asks the store what others wrote, for all who want to know.
    asking: Turn<()>,
    /// Held by the reader who looks where lines are, for all who want to know.
    indexing: Turn<()>,
    known: Mutex<Known>,
    recent: Recent,
    length: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    chunks: Chunks,
    /// Its lines, as far as they were read.
    builder: Builder,
    /// Once it is archived, nothing else counts.
    table: Option<Arc<Table>>,
    /// When the store was last asked for what is new, and for everything, and answered.
    asked: Option<Instant>,
    asked_all: Option<Instant>,
}

impl Known {
    fn length(&self) -> u64 {
        match &self.table {
            Some(table) => table.index.length,
            None => self.chunks.length(),
        }
    }
}

impl Log {
    fn new() -> Self {
        Self {
            writing: Turn::default(),
            asking: Turn::default(),
            indexing: Turn::default(),
            known: Mutex::default(),
            recent: Recent::default(),
            length: watch::Sender::new(0),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        locked(&self.known)
    }

    fn is_followed(&self) -> bool {
        self.length.receiver_count() > 0
    }

    /// What was just put is known.
    fn added(&self, before: u64, fresh: Bytes) {
        let mut known = self.known();
        if known.builder.length() == before {
            known.builder.add(&fresh);
        }
        known.chunks.add(before, before + fresh.len() as u64);
        self.recent.add(before, fresh, self.is_followed());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogId {
    fn folder(self) -> String {
        format!("live/{}", self.name())
    }

    fn object(self) -> String {
        format!("{}/{}.zst", run_folder(self.job.run()), self.name())
    }
}

/// Numbers have their place in the order of names.
fn run_folder(run: RunId) -> String {
    format!("runs/{:019}", run.0)
}

impl ObjectLogs {
    /// Logs beside the other bytes of this backend; each has `limit` bytes at most.
    pub fn new(backend: Arc<dyn Backend>, limit: u64) -> Self {
        let (objects, logs, live) = (Objects(backend), Mutex::default(), Live::default());
        Self(Arc::new(Shelf { objects, limit, logs, live }))
    }
}

impl Shelf {
    fn log(&self, id: LogId) -> Arc<Log> {
        let mut logs = locked(&self.logs);
        if logs.len() >= REMEMBERED && !logs.contains_key(&id) {
            let rests = |log: &Arc<Log>| Arc::strong_count(log) == 1 && !log.is_followed();
            logs.retain(|_, log| !rests(log));
        }
        Arc::clone(logs.entry(id).or_insert_with(|| Arc::new(Log::new())))
    }

    async fn append(&self, id: LogId, from: u64, bytes: Bytes) -> Result<u64, LogError> {
        let log = self.log(id);
        let _turn = log.writing.lock().await;
        let end = from.saturating_add(bytes.len() as u64);
        let mut length = log.known().length();
        let is_plain = length > 0 && (from == length || end <= length);
        if length <= self.limit && !is_plain {
            // Somebody else has written to it, or may have.
            self.look(id, &log, Extent::News).await?;
            length = log.known().length();
        }
        if length > self.limit {
            return Ok(end);
        }
        if from > length {
            return Err(LogError::Gap { wanted: length });
        }
        if end <= length {
            return Ok(length);
        }
        if log.known().table.is_some() {
            return Err(LogError::Closed);
        }
        let skipped = usize::try_from(length - from).unwrap_or(usize::MAX);
        let mut fresh = Vec::new();
        let added = append_within(&mut fresh, &bytes[skipped..], self.limit - length, self.limit);
        let fresh = Bytes::from(fresh);
        let name = chunks::name(&id.folder(), length, length + added);
        self.objects.put(&name, fresh.clone()).await?;
        self.live.note(id);
        log.added(length, fresh);
        let length = length + added;
        log.length.send_if_modified(|seen| std::mem::replace(seen, length) != length);
        Ok(end.max(length.min(self.limit)))
    }
}

#[cfg(test)]
mod tests;
