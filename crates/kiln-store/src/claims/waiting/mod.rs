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
    /// As much as it takes to find what stands [`behind`] this.
    pub after: Option<After>,
}

/// Where a piece of the queue ended that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    pub last: Rank,
    /// Some of the others that were shown with it, for the case that it is handed out meanwhile.
    pub beside: Vec<JobId>,
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

/// The jobs that wait, those that are likely to come first in front. With [`Waits::after`] these are all that are before
/// the end of the next piece, or more: jobs of several scopes are put in one order before [`behind`] is asked.
pub async fn waiting(
    tx: &mut Tx<'_>,
    scope: Scope,
    policy: Policy,
    waits: &Waits,
    limit: usize,
) -> Result<Vec<WaitingJob>, StoreError> {
    let scene = Scene::read(tx).await?;
    let behind = waits
        .after
        .as_ref()
        .map_or(0, |after| usize::try_from(after.last.position).unwrap_or(usize::MAX));
    // Whoever is the n-th of its lane is at position n or later.
    let reach = behind.saturating_add(limit);
    let shown = job::shown(tx, scope, &scene, waits, reach).await?;
    let crews = Crews::gather(&scene, shown.iter().map(|one| &scene.lanes[&one.lane].lane));
    let order = Order::play(tx, policy, &scene, &crews).await?;
    let view = View { scene: &scene, crews: &crews, order: &order, scope, waits };
    let mut jobs: Vec<WaitingJob> = shown.iter().map(|one| view.explain(one)).collect();
    jobs.sort_by_key(WaitingJob::rank);
    if waits.after.is_none() {
        jobs.truncate(limit);
    }
    Ok(jobs)
}

/// What stands behind a piece that was shown, of all jobs in their order. Those of the piece that still wait are found where
/// they are now; the last of them is its end. When all are gone, nobody knows how many went before them: the queue
/// begins anew, as some jobs that come twice are better than one that never comes.
pub fn behind(mut jobs: Vec<WaitingJob>, after: &After) -> Vec<WaitingJob> {
    let shown = |job: &WaitingJob| job.job == after.last.job || after.beside.contains(&job.job);
    let end = jobs.iter().rposition(shown).map_or(0, |last| last + 1);
    jobs.drain(..end);
    jobs
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
