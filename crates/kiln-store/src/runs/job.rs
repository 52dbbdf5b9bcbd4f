//! Jobs alone, without the run around them, for claims.

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
    let keys: Vec<_> = keys
        .iter()
        .map(|(run, attempt, number)| vec![run.0.into(), (*attempt).into(), (*number).into()])
        .collect();
    let plan = std::sync::Arc::new(Plan::default());
    let row_of = |row: &crate::Row| {
        let (leg, job) = rows::job_of(row)?;
        let mut run = Run::new(row.get::<i64>(0)?.unsigned_abs(), plan.clone());
        run.attempt = row.get(1)?;
        Ok(JobRow { run, leg, job })
    };
    tx.rows_all(JOBS.select(), &keys).await?.iter().map(row_of).collect()
}

pub(crate) fn write_jobs(tx: &mut Tx<'_>, jobs: &[JobRow]) -> Result<(), StoreError> {
    let row = |job: &JobRow| rows::job_row(&job.run, &job.leg, &job.job);
    let changed: Vec<_> = jobs.iter().map(row).collect();
    tx.write_all(JOBS.update(), changed)?;
    Ok(())
}
