//! What was used, added up.

use std::collections::BTreeMap;

use kiln_core::queue::{Usage, typical};

use crate::runs::Used;
use crate::sql::{Sql, Value};
use crate::tx::millis;
use crate::{StoreError, Tx};

/// How many charges are added up in one transaction.
const PIECE: u32 = 5_000;

/// Adds charges up, decayed by the hour, and counts jobs that ended with their runners. Returns how many
/// there were; as many as a piece has means that there may be more.
pub async fn fold(tx: &mut Tx<'_>) -> Result<usize, StoreError> {
    let sql = Sql::of(
        "DELETE FROM usage_deltas WHERE id IN (SELECT id FROM usage_deltas ORDER BY at LIMIT $1)
         RETURNING org_id, repo_id, seconds, ended, took",
        "DELETE FROM usage_deltas WHERE id IN (
             SELECT id FROM usage_deltas ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED)
         RETURNING org_id, repo_id, seconds, ended, took",
    );
    let rows = tx.rows(sql, &[PIECE.into()]).await?;
    let mut sums: BTreeMap<(i64, i64), Used> = BTreeMap::new();
    for row in &rows {
        let (org, repo): (i64, i64) = (row.get(0)?, row.get(1)?);
        for key in [(org, 0), (org, repo)] {
            let sum = sums.entry(key).or_default();
            sum.seconds += row.get::<f64>(2)?;
            sum.ended += row.get::<u32>(3)?;
            sum.took += row.get::<f64>(4)?;
        }
    }
    for (key, sum) in sums {
        add(tx, key, sum).await?;
    }
    let ends = super::pace::fold(tx, PIECE).await?;
    Ok(rows.len().max(ends))
}

async fn add(tx: &mut Tx<'_>, (org, repo): (i64, i64), sum: Used) -> Result<(), StoreError> {
    let now = millis(tx.now());
    let key: [Value; 2] = [org.into(), repo.into()];
    let make = "INSERT INTO usage (org_id, repo_id, consumed, hour) VALUES ($1, $2, 0, 0)
                ON CONFLICT (org_id, repo_id) DO NOTHING";
    tx.execute(make, &key).await?;
    let lock = Sql::of(
        "SELECT consumed, hour, typical FROM usage WHERE org_id = $1 AND repo_id = $2",
        "SELECT consumed, hour, typical FROM usage WHERE org_id = $1 AND repo_id = $2 FOR UPDATE",
    );
    let row = tx.one("usage", lock, &key).await?;
    let mut usage = Usage { consumed: row.get(0)?, hour: row.get(1)? };
    usage.add(sum.seconds, now);
    let typical = typical(row.get(2)?, sum.ended, sum.took);
    let (consumed, hour) = (usage.consumed.max(0.0), usage.hour);
    let sql = "UPDATE usage SET consumed = $3, hour = $4, typical = $5
               WHERE org_id = $1 AND repo_id = $2";
    let values = [org.into(), repo.into(), consumed.into(), hour.into(), typical.into()];
    tx.execute(sql, &values).await?;
    Ok(())
}
