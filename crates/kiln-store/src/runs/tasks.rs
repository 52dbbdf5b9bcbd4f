//! What runs without a request: tasks of the outbox, timers, leases that ran out.

use std::time::Duration;

use kiln_core::id::{JobId, RunId};
use kiln_core::run::Event;

use super::change::{self, Happened, JobNews, Word};
use super::facts::Known;
use super::record::Order;
use super::{Answer, Runs};
use crate::outbox::{self, Kind, Task};
use crate::sql::Sql;
use crate::tx::millis;
use crate::{Refusal, StoreError, Tx};

/// How much is done in one transaction.
const PIECE: u32 = 64;
/// The tasks that are about runs.
const KINDS: [Kind; 3] = [Kind::Admit, Kind::CancelMember, Kind::Continue];
/// How long another server leaves a task to the one that took it.
const PATIENCE: Duration = Duration::from_secs(30);

impl Runs {
    /// Carries out what runs ask of themselves and each other. Returns how many tasks were taken; fewer
    /// than asked for means that there are no more.
    pub async fn carry_out(&self) -> Result<usize, StoreError> {
        let take = async |tx: &mut Tx<'_>| outbox::take(tx, &KINDS, PIECE, PATIENCE).await;
        let tasks = self.store.write(take).await?;
        let count = tasks.len();
        for task in tasks {
            let known = self.known.clone();
            let order = task.clone();
            let work = async move |tx: &mut Tx<'_>| carry_out(tx, &known, &order).await;
            if let Err(error) = self.store.write(work).await {
                let text = error.to_string();
                let failed = async move |tx: &mut Tx<'_>| outbox::failed(tx, &task, &text).await;
                self.store.write(failed).await?;
            }
        }
        Ok(count)
    }

    /// Wakes jobs whose time has come. Returns how many timers were due.
    pub async fn wake(&self) -> Result<usize, StoreError> {
        let due = async |tx: &mut Tx<'_>| {
            let sql =
                "SELECT run_id, attempt, number FROM timers WHERE at <= $1 ORDER BY at LIMIT $2";
            let rows = tx.rows(sql, &[millis(tx.now()).into(), PIECE.into()]).await?;
            rows.iter().map(|row| Ok((RunId(row.get(0)?), row.get(1)?, row.get(2)?))).collect()
        };
        let due: Vec<(RunId, u32, u32)> = self.store.read(due).await?;
        let count = due.len();
        if count > 0 {
            let known = self.known.clone();
            let work = async move |tx: &mut Tx<'_>| ring(tx, &known, &due).await;
            self.store.write(work).await?;
        }
        Ok(count)
    }

    /// Gives back what runners lost: leases that ran out. Returns how many there were.
    pub async fn reap(&self) -> Result<usize, StoreError> {
        let expired = async |tx: &mut Tx<'_>| {
            let sql =
                "SELECT job_id FROM leases WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
            let rows = tx.rows(sql, &[millis(tx.now()).into(), PIECE.into()]).await?;
            rows.iter().map(|row| Ok(JobId(row.get(0)?))).collect()
        };
        let expired: Vec<JobId> = self.store.read(expired).await?;
        let count = expired.len();
        if count > 0 {
            let known = self.known.clone();
            let work = async move |tx: &mut Tx<'_>| reap(tx, &known, &expired).await;
            self.store.write(work).await?;
        }
        Ok(count)
    }
}

async fn carry_out(tx: &mut Tx<'_>, known: &Known, task: &Task) -> Result<(), StoreError> {
    let run = task.run.ok_or_else(|| StoreError::Database("a task names no run".to_owned()))?;
    let order: Order = serde_json::from_str(&task.payload)
        .map_err(|error| StoreError::Database(format!("a task cannot be read: {error}")))?;
    let attempt = order.attempt;
    change::apply_to(tx, known, (run, attempt), order.event(run.0.unsigned_abs())).await?;
    // Steps must not be taken twice: if another server has the task by now, this one did nothing.
    if outbox::done(tx, task).await? {
        return Ok(());
    }
    Err(Refusal::Conflict("another server has taken the task".to_owned()).into())
}

async fn is_current(tx: &mut Tx<'_>, run: RunId, attempt: u32) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM runs WHERE id = $1 AND attempt = $2";
    Ok(tx.row(sql, &[run.0.into(), attempt.into()]).await?.is_some())
}

async fn ring(tx: &mut Tx<'_>, known: &Known, due: &[(RunId, u32, u32)]) -> Result<(), StoreError> {
    let mut happened = Vec::new();
    for (run, attempt, leg) in due {
        if is_current(tx, *run, *attempt).await? {
            happened.push(Happened::Run { run: *run, event: Event::Wake { leg: *leg } });
        }
    }
    change::apply_all(tx, known, &happened).await?;
    // Those of legs that do not wait any more would ring for ever. One that was set anew meanwhile, for
    // the next try, is not due.
    let now = millis(tx.now());
    let key = |(run, attempt, leg): &(RunId, u32, u32)| {
        vec![run.0.into(), (*attempt).into(), (*leg).into(), now.into()]
    };
    let keys: Vec<_> = due.iter().map(key).collect();
    let sql = Sql::of(
        "DELETE FROM timers WHERE run_id = $1 AND attempt = $2 AND number = $3 AND at <= $4",
        "DELETE FROM timers AS t
         USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
             AS u (run_id, attempt, number, now)
         WHERE t.run_id = u.run_id AND t.attempt = u.attempt AND t.number = u.number
             AND t.at <= u.now",
    );
    tx.write_all(sql, keys)?;
    Ok(())
}

/// The reason that people read when a runner fell silent.
const SILENT: &str = "its runner was not heard of for too long";

async fn reap(tx: &mut Tx<'_>, known: &Known, expired: &[JobId]) -> Result<(), StoreError> {
    let news = |job: &JobId| {
        let word = Word::Expired { reason: SILENT.to_owned() };
        Happened::Job(JobNews { job: *job, claim: None, runner: None, word })
    };
    let happened: Vec<Happened> = expired.iter().map(news).collect();
    let answers = change::apply_all(tx, known, &happened).await?;
    // A lease without a job that is held is of no use to anybody.
    let orphans = expired.iter().zip(&answers).filter(|(_, answer)| **answer != Answer::Accepted);
    for (job, _) in orphans {
        let sql = "DELETE FROM leases WHERE job_id = $1 AND expires_at <= $2";
        tx.execute(sql, &[job.0.into(), millis(tx.now()).into()]).await?;
    }
    Ok(())
}
