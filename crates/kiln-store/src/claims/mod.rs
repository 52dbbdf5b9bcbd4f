//! Jobs for runners: claims, leases, and what keeps both in order.
//!
//! The store reads the heads of lanes, `kiln_core::queue` chooses among them, and the store keeps the
//! choice: the place in the queue goes, the job is claimed, a lease is made, the estimate is charged,
//! all in one transaction. What a claim reads depends on how many repositories wait, never on how many
//! jobs they have.

mod history;
mod holding;
mod lanes;
mod lease;
mod machines;
mod pace;
mod shares;
mod take;
mod tidy;
mod usage;
mod waiting;

use std::collections::HashMap;
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, QueueId, RepoId, RunId, RunnerId};
use kiln_core::queue::{Policy, Requirements};
pub use kiln_core::queue::{Serving, serving};
use kiln_core::run::Leg;
use kiln_core::time::Timestamp;

pub use history::{End, Past, PastJob, history};
pub(crate) use holding::in_queues;
pub use holding::{
    COUNTED, Lease, Work, lease, leases, leases_of, waiting_count, waiting_repositories, work_of,
};
pub(crate) use lanes::remove;
pub use lease::{Beat, Command, Held, Pulse};
pub(crate) use machines::{Machine, machines};
pub use tidy::tidy_lanes;
pub use usage::fold;
pub(crate) use usage::fold_charges;
pub use waiting::{
    After as ShownBefore, Rank, WaitingJob, Waits, behind, waiting, waiting_total, why,
};

use crate::{StoreError, Tx};

/// How long a job stays with a runner that is not heard of.
pub const LEASE: Duration = Duration::from_mins(1);

/// [`LEASE`], or less where a test has no time for it.
pub fn lease_lasts() -> Duration {
    kiln_fault::lease(LEASE)
}

/// A runner that asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    pub runner: RunnerId,
    /// Queues whose requirements it meets; see [`serving`].
    pub queues: Vec<Serving>,
    /// Whose jobs it takes; a shared runner takes all.
    pub org: Option<OrgId>,
    pub want: u32,
    /// The same question has the same nonce, and gets the same answer.
    pub nonce: String,
    /// Repositories that it has worked for lately.
    pub warm: Vec<RepoId>,
}

impl Asking {
    /// A shared runner that is warm for nothing.
    pub fn new<Q: Into<Serving>>(
        runner: RunnerId,
        queues: impl IntoIterator<Item = Q>,
        want: u32,
        nonce: impl Into<String>,
    ) -> Self {
        let queues = queues.into_iter().map(Into::into).collect();
        Self { runner, queues, org: None, want, nonce: nonce.into(), warm: Vec::new() }
    }
}

/// A job that a runner has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub job: JobId,
    pub run: RunId,
    pub attempt: u32,
    /// The number of the leg in its run.
    pub number: u32,
    /// The fencing token of all that the runner says about it.
    pub claim: u32,
    pub org: OrgId,
    pub repo: RepoId,
    pub name: String,
    pub expires: Timestamp,
}

/// What runners get.
#[derive(Debug, Clone)]
pub struct Given {
    /// In the order of the questions.
    pub jobs: Vec<Vec<Claimed>>,
    /// There are jobs for those that got too few, but another server was looking at them. It is worth
    /// asking again in a moment.
    pub passed_over: bool,
    /// The legs of those that were given just now, as they are since.
    pub(crate) legs: HashMap<JobId, Leg>,
    /// How many charges were added up for it.
    pub(crate) charges: u32,
    /// For each question: from then on the runner may take a job that waits for preferred ones until then.
    pub again: Vec<Option<Timestamp>>,
}

/// Gives jobs to runners, as fairly as `policy` says.
pub async fn claim(
    tx: &mut Tx<'_>,
    policy: Policy,
    asking: &[Asking],
) -> Result<Given, StoreError> {
    take::claim(tx, policy, asking).await
}

/// Says which jobs runners still have, and hears what they are told to do.
pub async fn heartbeat(tx: &mut Tx<'_>, beats: &[Beat]) -> Result<Vec<Pulse>, StoreError> {
    lease::heartbeat(tx, beats).await
}

/// All queues, to compute which of them a runner can serve. One whose requirements cannot be read is left
/// out: a newer server may ask for what this one does not know, and its jobs must not stop all others.
pub async fn queues(tx: &mut Tx<'_>) -> Result<Vec<(QueueId, Requirements)>, StoreError> {
    let rows = tx.rows("SELECT id, requirements FROM queues ORDER BY id", &[]).await?;
    let mut queues = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Ok(requirements) = Requirements::parse(&row.get::<String>(1)?) {
            queues.push((QueueId(row.get(0)?), requirements));
        }
    }
    Ok(queues)
}
