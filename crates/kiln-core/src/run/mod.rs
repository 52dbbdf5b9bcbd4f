//! A run as data, and the one function that changes it.
//!
//! [`apply`] takes what happened and the rows around it, changes them and says what must be done in
//! the world. It never looks at the whole graph: finishing a job costs what its surroundings cost.
//! `kiln run` keeps a whole run in one [`Neighbourhood`]; a store loads the part that an event
//! touches.
//!
//! A job of the plan is a [`Node`]; its matrix makes [`Leg`]s of it, which are what runners run. A leg
//! that calls a reusable workflow opens a [`Scope`] with nodes of its own.

mod again;
mod apply;
mod cancel;
mod conclusion;
mod evaluator;
mod event;
mod explain;
mod finish;
mod footprint;
mod granted;
mod group;
mod memory;
mod ready;
mod state;

pub use again::{Again, Refused, again};
pub use apply::{MAX_STEPS, Neighbourhood, Transition, apply, apply_within};
pub use conclusion::{Conclusion, conclude};
pub use evaluator::{Evaluator, GroupRequest, JobContext, Legs, Need, Placement, Status};
pub use event::{Effect, Event, Rejected, Step};
pub use explain::{explain, explain_one, waits_for_group};
pub use finish::claim;
pub use footprint::{AtHand, Wanted};
pub use granted::{granted, written};
pub use group::{Entry as GroupEntry, Group, MAX_WAITING, Member};
pub use memory::{Memory, PastCall, PastJob, PastLeg, recall, remember};
pub use state::{
    Ancestry, Cancel, Leg, LegNo, LegState, Node, NodeNo, NodeState, Run, RunState, Scope, ScopeNo,
    Tally, Timings, Wait,
};
