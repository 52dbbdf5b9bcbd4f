//! What runners say about jobs at their end, beyond how they ended: what they used, what they were allowed,
//! where they deployed to.

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

/// Where a job deployed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deployed {
    pub environment: String,
    pub url: Option<String>,
}

/// What is noted of a job at its end, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndNotes {
    pub used: Option<JobUse>,
    /// What it was allowed, as JSON that the store does not look into.
    pub limits: Option<String>,
    pub deployed: Option<Deployed>,
}

/// Keeps what is known of a claim. Whoever says so must have the job, or have ended it: all others change
/// nothing.
pub async fn note_end(
    tx: &mut Tx<'_>,
    job: JobId,
    claim: u32,
    runner: RunnerId,
    notes: &EndNotes,
) -> Result<(), StoreError> {
    let used = notes.used.map(|used| serde_json::to_string(&used).expect("numbers can be written"));
    let deployed = notes.deployed.as_ref();
    let sql = "UPDATE jobs SET used = COALESCE($5, used), limits = COALESCE($6, limits),
                   environment = COALESCE($7, environment),
                   environment_url = COALESCE($8, environment_url)
               WHERE run_id = $1 AND id = $2 AND claim = $3 AND runner_id = $4";
    let row = vec![
        job.run().into(),
        job.into(),
        claim.into(),
        runner.into(),
        used.into(),
        notes.limits.as_deref().into(),
        deployed.map(|deployed| deployed.environment.as_str()).into(),
        deployed.and_then(|deployed| deployed.url.as_deref()).into(),
    ];
    if tx.is_postgres() {
        return tx.execute(sql, &row).await.map(drop);
    }
    // What is remembered of a run does not include it, and so need not be forgotten.
    tx.write_remembered(sql.into(), vec![row])
}

/// What was noted of the jobs of an attempt; of those that it took over, where they ran.
pub async fn end_notes(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
) -> Result<Vec<(JobId, EndNotes)>, StoreError> {
    view::visible(tx, scope, run).await?;
    let sql = "SELECT j.id, o.used, o.limits, o.environment, o.environment_url
               FROM jobs AS j JOIN jobs AS o ON o.run_id = j.run_id
                   AND o.attempt = j.origin_attempt AND o.number = j.number
               WHERE j.run_id = $1 AND j.attempt = $2 AND o.run_id = $1
                   AND (o.used IS NOT NULL OR o.limits IS NOT NULL OR o.environment IS NOT NULL)";
    let one = |row: &Row| {
        let used: Option<String> = row.get(1)?;
        let broken = |error| StoreError::Database(format!("the use of a job: {error}"));
        let used = used.map(|text| serde_json::from_str(&text).map_err(broken)).transpose()?;
        let (environment, url): (Option<String>, _) = (row.get(3)?, row.get(4)?);
        let deployed = environment.map(|environment| Deployed { environment, url });
        Ok((row.get(0)?, EndNotes { used, limits: row.get(2)?, deployed }))
    };
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(one).collect()
}
