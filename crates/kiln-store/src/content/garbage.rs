//! What nothing refers to goes, after a time of grace, piece by piece.
//!
//! Three steps, each a short transaction: bytes that nothing refers to are marked with the time; those that
//! were marked long ago lose their rows and become removals; whoever removes the bytes at their places says
//! so. Whoever puts, uses or asks for bytes takes the mark away, under the lock of the row, and bytes that
//! are sent anew have a place of their own. So nobody loses what is just being put.

use kiln_core::id::BlobId;
use kiln_core::time::Timestamp;

use crate::directory::scope::Scope;
use crate::{Row, Sql, StoreError, Tx, Value};

use super::objects::is_unneeded;
use super::owned::{self, is_free, owner, removal};

/// Nothing refers to the blob: no object, and no archive that needs it as a pack.
macro_rules! is_unused {
    () => {
        "NOT EXISTS (SELECT 1 FROM objects WHERE blob_id = blobs.id) \
         AND NOT EXISTS (SELECT 1 FROM blob_parts WHERE part_id = blobs.id)"
    };
}

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    pub count: u64,
    /// Bytes that go, as they are kept.
    pub bytes: i64,
    /// There may be more at once.
    pub more: bool,
}

/// Looks at the next blobs and marks those that nothing refers to. Says how many, and after which blob to
/// go on; none after the last.
pub async fn mark(
    tx: &mut Tx<'_>,
    scope: Scope,
    after: BlobId,
    limit: u32,
) -> Result<(u64, Option<BlobId>), StoreError> {
    scope.system("blob")?;
    let sql = "SELECT id FROM blobs WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = tx.rows(sql, &[after.into(), limit.into()]).await?;
    let Some(last) = rows.last() else { return Ok((0, None)) };
    let last = last.get::<BlobId>(0)?;
    let sql = concat!(
        "UPDATE blobs SET unused_since = $3 WHERE id > $1 AND id <= $2 AND unused_since IS NULL AND ",
        is_unused!()
    );
    let marked = tx.execute(sql, &[after.into(), last.into(), tx.now().into()]).await?;
    Ok((marked, (rows.len() >= limit as usize).then_some(last)))
}

/// Removes the rows of blobs that were marked before. Those that somebody works with at the moment are
/// passed over, and those that are used after all lose their mark.
pub async fn sweep(
    tx: &mut Tx<'_>,
    scope: Scope,
    before: Timestamp,
    limit: u32,
) -> Result<Step, StoreError> {
    scope.system("blob")?;
    let marked = Sql::of(
        "SELECT id FROM blobs WHERE unused_since <= $1 ORDER BY unused_since LIMIT $2",
        "SELECT id FROM blobs WHERE unused_since <= $1 ORDER BY unused_since LIMIT $2 \
         FOR UPDATE SKIP LOCKED",
    );
    let rows = tx.rows(marked, &[before.into(), limit.into()]).await?;
    let ids = rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok(Step::default());
    }
    let ids: Value = ids.into_iter().collect();
    // A statement of its own sees what was written until the locks were had.
    let delete = Sql::of(
        concat!(
            "DELETE FROM blobs WHERE id IN (SELECT value FROM json_each($1)) AND ",
            is_unused!(),
            " RETURNING place, coalesce(stored, size)"
        ),
        concat!(
            "DELETE FROM blobs WHERE id = ANY($1) AND ",
            is_unused!(),
            " RETURNING place, coalesce(stored, size)"
        ),
    );
    let gone = tx.rows(delete, std::slice::from_ref(&ids)).await?;
    let unmark = Sql::of(
        "UPDATE blobs SET unused_since = NULL WHERE id IN (SELECT value FROM json_each($1))",
        "UPDATE blobs SET unused_since = NULL WHERE id = ANY($1)",
    );
    if gone.len() < rows.len() {
        tx.execute(unmark, &[ids]).await?;
    }
    let mut step = Step { more: rows.len() >= limit as usize, ..Step::default() };
    let mut places = Vec::new();
    for row in &gone {
        step.count += 1;
        step.bytes += row.get::<i64>(1)?;
        if let Some(place) = row.get::<Option<String>>(0)? {
            places.push((place, row.get(1)?));
        }
    }
    remove(tx, places).await?;
    Ok(step)
}

/// How much could go: what nothing refers to now, and what of it was marked before.
pub async fn foresee(
    tx: &mut Tx<'_>,
    scope: Scope,
    before: Timestamp,
) -> Result<(Step, Step), StoreError> {
    scope.system("blob")?;
    let sql = Sql::of(
        concat!(
            "SELECT count(*), coalesce(sum(coalesce(stored, size)), 0), \
             coalesce(sum(unused_since <= $1), 0), \
             coalesce(sum(CASE WHEN unused_since <= $1 THEN coalesce(stored, size) END), 0) \
             FROM blobs WHERE ",
            is_unused!()
        ),
        concat!(
            "SELECT count(*), coalesce(sum(coalesce(stored, size)), 0)::bigint, \
             count(*) FILTER (WHERE unused_since <= $1), \
             coalesce(sum(coalesce(stored, size)) FILTER (WHERE unused_since <= $1), 0)::bigint \
             FROM blobs WHERE ",
            is_unused!()
        ),
    );
    let row = tx.one("blob", sql, &[before.into()]).await?;
    let step = |count: usize| -> Result<Step, StoreError> {
        let number = u64::try_from(row.get::<i64>(count)?).unwrap_or_default();
        Ok(Step { count: number, bytes: row.get(count + 1)?, more: false })
    };
    Ok((step(0)?, step(2)?))
}

/// Gives up uploads whose time was over before, and those of jobs that are over. What the store has of them is
/// removed like any bytes.
pub async fn give_up(
    tx: &mut Tx<'_>,
    scope: Scope,
    before: Timestamp,
    limit: u32,
) -> Result<Step, StoreError> {
    scope.system("upload")?;
    let sql = "DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE expires_at <= $1 \
               AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.job_id = uploads.job_id) \
               ORDER BY expires_at LIMIT $2) RETURNING place, size, parts";
    let mut rows = tx.rows(sql, &[before.into(), limit.into()]).await?;
    let sql = "DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE job_id IS NOT NULL \
               AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.job_id = uploads.job_id) \
               ORDER BY job_id LIMIT $1) RETURNING place, size, parts";
    rows.extend(tx.rows(sql, &[limit.into()]).await?);
    let given_up = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let places = rows.iter().map(given_up).collect::<Result<Vec<_>, StoreError>>()?;
    let step = Step { count: rows.len() as u64, bytes: 0, more: rows.len() >= limit as usize };
    let_go(tx, places).await?;
    Ok(step)
}

/// Removes objects whose time is over, that neither an artifact nor a cache needs and that no manifest owns.
pub async fn expire(tx: &mut Tx<'_>, scope: Scope, limit: u32) -> Result<Step, StoreError> {
    scope.system("object")?;
    let sql = concat!(
        "SELECT id FROM objects WHERE expires_at <= $1 AND ",
        is_unneeded!(),
        " ORDER BY expires_at LIMIT $2"
    );
    let over = tx.rows(sql, &[tx.now().into(), limit.into()]).await?;
    let removal = removal!(
        "objects",
        "object",
        "NOT EXISTS (SELECT 1 FROM artifacts WHERE object_id = objects.id) \
         AND NOT EXISTS (SELECT 1 FROM caches WHERE object_id = objects.id) AND ",
        ["id"]
    );
    let count = owned::remove_free(tx, removal, &over).await?.len();
    Ok(Step { count: count as u64, bytes: 0, more: over.len() >= limit as usize })
}

/// Bytes that go next: their place, and how many.
pub async fn remove(tx: &mut Tx<'_>, places: Vec<(String, i64)>) -> Result<(), StoreError> {
    let_go(tx, places.into_iter().map(|(place, stored)| (place, stored, None)).collect()).await
}

/// The same for uploads that may have come in parts.
async fn let_go(
    tx: &mut Tx<'_>,
    places: Vec<(String, i64, Option<String>)>,
) -> Result<(), StoreError> {
    let now: Value = tx.now().into();
    let row = |(place, stored, parts): (String, i64, Option<String>)| {
        vec![place.into(), stored.into(), now.clone(), parts.into()]
    };
    let rows: Vec<Vec<Value>> = places.into_iter().map(row).collect();
    let sql = Sql::of(
        "INSERT INTO removals (place, stored, created_at, parts) VALUES ($1, $2, $3, $4) \
         ON CONFLICT DO NOTHING",
        "INSERT INTO removals (place, stored, created_at, parts) \
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[]) \
         ON CONFLICT DO NOTHING",
    );
    tx.execute_all(sql, &rows).await?;
    Ok(())
}

/// What the store is to let go of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub place: String,
    /// What the store calls an upload to this place that came in parts.
    pub parts: Option<String>,
    /// When it was given up.
    pub since: Timestamp,
}

/// What is to be removed next, behind a place.
pub async fn removals(
    tx: &mut Tx<'_>,
    scope: Scope,
    after: &str,
    limit: u32,
) -> Result<Vec<Removal>, StoreError> {
    scope.system("removal")?;
    let sql =
        "SELECT place, parts, created_at FROM removals WHERE place > $1 ORDER BY place LIMIT $2";
    let rows = tx.rows(sql, &[after.into(), limit.into()]).await?;
    let removal =
        |row: &Row| Ok(Removal { place: row.get(0)?, parts: row.get(1)?, since: row.get(2)? });
    rows.iter().map(removal).collect()
}

/// The bytes at these places are removed.
pub async fn removed(tx: &mut Tx<'_>, scope: Scope, places: &[String]) -> Result<(), StoreError> {
    scope.system("removal")?;
    let sql = Sql::of(
        "DELETE FROM removals WHERE place IN (SELECT value FROM json_each($1))",
        "DELETE FROM removals WHERE place = ANY($1)",
    );
    tx.execute(sql, &[places.iter().map(String::as_str).collect()]).await?;
    Ok(())
}

/// Which of these places some row knows: a blob, an upload, a removal.
pub async fn known(
    tx: &mut Tx<'_>,
    scope: Scope,
    places: &[String],
) -> Result<Vec<String>, StoreError> {
    scope.system("blob")?;
    let given: Value = places.iter().map(String::as_str).collect();
    let sql = Sql::of(
        "SELECT value FROM json_each($1) WHERE value IN (SELECT place FROM blobs WHERE place = value) \
         OR value IN (SELECT place FROM uploads WHERE place = value) \
         OR value IN (SELECT place FROM removals WHERE place = value)",
        "SELECT place FROM blobs WHERE place = ANY($1) \
         UNION SELECT place FROM uploads WHERE place = ANY($1) \
         UNION SELECT place FROM removals WHERE place = ANY($1)",
    );
    tx.rows(sql, &[given]).await?.iter().map(|row: &Row| row.get(0)).collect()
}
