//! Which waiting job a runner gets: requirements, priority classes, fair shares, and the choice itself.
//!
//! A *queue* is a set of requirements; a *lane* holds the jobs of one repository, class and priority
//! in one queue, first in, first out. The store keeps both in tables; here is what their columns
//! mean, and how the next job is chosen from the heads of lanes alone.

mod class;
mod explain;
mod matching;
mod picker;
mod policy;
mod rank;
mod requirements;
mod serving;
mod usage;

pub use class::{Class, HeadStarts, NotHeadStarts, key};
pub use explain::{Candidate, Reason, Standing, explain, forecast};
pub use matching::{matches, why_nobody, why_not};
pub use picker::{Asker, Batch, Head, Lane, Next, OrgShare, Pick, Picker, RepoShare};
pub use policy::Policy;
pub use rank::{Idle, rank};
pub use requirements::{
    Capabilities, Demand, MOST_PREFERENCES, NotRequirements, Offer, Requirements,
};
pub use serving::{Serving, serves, serving};
pub use usage::{Usage, estimate, ratio, typical};
