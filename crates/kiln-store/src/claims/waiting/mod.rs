//! Waiting jobs: how many are before them, why they wait, and for how long yet.
//!
//! Positions are those of the real choice: it is played through for the first thousand jobs, without
//! taking any. What is behind them is counted. All of it is one read that is bounded, however many jobs
//! wait.

mod crew;
mod job;
mod order;
mod scene;

use std::time::Duration;

use kiln_core::id::{JobId, OrgId, QueueId, RepoId, RunId};
use kiln_core::queue::{Class, Policy};
use kiln_core::time::Timestamp;

use crate::Scope;
use crate::{StoreError, Tx};

use crew::Crews;
use job::View;
use order::Order;
use scene::Scene;

/// Nobody gets more at once.
const LARGEST: usize = 500;

/// Which waiting jobs are asked for; all that are set must be true of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    pub repo: Option<RepoId>,
    pub run: Option<RunId>,
    pub job: Option<JobId>,
    /// Who paused the whole server and why, if it is paused.
    pub server_paused: Option<String>,
}

/// A job that waits for a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    pub job: JobId,
    pub run: RunId,
    pub org: OrgId,
    pub repo: RepoId,
    /// With its owner.
    pub repo_name: String,
    pub name: String,
    pub queue: QueueId,
    pub queued: Timestamp,
    pub class: Class,
    pub priority: i64,
    /// What it asks of a runner, in words.
    pub requirements: String,
    /// How many jobs are likely to be handed out before it, plus one. Behind the first thousand it is at
    /// least this.
    pub position: u64,
    /// Why it waits, in words.
    pub reason: String,
    /// How long until it is likely to start; nothing when nobody can say.
    pub estimate: Option<Duration>,
    /// Runners that could take it: those of its organization by name, shared ones too when all may be
    /// seen, else by their pool.
    pub runners: Vec<String>,
}

impl WaitingJob {
    /// What is smaller is likely to be handed out earlier. Of those that wait in different lines nobody knows that; they
    /// stand as if they waited in one.
    pub fn rank(&self) -> impl Ord + use<> {
        (self.position, std::cmp::Reverse(self.priority), self.queued, self.job)
    }
}

/// The jobs that wait, those that are likely to come first in front.
pub async fn waiting(
    tx: &mut Tx<'_>,
    scope: Scope,
    policy: Policy,
    waits: &Waits,
    limit: usize,
) -> Result<Vec<WaitingJob>, StoreError> {
    let scene = Scene::read(tx).await?;
    let shown = job::shown(tx, scope, &scene, waits).await?;
    let crews = Crews::gather(&scene, shown.iter().map(|one| &scene.lanes[&one.lane].lane));
    let order = Order::play(tx, policy, &scene, &crews).await?;
    let view = View { scene: &scene, crews: &crews, order: &order, scope, waits };
    let mut jobs: Vec<WaitingJob> = shown.iter().map(|one| view.explain(one)).collect();
    jobs.sort_by_key(WaitingJob::rank);
    jobs.truncate(limit.min(LARGEST));
    Ok(jobs)
}

/// Why one job waits; nothing if it does not.
pub async fn why(
    tx: &mut Tx<'_>,
    scope: Scope,
    policy: Policy,
    job: JobId,
    server_paused: Option<String>,
) -> Result<Option<WaitingJob>, StoreError> {
    let waits = Waits { job: Some(job), server_paused, ..Waits::default() };
    Ok(waiting(tx, scope, policy, &waits, 1).await?.pop())
}
