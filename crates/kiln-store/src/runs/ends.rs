//! Jobs that ended, for the books of their runners.

use kiln_core::run::{Conclusion, LegState};

use super::open::{Batch, Open};
use super::release::let_go;
use crate::sql::{Sql, Value};
use crate::tx::millis;
use crate::{StoreError, Tx};

/// Adds a row for each job that its runner has ended. It locks nothing: `claims::fold` counts them with
/// their runners later.
pub(super) fn note(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let now = millis(tx.now());
    let ends = |open: &Open| {
        let legs = open.changed_legs().map(|leg| leg.number).filter(|leg| let_go(open, *leg));
        legs.filter_map(|leg| end_of(open, leg, now)).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<Value>> = batch.runs.values().map(|open| &**open).flat_map(ends).collect();
    let sql = Sql::of(
        "INSERT INTO runner_ends (runner_id, org_id, repo_id, failed, took, at)
         VALUES ($1, $2, $3, $4, $5, $6)",
        "INSERT INTO runner_ends (runner_id, org_id, repo_id, failed, took, at)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::float8[],
             $6::bigint[])",
    );
    tx.write_all(sql, rows)
}

/// Only success says how fast a runner is: what fails may fail early.
fn end_of(open: &Open, number: u32, now: i64) -> Option<Vec<Value>> {
    let past = &open.before.jobs[&number].leg;
    let (LegState::Claimed { runner }
    | LegState::Running { runner }
    | LegState::Uploading { runner }) = past.state
    else {
        return None;
    };
    let LegState::Done(conclusion) = open.hood.legs[&number].state else { return None };
    // Cancelled before it began: the answer to the claim may never have reached the runner, and one for
    // a single job still waits for its own.
    if matches!(past.state, LegState::Claimed { .. }) && conclusion == Conclusion::Cancelled {
        return None;
    }
    let took = past.timings.claimed.map(|claimed| now.saturating_sub(millis(claimed)).max(0));
    #[expect(clippy::cast_precision_loss, reason = "a job does not run for 2^52 milliseconds")]
    let seconds = took.map(|took| took as f64 / 1000.0);
    Some(vec![
        Value::Int(i64::try_from(runner).unwrap_or(i64::MAX)),
        open.attempt.org.into(),
        open.attempt.repo.into(),
        matches!(conclusion, Conclusion::Failure | Conclusion::TimedOut).into(),
        seconds.filter(|_| conclusion == Conclusion::Success).into(),
        now.into(),
    ])
}
