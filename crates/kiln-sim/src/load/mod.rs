//! Policies compared under load, in virtual time.
//!
//! A [`Load`] is jobs with the time at which they come, made by [`generate`] or read from a [`trace`]; a
//! [`Fleet`] is the runners. [`simulate`] lets one [`Policy`] hand the jobs out, with the code that a
//! server uses, and a [`Report`] says how long who waited and how even that was.

mod fairness;
mod fifo;
mod fleet;
mod generate;
mod jobs;
mod numbers;
mod policy;
mod real;
mod report;
mod simulate;
pub mod trace;

#[cfg(test)]
mod tests;

pub use fairness::jain;
pub use fleet::{Fleet, NotAFleet, Pool};
pub use generate::{Shape, Wanted, generate};
pub use jobs::{Job, Lane, Load, LoadBuilder, MOST_JOBS, Organization, Repository, TooMuch};
pub use policy::Policy;
pub use report::{OrganizationReport, Report, Waits};
pub use simulate::{Outcome, simulate};
