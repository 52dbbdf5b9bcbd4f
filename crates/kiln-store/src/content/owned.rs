//! What a manifest owns lives as that says: no time of its own and no quota takes it away.

use kiln_core::id::OrgId;

use super::manifests;
use crate::directory::names;
use crate::directory::scope::Scope;
use crate::{Row, Sql, StoreError, Tx, Value};

/// The manifest that owns a row of a table.
macro_rules! owner {
    ($table:literal, $kind:literal) => {
        concat!(
            "(SELECT manifest_id FROM manifest_resources WHERE manifest_resources.org_id = ",
            $table,
            ".org_id AND resource_type = '",
            $kind,
            "' AND resource_id = CAST(",
            $table,
            ".id AS TEXT) AND owner_type = 'manifest')"
        )
    };
}

/// No manifest owns a row of a table.
macro_rules! is_free {
    ($table:literal, $kind:literal) => {
        concat!("NOT EXISTS ", owner!($table, $kind))
    };
}

/// Statements that lock rows by their ids, and that remove those of them that nobody owns by then.
macro_rules! removal {
    ($table:literal, $kind:literal, $and:literal, [$($returning:tt)*]) => {
        (
            Sql::of(
                concat!("SELECT id FROM ", $table, " WHERE id IN (SELECT value FROM json_each($1))"),
                concat!("SELECT id FROM ", $table, " WHERE id = ANY($1) ORDER BY id FOR UPDATE"),
            ),
            Sql::of(
                concat!(
                    "DELETE FROM ",
                    $table,
                    " WHERE id IN (SELECT value FROM json_each($1)) AND ",
                    $and,
                    is_free!($table, $kind),
                    " RETURNING ",
                    $($returning)*
                ),
                concat!(
                    "DELETE FROM ",
                    $table,
                    " WHERE id = ANY($1) AND ",
                    $and,
                    is_free!($table, $kind),
                    " RETURNING ",
                    $($returning)*
                ),
            ),
        )
    };
}

pub(super) use {is_free, owner, removal};

/// Removes rows of which these are the ids. Whoever gives one of them to a manifest holds its row
/// meanwhile ([`hold`]), so a statement of its own sees who did.
pub(super) async fn remove_free(
    tx: &mut Tx<'_>,
    (lock, delete): (Sql, Sql),
    found: &[Row],
) -> Result<Vec<Row>, StoreError> {
    let ids = found.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Value = ids.into_iter().collect();
    tx.rows(lock, std::slice::from_ref(&ids)).await?;
    tx.rows(delete, &[ids]).await
}

macro_rules! locked {
    ($table:literal) => {
        Sql::of(
            concat!("SELECT 1 FROM ", $table, " WHERE id = $1"),
            concat!("SELECT 1 FROM ", $table, " WHERE id = $1 FOR UPDATE"),
        )
    };
}

/// Holds what a manifest is about to own, if it is something of ours, so that nobody removes it before the
/// transaction ends.
pub(super) async fn hold(tx: &mut Tx<'_>, kind: &str, id: &str) -> Result<(), StoreError> {
    let sql = match kind {
        "artifact" => locked!("artifacts"),
        "cache" => locked!("caches"),
        "object" => locked!("objects"),
        _ => return Ok(()),
    };
    let Ok(id) = id.parse::<i64>() else { return Ok(()) };
    tx.row(sql, &[id.into()]).await?;
    Ok(())
}

/// Refuses to remove what a manifest owns: it goes with that.
pub(super) async fn must_be_free(
    tx: &mut Tx<'_>,
    org: OrgId,
    kind: &str,
    id: i64,
) -> Result<(), StoreError> {
    let owner = manifests::owner(tx, Scope::Org(org), org, kind, &id.to_string()).await?;
    let Some(owner) = owner else { return Ok(()) };
    names::conflict(format!("the manifest {} owns the {kind}; it goes with that", owner.slug()))
}

/// What takes the place of something also does in its manifest.
pub(super) async fn succeed(
    tx: &mut Tx<'_>,
    (org, kind): (OrgId, &str),
    old: i64,
    new: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE manifest_resources SET resource_id = $4, added_at = $5 WHERE org_id = $1 \
               AND resource_type = $2 AND resource_id = $3 AND owner_type = 'manifest'";
    let [old, new] = [old, new].map(|id| id.to_string().into());
    tx.execute(sql, &[org.into(), kind.into(), old, new, tx.now().into()]).await?;
    Ok(())
}
