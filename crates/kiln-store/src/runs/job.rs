//! Jobs alone, without the run around them, for claims.

use std::sync::Arc;

use kiln_core::id::{JobId, RunId};
use kiln_core::plan::Plan;
use kiln_core::run::{Leg, Run};

use super::rows::{self, JOBS, Job};
use crate::{StoreError, Tx};

/// One job as the database has it.
#[derive(Debug)]
pub(crate) struct JobRow {
    run: Run,
    pub(crate) leg: Leg,
    job: Job,
}

impl JobRow {
    pub(crate) fn id(&self) -> JobId {
        self.job.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.job.name
    }
}

/// The jobs with these runs, attempts and numbers. Whoever reads them to change them holds their places
/// in the queue.
pub(crate) async fn job_rows(
    tx: &mut Tx<'_>,
    keys: &[(RunId, u32, u32)],
) -> Result<Vec<JobRow>, StoreError> {
    let plan = Arc::new(Plan::default());
    let row_of = |(id, attempt): (RunId, u32), leg: Leg, job: Job| {
        let mut run = Run::new(id.0.unsigned_abs(), plan.clone());
        run.attempt = attempt;
        JobRow { run, leg, job }
    };
    let (mut found, mut unknown) = (Vec::with_capacity(keys.len()), Vec::new());
    for (run, attempt, number) in keys {
        match tx.memory().and_then(|memory| memory.job(*run, *attempt, *number)) {
            Some((leg, job)) => found.push(row_of((*run, *attempt), leg.clone(), job.clone())),
            None => unknown.push(vec![run.0.into(), (*attempt).into(), (*number).into()]),
        }
    }
    for row in tx.rows_all(JOBS.select(), &unknown).await? {
        let (leg, job) = rows::job_of(&row)?;
        found.push(row_of((RunId(row.get(0)?), row.get(1)?), leg, job));
    }
    Ok(found)
}

/// Writes jobs that were claimed.
pub(crate) fn write_jobs(tx: &mut Tx<'_>, jobs: Vec<JobRow>) -> Result<(), StoreError> {
    if tx.is_postgres() {
        let row = |job: &JobRow| rows::job_row(&job.run, &job.leg, &job.job);
        return tx.write_all(JOBS.update(), jobs.iter().map(row).collect());
    }
    let moved = jobs.iter().map(|job| rows::moved_row(&job.leg, &job.job)).collect();
    tx.write_remembered(rows::MOVE.into(), moved)?;
    if let Some(memory) = tx.memory() {
        for JobRow { run, leg, job } in jobs {
            memory.claimed(job.id.run(), run.attempt, leg, job);
        }
    }
    Ok(())
}
