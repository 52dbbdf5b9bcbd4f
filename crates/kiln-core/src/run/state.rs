//! The rows of a run. States carry their data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{JobIndex, Plan, WorkflowIndex};
use crate::time::Timestamp;
use crate::value::Object;

use super::{Conclusion, Member};

/// Numbers count within a run, so that the same events give the same rows everywhere.
pub type ScopeNo = u32;
pub type NodeNo = u32;
pub type LegNo = u32;

#[derive(Debug, Clone)]
pub struct Run {
    pub id: u64,
    /// Counts from one; each re-run is a further one (`github.run_attempt`).
    pub attempt: u32,
    pub plan: Arc<Plan>,
    pub state: RunState,
    pub cancel: Option<Cancel>,
    /// The concurrency group it is in, holding or waiting.
    pub group: Option<String>,
    pub scopes: ScopeNo,
    pub nodes: NodeNo,
    pub legs: LegNo,
}

impl Run {
    pub fn new(id: u64, plan: Arc<Plan>) -> Self {
        Self {
            id,
            attempt: 1,
            plan,
            state: RunState::Created,
            cancel: None,
            group: None,
            scopes: 0,
            nodes: 0,
            legs: 0,
        }
    }

    /// The run itself or one of its legs, as concurrency groups know them.
    pub fn member(&self, leg: Option<LegNo>) -> Member {
        Member { run: self.id, attempt: self.attempt, leg }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    Created,
    /// Waits for its concurrency group.
    Gated(String),
    Active,
    Done(Conclusion),
}

/// Who cancelled, and why. A forced cancel does not ask conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub by: String,
    pub reason: String,
    pub forced: bool,
    pub at: Timestamp,
}

/// An instance of a workflow: the triggered one, or one that a leg calls.
#[derive(Debug, Clone)]
pub struct Scope {
    pub number: ScopeNo,
    pub workflow: WorkflowIndex,
    /// The leg that calls it.
    pub caller: Option<LegNo>,
    pub inputs: Object,
    /// By the index of the job in the workflow.
    pub nodes: Vec<NodeNo>,
    pub open: u32,
    pub tally: Tally,
    /// Its caller was cancelled, and all that has not started with it.
    pub cancelled: bool,
}

/// A job of the plan within a scope.
#[derive(Debug, Clone)]
pub struct Node {
    pub number: NodeNo,
    pub scope: ScopeNo,
    pub job: JobIndex,
    pub needs: Vec<NodeNo>,
    pub dependents: Vec<NodeNo>,
    pub ancestry: Ancestry,
    pub state: NodeState,
    pub legs: Vec<LegNo>,
    pub fail_fast: bool,
    pub max_parallel: Option<u32>,
    /// A failure has already cancelled the other legs.
    pub tripped: bool,
    pub outputs: Vec<(String, String)>,
    /// Why it was skipped or could not start, for people.
    pub note: Option<String>,
    /// The attempt of the run that it belongs to: an earlier one if a re-run took it over.
    pub run_attempt: u32,
}

impl Node {
    pub(super) fn new(
        number: NodeNo,
        scope: ScopeNo,
        job: JobIndex,
        needs: Vec<NodeNo>,
        run_attempt: u32,
    ) -> Self {
        let needs_remaining = u32::try_from(needs.len()).unwrap_or(u32::MAX);
        Self {
            number,
            scope,
            job,
            needs,
            dependents: Vec::new(),
            ancestry: Ancestry::default(),
            state: NodeState::Pending { needs_remaining },
            legs: Vec::new(),
            fail_fast: true,
            max_parallel: None,
            tripped: false,
            outputs: Vec::new(),
            note: None,
            run_attempt,
        }
    }

    /// Takes in the outputs of a leg. Legs of a matrix write the same outputs; the last one that has
    /// something to say wins.
    pub(super) fn add_outputs(&mut self, outputs: &[(String, String)]) {
        for (name, value) in outputs.iter().filter(|(_, value)| !value.is_empty()) {
            match self.outputs.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => old.clone_from(value),
                None => self.outputs.push((name.clone(), value.clone())),
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    Pending { needs_remaining: u32 },
    Active { open_legs: u32, tally: Tally },
    Done(Conclusion),
}

/// What GitHub's status functions need to know from further up than the direct needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ancestry {
    pub failed: bool,
    pub cancelled: bool,
    pub skipped: bool,
}

impl Ancestry {
    /// Adds an ancestor and all that is known of its own ancestors.
    pub fn add(&mut self, conclusion: Conclusion, of: Ancestry) {
        self.failed |= of.failed || conclusion.is_failure();
        self.cancelled |= of.cancelled || conclusion.is_cancelled();
        self.skipped |= of.skipped || conclusion == Conclusion::Skipped;
    }
}

/// How many parts ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    pub success: u32,
    pub failure: u32,
    pub cancelled: u32,
    pub timed_out: u32,
    pub skipped: u32,
}

impl Tally {
    pub fn add(&mut self, conclusion: Conclusion) {
        let count = match conclusion {
            Conclusion::Success => &mut self.success,
            Conclusion::Skipped => &mut self.skipped,
            Conclusion::Cancelled => &mut self.cancelled,
            Conclusion::TimedOut => &mut self.timed_out,
            Conclusion::Failure | Conclusion::StartupFailure => &mut self.failure,
        };
        *count += 1;
    }

    pub fn conclude(&self) -> Conclusion {
        let parts = [
            (self.failure, Conclusion::Failure),
            (self.cancelled, Conclusion::Cancelled),
            (self.timed_out, Conclusion::TimedOut),
            (self.success, Conclusion::Success),
            (self.skipped, Conclusion::Skipped),
        ];
        super::conclude(parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, part)| part))
    }
}

/// One leg of a job: what a runner runs.
#[derive(Debug, Clone)]
pub struct Leg {
    pub number: LegNo,
    pub node: NodeNo,
    /// Its place among the legs of its node.
    pub index: u32,
    pub matrix: Object,
    pub state: LegState,
    /// The concurrency group it is in, holding or waiting.
    pub group: Option<String>,
    /// The workflow that it calls, once that was opened.
    pub scope: Option<ScopeNo>,
    /// Counts claims: the fencing token. A word from an earlier attempt is refused, also after a re-run.
    pub attempt: u32,
    /// Declared retries used so far.
    pub retries: u32,
    /// Runners lost so far.
    pub losses: u32,
    /// Somebody asked for its end; the runner has been told.
    pub cancelling: bool,
    pub timings: Timings,
    /// Its failure does not count (`continue-on-error`).
    pub tolerated: bool,
    pub outputs: Vec<(String, String)>,
    /// The attempt of the run that it belongs to: an earlier one if a re-run took it over.
    pub run_attempt: u32,
    /// Why it ended as it did, when that is not the runner's story.
    pub note: Option<String>,
}

impl Leg {
    pub(super) fn new(number: LegNo, node: NodeNo, index: u32, matrix: Object, run: u32) -> Self {
        Self {
            number,
            node,
            index,
            matrix,
            state: LegState::Waiting(Wait::MaxParallel),
            group: None,
            scope: None,
            attempt: 0,
            retries: 0,
            losses: 0,
            cancelling: false,
            timings: Timings::default(),
            tolerated: false,
            outputs: Vec::new(),
            run_attempt: run,
            note: None,
        }
    }

    /// Its cancel was accepted before it began: it never does, whatever its runner manages to do before it hears of that.
    pub(super) fn is_called_off(&self) -> bool {
        self.cancelling && matches!(self.state, LegState::Claimed { .. })
    }

    /// How it ended, as far as its job is concerned.
    pub(super) fn counted(&self) -> Option<Conclusion> {
        match self.state {
            LegState::Done(_) if self.tolerated => Some(Conclusion::Success),
            LegState::Done(conclusion) => Some(conclusion),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegState {
    Waiting(Wait),
    Queued,
    Claimed {
        runner: u64,
    },
    Running {
        runner: u64,
    },
    /// The work is done, its results are on their way.
    Uploading {
        runner: u64,
    },
    /// Its workflow runs in this scope.
    Called(ScopeNo),
    Done(Conclusion),
}

impl LegState {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether a runner has it.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Claimed { .. } | Self::Running { .. } | Self::Uploading { .. })
    }
}

/// Why a leg that could run does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// `max-parallel` legs of its job are under way.
    MaxParallel,
    /// Its concurrency group has another holder.
    Group,
    /// A declared retry waits before it tries again.
    Backoff { until: Timestamp },
}

/// When the current attempt reached each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timings {
    pub queued: Option<Timestamp>,
    pub claimed: Option<Timestamp>,
    /// Its runner had all that it needs.
    #[serde(default)]
    pub prepared: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}
