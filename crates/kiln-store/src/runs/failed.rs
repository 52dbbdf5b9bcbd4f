//! Runs of workflow files that cannot be used: people see them and why, and there is nothing to run.

use std::sync::Arc;

use kiln_core::plan::{Plan, Workflow};
use kiln_core::run::{Conclusion, RunState};

use super::create::{Begun, begin};
use super::facts::Known;
use super::open::{Batch, Open};
use super::{Created, NewRun, Runs, rows, save};
use crate::{Refusal, StoreError, Tx};

/// A run that cannot start.
#[derive(Debug, Clone)]
pub struct NewFailedRun {
    /// What it would have been. Its plan does not matter.
    pub run: NewRun,
    /// Why it cannot start, for people.
    pub note: String,
}

impl Runs {
    /// P19: creates a run that has ended already, with the conclusion `startup_failure`. The same trigger
    /// makes no second one, as with [`Runs::create`].
    pub async fn create_failed(&self, new: NewFailedRun) -> Result<Created, StoreError> {
        let known = self.known.clone();
        let work = async move |tx: &mut Tx<'_>| create(tx, &known, &new).await;
        self.store.write(work).await
    }

    /// The same with whatever else the transaction does.
    pub async fn create_failed_in(
        &self,
        tx: &mut Tx<'_>,
        new: &NewFailedRun,
    ) -> Result<Created, StoreError> {
        create(tx, &self.known, new).await
    }
}

async fn create(tx: &mut Tx<'_>, known: &Known, new: &NewFailedRun) -> Result<Created, StoreError> {
    let plan = Arc::new(Plan { workflows: vec![Workflow::default()] });
    let run = NewRun { plan, ..new.run.clone() };
    let mut open = match begin(tx, known, &run, &run.plan_text()?).await? {
        Begun::Before(run) => return Ok(Created::Before(run)),
        Begun::New(open) => *open,
    };
    open.hood.run.state = RunState::Done(Conclusion::StartupFailure);
    let id = open.id();
    keep(tx, known, open).await?;
    let sql = "UPDATE runs SET note = $2 WHERE id = $1";
    tx.execute(sql, &[id.into(), rows::note(Some(&new.note))]).await?;
    Ok(Created::New(id))
}

async fn keep(tx: &mut Tx<'_>, known: &Known, open: Open) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    batch.runs.insert(open.id(), Box::new(open));
    save::save(tx, known, &mut batch).await
}

/// Whether there was no file to make a plan of.
pub(super) fn is_empty(plan: &Plan) -> bool {
    plan.workflows.first().is_none_or(|root| root.jobs.is_empty())
}

/// What could not be read once cannot be read again.
pub(super) fn may_run_again(plan: &Plan) -> Result<(), StoreError> {
    if !is_empty(plan) {
        return Ok(());
    }
    let message = "the workflow file of this run cannot be used, so it cannot be run again; mend the \
                   file and trigger it anew";
    Err(Refusal::Conflict(message.to_owned()).into())
}
