//! Runs and their children lie in partitions of run ids on PostgreSQL. Ids grow with time, so whole
//! partitions grow old, and retention drops them instead of deleting rows one by one.

use crate::{StoreError, Tx};

/// How many runs share a partition.
const SIZE: i64 = 1_000_000;
/// How many partitions are there before they are needed.
const AHEAD: i64 = 2;

/// The tables that are cut by the id of the run.
const TABLES: &[&str] =
    &["runs", "run_attempts", "run_scopes", "run_nodes", "jobs", "job_claims", "steps", "events"];

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
    tx.lock(crate::tx::Lock::Schema).await?;
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
