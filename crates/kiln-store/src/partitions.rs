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
    tx.lock(crate::tx::Lock::Schema).await?;
    let last: i64 = tx.one("sequence", "SELECT last_value FROM run_ids", &[]).await?.get(0)?;
    for part in last / SIZE..=last / SIZE + AHEAD {
        for table in TABLES {
            tx.script(&format!(
                "CREATE TABLE IF NOT EXISTS {table}_{part} PARTITION OF {table} \
                 FOR VALUES FROM ({}) TO ({}) WITH (fillfactor = 80)",
                part * SIZE,
                (part + 1) * SIZE
            ))
            .await?;
        }
    }
    Ok(())
}
