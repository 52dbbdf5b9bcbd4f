//! Runs as this server last wrote them to PostgreSQL, so that it need not read their rows for each event.
//!
//! Other servers write to the same rows. Whoever changes rows of a run does so under the lock of its attempt and gives that
//! a new version: a run whose version is the remembered one is as it was. Versions are drawn by lot, so that one of changes
//! that a database lost, when another took its place, is not met again. Only claims do without that lock. They change legs
//! that wait in the queue, so those are never believed; but what this server's own claims made of them is known.
//! On SQLite there is one writer, whose [`Memory`] needs no versions.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Leg, LegState};

use super::memory::Memory;
use super::open::Open;
use crate::Tx;
use crate::cache::Cache;
use crate::claims::Given;

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
    runs: Arc<Mutex<Memory>>,
    claimed: Arc<Cache<JobId, Leg>>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { runs: Arc::default(), claimed: Arc::new(Cache::new(CLAIMS)) }
    }
}

impl Recent {
    /// A run whose attempt is locked, if it is remembered as it is.
    pub(super) fn take(&self, run: RunId, attempt: u32, version: i64) -> Option<Box<Open>> {
        let mut open = self.runs.lock().unwrap_or_else(PoisonError::into_inner).take(run)?;
        if (open.hood.run.attempt, open.attempt.version) != (attempt, version) {
            return None;
        }
        self.doubt_queued(&mut open);
        Some(open)
    }

    /// Legs that waited may have been claimed since: what is not known of them must be read again before it changes.
    fn doubt_queued(&self, open: &mut Open) {
        let waits = |leg: &&Leg| leg.state == LegState::Queued;
        let queued: Vec<(u32, u32)> =
            open.hood.legs.values().filter(waits).map(|leg| (leg.number, leg.attempt)).collect();
        for (number, claim) in queued {
            let now = self.claimed.get(&open.jobs[&number].id);
            match now.filter(|leg| leg.attempt == claim + 1) {
                Some(leg) => open.was_claimed(leg),
                None => open.let_go(number),
            }
        }
    }

    /// Remembers these runs, all rows of which were written, after the commit.
    pub(super) fn keep(&self, tx: &mut Tx<'_>, written: BTreeMap<RunId, Box<Open>>) {
        let runs = Arc::clone(&self.runs);
        tx.after_commit(move || {
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            for open in written.into_values() {
                runs.keep(open);
            }
        });
    }

    /// Remembers these claims, after the commit.
    pub(super) fn note_claims(&self, tx: &mut Tx<'_>, given: &Given) {
        let claimed = Arc::clone(&self.claimed);
        let legs: Vec<(JobId, Leg)> =
            given.legs.iter().map(|(job, leg)| (*job, leg.clone())).collect();
        tx.after_commit(move || legs.into_iter().for_each(|(job, leg)| claimed.put(job, leg)));
    }
}
