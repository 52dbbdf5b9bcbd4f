//! Lanes are closed when they are empty, and begin where their first job is.
//!
//! Claims leave both to this: they would wait for each other at the row of the lane. It matters most on
//! PostgreSQL, where places that were taken stay in the index while any old snapshot may still see
//! them. A search that begins at the floor of its lane does not pass them.

use crate::sql::{Sql, Value};
use crate::tx::Lock;
use crate::{Store, StoreError, Tx};

/// Tidies the lanes that need it. Returns how many there were.
pub async fn tidy_lanes(store: &Store) -> Result<usize, StoreError> {
    let lag = async |tx: &mut Tx<'_>| {
        let sql = "SELECT l.id FROM lanes AS l WHERE l.active = 1 AND coalesce((
                       SELECT q.key FROM queue AS q WHERE q.lane_id = l.id AND q.key >= l.floor
                       ORDER BY q.key LIMIT 1
                   ) > l.floor, 1 = 1)";
        let rows = tx.rows(sql, &[]).await?;
        rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()
    };
    let lagging = store.read(lag).await?;
    let count = lagging.len();
    if count > 0 {
        store.write(async move |tx: &mut Tx<'_>| tidy(tx, &lagging).await).await?;
    }
    Ok(count)
}

/// While the lock is held nobody puts jobs in, so what looks empty is.
async fn tidy(tx: &mut Tx<'_>, lanes: &[i64]) -> Result<(), StoreError> {
    tx.lock(Lock::Lanes).await?;
    let sql = Sql::of(
        "UPDATE lanes SET
             active = EXISTS (SELECT 1 FROM queue WHERE lane_id = $1 AND key >= floor),
             floor = coalesce((SELECT key FROM queue WHERE lane_id = $1 AND key >= floor
                               ORDER BY key LIMIT 1), floor)
         WHERE id = $1",
        "UPDATE lanes AS l SET active = (h.key IS NOT NULL)::int, floor = coalesce(h.key, l.floor)
         FROM unnest($1::bigint[]) AS u (id) JOIN lanes AS o ON o.id = u.id
         LEFT JOIN LATERAL (
             SELECT q.key FROM queue AS q WHERE q.lane_id = o.id AND q.key >= o.floor
             ORDER BY q.key LIMIT 1
         ) AS h ON true
         WHERE l.id = o.id",
    );
    let keys: Vec<Vec<Value>> = lanes.iter().map(|lane| vec![(*lane).into()]).collect();
    tx.write_all(sql, keys)?;
    Ok(())
}
