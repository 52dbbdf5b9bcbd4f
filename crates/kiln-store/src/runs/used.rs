//! What jobs used of their runners, as the runners measured it.

use kiln_core::id::{JobId, RunId, RunnerId};
use serde::{Deserialize, Serialize};

use super::view;
use crate::{Row, Scope, StoreError, Tx};

/// The use of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobUse {
    pub cpu_ms: u64,
    pub memory_peak_kb: u64,
    pub disk_mb: u64,
}

/// Keeps what a claim used. Whoever says so must have the job, or have ended it: all others change nothing.
pub async fn note_use(
    tx: &mut Tx<'_>,
    job: JobId,
    claim: u32,
    runner: RunnerId,
    used: &JobUse,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(used).expect("numbers can be written");
    let sql = "UPDATE jobs SET used = $5
               WHERE run_id = $1 AND id = $2 AND claim = $3 AND runner_id = $4";
    let row = vec![job.run().into(), job.into(), claim.into(), runner.into(), text.into()];
    if tx.is_postgres() {
        return tx.execute(sql, &row).await.map(drop);
    }
    // What is remembered of a run does not include it, and so need not be forgotten.
    tx.write_remembered(sql.into(), vec![row])
}

/// The use of the jobs of an attempt, as far as it is known.
pub async fn uses(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
) -> Result<Vec<(JobId, JobUse)>, StoreError> {
    view::visible(tx, scope, run).await?;
    let sql = "SELECT id, used FROM jobs WHERE run_id = $1 AND attempt = $2 AND used IS NOT NULL";
    let one = |row: &Row| {
        let text: String = row.get(1)?;
        let broken = |error| StoreError::Database(format!("the use of a job: {error}"));
        Ok((row.get(0)?, serde_json::from_str(&text).map_err(broken)?))
    };
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(one).collect()
}
