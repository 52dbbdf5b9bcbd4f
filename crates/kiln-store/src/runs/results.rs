//! What the results of jobs depended on, and whose result stands for another.

use kiln_core::id::{JobId, RunId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{rows, view};
use crate::claims::Lease;
use crate::sql::{Sql, Value};
use crate::{Row, Scope, StoreError, Tx};

/// Instead of a claim: part of what the job left is gone.
const SPOILT: i64 = -1;

/// An earlier job with the same fingerprint, which has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub job: JobId,
    pub run: RunId,
    /// Of the run.
    pub attempt: u32,
    /// Under which it ended.
    pub claim: u32,
    pub name: String,
    /// The number of its run within the workflow.
    pub number: i64,
    pub conclusion: Conclusion,
    pub outputs: Vec<(String, String)>,
    pub ended: Option<Timestamp>,
    /// An artifact of it has been deleted or replaced, or its time was over.
    pub is_spoilt: bool,
}

/// Whose result stands for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reused {
    pub job: i64,
    /// Of the run.
    pub attempt: u32,
    /// The number of the run within its workflow.
    pub number: i64,
    /// The claim for which it was found: another one of the same job may have run after all.
    pub claim: u32,
}

/// Keeps what the result of a claim depends on, in case it is green. It counts for nobody else before the
/// job has ended under this claim.
pub async fn note_fingerprint(
    tx: &mut Tx<'_>,
    lease: &Lease,
    fingerprint: &[u8],
) -> Result<(), StoreError> {
    note(tx, lease, fingerprint.into(), Value::Null).await
}

/// Keeps that the result of another job stands for this claim. It is no result of its own.
pub async fn note_reuse(
    tx: &mut Tx<'_>,
    lease: &Lease,
    source: &Candidate,
) -> Result<(), StoreError> {
    let reused = Reused {
        job: source.job.0,
        attempt: source.attempt,
        number: source.number,
        claim: lease.claim,
    };
    let text = serde_json::to_string(&reused).expect("numbers can be written");
    note(tx, lease, Value::Null, text.into()).await
}

async fn note(
    tx: &mut Tx<'_>,
    lease: &Lease,
    fingerprint: Value,
    reused: Value,
) -> Result<(), StoreError> {
    let sql = "UPDATE jobs SET fingerprint = $5, fingerprint_claim = $3, reused = $6
               WHERE run_id = $1 AND id = $2 AND claim = $3 AND runner_id = $4";
    let Lease { run, job, claim, runner, .. } = *lease;
    let row = vec![run.into(), job.into(), claim.into(), runner.into(), fingerprint, reused];
    if tx.is_postgres() {
        return tx.execute(sql, &row).await.map(drop);
    }
    // What is remembered of a run does not include it, and so need not be forgotten.
    tx.write_remembered(sql.into(), vec![row])
}

/// The newest job of the same repository and the same trust that had this fingerprint and ended well or
/// badly. What was cancelled says nothing.
pub async fn latest_result(
    tx: &mut Tx<'_>,
    lease: &Lease,
    fingerprint: &[u8],
) -> Result<Option<Candidate>, StoreError> {
    let sql =
        "SELECT j.id, j.run_id, j.attempt, j.claim, j.name, r.run_number, j.conclusion, j.outputs,
                   j.ended_at, j.fingerprint_claim
               FROM jobs AS j
               JOIN run_attempts AS a ON a.run_id = j.run_id AND a.attempt = j.attempt
               JOIN runs AS r ON r.id = j.run_id
               WHERE j.fingerprint = $1 AND a.repo_id = $2 AND a.trust = (
                   SELECT trust FROM run_attempts WHERE run_id = $3 AND attempt = $4)
               AND j.conclusion IN ('success', 'failure', 'timed_out')
               AND j.id <> $5 AND (j.fingerprint_claim = j.claim OR j.fingerprint_claim < 0)
               ORDER BY j.ended_at DESC, j.id DESC LIMIT 1";
    let row = [
        fingerprint.into(),
        lease.repo.into(),
        lease.run.into(),
        lease.attempt.into(),
        lease.job.into(),
    ];
    tx.row(sql, &row).await?.as_ref().map(candidate).transpose()
}

/// How many runs of a workflow are looked through for an earlier one of a job.
const MOST_RUNS: u32 = 50;

/// What the newest earlier job of the same name, workflow and trust depended on that was not one for which another
/// stood, and the number of its run.
pub async fn earlier_fingerprint(
    tx: &mut Tx<'_>,
    lease: &Lease,
) -> Result<Option<(Vec<u8>, i64)>, StoreError> {
    let sql = "SELECT j.fingerprint, r.run_number
               FROM (SELECT id, run_number FROM runs WHERE id < $1 AND workflow_id = (
                   SELECT workflow_id FROM runs WHERE id = $1) ORDER BY id DESC LIMIT $4) AS r
               JOIN jobs AS j ON j.run_id = r.id
               JOIN run_attempts AS a ON a.run_id = j.run_id AND a.attempt = j.attempt
               WHERE j.fingerprint IS NOT NULL
               AND j.name = (SELECT name FROM jobs WHERE run_id = $1 AND id = $3)
               AND a.trust = (SELECT trust FROM run_attempts WHERE run_id = $1 AND attempt = $2)
               ORDER BY r.id DESC, j.id DESC LIMIT 1";
    let row = [lease.run.into(), lease.attempt.into(), lease.job.into(), MOST_RUNS.into()];
    tx.row(sql, &row).await?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

fn candidate(row: &Row) -> Result<Candidate, StoreError> {
    let word: String = row.get(6)?;
    let conclusion = Conclusion::of_github(&word)
        .ok_or_else(|| StoreError::Database(format!("`{word}` is no conclusion")))?;
    Ok(Candidate {
        job: row.get(0)?,
        run: row.get(1)?,
        attempt: row.get(2)?,
        claim: row.get(3)?,
        name: row.get(4)?,
        number: row.get(5)?,
        conclusion,
        outputs: rows::outputs_of(row.get::<Option<String>>(7)?.as_deref())?,
        ended: row.get(8)?,
        is_spoilt: row.get::<i64>(9)? == SPOILT,
    })
}

/// What these jobs left is not all there any more, so nobody can use their results again.
pub(crate) fn spoil(tx: &mut Tx<'_>, mut jobs: Vec<JobId>) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    jobs.sort_unstable();
    jobs.dedup();
    let sql = Sql::of(
        "UPDATE jobs SET fingerprint_claim = -1
         WHERE run_id = $1 AND id = $2 AND fingerprint IS NOT NULL",
        "UPDATE jobs AS t SET fingerprint_claim = -1
         FROM unnest($1::bigint[], $2::bigint[]) AS u (run_id, id)
         WHERE t.run_id = u.run_id AND t.id = u.id AND t.fingerprint IS NOT NULL",
    );
    let rows: Vec<Vec<Value>> =
        jobs.into_iter().map(|job| vec![job.run().into(), job.into()]).collect();
    tx.write_remembered(sql, rows)
}

/// The jobs of an attempt for which another one stands; of those that it took over, as it was where they ran.
pub async fn reuses(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
) -> Result<Vec<(JobId, Reused)>, StoreError> {
    view::visible(tx, scope, run).await?;
    let sql = "SELECT j.id, o.reused, o.claim FROM jobs AS j JOIN jobs AS o ON o.run_id = j.run_id
                   AND o.attempt = j.origin_attempt AND o.number = j.number
               WHERE j.run_id = $1 AND j.attempt = $2 AND o.run_id = $1
                   AND o.reused IS NOT NULL";
    let mut found = Vec::new();
    for row in tx.rows(sql, &[run.into(), attempt.into()]).await? {
        let broken = |error| StoreError::Database(format!("whose result a job used: {error}"));
        let reused: Reused = serde_json::from_str(&row.get::<String>(1)?).map_err(broken)?;
        if reused.claim == row.get::<u32>(2)? {
            found.push((row.get(0)?, reused));
        }
    }
    Ok(found)
}
