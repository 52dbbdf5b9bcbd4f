//! Runs and their children lie in partitions of run ids on PostgreSQL. Ids grow with time, so whole
//! partitions grow old, and retention drops them instead of deleting rows one by one.

use std::collections::BTreeSet;

use kiln_core::time::Timestamp;

use crate::tx::{Lock, millis};
use crate::{Row, Store, StoreError, Tx, Value};

/// How many runs share a partition.
const SIZE: i64 = 1_000_000;
/// How many partitions are there before they are needed.
const AHEAD: i64 = 2;
/// Whoever comes after a waiting lock waits, too, so it must not wait for long.
const SHORT_WAIT: &str = "SET LOCAL lock_timeout = 300";

/// The tables that are cut by the id of the run, in the order in which they go: without an attempt, a
/// run that is half gone cannot be run again, and as long as the run is there, it is known what is left.
const TABLES: &[&str] =
    &["run_attempts", "steps", "job_claims", "events", "jobs", "run_nodes", "run_scopes", "runs"];

/// A table that is cut, and the number of a partition.
type Piece = (&'static str, i64);

/// Makes the partitions that the next runs will need. SQLite has none.
pub(crate) async fn ensure(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let parts = next(tx).await?;
    make(tx, &parts).await
}

/// The same while others are at work: each partition in a transaction of its own, which gives up soon if
/// it would have to wait.
pub(crate) async fn ensure_quietly(store: &Store) -> Result<(), StoreError> {
    let lacking = async |tx: &mut Tx<'_>| {
        let parts = next(tx).await?;
        missing(tx, &parts).await
    };
    for (table, part) in store.read(lacking).await? {
        // An owned name: with a borrowed one, the compiler does not see that duties may do this.
        let table = table.to_owned();
        let work = async move |tx: &mut Tx<'_>| {
            tx.script(SHORT_WAIT).await?;
            tx.lock(Lock::Schema).await?;
            // Another server may have made it by now.
            let lacking = missing(tx, &[part]).await?;
            match lacking.into_iter().find(|(name, _)| *name == table) {
                Some(piece) => attach(tx, piece).await,
                None => Ok(()),
            }
        };
        store.write(work).await?;
    }
    Ok(())
}

/// Makes these partitions of every table, where they are missing; what is there is not touched.
pub(crate) async fn make(tx: &mut Tx<'_>, parts: &[i64]) -> Result<(), StoreError> {
    if missing(tx, parts).await?.is_empty() {
        return Ok(());
    }
    tx.lock(Lock::Schema).await?;
    for piece in missing(tx, parts).await? {
        attach(tx, piece).await?;
    }
    Ok(())
}

/// The partitions of the runs that are made now and next.
async fn next(tx: &mut Tx<'_>) -> Result<Vec<i64>, StoreError> {
    if !tx.is_postgres() {
        return Ok(Vec::new());
    }
    let last: i64 = tx.one("sequence", "SELECT last_value FROM run_ids", &[]).await?.get(0)?;
    Ok((part_of(last)..=part_of(last) + AHEAD).collect())
}

async fn missing(tx: &mut Tx<'_>, parts: &[i64]) -> Result<Vec<Piece>, StoreError> {
    if !tx.is_postgres() || parts.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT child.relname FROM pg_inherits
               JOIN pg_class AS child ON child.oid = inhrelid
               JOIN pg_class AS parent ON parent.oid = inhparent
               WHERE parent.relname = ANY($1) AND parent.relnamespace = current_schema()::regnamespace";
    let tables: Value = TABLES.iter().copied().collect();
    let rows = tx.rows(sql, &[tables]).await?;
    let there = rows.iter().map(|row| row.get(0)).collect::<Result<BTreeSet<String>, _>>()?;
    let wanted = parts.iter().flat_map(|part| TABLES.iter().map(move |table| (*table, *part)));
    Ok(wanted.filter(|(table, part)| !there.contains(&format!("{table}_{part}"))).collect())
}

/// A table of its own becomes a partition. Made as one from the start, it would lock everybody out of the
/// whole; like this, those who read and write go on. Its indexes become parts of the whole's with it.
async fn attach(tx: &mut Tx<'_>, (table, part): Piece) -> Result<(), StoreError> {
    let end = (part + 1).checked_mul(SIZE).map(|end| end.to_string());
    let end = end.unwrap_or_else(|| "MAXVALUE".to_owned());
    tx.script(&format!(
        "CREATE TABLE IF NOT EXISTS {table}_{part} (LIKE {table} INCLUDING ALL) \
             WITH (fillfactor = {}); \
         ALTER TABLE {table} ATTACH PARTITION {table}_{part} FOR VALUES FROM ({}) TO ({end})",
        fullness(table),
        part * SIZE,
    ))
    .await
}

/// How much of its pages is filled with new rows, in percent. A row that changes finds room for its next version beside
/// the last, and no index has to hear of it; a job changes at least twice, and what only comes needs no room.
fn fullness(table: &str) -> u8 {
    match table {
        "events" | "job_claims" => 100,
        "jobs" => 50,
        "runs" | "run_attempts" | "run_nodes" | "run_scopes" => 60,
        _ => 80,
    }
}

/// The partitions that get no new runs any more, the oldest first.
pub(crate) async fn old(tx: &mut Tx<'_>) -> Result<Vec<i64>, StoreError> {
    if !tx.is_postgres() {
        return Ok(Vec::new());
    }
    let last: i64 = tx.one("sequence", "SELECT last_value FROM run_ids", &[]).await?.get(0)?;
    let sql = "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
               WHERE inhparent = 'runs'::regclass";
    let rows = tx.rows(sql, &[]).await?;
    let part_of = |row: &Row| row.get::<String>(0).ok()?.strip_prefix("runs_")?.parse().ok();
    let mut parts: Vec<i64> = rows.iter().filter_map(part_of).collect();
    parts.retain(|part| *part < last / SIZE);
    parts.sort_unstable();
    Ok(parts)
}

/// Drops a partition in which no run must be kept. Each table goes in a transaction of its own: to hold
/// the locks of several would get in everybody's way. If somebody is in the way, such as a backup, what
/// is left of it stays until the next time.
pub(crate) async fn drop_expired(
    store: &Store,
    part: i64,
    before: Timestamp,
) -> Result<bool, StoreError> {
    for table in TABLES {
        let table = format!("{table}_{part}");
        let piece = async move |tx: &mut Tx<'_>| drop_table(tx, &table, part, before).await;
        match store.write(piece).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// False if there is a run that must be kept. Nobody can change a run between the look and the drop.
async fn drop_table(
    tx: &mut Tx<'_>,
    table: &str,
    part: i64,
    before: Timestamp,
) -> Result<bool, StoreError> {
    tx.script(SHORT_WAIT).await?;
    tx.script(&format!("LOCK TABLE runs_{part} IN SHARE MODE")).await?;
    let kept = "SELECT 1 FROM runs WHERE id >= $1 AND id < $2
        AND (conclusion IS NULL OR ended_at IS NULL OR ended_at >= $3
             OR EXISTS (SELECT 1 FROM artifacts WHERE artifacts.run_id = runs.id)) LIMIT 1";
    let range = [part * SIZE, (part + 1) * SIZE, millis(before)].map(Into::into);
    if tx.row(kept, &range).await?.is_some() {
        return Ok(false);
    }
    tx.script(&format!("DROP TABLE IF EXISTS {table}")).await?;
    Ok(true)
}

/// The partition in which a run lies.
pub(crate) fn part_of(run: i64) -> i64 {
    run.div_euclid(SIZE)
}

/// The column by which a table is cut, if it is.
pub(crate) fn column(table: &str) -> Option<&'static str> {
    match table {
        "runs" => Some("id"),
        table => TABLES.contains(&table).then_some("run_id"),
    }
}
