//! Which logs the jobs of a run have.

use kiln_core::id::{JobId, RunId, RunnerId};

use super::view::visible;
use crate::{Row, Scope, StoreError, Tx};

/// A job that was claimed, in any attempt of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedJob {
    pub id: JobId,
    pub name: String,
    /// The attempt of the run that it ran in.
    pub attempt: u32,
    /// Each claim has a log: those from 1 to this one.
    pub claims: u32,
}

/// The jobs of a run that were claimed, of all attempts or of one. One that an attempt took over from an earlier one
/// is there once, with the attempt that it ran in.
pub async fn logged(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: Option<u32>,
) -> Result<Vec<LoggedJob>, StoreError> {
    visible(tx, scope, run).await?;
    let sql = "SELECT id, name, origin_attempt, claim FROM jobs \
               WHERE run_id = $1 AND claim > 0 AND origin_attempt = attempt \
                   AND (origin_attempt = $2 OR $2 IS NULL) \
               ORDER BY id";
    let one = |row: &Row| {
        Ok(LoggedJob {
            id: row.get(0)?,
            name: row.get(1)?,
            attempt: row.get(2)?,
            claims: row.get(3)?,
        })
    };
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(one).collect()
}

/// The jobs that an attempt took over from earlier ones, each with the job that ran: what that printed lies where it
/// ran. With it, who ran it.
pub async fn taken_over(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
) -> Result<Vec<(JobId, JobId, Option<RunnerId>)>, StoreError> {
    visible(tx, scope, run).await?;
    let sql = "SELECT j.id, o.id, o.runner_id FROM jobs AS j JOIN jobs AS o ON o.run_id = j.run_id \
                   AND o.attempt = j.origin_attempt AND o.number = j.number \
               WHERE j.run_id = $1 AND j.attempt = $2 AND j.origin_attempt <> j.attempt \
                   AND o.run_id = $1 \
               ORDER BY j.number";
    let one = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(one).collect()
}
