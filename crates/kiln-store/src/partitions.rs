//! Runs and their children lie in partitions of run ids on PostgreSQL. Ids grow with time, so whole
//! partitions grow old, and retention drops them instead of deleting rows one by one.

use kiln_core::time::Timestamp;

use crate::tx::{Lock, millis};
use crate::{Row, Store, StoreError, Tx};

/// How many runs share a partition.
const SIZE: i64 = 1_000_000;
/// How many partitions are there before they are needed.
const AHEAD: i64 = 2;

/// The tables that are cut by the id of the run, in the order in which they go: without an attempt, a
/// run that is half gone cannot be run again, and as long as the run is there, it is known what is left.
const TABLES: &[&str] =
    &["run_attempts", "steps", "job_claims", "events", "jobs", "run_nodes", "run_scopes", "runs"];

/// Makes the partitions that the next runs will need. SQLite has none.
pub(crate) async fn ensure(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    if !tx.is_postgres() {
        return Ok(());
    }
    let last: i64 = tx.one("sequence", "SELECT last_value FROM run_ids", &[]).await?.get(0)?;
    let parts: Vec<i64> = (part_of(last)..=part_of(last) + AHEAD).collect();
    make(tx, &parts).await
}

/// Makes these partitions of every table, where they are missing.
pub(crate) async fn make(tx: &mut Tx<'_>, parts: &[i64]) -> Result<(), StoreError> {
    if !tx.is_postgres() || parts.is_empty() {
        return Ok(());
    }
    tx.lock(Lock::Schema).await?;
    for part in parts {
        let end = (part + 1).checked_mul(SIZE).map(|end| end.to_string());
        let end = end.unwrap_or_else(|| "MAXVALUE".to_owned());
        for table in TABLES {
            tx.script(&format!(
                "CREATE TABLE IF NOT EXISTS {table}_{part} PARTITION OF {table} \
                 FOR VALUES FROM ({}) TO ({end}) WITH (fillfactor = 80)",
                part * SIZE,
            ))
            .await?;
        }
    }
    Ok(())
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
/// the locks of several would get in everybody's way.
pub(crate) async fn drop_expired(
    store: &Store,
    part: i64,
    before: Timestamp,
) -> Result<bool, StoreError> {
    for table in TABLES {
        let table = format!("{table}_{part}");
        let piece = async move |tx: &mut Tx<'_>| drop_table(tx, &table, part, before).await;
        if !store.write(piece).await? {
            return Ok(false);
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
    // Whoever comes after a waiting lock waits, too, so it must not wait for long.
    tx.script("SET LOCAL lock_timeout = 300").await?;
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
