//! Who has which job, and how much waits: questions around claims.

use std::collections::HashMap;

use kiln_core::id::{JobId, OrgId, QueueId, RepoId, RunId, RunnerId};
use kiln_core::time::Timestamp;

use super::Command;
use crate::sql::{Row, Sql, Value};
use crate::{Scope, StoreError, Tx};

/// How far jobs that wait are counted; that many means that there may be more.
pub const COUNTED: u32 = 10_000;

/// A job that a runner has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub job: JobId,
    pub claim: u32,
    pub runner: RunnerId,
    pub run: RunId,
    /// Of the run.
    pub attempt: u32,
    /// The number of the leg in its run.
    pub number: u32,
    pub org: OrgId,
    pub repo: RepoId,
    pub claimed: Timestamp,
    pub expires: Timestamp,
    /// What the runner is told.
    pub command: Option<Command>,
    /// The runner has said that it has the job.
    pub acknowledged: bool,
    /// The number of the last event that was heard of it.
    pub heard: u64,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT job_id, claim, runner_id, run_id, attempt, number, org_id, repo_id, claimed_at, \
             expires_at, command, acknowledged, heard FROM leases WHERE ",
            $rest
        )
    };
}

macro_rules! work {
    ($runners:literal) => {
        concat!(
            "SELECT l.runner_id, l.job_id, l.run_id, j.name, o.name, r.name FROM leases AS l \
             JOIN jobs AS j ON j.run_id = l.run_id AND j.attempt = l.attempt AND j.number = l.number \
             JOIN repositories AS r ON r.id = l.repo_id JOIN organizations AS o ON o.id = r.org_id \
             WHERE l.runner_id ",
            $runners,
            " AND (l.org_id = $2 OR $2 IS NULL) ORDER BY l.claimed_at, l.job_id LIMIT $3"
        )
    };
}

/// The lease of a job under this claim, if there still is one.
pub async fn lease(tx: &mut Tx<'_>, job: JobId, claim: u32) -> Result<Option<Lease>, StoreError> {
    let sql = select!("job_id = $1 AND claim = $2");
    tx.row(sql, &[job.into(), claim.into()]).await?.as_ref().map(lease_of).transpose()
}

/// The leases of many claims, in their order.
pub async fn leases(
    tx: &mut Tx<'_>,
    claims: &[(JobId, u32)],
) -> Result<Vec<Option<Lease>>, StoreError> {
    let sql = Sql::of(
        select!("job_id = $1 AND claim = $2"),
        select!(
            "(job_id, claim) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[])) AND job_id = ANY($1)"
        ),
    );
    let keys: Vec<Vec<Value>> =
        claims.iter().map(|(job, claim)| vec![(*job).into(), (*claim).into()]).collect();
    let found = tx.rows_all(sql, &keys).await?;
    let found =
        found.iter().map(|row| lease_of(row).map(|lease| ((lease.job, lease.claim), lease)));
    let found: HashMap<(JobId, u32), Lease> = found.collect::<Result<_, _>>()?;
    Ok(claims.iter().map(|claim| found.get(claim).cloned()).collect())
}

/// All that a runner has, the oldest first.
pub async fn leases_of(tx: &mut Tx<'_>, runner: RunnerId) -> Result<Vec<Lease>, StoreError> {
    let sql = select!("runner_id = $1 ORDER BY claimed_at, job_id");
    tx.rows(sql, &[runner.into()]).await?.iter().map(lease_of).collect()
}

/// A job that a runner has, as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    pub runner: RunnerId,
    pub job: JobId,
    pub run: RunId,
    pub name: String,
    /// `owner/name`.
    pub repo: String,
}

/// What these runners do, as far as the scope sees it, the oldest first.
pub async fn work_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    runners: &[RunnerId],
    limit: u32,
) -> Result<Vec<Work>, StoreError> {
    let sql = Sql::of(work!("IN (SELECT value FROM json_each($1))"), work!("= ANY($1)"));
    let ids: Value = runners.iter().map(|runner| runner.0).collect();
    let rows = tx.rows(sql, &[ids, scope.parameter(), limit.into()]).await?;
    let work = |row: &Row| {
        Ok(Work {
            runner: RunnerId(row.get(0)?),
            job: JobId(row.get(1)?),
            run: RunId(row.get(2)?),
            name: row.get(3)?,
            repo: format!("{}/{}", row.get::<String>(4)?, row.get::<String>(5)?),
        })
    };
    rows.iter().map(work).collect()
}

fn lease_of(row: &Row) -> Result<Lease, StoreError> {
    let command: Option<String> = row.get(10)?;
    Ok(Lease {
        job: row.get(0)?,
        claim: row.get(1)?,
        runner: row.get(2)?,
        run: row.get(3)?,
        attempt: row.get(4)?,
        number: row.get(5)?,
        org: row.get(6)?,
        repo: row.get(7)?,
        claimed: row.get(8)?,
        expires: row.get(9)?,
        command: command.and_then(|word| Command::parse(&word)),
        acknowledged: row.get(11)?,
        heard: row.get::<i64>(12)?.unsigned_abs(),
    })
}

/// Counts the jobs of lanes, a piece of each lane at most.
macro_rules! count {
    ($queues:literal, $joined:literal, $open:literal) => {
        concat!(
            "SELECT count(*) FROM (SELECT 1 FROM lanes AS l ",
            $joined,
            " WHERE l.queue_id ",
            $queues,
            " AND l.active = 1 AND (l.org_id = $2 OR $2 IS NULL)",
            $open,
            " LIMIT $3) AS jobs"
        )
    };
}

// On PostgreSQL each lane is looked into for itself: a join might read the whole queue.

const IN_QUEUES: Sql = Sql::of(
    count!(
        "IN (SELECT value FROM json_each($1))",
        "JOIN queue AS q ON q.lane_id = l.id AND q.key >= l.floor",
        ""
    ),
    count!(
        "= ANY($1)",
        "CROSS JOIN LATERAL (SELECT 1 FROM queue AS q WHERE q.lane_id = l.id AND q.key >= l.floor
             LIMIT $3) AS q",
        ""
    ),
);

const TO_BE_HAD: Sql = Sql::of(
    count!(
        "IN (SELECT value FROM json_each($1))",
        "JOIN queues AS qs ON qs.id = l.queue_id JOIN repositories AS r ON r.id = l.repo_id
         JOIN queue AS q ON q.lane_id = l.id AND q.key >= l.floor",
        " AND qs.paused IS NULL AND r.paused IS NULL
          AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'paused')"
    ),
    count!(
        "= ANY($1)",
        "JOIN queues AS qs ON qs.id = l.queue_id JOIN repositories AS r ON r.id = l.repo_id
         CROSS JOIN LATERAL (SELECT 1 FROM queue AS q WHERE q.lane_id = l.id AND q.key >= l.floor
             LIMIT $3) AS q",
        " AND qs.paused IS NULL AND r.paused IS NULL
          AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'paused')"
    ),
);

/// How many jobs wait in these queues that a runner could have now, up to [`COUNTED`]; a runner of an
/// organization has only those of that.
pub async fn waiting_count(
    tx: &mut Tx<'_>,
    queues: &[QueueId],
    org: Option<OrgId>,
) -> Result<u64, StoreError> {
    counted(tx, TO_BE_HAD, queues, org).await
}

/// The same with what nobody can have because it is paused.
pub(crate) async fn in_queues(
    tx: &mut Tx<'_>,
    queues: &[QueueId],
    org: Option<OrgId>,
) -> Result<u64, StoreError> {
    counted(tx, IN_QUEUES, queues, org).await
}

/// Repositories (`owner/name`) with jobs in a queue, some of them.
pub async fn waiting_repositories(
    tx: &mut Tx<'_>,
    queue: QueueId,
    limit: u32,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT o.name || '/' || r.name FROM lanes AS l \
               JOIN repositories AS r ON r.id = l.repo_id JOIN organizations AS o ON o.id = l.org_id \
               WHERE l.queue_id = $1 AND l.active = 1 LIMIT $2";
    tx.rows(sql, &[queue.into(), limit.into()]).await?.iter().map(|row| row.get(0)).collect()
}

async fn counted(
    tx: &mut Tx<'_>,
    sql: Sql,
    queues: &[QueueId],
    org: Option<OrgId>,
) -> Result<u64, StoreError> {
    if queues.is_empty() {
        return Ok(0);
    }
    let queues: Value = queues.iter().map(|queue| queue.0).collect();
    let row = tx.one("count", sql, &[queues, org.into(), COUNTED.into()]).await?;
    Ok(row.get::<i64>(0)?.unsigned_abs())
}
