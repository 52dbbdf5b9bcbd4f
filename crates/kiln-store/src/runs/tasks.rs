//! What runs without a request: tasks of the outbox, timers, leases that ran out.

use std::collections::VecDeque;
use std::time::Duration;

use kiln_core::id::{JobId, RunId};
use kiln_core::run::Event;
use kiln_core::time::Timestamp;

use super::change::{self, Happened, JobNews, Word};
use super::facts::Known;
use super::record::Order;
use super::{Answer, Runs};
use crate::outbox::{self, Kind, Task};
use crate::sql::Sql;
use crate::tx::millis;
use crate::{Refusal, Row, StoreError, Tx};

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
        let mut waiting = VecDeque::from(tasks);
        let begun = tokio::time::Instant::now();
        while let Some(task) = waiting.pop_front() {
            // Soon they would be another server's: whoever comes next may as well have them now.
            if begun.elapsed() > PATIENCE / 2 {
                waiting.push_front(task);
                let rest: Vec<Task> = waiting.into();
                let give_back = async move |tx: &mut Tx<'_>| outbox::give_back(tx, &rest).await;
                self.store.write(give_back).await?;
                break;
            }
            self.one_task(task).await?;
        }
        Ok(count)
    }

    async fn one_task(&self, task: Task) -> Result<(), StoreError> {
        let (known, order) = (self.known.clone(), task.clone());
        let work = async move |tx: &mut Tx<'_>| carry_out(tx, &known, &order).await;
        let Err(error) = self.store.write(work).await else { return Ok(()) };
        let text = error.to_string();
        self.store.write(async move |tx: &mut Tx<'_>| outbox::failed(tx, &task, &text).await).await
    }

    /// Wakes jobs whose time has come.
    pub async fn wake(&self) -> Result<Chore, StoreError> {
        let due = async |tx: &mut Tx<'_>| {
            let sql =
                "SELECT run_id, attempt, number FROM timers WHERE at <= $1 ORDER BY at LIMIT $2";
            let rows = tx.rows(sql, &[millis(tx.now()).into(), PIECE.into()]).await?;
            let part = |row: &Row| Ok(Part::Timer(RunId(row.get(0)?), row.get(1)?, row.get(2)?));
            rows.iter().map(part).collect()
        };
        self.each(self.store.read(due).await?).await
    }

    /// Gives back what runners lost: leases that ran out.
    pub async fn reap(&self) -> Result<Chore, StoreError> {
        self.reap_from(Timestamp(0)).await
    }

    /// The same, but nothing before this time of the database: runners that could not reach a server while
    /// there was none must be heard first.
    pub async fn reap_from(&self, not_before: Timestamp) -> Result<Chore, StoreError> {
        let expired = async move |tx: &mut Tx<'_>| {
            if tx.now() < not_before {
                return Ok(Vec::new());
            }
            let sql =
                "SELECT job_id FROM leases WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
            let rows = tx.rows(sql, &[millis(tx.now()).into(), PIECE.into()]).await?;
            rows.iter().map(|row| Ok(Part::Lease(JobId(row.get(0)?)))).collect()
        };
        self.each(self.store.read(expired).await?).await
    }

    /// Does a piece in one transaction. If that fails because of one part, each is done alone, and what
    /// fails even then is put off, or it would stand in everybody's way for ever.
    pub(super) async fn each(&self, parts: Vec<Part>) -> Result<Chore, StoreError> {
        let mut chore = Chore { taken: parts.len(), failed: Vec::new() };
        if parts.is_empty() {
            return Ok(chore);
        }
        let Err(error) = self.piece(parts.clone()).await else { return Ok(chore) };
        if error.concerns_all() {
            return Err(error);
        }
        for part in parts {
            let Err(error) = self.piece(vec![part.clone()]).await else { continue };
            if error.concerns_all() {
                return Err(error);
            }
            chore.failed.push(format!("{part:?}: {error}"));
            self.store.write(async move |tx: &mut Tx<'_>| put_off(tx, &part).await).await?;
        }
        Ok(chore)
    }

    async fn piece(&self, parts: Vec<Part>) -> Result<(), StoreError> {
        let known = self.known.clone();
        self.store.write(async move |tx: &mut Tx<'_>| do_all(tx, &known, &parts).await).await
    }
}

/// What a chore found to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chore {
    /// How much there was; as much as a piece has means that there may be more.
    pub taken: usize,
    /// What could not be done, and why. It is tried again later.
    pub failed: Vec<String>,
}

/// One thing that a chore does.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// A leg of an attempt waits no longer.
    Timer(RunId, u32, u32),
    /// A lease has run out.
    Lease(JobId),
    /// No runner could ever take this job.
    Unsupported(JobId, String),
}

/// How long a part that cannot be done is left alone, in milliseconds.
const PUT_OFF: i64 = 5 * 60 * 1000;

async fn put_off(tx: &mut Tx<'_>, part: &Part) -> Result<(), StoreError> {
    let later = millis(tx.now()) + PUT_OFF;
    match part {
        Part::Timer(run, attempt, leg) => {
            let sql =
                "UPDATE timers SET at = $4 WHERE run_id = $1 AND attempt = $2 AND number = $3";
            let key = [run.0.into(), (*attempt).into(), (*leg).into(), later.into()];
            tx.execute(sql, &key).await?;
        }
        Part::Lease(job) => {
            let sql = "UPDATE leases SET expires_at = $2 WHERE job_id = $1 AND expires_at < $2";
            tx.execute(sql, &[job.0.into(), later.into()]).await?;
        }
        Part::Unsupported(..) => {}
    }
    Ok(())
}

async fn do_all(tx: &mut Tx<'_>, known: &Known, parts: &[Part]) -> Result<(), StoreError> {
    let (mut timers, mut leases, mut hopeless) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Timer(run, attempt, leg) => timers.push((*run, *attempt, *leg)),
            Part::Lease(job) => leases.push(*job),
            Part::Unsupported(job, reason) => {
                let word = Word::Unsupported { reason: reason.clone() };
                let news = JobNews { job: *job, claim: None, runner: None, word, heard: None };
                hopeless.push(Happened::Job(news));
            }
        }
    }
    if !timers.is_empty() {
        ring(tx, known, &timers).await?;
    }
    if !leases.is_empty() {
        reap(tx, known, &leases).await?;
    }
    if !hopeless.is_empty() {
        // One that a runner has taken meanwhile is refused, as it should be.
        change::apply_all(tx, known, &hopeless).await?;
    }
    Ok(())
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
        Happened::Job(JobNews { job: *job, claim: None, runner: None, word, heard: None })
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
