//! What happens to a run, and what must happen because of it.

use std::fmt;
use std::time::Duration;

use crate::time::Timestamp;

use super::{Conclusion, LegNo, Member, NodeNo, Placement, ScopeNo};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The run was accepted.
    Start,
    /// A concurrency group lets the run or a leg in.
    Admitted(Member),
    Claimed {
        leg: LegNo,
        runner: u64,
    },
    Started {
        leg: LegNo,
        attempt: u32,
        /// How long the runner took from the claim until it had all that the job needs, if it says so.
        preparing: Option<Duration>,
    },
    Uploading {
        leg: LegNo,
        attempt: u32,
    },
    Finished {
        leg: LegNo,
        attempt: u32,
        conclusion: Conclusion,
        outputs: Vec<(String, String)>,
    },
    /// The runner is gone, or failed in a way that another try may mend.
    Lost {
        leg: LegNo,
        attempt: u32,
        reason: String,
    },
    /// The runner never said that it has the job: it goes back, and nobody is to blame.
    Returned {
        leg: LegNo,
        attempt: u32,
    },
    /// The waiting time of a declared retry is over.
    Wake {
        leg: LegNo,
    },
    Cancel {
        by: String,
        reason: String,
        forced: bool,
    },
    CancelLeg {
        leg: LegNo,
        reason: String,
    },
    /// No runner will ever take this queued leg, so it is left out, and says why.
    Skip {
        leg: LegNo,
        reason: String,
    },
    /// No runner there is could ever take this queued leg: it fails, and says why.
    Unsupported {
        leg: LegNo,
        reason: String,
    },
    /// The rest of the work of an earlier event: see [`Effect::Continue`].
    Step(Step),
}

/// One bounded piece of propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// All needs of the node are done.
    Ready(NodeNo),
    /// A re-run lets the open legs of the node go on.
    Refill(NodeNo),
    /// The node is done; its dependents must hear of it.
    Told(NodeNo),
    /// All nodes of the scope are done.
    Closed(ScopeNo),
    /// A cancelled run asks whether this leg may go on.
    Sweep(LegNo),
    /// The leg asks for its concurrency group.
    Enter(LegNo),
    /// The concurrency group of the leg lets it in.
    Admit(LegNo),
}

/// Something that must be done in the world; repeating it does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The leg can be given to a runner: to which ones is said here if it had to be found out just now.
    Enqueue {
        leg: LegNo,
        placement: Option<Box<Placement>>,
    },
    /// The leg left the queue without being claimed.
    Dequeue(LegNo),
    /// Tell the runner that holds this attempt to end it.
    Stop {
        leg: LegNo,
        attempt: u32,
        forced: bool,
    },
    /// Send [`Event::Wake`] at this time.
    WakeAt {
        leg: LegNo,
        at: Timestamp,
    },
    /// A member of another run holds a group from now on: send it [`Event::Admitted`].
    Admit(Member),
    /// A member of another run must be cancelled.
    CancelMember {
        member: Member,
        reason: String,
    },
    LegDone {
        leg: LegNo,
        conclusion: Conclusion,
    },
    NodeDone {
        node: NodeNo,
        conclusion: Conclusion,
    },
    RunDone(Conclusion),
    /// More was to be done than fits into one piece: apply this event next.
    Continue(Step),
}

/// Why an event was refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    NoSuchLeg(LegNo),
    /// A word about an attempt that is not the current one.
    Stale {
        leg: LegNo,
        current: u32,
    },
    /// The leg is not in a state in which this can happen.
    WrongState {
        leg: LegNo,
        event: &'static str,
    },
    /// The run has ended.
    RunIsDone,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLeg(leg) => write!(f, "the run has no job {leg}"),
            Self::Stale { leg, current } => {
                write!(f, "job {leg} is at attempt {current}; this is about an earlier one")
            }
            Self::WrongState { leg, event } => write!(f, "job {leg} cannot be {event} now"),
            Self::RunIsDone => f.write_str("the run has ended"),
        }
    }
}

impl std::error::Error for Rejected {}
