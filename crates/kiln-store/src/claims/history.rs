//! What a runner has done: jobs that it had, the newest first.
//!
//! Jobs have no index by runner, which every claim would have to keep up: so a look goes along the newest jobs of all,
//! and no further than it may.

use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use crate::{Row, Scope, Sql, StoreError, Tx, Value};

/// A claim of a job that a runner had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastJob {
    pub job: JobId,
    pub name: String,
    /// `owner/name`.
    pub repo: String,
    pub claim: u32,
    pub end: End,
    pub claimed: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It has the job now.
    Open,
    Ended(Conclusion),
    /// The job went on without it: `lost`, `returned` or `retried`, and why if that was said.
    LetGo {
        how: String,
        why: Option<String>,
    },
}

/// Which part of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Jobs before this one; from the newest on if there is none.
    pub before: Option<JobId>,
    pub limit: u32,
    /// How many jobs of all runners are looked at, at most.
    pub most: u32,
}

/// What a runner did, as far as the scope sees it, and before which job to look further.
pub async fn history(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: RunnerId,
    past: Past,
) -> Result<(Vec<PastJob>, Option<JobId>), StoreError> {
    let before = past.before.unwrap_or(JobId(i64::MAX));
    let edge = edge(tx, before, past.most).await?;
    let lowest = edge.unwrap_or(JobId(0));
    let mut found = ended(tx, scope, runner, (lowest, before), past.limit).await?;
    let last = found.last().filter(|_| found.len() >= past.limit as usize).map(|past| past.job);
    // All claims of one job are in one piece.
    let lowest = last.map_or(lowest, |last| JobId(last.0 - 1));
    found.extend(let_go(tx, scope, runner, (lowest, before)).await?);
    found.sort_by_key(|past| (std::cmp::Reverse(past.job), std::cmp::Reverse(past.claim)));
    Ok((found, last.or_else(|| edge.map(|edge| JobId(edge.0 + 1)))))
}

/// The first job that is not looked at any more.
async fn edge(tx: &mut Tx<'_>, before: JobId, most: u32) -> Result<Option<JobId>, StoreError> {
    let sql = Sql::of(
        "SELECT id FROM jobs WHERE id < $1 AND $2 = $2 ORDER BY id DESC LIMIT 1 OFFSET $3",
        "SELECT id FROM jobs WHERE run_id <= $2 AND id < $1 ORDER BY run_id DESC, id DESC LIMIT 1 OFFSET $3",
    );
    let row = tx.row(sql, &[before.into(), before.run().into(), most.into()]).await?;
    row.map(|row| row.get(0)).transpose()
}

macro_rules! past {
    ($columns:literal, $from:literal, $rest:literal) => {
        concat!(
            "SELECT j.id, j.name, o.name, r.name, ",
            $columns,
            " FROM ",
            $from,
            " CROSS JOIN runs AS u CROSS JOIN repositories AS r CROSS JOIN organizations AS o \
             WHERE u.id = j.run_id AND r.id = u.repo_id AND o.id = r.org_id AND (u.org_id = $2 OR $2 IS NULL) \
             AND j.run_id >= $3 AND j.run_id <= $4 AND j.id > $5 AND j.id < $6 AND j.origin_attempt = j.attempt AND ",
            $rest
        )
    };
}

fn place(runner: RunnerId, scope: Scope, (lowest, before): (JobId, JobId)) -> Vec<Value> {
    let runs = [lowest.run().into(), before.run().into()];
    let [first, last] = runs;
    vec![runner.into(), scope.parameter(), first, last, lowest.into(), before.into()]
}

/// Jobs that it has or that ended with it.
async fn ended(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: RunnerId,
    span: (JobId, JobId),
    limit: u32,
) -> Result<Vec<PastJob>, StoreError> {
    let sql = past!(
        "j.claim, j.conclusion, j.claimed_at, j.started_at, j.ended_at",
        "jobs AS j",
        "j.runner_id = $1 ORDER BY j.run_id DESC, j.id DESC LIMIT $7"
    );
    let mut values = place(runner, scope, span);
    values.push(limit.into());
    let job = |row: &Row| {
        let word: Option<String> = row.get(5)?;
        let conclusion = word.as_deref().and_then(Conclusion::of_github);
        past_job(row, conclusion.map_or(End::Open, End::Ended), 6)
    };
    tx.rows(sql, &values).await?.iter().map(job).collect()
}

/// Claims that did not end their job.
async fn let_go(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: RunnerId,
    span: (JobId, JobId),
) -> Result<Vec<PastJob>, StoreError> {
    let sql = past!(
        "c.claim, c.outcome, c.reason, c.claimed_at, c.started_at, c.ended_at",
        "job_claims AS c CROSS JOIN jobs AS j",
        "c.run_id >= $3 AND c.run_id <= $4 AND c.runner_id = $1 \
         AND j.run_id = c.run_id AND j.attempt = c.attempt AND j.number = c.number"
    );
    let claim = |row: &Row| past_job(row, End::LetGo { how: row.get(5)?, why: row.get(6)? }, 7);
    tx.rows(sql, &place(runner, scope, span)).await?.iter().map(claim).collect()
}

fn past_job(row: &Row, end: End, times: usize) -> Result<PastJob, StoreError> {
    Ok(PastJob {
        job: row.get(0)?,
        name: row.get(1)?,
        repo: format!("{}/{}", row.get::<String>(2)?, row.get::<String>(3)?),
        claim: row.get(4)?,
        end,
        claimed: row.get(times)?,
        started: row.get(times + 1)?,
        ended: row.get(times + 2)?,
    })
}
