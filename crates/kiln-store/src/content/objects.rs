//! Objects: bytes with a meaning and tags, found by their tags.

use kiln_core::id::{BlobId, ObjectId, OrgId};
use kiln_core::time::Timestamp;
use serde_json::json;

use crate::directory::actor::Actor;
use crate::directory::audit::{self, Deed};
use crate::directory::page::Page;
use crate::directory::scope::Scope;
use crate::directory::{names, organizations};
use crate::{Refusal, Row, Sql, StoreError, Tx, Value};

use super::belongings;
use super::owned::{self, is_free, owner};

/// How many tags an object may have, and a question may ask for.
pub(super) const MOST_TAGS: usize = 100;
/// A tag has room for the longest name of an artifact.
const LONGEST_TAG: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub id: ObjectId,
    pub org: OrgId,
    pub kind: String,
    pub blob: Option<BlobId>,
    /// What an instance provider calls it.
    pub provider_object_id: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct NewObject {
    pub org: OrgId,
    pub kind: String,
    /// Bytes that the organization has put.
    pub blob: Option<BlobId>,
    pub provider_object_id: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub tags: Vec<String>,
}

pub async fn create(tx: &mut Tx<'_>, scope: Scope, new: NewObject) -> Result<ObjectId, StoreError> {
    names::name("a type of objects", &new.kind)?;
    names::line_if_any("an id of a provider", new.provider_object_id.as_ref(), 500)?;
    let tags = checked(&new.tags)?;
    organizations::require(tx, scope, new.org).await?;
    if let Some(blob) = new.blob {
        let sql = "SELECT 1 FROM blob_links WHERE org_id = $1 AND blob_id = $2";
        tx.one("blob", sql, &[new.org.into(), blob.into()]).await?;
        // The update locks the row: a collector passes over it, or was quicker and it is gone.
        let sql = "UPDATE blobs SET unused_since = NULL WHERE id = $1";
        if tx.execute(sql, &[blob.into()]).await? == 0 {
            return Err(Refusal::NotFound("blob").into());
        }
    }
    let row = [
        new.org.into(),
        new.kind.into(),
        new.blob.into(),
        new.provider_object_id.into(),
        tx.now().into(),
        new.expires_at.into(),
    ];
    let made = tx
        .one(
            "object",
            "INSERT INTO objects (org_id, type, blob_id, provider_object_id, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
            &row,
        )
        .await?;
    let id = made.get::<ObjectId>(0)?;
    let rows: Vec<Vec<Value>> =
        tags.into_iter().map(|tag| vec![id.into(), new.org.into(), tag.into()]).collect();
    tx.execute_all(INSERT_TAGS, &rows).await?;
    Ok(id)
}

const INSERT_TAGS: Sql = Sql::of(
    "INSERT INTO object_tags (object_id, org_id, tag) VALUES ($1, $2, $3)",
    "INSERT INTO object_tags (object_id, org_id, tag) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])",
);

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: ObjectId) -> Result<Object, StoreError> {
    let sql = "SELECT id, org_id, type, blob_id, provider_object_id, created_at, expires_at \
               FROM objects WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    object(&tx.one("object", sql, &[id.into(), scope.parameter()]).await?)
}

/// Hash and size of the bytes of an object, if they are kept here.
pub async fn bytes_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ObjectId,
) -> Result<Option<(Vec<u8>, i64)>, StoreError> {
    let sql = "SELECT b.hash, b.size FROM objects AS o JOIN blobs AS b ON b.id = o.blob_id \
               WHERE o.id = $1 AND (o.org_id = $2 OR $2 IS NULL)";
    let row = tx.row(sql, &[id.into(), scope.parameter()]).await?;
    row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

pub async fn tags(tx: &mut Tx<'_>, scope: Scope, id: ObjectId) -> Result<Vec<String>, StoreError> {
    get(tx, scope, id).await?;
    let sql = "SELECT tag FROM object_tags WHERE object_id = $1 ORDER BY tag";
    tx.rows(sql, &[id.into()]).await?.iter().map(|row| row.get(0)).collect()
}

/// Which objects of an organization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    pub kind: Option<String>,
    /// All of these.
    pub tags: Vec<String>,
}

/// The objects of an organization that have all of these tags and whose time is not over, the newest first.
pub async fn find(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    tags: &[String],
    page: Page,
) -> Result<Vec<Object>, StoreError> {
    if tags.is_empty() {
        return names::invalid("no tags were given; expected at least one".to_owned());
    }
    search(tx, scope, org, &Which { kind: None, tags: tags.to_vec() }, page).await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, type, blob_id, provider_object_id, created_at, expires_at \
             FROM objects WHERE org_id = $1 AND (type = $2 OR $2 IS NULL) \
             AND (expires_at IS NULL OR expires_at > $3 OR EXISTS ",
            owner!("objects", "object"),
            ") AND id < $4",
            $rest,
            " ORDER BY id DESC LIMIT $5"
        )
    };
}

/// The same by type, too; all of them if nothing is said.
pub async fn search(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    which: &Which,
    page: Page,
) -> Result<Vec<Object>, StoreError> {
    scope.admits(org)?;
    let tags = checked(&which.tags)?;
    let kind = which.kind.as_deref().map_or(Value::Null, names::searchable);
    let mut parameters = vec![org.into(), kind, tx.now().into(), page.falling(), page.limit()];
    if tags.is_empty() {
        return tx.rows(select!(""), &parameters).await?.iter().map(object).collect();
    }
    let sql = Sql::of(
        select!(
            " AND id IN (SELECT object_id FROM object_tags WHERE org_id = $1 \
             AND tag IN (SELECT value FROM json_each($6)) GROUP BY object_id HAVING count(*) = $7)"
        ),
        select!(
            " AND id IN (SELECT object_id FROM object_tags WHERE org_id = $1 \
             AND tag = ANY($6) GROUP BY object_id HAVING count(*) = $7)"
        ),
    );
    let count = i64::try_from(tags.len()).unwrap_or(i64::MAX);
    parameters.extend([tags.into_iter().collect(), count.into()]);
    tx.rows(sql, &parameters).await?.iter().map(object).collect()
}

pub async fn delete(tx: &mut Tx<'_>, scope: Scope, id: ObjectId) -> Result<(), StoreError> {
    let sql = "DELETE FROM objects WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    if tx.execute(sql, &[id.into(), scope.parameter()]).await? == 0 {
        return Err(Refusal::NotFound("object").into());
    }
    Ok(())
}

/// Like [`delete`], but one that an artifact or a cache needs stays.
pub async fn delete_unneeded(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ObjectId,
) -> Result<(), StoreError> {
    get(tx, scope, id).await?;
    release(tx, vec![id]).await
}

/// Removes an object that somebody does not want any more. One that an artifact or a cache needs stays, and so
/// does one that a manifest owns: it goes with them.
pub async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ObjectId,
) -> Result<(), StoreError> {
    let found = get(tx, scope, id).await?;
    release(tx, vec![id]).await?;
    let sql = "SELECT 1 FROM objects WHERE id = $1";
    if tx.row(sql, &[id.into()]).await?.is_some() {
        // What is needed has an owner, too, but whoever asks knows the artifact and not that.
        if !is_needed(tx, id).await? {
            owned::must_be_free(tx, found.org, "object", id.0).await?;
        }
        let message = "an artifact or a cache needs the object; it goes with that";
        return names::conflict(message.to_owned());
    }
    let detail = json!({ "type": found.kind });
    let deed = Deed { org: Some(found.org), action: "object.delete", subject: id.0, detail };
    audit::record(tx, actor, deed).await
}

/// Whether an artifact or a cache has this object.
async fn is_needed(tx: &mut Tx<'_>, id: ObjectId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM artifacts WHERE object_id = $1 \
               UNION ALL SELECT 1 FROM caches WHERE object_id = $1 LIMIT 1";
    Ok(tx.row(sql, &[id.into()]).await?.is_some())
}

/// Neither an artifact nor a cache needs the object, and no manifest owns it.
macro_rules! is_unneeded {
    () => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM artifacts WHERE object_id = objects.id) \
             AND NOT EXISTS (SELECT 1 FROM caches WHERE object_id = objects.id) AND ",
            is_free!("objects", "object")
        )
    };
}
pub(super) use is_unneeded;

/// Removes those of these objects that nothing needs any more. What needed them is gone by now.
pub(super) async fn release(tx: &mut Tx<'_>, ids: Vec<ObjectId>) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = Sql::of(
        concat!(
            "DELETE FROM objects WHERE id IN (SELECT value FROM json_each($1)) AND ",
            is_unneeded!()
        ),
        concat!("DELETE FROM objects WHERE id = ANY($1) AND ", is_unneeded!()),
    );
    let ids: Value = ids.into_iter().map(|id| id.0).collect();
    belongings::leave(tx, &ids).await?;
    tx.execute(sql, &[ids]).await?;
    Ok(())
}

/// Each tag once, in order.
pub(super) fn checked(tags: &[String]) -> Result<Vec<&str>, StoreError> {
    if tags.len() > MOST_TAGS {
        return names::invalid(format!("{} tags are too many; expected {MOST_TAGS}", tags.len()));
    }
    for tag in tags {
        names::line("a tag", tag, LONGEST_TAG)?;
    }
    let mut tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    tags.sort_unstable();
    tags.dedup();
    Ok(tags)
}

fn object(row: &Row) -> Result<Object, StoreError> {
    Ok(Object {
        id: row.get(0)?,
        org: row.get(1)?,
        kind: row.get(2)?,
        blob: row.get(3)?,
        provider_object_id: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
    })
}
