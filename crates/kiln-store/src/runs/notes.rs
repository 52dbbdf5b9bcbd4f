//! Why a run could not start, kept where lists show it.

use kiln_core::run::{Conclusion, RunState};

use super::open::{Batch, Open};
use super::{failed, rows};
use crate::sql::{Sql, Value};
use crate::{StoreError, Tx};

/// Writes why runs of the batch ended before any of their jobs was there. That is rare.
pub(super) fn write(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let rows: Vec<Vec<Value>> = batch.runs.values().map(|open| &**open).filter_map(note).collect();
    let sql = Sql::of(
        "UPDATE runs SET note = $2 WHERE id = $1",
        "UPDATE runs AS t SET note = u.note FROM unnest($1::bigint[], $2::text[]) AS u (id, note)
         WHERE t.id = u.id",
    );
    tx.write_all(sql, rows)
}

fn note(open: &Open) -> Option<Vec<Value>> {
    let run = &open.hood.run;
    // What was stored before has its note already, and a file that could not be read gets it otherwise.
    let new = open.before.attempt.is_none() && !failed::is_empty(&run.plan);
    if run.state != RunState::Done(Conclusion::StartupFailure) || !new {
        return None;
    }
    let why = open.facts.evaluator.run_group(run).err();
    let text = format!("concurrency: {}", why.as_deref().unwrap_or("the group cannot be used"));
    Some(vec![open.id().into(), rows::note(Some(&text))])
}
