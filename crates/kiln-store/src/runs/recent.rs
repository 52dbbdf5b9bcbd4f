//! Runs as this server last wrote them to PostgreSQL, so that it need not read their rows for each event.
//!
//! Other servers write to the same rows. Whoever changes rows of a run does so under the lock of its attempt and gives that
//! a new version: a run whose version is the remembered one is as it was. Only claims do without that lock. They change legs
//! that wait in the queue, so those are never believed; but what this server's own claims made of them is known.
//!
//! A database that takes the place of another may lack the last that this one was told. Whoever asks it has a new
//! connection, so nothing is believed that was told before the last connection was made.
//! On SQLite there is one writer, whose [`Memory`] needs no versions.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Leg, LegState};

use super::memory::{Memorable, Memory};
use super::open::Open;
use crate::Tx;
use crate::cache::Cache;
use crate::claims::Given;
use crate::postgres::Connections;

/// How many claims are remembered until their jobs are told of.
const CLAIMS: usize = 8_192;

/// A version that no rows have had.
pub(super) fn new_version() -> i64 {
    // Each state has keys of its own, the first of them from the system.
    RandomState::new().build_hasher().finish().cast_signed()
}

/// Clones share what they remember.
#[derive(Clone)]
pub(super) struct Recent {
    connections: Connections,
    runs: Arc<Mutex<Runs>>,
    /// With how many connections there were.
    claimed: Arc<Cache<JobId, (u64, Leg)>>,
}

#[derive(Default)]
struct Runs {
    /// How many connections there were when the first of these was remembered, and there have been no others since.
    connections: u64,
    memory: Memory,
}

impl Runs {
    /// What is remembered, as far as it was told over these connections.
    fn over(&mut self, connections: u64) -> &mut Memory {
        if self.connections != connections {
            *self = Self { connections, memory: Memory::default() };
        }
        &mut self.memory
    }
}

impl Recent {
    pub(super) fn new(connections: Connections) -> Self {
        Self { connections, runs: Arc::default(), claimed: Arc::new(Cache::new(CLAIMS)) }
    }

    /// A run whose attempt is locked, if it is remembered as it is.
    pub(super) fn take(&self, run: RunId, attempt: u32, version: i64) -> Option<Box<Open>> {
        let made = self.connections.made();
        let mut open =
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).over(made).take(run)?;
        if (open.hood.run.attempt, open.attempt.version) != (attempt, version) {
            return None;
        }
        self.doubt_queued(&mut open, made);
        Some(open)
    }

    /// Legs that waited may have been claimed since: what is not known of them must be read again before it changes.
    fn doubt_queued(&self, open: &mut Open, connections: u64) {
        let waits = |leg: &&Leg| leg.state == LegState::Queued;
        let queued: Vec<(u32, u32)> =
            open.hood.legs.values().filter(waits).map(|leg| (leg.number, leg.attempt)).collect();
        for (number, claim) in queued {
            let now = self.claimed.get(&open.jobs[&number].id);
            match now.filter(|(made, leg)| *made == connections && leg.attempt == claim + 1) {
                Some((_, leg)) => open.was_claimed(leg),
                None => open.let_go(number),
            }
        }
    }

    /// Remembers these runs, all rows of which were written, after the commit.
    pub(super) fn keep(&self, tx: &mut Tx<'_>, written: BTreeMap<RunId, Box<Open>>) {
        let made = self.connections.made();
        let Self { connections, runs, .. } = self.clone();
        tx.after_commit(move || {
            let memorable: Vec<_> = written.into_values().filter_map(Memorable::of).collect();
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            if connections.made() == made {
                let memory = runs.over(made);
                for run in memorable {
                    memory.keep(run);
                }
            }
        });
    }

    /// Remembers these claims, after the commit.
    pub(super) fn note_claims(&self, tx: &mut Tx<'_>, given: &Given) {
        let (claimed, made) = (Arc::clone(&self.claimed), self.connections.made());
        let legs: Vec<(JobId, Leg)> =
            given.legs.iter().map(|(job, leg)| (*job, leg.clone())).collect();
        let note = move |(job, leg)| claimed.put(job, (made, leg));
        tx.after_commit(move || legs.into_iter().for_each(note));
    }
}
