//! Claims that did not end their job, so that people see why it was tried again.

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::Timings;

use super::view;
use crate::{Row, Scope, StoreError, Tx};

/// A claim that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastClaim {
    pub job: JobId,
    pub claim: u32,
    pub runner: RunnerId,
    /// `lost`, `retried` or `returned`.
    pub outcome: String,
    /// Why, in words. A declared retry needs none.
    pub reason: Option<String>,
    pub timings: Timings,
}

/// The earlier claims of all jobs of an attempt, each job's in their order; of those that it took over, where they ran.
pub async fn past_claims(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
) -> Result<Vec<PastClaim>, StoreError> {
    view::visible(tx, scope, run).await?;
    let sql = "SELECT j.id, c.claim, c.runner_id, c.outcome, c.reason, c.queued_at, c.claimed_at,
                   c.prepared_at, c.started_at, c.ended_at
               FROM jobs AS j JOIN job_claims AS c ON c.run_id = j.run_id
                   AND c.attempt = j.origin_attempt AND c.number = j.number
               WHERE j.run_id = $1 AND j.attempt = $2 AND c.run_id = $1 ORDER BY c.number, c.claim";
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(past_claim).collect()
}

fn past_claim(row: &Row) -> Result<PastClaim, StoreError> {
    Ok(PastClaim {
        job: row.get(0)?,
        claim: row.get(1)?,
        runner: row.get(2)?,
        outcome: row.get(3)?,
        reason: row.get(4)?,
        timings: Timings {
            queued: row.get(5)?,
            claimed: row.get(6)?,
            prepared: row.get(7)?,
            started: row.get(8)?,
            ended: row.get(9)?,
        },
    })
}
