//! What people ask for: runs, their end, and runs again.

use std::rc::Rc;
use std::sync::Arc;

use kiln_core::id::RepoId;
use kiln_core::queue::Class;
use kiln_core::run::{
    self, Again, Conclusion, Event, Neighbourhood, Node, NodeState, Refused, Run,
};

use super::{Done, RunRows, Signal, Tx};
use crate::faults::bug::Bug;
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

    pub(super) fn pause(&mut self, repo: RepoId, on: bool) -> Done {
        let changed =
            if on { self.rows.paused.insert(repo) } else { self.rows.paused.remove(&repo) };
        if changed && !on && !self.rules.has(Bug::ResumeWakesNobody) {
            self.signal(Signal::Work);
        }
        Done::Accepted
    }

    pub(super) fn drain(&mut self, runner: u64, on: bool) -> Done {
        if on {
            self.rows.drained.insert(runner);
        } else if self.rows.drained.remove(&runner) {
            self.signal(Signal::Work);
        }
        Done::Accepted
    }

    /// A further attempt of a run that ended.
    pub(super) fn again(&mut self, run: u64, what: Again) -> Done {
        let Some(earlier) = self.rows.runs.get(&run).cloned() else {
            return Done::Refused("there is no such run".to_owned());
        };
        let forgets = self.rules.has(Bug::RerunForgetsBare);
        let anew =
            if forgets { forgetful(&earlier.hood, what) } else { run::again(&earlier.hood, what) };
        let hood = match anew {
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

/// The planted mistake: a job without legs looks as if it had been good.
fn forgetful(earlier: &Neighbourhood, what: Again) -> Result<Neighbourhood, Refused> {
    let is_bare = |node: &Node| node.legs.is_empty();
    let mut seen = earlier.clone();
    for node in seen.nodes.values_mut().filter(|node| is_bare(node)) {
        node.state = NodeState::Done(Conclusion::Success);
    }
    let mut hood = run::again(&seen, what)?;
    for (number, node) in &mut hood.nodes {
        if let Some(past) = earlier.nodes.get(number).filter(|past| is_bare(past))
            && matches!(node.state, NodeState::Done(_))
        {
            node.state = past.state.clone();
        }
    }
    Ok(hood)
}
