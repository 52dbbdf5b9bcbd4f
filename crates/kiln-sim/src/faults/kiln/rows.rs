//! The rows of the simulated database. Runs are shared between snapshots, so that one is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kiln_core::id::{JobId, OrgId, QueueId, RepoId};
use kiln_core::queue::{Capabilities, Class, Requirements, Usage};
use kiln_core::run::{Event, Group, LegNo, LegState, Member, Neighbourhood, Step};
use kiln_core::time::Timestamp;

use crate::faults::auditor::Ledger;

/// What makes a lane: queue, priority, organization, repository and class.
pub(in crate::faults) type Lane = (QueueId, i64, OrgId, RepoId, Class);

/// All tables.
#[derive(Debug, Clone, Default)]
pub(in crate::faults) struct Rows {
    pub(in crate::faults) runs: BTreeMap<u64, Rc<RunRows>>,
    /// The run that each trigger made.
    pub(in crate::faults) triggers: BTreeMap<u64, u64>,
    pub(in crate::faults) groups: BTreeMap<(RepoId, String), Group>,
    pub(in crate::faults) queues: Vec<(QueueId, Requirements)>,
    /// The places of each lane: key and job, and the leg that is meant.
    pub(in crate::faults) queue: BTreeMap<Lane, BTreeMap<(i64, JobId), LegNo>>,
    pub(in crate::faults) leases: BTreeMap<JobId, Lease>,
    pub(in crate::faults) loads: BTreeMap<OrgId, Load>,
    pub(in crate::faults) org_usage: BTreeMap<OrgId, Usage>,
    pub(in crate::faults) repo_usage: BTreeMap<RepoId, Usage>,
    /// By run, attempt and leg.
    pub(in crate::faults) timers: BTreeMap<(u64, u32, LegNo), Timestamp>,
    pub(in crate::faults) outbox: BTreeMap<u64, Task>,
    /// What the runners have that are registered.
    pub(in crate::faults) fleet: Vec<Rc<Capabilities>>,
    /// Repositories whose jobs are held back.
    pub(in crate::faults) paused: BTreeSet<RepoId>,
    /// Runners that get nothing more.
    pub(in crate::faults) drained: BTreeSet<u64>,
    /// How many jobs each runner has ended.
    pub(in crate::faults) ended: BTreeMap<u64, u32>,
    pub(in crate::faults) tasks_made: u64,
    /// What the auditor wrote down. It is part of the rows, because a crash takes it back with them.
    pub(in crate::faults) ledger: Rc<Ledger>,
}

/// The current attempt of a run.
#[derive(Debug, Clone)]
pub(in crate::faults) struct RunRows {
    pub(in crate::faults) org: OrgId,
    pub(in crate::faults) repo: RepoId,
    pub(in crate::faults) class: Class,
    pub(in crate::faults) priority: i64,
    /// Without groups, which are not the run's alone.
    pub(in crate::faults) hood: Neighbourhood,
    pub(in crate::faults) jobs: BTreeMap<LegNo, JobRow>,
    pub(in crate::faults) jobs_made: i64,
    /// Jobs of earlier attempts: the last claim, and how it stood.
    pub(in crate::faults) past: BTreeMap<JobId, (u32, LegState)>,
}

impl RunRows {
    pub(in crate::faults) fn leg_of(&self, job: JobId) -> Option<LegNo> {
        self.jobs.iter().find(|(_, row)| row.id == job).map(|(leg, _)| *leg)
    }
}

/// What the engine does not know of a leg.
#[derive(Debug, Clone)]
pub(in crate::faults) struct JobRow {
    pub(in crate::faults) id: JobId,
    pub(in crate::faults) place: Option<(Lane, i64)>,
    /// Who had it last.
    pub(in crate::faults) runner: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::faults) struct Lease {
    pub(in crate::faults) claim: u32,
    pub(in crate::faults) runner: u64,
    pub(in crate::faults) nonce: u64,
    pub(in crate::faults) claimed: Timestamp,
    pub(in crate::faults) expires: Timestamp,
    pub(in crate::faults) acknowledged: bool,
    pub(in crate::faults) counted: bool,
    pub(in crate::faults) estimate: f64,
    pub(in crate::faults) command: Option<Command>,
    pub(in crate::faults) given: super::Given,
}

/// What a runner is told about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::faults) enum Command {
    Cancel,
    Kill,
}

/// How many jobs of an organization run, and how many may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::faults) struct Load {
    pub(in crate::faults) running: u32,
    pub(in crate::faults) limit: Option<u32>,
}

/// A task of the outbox.
#[derive(Debug, Clone)]
pub(in crate::faults) struct Task {
    pub(in crate::faults) id: u64,
    pub(in crate::faults) order: Order,
    pub(in crate::faults) due: Timestamp,
    /// Counts who took it: the fencing token.
    pub(in crate::faults) tries: u32,
}

/// What a task asks of an attempt of a run.
#[derive(Debug, Clone)]
pub(in crate::faults) struct Order {
    pub(in crate::faults) run: u64,
    pub(in crate::faults) attempt: u32,
    pub(in crate::faults) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::faults) enum What {
    Admit { leg: Option<LegNo> },
    Cancel { leg: Option<LegNo>, reason: String },
    Continue(Step),
}

impl Order {
    pub(super) fn event(&self) -> Event {
        let Self { run, attempt, .. } = *self;
        match &self.what {
            What::Admit { leg } => Event::Admitted(Member { run, attempt, leg: *leg }),
            What::Cancel { leg: Some(leg), reason } => {
                Event::CancelLeg { leg: *leg, reason: reason.clone() }
            }
            What::Cancel { leg: None, reason } => Event::Cancel {
                by: "concurrency".to_owned(),
                reason: reason.clone(),
                forced: false,
            },
            What::Continue(step) => Event::Step(*step),
        }
    }
}
