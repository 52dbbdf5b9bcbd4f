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
    let charges = fold_charges(tx).await?;
    let ends = super::pace::fold(tx, PIECE).await?;
    Ok(charges.max(ends))
}

/// The same of charges alone, which every claim reads as long as they are not added up.
pub(crate) async fn fold_charges(tx: &mut Tx<'_>) -> Result<usize, StoreError> {
    let sql = Sql::of(
        "DELETE FROM usage_deltas WHERE id IN (SELECT id FROM usage_deltas ORDER BY at LIMIT $1)
         RETURNING org_id, repo_id, seconds, ended, took",
        "DELETE FROM usage_deltas WHERE id IN (
             SELECT id FROM usage_deltas ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED)
         RETURNING org_id, repo_id, seconds, ended, took",
    );
    let rows = tx.rows(sql, &[PIECE.into()]).await?;
    let mut sums: BTreeMap<Whose, Used> = BTreeMap::new();
    for row in &rows {
        let (org, repo): Whose = (row.get(0)?, row.get(1)?);
        for key in [(org, 0), (org, repo)] {
            let sum = sums.entry(key).or_default();
            sum.seconds += row.get::<f64>(2)?;
            sum.ended += row.get::<u32>(3)?;
            sum.took += row.get::<f64>(4)?;
        }
    }
    add(tx, &sums).await?;
    Ok(rows.len())
}

/// An organization, and one of its repositories or 0 for all of them.
type Whose = (i64, i64);

/// In the order of their ids, like everybody who adds up: others may do so at the same time.
async fn add(tx: &mut Tx<'_>, sums: &BTreeMap<Whose, Used>) -> Result<(), StoreError> {
    let keys: Vec<Vec<Value>> =
        sums.keys().map(|(org, repo)| vec![(*org).into(), (*repo).into()]).collect();
    tx.write_all(MAKE, keys.clone())?;
    let now = millis(tx.now());
    let mut changed = Vec::with_capacity(keys.len());
    for row in tx.rows_all(LOCK, &keys).await? {
        let (org, repo): Whose = (row.get(0)?, row.get(1)?);
        let sum = &sums[&(org, repo)];
        let mut usage = Usage { consumed: row.get(2)?, hour: row.get(3)? };
        usage.add(sum.seconds, now);
        let typical = typical(row.get(4)?, sum.ended, sum.took);
        let consumed = usage.consumed.max(0.0);
        let row = [org.into(), repo.into(), consumed.into(), usage.hour.into(), typical.into()];
        changed.push(row.to_vec());
    }
    tx.write_all(WRITE, changed)
}

const MAKE: Sql = Sql::of(
    "INSERT INTO usage (org_id, repo_id, consumed, hour) VALUES ($1, $2, 0, 0)
     ON CONFLICT (org_id, repo_id) DO NOTHING",
    "INSERT INTO usage (org_id, repo_id, consumed, hour)
     SELECT u.*, 0, 0 FROM unnest($1::bigint[], $2::bigint[]) AS u
     ON CONFLICT (org_id, repo_id) DO NOTHING",
);

const LOCK: Sql = Sql::of(
    "SELECT org_id, repo_id, consumed, hour, typical FROM usage WHERE org_id = $1 AND repo_id = $2",
    "SELECT t.org_id, t.repo_id, t.consumed, t.hour, t.typical
     FROM unnest($1::bigint[], $2::bigint[]) AS u (org_id, repo_id) CROSS JOIN LATERAL (
         SELECT * FROM usage AS t WHERE t.org_id = u.org_id AND t.repo_id = u.repo_id FOR UPDATE
     ) AS t",
);

const WRITE: Sql = Sql::of(
    "UPDATE usage SET consumed = $3, hour = $4, typical = $5 WHERE org_id = $1 AND repo_id = $2",
    "INSERT INTO usage (org_id, repo_id, consumed, hour, typical)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::float8[], $4::bigint[], $5::float8[])
     ON CONFLICT (org_id, repo_id) DO UPDATE SET consumed = excluded.consumed, hour = excluded.hour,
         typical = excluded.typical",
);
