//! The rows of some runs, as they are: words stay words, so that a strange one is a finding and not the
//! end of the audit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_core::plan::Plan;
use kiln_core::run::{Conclusion, Step, Tally};

use crate::runs::{Order, What};

/// Some runs with all that hangs on them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) runs: BTreeMap<i64, RunRow>,
    pub(super) attempts: BTreeMap<(i64, i64), Attempt>,
    /// By job id.
    pub(super) leases: BTreeMap<i64, Lease>,
    /// By run, attempt and number.
    pub(super) timers: BTreeMap<(i64, i64, i64), i64>,
    /// Ids of jobs that have their place in the queue.
    pub(super) placed: BTreeSet<i64>,
    pub(super) groups: BTreeMap<(i64, String), Vec<Member>>,
    pub(super) events: Vec<Event>,
    pub(super) claims: Vec<PastClaim>,
}

pub(super) type Member = (i64, Option<i64>);

#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) id: i64,
    pub(super) attempt: i64,
    pub(super) status: String,
    pub(super) conclusion: Option<String>,
    pub(super) started: Option<i64>,
    pub(super) ended: Option<i64>,
    pub(super) tasks: Tasks,
}

/// What the outbox holds for a run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Steps that were put off, with the attempt that they belong to.
    pub(super) steps: Vec<(i64, Step)>,
    pub(super) admit: BTreeSet<Option<i64>>,
    pub(super) cancel: BTreeSet<Option<i64>>,
    /// Whether something other than what was given up waits.
    pub(super) any: bool,
    pub(super) given_up: Vec<i64>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) run: i64,
    pub(super) number: i64,
    pub(super) repo: i64,
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) state: String,
    pub(super) conclusion: Option<String>,
    pub(super) group: Option<String>,
    pub(super) cancelled: bool,
    pub(super) counters: Counters,
    pub(super) started: Option<i64>,
    pub(super) ended: Option<i64>,
    pub(super) scopes: BTreeMap<i64, ScopeRow>,
    pub(super) nodes: BTreeMap<i64, NodeRow>,
    pub(super) jobs: BTreeMap<i64, JobRow>,
}

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) scopes: i64,
    pub(super) nodes: i64,
    pub(super) legs: i64,
    pub(super) jobs_made: i64,
}

#[derive(Debug)]
pub(super) struct ScopeRow {
    pub(super) workflow: i64,
    pub(super) caller: Option<i64>,
    pub(super) first_node: i64,
    pub(super) open: i64,
    pub(super) tally: Tally,
    pub(super) stopped: bool,
}

#[derive(Debug)]
pub(super) struct NodeRow {
    pub(super) scope: i64,
    pub(super) job: i64,
    pub(super) state: String,
    pub(super) conclusion: Option<String>,
    pub(super) needs_remaining: i64,
    /// Failed, cancelled, skipped.
    pub(super) above: (bool, bool, bool),
    pub(super) first_leg: Option<i64>,
    pub(super) leg_count: i64,
    pub(super) open_legs: i64,
    pub(super) tally: Tally,
    pub(super) max_parallel: Option<i64>,
    pub(super) tripped: bool,
}

#[derive(Debug)]
pub(super) struct JobRow {
    pub(super) id: i64,
    pub(super) node: i64,
    pub(super) leg_index: i64,
    pub(super) state: String,
    pub(super) conclusion: Option<String>,
    pub(super) runner: Option<i64>,
    pub(super) claim: i64,
    pub(super) tolerated: bool,
    pub(super) group: Option<String>,
    pub(super) scope: Option<i64>,
    pub(super) wake_at: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) attempt: i64,
    pub(super) number: i64,
    pub(super) claim: i64,
    pub(super) runner: i64,
}

/// An event about the course of a run or a job.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) run: i64,
    pub(super) attempt: i64,
    pub(super) job: Option<i64>,
    pub(super) kind: String,
    pub(super) payload: Option<String>,
}

#[derive(Debug)]
pub(super) struct PastClaim {
    pub(super) run: i64,
    pub(super) attempt: i64,
    pub(super) number: i64,
    pub(super) claim: i64,
}

impl Attempt {
    pub(super) fn name(&self) -> String {
        format!("run {}, attempt {}", self.run, self.number)
    }

    pub(super) fn job_name(&self, number: i64) -> String {
        format!("{}, job {number}", self.name())
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == "done"
    }
}

impl NodeRow {
    pub(super) fn end(&self) -> Option<Conclusion> {
        self.conclusion.as_deref().and_then(Conclusion::of_github)
    }
}

impl JobRow {
    pub(super) fn is_done(&self) -> bool {
        self.state == "done"
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.state.as_str(), "claimed" | "running" | "uploading")
    }

    /// How it ended, as far as its node is concerned.
    pub(super) fn counted(&self) -> Option<Conclusion> {
        let end = self.conclusion.as_deref().and_then(Conclusion::of_github);
        if self.tolerated { end.map(|_| Conclusion::Success) } else { end }
    }
}

/// The members of a group, as its row has them: run, attempt and leg.
pub(super) fn members_of(text: &str) -> Result<Vec<Member>, serde_json::Error> {
    let members: Vec<(i64, i64, Option<i64>)> = serde_json::from_str(text)?;
    Ok(members.into_iter().map(|(run, _, leg)| (run, leg)).collect())
}

impl Tasks {
    pub(super) fn add(&mut self, order: &Order) {
        match &order.what {
            What::Admit { leg } => {
                self.admit.insert(leg.map(i64::from));
            }
            What::Cancel { leg, .. } => {
                self.cancel.insert(leg.map(i64::from));
            }
            What::Continue { step } => self.steps.push((order.attempt.into(), *step)),
        }
    }

    pub(super) fn has(&self, attempt: &Attempt, step: Step) -> bool {
        self.steps.contains(&(attempt.number, step))
    }
}
