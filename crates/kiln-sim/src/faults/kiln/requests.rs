//! What people ask for: runs, their end, and runs again.

use std::rc::Rc;
use std::sync::Arc;

use kiln_core::queue::Class;
use kiln_core::run::{self, Again, Event, Neighbourhood, Run};

use super::{Done, RunRows, Tx};
use crate::faults::workload::Asked;

/// The priority of a re-run: somebody waits in person.
const REBUILD: i64 = 100;

impl Tx<'_> {
    /// A run for this trigger, unless it made one before.
    pub(super) fn create(&mut self, key: u64, asked: &Asked) -> u64 {
        if let Some(run) = self.rows.triggers.get(&key) {
            return *run;
        }
        let run = self.rows.runs.len() as u64 + 1;
        self.rows.triggers.insert(key, run);
        let rows = RunRows {
            org: asked.org,
            repo: asked.repo,
            class: Class::Normal,
            priority: 0,
            hood: Neighbourhood::new(Run::new(run, Arc::clone(&asked.plan))),
            jobs: std::collections::BTreeMap::new(),
            jobs_made: 0,
            past: std::collections::BTreeMap::new(),
        };
        self.change_from(run, Rc::new(rows.clone()), rows, Event::Start)
            .expect("a new run can start");
        run
    }

    pub(super) fn cancel(&mut self, run: u64, forced: bool) -> Done {
        let (by, reason) = ("somebody".to_owned(), "somebody asked for it".to_owned());
        self.ask(run, Event::Cancel { by, reason, forced })
    }

    pub(super) fn cancel_leg(&mut self, run: u64, leg: u32) -> Done {
        self.ask(run, Event::CancelLeg { leg, reason: "somebody asked for it".to_owned() })
    }

    fn ask(&mut self, run: u64, event: Event) -> Done {
        if !self.rows.runs.contains_key(&run) {
            return Done::Refused("there is no such run".to_owned());
        }
        match self.change(run, event) {
            Ok(()) => Done::Accepted,
            Err(rejected) => Done::Refused(rejected.to_string()),
        }
    }

    /// A further attempt of a run that ended.
    pub(super) fn again(&mut self, run: u64, what: Again) -> Done {
        let Some(earlier) = self.rows.runs.get(&run).cloned() else {
            return Done::Refused("there is no such run".to_owned());
        };
        let hood = match run::again(&earlier.hood, what) {
            Ok(hood) => hood,
            Err(refused) => return Done::Refused(refused.to_string()),
        };
        let attempt = hood.run.attempt;
        let mut rows = (*earlier).clone();
        for (leg, job) in std::mem::take(&mut rows.jobs) {
            let leg = &earlier.hood.legs[&leg];
            rows.past.insert(job.id, (leg.attempt, leg.state.clone()));
        }
        rows.hood = hood;
        rows.priority = REBUILD;
        self.change_from(run, Rc::new(rows.clone()), rows, Event::Start)
            .expect("a new attempt can start");
        Done::Attempt(attempt)
    }
}
