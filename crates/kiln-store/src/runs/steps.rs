//! The steps of jobs.

use std::collections::BTreeMap;

use kiln_core::id::{JobId, RunId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use super::view;
use crate::events::EventKind;
use crate::sql::{Sql, Value};
use crate::words::words;
use crate::{Row, Scope, StoreError, Tx};

words! {
    /// How far a step has come, as GitHub calls it.
    StepStatus: "a status of a step" {
        Queued = "queued",
        InProgress = "in_progress",
        Completed = "completed",
    }
}

/// A step as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    pub job: JobId,
    /// The runner's number of it, from 0.
    pub number: u32,
    pub name: String,
    pub status: StepStatus,
    /// What counts, after `continue-on-error`.
    pub conclusion: Option<Conclusion>,
    /// How it was.
    pub outcome: Option<Conclusion>,
    pub exit_code: Option<i32>,
    pub tries: u32,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// The steps of all jobs of an attempt, or of the current one, by job and number. Of a job that was
/// claimed more than once they are those of the last claim.
pub async fn steps(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: Option<u32>,
) -> Result<Vec<StepView>, StoreError> {
    let whose = view::visible(tx, scope, run).await?;
    let attempt = attempt.unwrap_or(whose.attempt);
    // What a re-run took over has its steps where it ran.
    let sql = "SELECT j.id, s.number, s.name, s.status, s.conclusion, s.outcome, s.exit_code,
                   s.tries, s.started_at, s.ended_at
               FROM jobs AS j JOIN steps AS s ON s.run_id = j.run_id
                   AND s.attempt = j.origin_attempt AND s.job = j.number AND s.claim = j.claim
               WHERE j.run_id = $1 AND j.attempt = $2 AND s.run_id = $1
               ORDER BY j.number, s.number";
    tx.rows(sql, &[run.into(), attempt.into()]).await?.iter().map(step_of).collect()
}

fn step_of(row: &Row) -> Result<StepView, StoreError> {
    let exit_code: Option<i64> = row.get(6)?;
    Ok(StepView {
        job: row.get(0)?,
        number: row.get(1)?,
        name: row.get(2)?,
        status: row.get(3)?,
        conclusion: conclusion(row, 4)?,
        outcome: conclusion(row, 5)?,
        exit_code: exit_code.and_then(|code| i32::try_from(code).ok()),
        tries: row.get(7)?,
        started: row.get(8)?,
        ended: row.get(9)?,
    })
}

fn conclusion(row: &Row, column: usize) -> Result<Option<Conclusion>, StoreError> {
    let known = |word: String| {
        let unknown = || StoreError::Database(format!("`{word}` is not a conclusion"));
        Conclusion::of_github(&word).ok_or_else(unknown)
    };
    row.get::<Option<String>>(column)?.map(known).transpose()
}

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) run: RunId,
    pub(super) attempt: u32,
    /// The number of the leg.
    pub(super) job: u32,
    pub(super) claim: u32,
    pub(super) number: u32,
}

/// What is new of a step.
#[derive(Debug, Default)]
pub(super) struct Step {
    name: Option<String>,
    conclusion: Option<Conclusion>,
    outcome: Option<Conclusion>,
    exit_code: Option<i32>,
    tries: u32,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
}

impl Step {
    pub(super) fn hear(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::StepStarted { name, .. } => {
                self.name = Some(name.replace('\0', "\u{fffd}"));
                self.started = Some(at);
            }
            EventKind::StepRetried { failed_try, .. } => self.tries = failed_try.saturating_add(1),
            EventKind::StepFinished { conclusion, outcome, exit_code, .. } => {
                self.conclusion = Some(*conclusion);
                self.outcome = *outcome;
                self.exit_code = *exit_code;
                self.ended = Some(at);
            }
            _ => {}
        }
    }

    fn row(self, key: Key) -> Vec<Value> {
        let status = match self.ended {
            Some(_) => StepStatus::Completed,
            None => StepStatus::InProgress,
        };
        vec![
            key.run.into(),
            key.attempt.into(),
            key.job.into(),
            key.claim.into(),
            key.number.into(),
            self.name.unwrap_or_default().into(),
            status.into(),
            self.conclusion.map(Conclusion::github).into(),
            self.outcome.map(Conclusion::github).into(),
            self.exit_code.into(),
            self.tries.max(1).into(),
            self.started.into(),
            self.ended.into(),
        ]
    }
}

macro_rules! upsert {
    ($values:literal) => {
        concat!(
            "INSERT INTO steps (run_id, attempt, job, claim, number, name, status, conclusion,
                 outcome, exit_code, tries, started_at, ended_at) ",
            $values,
            " ON CONFLICT (run_id, attempt, job, claim, number) DO UPDATE SET
                 name = CASE WHEN excluded.name = '' THEN steps.name ELSE excluded.name END,
                 status = CASE WHEN steps.status = 'completed' THEN steps.status
                     ELSE excluded.status END,
                 conclusion = coalesce(excluded.conclusion, steps.conclusion),
                 outcome = coalesce(excluded.outcome, steps.outcome),
                 exit_code = coalesce(excluded.exit_code, steps.exit_code),
                 tries = CASE WHEN excluded.tries > steps.tries THEN excluded.tries
                     ELSE steps.tries END,
                 started_at = coalesce(steps.started_at, excluded.started_at),
                 ended_at = coalesce(excluded.ended_at, steps.ended_at)"
        )
    };
}

/// Adds what is new to the rows of these steps.
pub(super) fn write(tx: &mut Tx<'_>, steps: BTreeMap<Key, Step>) -> Result<(), StoreError> {
    let sql = Sql::of(
        upsert!("VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"),
        upsert!(
            "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                 $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[],
                 $11::bigint[], $12::bigint[], $13::bigint[])"
        ),
    );
    tx.write_all(sql, steps.into_iter().map(|(key, step)| step.row(key)).collect())
}
