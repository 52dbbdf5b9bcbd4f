//! Waiting jobs: how many are before them, why they wait, and for how long yet.
//!
//! Positions are those of the real choice: it is played through for the first thousand jobs, without
//! taking any. What is behind them is counted. All of it is one read that is bounded, however many jobs
//! wait.

mod crew;
mod job;
mod order;
mod scene;

use std::cmp::Reverse;
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

/// Which waiting jobs are asked for; all that are set must be true of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    pub repo: Option<RepoId>,
    pub run: Option<RunId>,
    pub job: Option<JobId>,
    /// Who paused the whole server and why, if it is paused.
    pub server_paused: Option<String>,
    /// Only what stands behind this one.
    pub after: Option<Rank>,
}

/// Where a job stands among all that wait: what is smaller is likely to be handed out earlier. Of those that wait in
/// different lines nobody knows that; they stand as if they waited in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    pub position: u64,
    pub priority: Reverse<i64>,
    pub queued: Timestamp,
    pub job: JobId,
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
    pub fn rank(&self) -> Rank {
        let Self { position, priority, queued, job, .. } = *self;
        Rank { position, priority: Reverse(priority), queued, job }
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
    let behind =
        waits.after.map_or(0, |after| usize::try_from(after.position).unwrap_or(usize::MAX));
    // Whoever is the n-th of its lane is at position n or later.
    let reach = behind.saturating_add(limit);
    let shown = job::shown(tx, scope, &scene, waits, reach).await?;
    let crews = Crews::gather(&scene, shown.iter().map(|one| &scene.lanes[&one.lane].lane));
    let order = Order::play(tx, policy, &scene, &crews).await?;
    let view = View { scene: &scene, crews: &crews, order: &order, scope, waits };
    let mut jobs: Vec<WaitingJob> = shown.iter().map(|one| view.explain(one)).collect();
    jobs.sort_by_key(WaitingJob::rank);
    jobs.drain(..waits.after.map_or(0, |after| end_of(&jobs, after)));
    jobs.truncate(limit);
    Ok(jobs)
}

/// How many of these are not behind a job. While it waits it is found where it is now: those before it may be gone.
fn end_of(jobs: &[WaitingJob], after: Rank) -> usize {
    match jobs.iter().position(|job| job.job == after.job) {
        Some(at) => at + 1,
        None => jobs.partition_point(|job| job.rank() <= after),
    }
}

/// How many jobs wait, counted up to [`COUNTED`](crate::claims::COUNTED).
pub async fn waiting_total(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: Option<RepoId>,
) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM lanes AS l JOIN queue AS q ON q.lane_id = l.id AND q.key >= l.floor
                   WHERE l.active = 1 AND (l.org_id = $1 OR $1 IS NULL) AND (l.repo_id = $2 OR $2 IS NULL) LIMIT $3
               ) AS first";
    let repo = repo.map(|repo| repo.0);
    let values = [scope.parameter(), repo.into(), crate::claims::COUNTED.into()];
    Ok(tx.one("count", sql, &values).await?.get::<i64>(0)?.unsigned_abs())
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
