//! What gives tables their next id. A copy goes on where its source stopped: an id that was given away
//! once is never given again, even if its row is gone.

use std::collections::BTreeMap;

use crate::sql::Sql;
use crate::{StoreError, Tx};

/// The last id that was given away in each table, as far as the database remembers.
pub(super) type Counters = BTreeMap<String, i64>;

/// `runs` and `events` are partitioned and have sequences of their own; all others have identities.
const COUNTERS: Sql = Sql::of(
    "SELECT name, seq FROM sqlite_sequence",
    "SELECT CASE sequences.relname
             WHEN 'run_ids' THEN 'runs' WHEN 'event_ids' THEN 'events' ELSE tables.relname END,
         coalesce(pg_sequence_last_value(sequences.oid), 0)
     FROM pg_class AS sequences
     LEFT JOIN pg_depend AS owned ON owned.objid = sequences.oid AND owned.deptype = 'i'
         AND owned.classid = 'pg_class'::regclass AND owned.refclassid = 'pg_class'::regclass
     LEFT JOIN pg_class AS tables ON tables.oid = owned.refobjid
     WHERE sequences.relkind = 'S' AND sequences.relnamespace = current_schema()::regnamespace",
);

pub(super) async fn counters(tx: &mut Tx<'_>) -> Result<Counters, StoreError> {
    let rows = tx.rows(COUNTERS, &[]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Continues where the source stopped, and in any case above what is there.
pub(super) async fn continue_from(tx: &mut Tx<'_>, source: &Counters) -> Result<(), StoreError> {
    if !tx.is_postgres() {
        return on_sqlite(tx, source).await;
    }
    for (table, own) in counters(tx).await? {
        let highest = format!("SELECT coalesce(max(id), 0) FROM \"{table}\"");
        let highest = tx.rows_of(&highest, &[]).await?[0].get::<i64>(0)?;
        let last = highest.max(source.get(&table).copied().unwrap_or(0));
        if last <= own {
            continue;
        }
        let set = match table.as_str() {
            "runs" => "SELECT setval('run_ids', $1)",
            "events" => "SELECT setval('event_ids', $1)",
            _ => {
                let set = "SELECT setval(pg_get_serial_sequence($1, 'id')::regclass, $2)";
                tx.rows(set, &[table.into(), last.into()]).await?;
                continue;
            }
        };
        tx.rows(set, &[last.into()]).await?;
    }
    Ok(())
}

/// SQLite has counted the rows that were copied; it only does not know of those that are gone.
async fn on_sqlite(tx: &mut Tx<'_>, source: &Counters) -> Result<(), StoreError> {
    for (table, last) in source.iter().filter(|(_, last)| **last > 0) {
        let row = [table.into(), (*last).into()];
        let raise = "UPDATE sqlite_sequence SET seq = max(seq, $2) WHERE name = $1";
        if tx.execute(raise, &row).await? == 0 {
            tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)", &row).await?;
        }
    }
    Ok(())
}
