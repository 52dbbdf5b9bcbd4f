//! What duties did last, for people to see.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_proto::api;
use tokio::time::Instant;

use super::driver::{Fault, NOTHING, Plan};
use crate::clock;

/// How all duties do.
#[derive(Debug, Default)]
pub struct Board {
    notes: Mutex<Vec<Note>>,
    /// When the database failed last, as duties and runners saw it.
    outage: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Note {
    name: &'static str,
    every: Duration,
    here: bool,
    last_run: Option<Timestamp>,
    took: Duration,
    report: String,
    /// The last pass that found something to do.
    useful: Option<(Timestamp, String)>,
    error: Option<String>,
    passes: u64,
    failures: u64,
}

impl Board {
    pub(super) fn add(&self, plan: &Plan) {
        self.notes().push(Note {
            name: plan.name,
            every: plan.every,
            here: false,
            last_run: None,
            took: Duration::ZERO,
            report: "has not run yet".to_owned(),
            useful: None,
            error: None,
            passes: 0,
            failures: 0,
        });
    }

    pub(super) fn stands(&self, name: &str, here: bool) {
        self.change(name, |note| note.here = here);
    }

    pub(super) fn done(&self, name: &str, took: Duration, report: &str) {
        self.change(name, |note| {
            note.ran(took);
            report.clone_into(&mut note.report);
            note.error = None;
            if report != NOTHING {
                note.useful = note.last_run.map(|at| (at, report.to_owned()));
            }
        });
    }

    pub(super) fn failed(&self, name: &str, took: Duration, fault: &Fault) {
        if fault.outage {
            self.unheard();
        }
        self.change(name, |note| {
            note.ran(took);
            note.failures += 1;
            note.error = Some(fault.text.clone());
        });
    }

    /// The database fails: no runner can be heard at the moment.
    pub fn unheard(&self) {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// When the database failed last, if it did.
    pub(super) fn outage(&self) -> Option<Instant> {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All duties, as the interface shows them.
    pub fn duties(&self) -> Vec<api::Duty> {
        self.notes().iter().map(Note::shown).collect()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Note)) {
        if let Some(note) = self.notes().iter_mut().find(|note| note.name == name) {
            change(note);
        }
    }

    fn notes(&self) -> MutexGuard<'_, Vec<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Note {
    fn ran(&mut self, took: Duration) {
        self.last_run = Some(clock::now());
        self.took = took;
        self.passes += 1;
    }

    fn shown(&self) -> api::Duty {
        api::Duty {
            name: self.name.to_owned(),
            here: self.here,
            last_run_at: self.last_run.map(Timestamp::rfc3339),
            last_took_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            last_report: self.report.clone(),
            last_useful_at: self.useful.as_ref().map(|(at, _)| at.rfc3339()),
            last_useful_report: self.useful.as_ref().map(|(_, report)| report.clone()),
            last_error: self.error.clone(),
            passes: self.passes,
            failures: self.failures,
            every: self.every.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_found_nothing_does_not_hide_one_that_did() {
        let board = Board::default();
        let every = Duration::from_secs(1);
        board.add(&Plan { name: "content", every, wakes: None, everywhere: true });
        let seen = |board: &Board| {
            let duty = board.duties().remove(0);
            (duty.last_report, duty.last_useful_report, duty.last_useful_at.is_some())
        };
        board.done("content", Duration::ZERO, NOTHING);
        assert_eq!(seen(&board), (NOTHING.to_owned(), None, false));
        board.done("content", Duration::ZERO, "3 artifacts expired");
        board.done("content", Duration::ZERO, NOTHING);
        let fault = Fault { text: "no".to_owned(), outage: false };
        board.failed("content", Duration::ZERO, &fault);
        let useful = Some("3 artifacts expired".to_owned());
        assert_eq!(seen(&board), (NOTHING.to_owned(), useful, true));
    }
}
