//! Bytes by their SHA-256. They are kept once for all, but an organization knows only of those that it has
//! put itself.

use kiln_core::id::{BlobId, OrgId};

use crate::directory::scope::Scope;
use crate::directory::{names, organizations};
use crate::{Row, Sql, StoreError, Tx, Value};

/// Up to this size bytes stay in the database.
pub const LARGEST_INLINE: usize = 64 << 10;

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Inline(Vec<u8>),
    /// On disk or in S3.
    At(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub id: BlobId,
    pub hash: Vec<u8>,
    pub size: i64,
    pub body: Body,
}

/// Keeps bytes that an organization has uploaded and that the caller has hashed. If they were there
/// already, what was there stays: the answer says where, so that a second copy can be removed.
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hash: &[u8],
    size: i64,
    body: Body,
) -> Result<Blob, StoreError> {
    names::hash("the hash of a blob", hash)?;
    organizations::require(tx, scope, org).await?;
    let (payload, place): (Value, Value) = match body {
        Body::Inline(bytes) => {
            let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
            if bytes.len() > LARGEST_INLINE || length != size {
                return names::invalid(format!(
                    "{length} bytes cannot be kept in the database; expected {size}, and up to \
                     {LARGEST_INLINE}"
                ));
            }
            (bytes.into(), Value::Null)
        }
        Body::At(place) => {
            names::line("the place of a blob", &place, 1_000)?;
            names::within("the size of a blob", size, 0, kiln_core::id::LIMIT)?;
            (Value::Null, place.into())
        }
    };
    let blob = insert(tx, hash, size, [payload, place, Value::Null]).await?;
    link(tx, org, blob.id).await?;
    Ok(blob)
}

/// Bytes that are kept outside of the database.
#[derive(Debug, Clone)]
pub struct NewBlob {
    pub hash: Vec<u8>,
    pub size: i64,
    pub place: String,
    /// How many bytes are there: fewer than the size where they are compressed, or a list of chunks.
    pub stored: i64,
    /// The places of the packs that it needs.
    pub packs: Vec<String>,
}

/// Like [`put`], for bytes that are outside of the database. If a pack that it needs is gone, because
/// nothing else needed it for too long, it is refused, and the bytes have to be sent again.
pub async fn keep(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    new: NewBlob,
) -> Result<Blob, StoreError> {
    names::hash("the hash of a blob", &new.hash)?;
    names::line("the place of a blob", &new.place, 1_000)?;
    names::within("the size of a blob", new.size, 0, kiln_core::id::LIMIT)?;
    names::within("the stored size of a blob", new.stored, 0, kiln_core::id::LIMIT)?;
    organizations::require(tx, scope, org).await?;
    let outside = [Value::Null, new.place.as_str().into(), new.stored.into()];
    let blob = insert(tx, &new.hash, new.size, outside).await?;
    link(tx, org, blob.id).await?;
    // If others have put the same, theirs stays, and this one's packs are not needed.
    if blob.body == Body::At(new.place) {
        need(tx, blob.id, &new.packs).await?;
    }
    Ok(blob)
}

async fn insert(
    tx: &mut Tx<'_>,
    hash: &[u8],
    size: i64,
    [payload, place, stored]: [Value; 3],
) -> Result<Blob, StoreError> {
    // The update locks the row, so that a collector that is about to remove it sees that it is used.
    let sql = "INSERT INTO blobs (hash, size, payload, place, stored, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (hash) DO UPDATE SET unused_since = NULL \
               RETURNING id, hash, size, payload, place";
    let row = [hash.into(), size.into(), payload, place, stored, tx.now().into()];
    blob(&tx.one("blob", sql, &row).await?)
}

async fn link(tx: &mut Tx<'_>, org: OrgId, blob: BlobId) -> Result<(), StoreError> {
    let sql = "INSERT INTO blob_links (org_id, blob_id, created_at) VALUES ($1, $2, $3) \
               ON CONFLICT DO NOTHING";
    tx.execute(sql, &[org.into(), blob.into(), tx.now().into()]).await?;
    Ok(())
}

/// The update locks the packs, in one order, so that no collector removes them from now on.
pub(super) async fn need(
    tx: &mut Tx<'_>,
    blob: BlobId,
    packs: &[String],
) -> Result<(), StoreError> {
    if packs.is_empty() {
        return Ok(());
    }
    let lock = Sql::of(
        "UPDATE blobs SET unused_since = NULL \
         WHERE place IN (SELECT value FROM json_each($1)) RETURNING id",
        "UPDATE blobs SET unused_since = NULL FROM (SELECT id FROM blobs WHERE place = ANY($1) \
         ORDER BY id FOR UPDATE) AS packs WHERE blobs.id = packs.id RETURNING blobs.id",
    );
    let rows = tx.rows(lock, &[packs.iter().map(String::as_str).collect()]).await?;
    if rows.len() != packs.len() {
        let message = "a pack was removed before the archive that needs it was complete; \
                       send the bytes again";
        return names::conflict(message.to_owned());
    }
    let part = |row: &Row| Ok(vec![blob.into(), row.get::<BlobId>(0)?.into()]);
    let parts = rows.iter().map(part).collect::<Result<Vec<_>, StoreError>>()?;
    let insert = Sql::of(
        "INSERT INTO blob_parts (blob_id, part_id) VALUES ($1, $2)",
        "INSERT INTO blob_parts (blob_id, part_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])",
    );
    tx.execute_all(insert, &parts).await?;
    Ok(())
}

/// Of bytes that nothing refers to, their time of grace begins anew: whoever asked for them has as long
/// to use them as somebody who puts them now. Says which of them are there.
pub async fn hold(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hashes: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, StoreError> {
    scope.admits(org)?;
    let sql = Sql::of(
        "UPDATE blobs SET unused_since = NULL WHERE unused_since IS NOT NULL \
         AND hash IN (SELECT unhex(value) FROM json_each($2)) \
         AND id IN (SELECT blob_id FROM blob_links WHERE org_id = $1)",
        "UPDATE blobs SET unused_since = NULL FROM (SELECT b.id FROM blobs b \
         JOIN blob_links l ON l.blob_id = b.id WHERE l.org_id = $1 AND b.hash = ANY($2) \
         AND b.unused_since IS NOT NULL ORDER BY b.id FOR UPDATE OF b) AS found \
         WHERE blobs.id = found.id",
    );
    let given: Value = hashes.iter().map(Vec::as_slice).collect();
    tx.execute(sql, &[org.into(), given]).await?;
    exists(tx, scope, org, hashes).await
}

/// Whether one of them could go before long.
pub async fn are_unused(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hashes: &[Vec<u8>],
) -> Result<bool, StoreError> {
    scope.admits(org)?;
    let sql = Sql::of(
        "SELECT 1 FROM blobs WHERE unused_since IS NOT NULL \
         AND hash IN (SELECT unhex(value) FROM json_each($2)) \
         AND id IN (SELECT blob_id FROM blob_links WHERE org_id = $1) LIMIT 1",
        "SELECT 1 FROM blobs WHERE unused_since IS NOT NULL AND hash = ANY($2) \
         AND id IN (SELECT blob_id FROM blob_links WHERE org_id = $1) LIMIT 1",
    );
    let given: Value = hashes.iter().map(Vec::as_slice).collect();
    Ok(tx.row(sql, &[org.into(), given]).await?.is_some())
}

/// Which of these hashes the organization has put, in no order.
pub async fn exists(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hashes: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, StoreError> {
    scope.admits(org)?;
    let sql = Sql::of(
        "SELECT b.hash FROM json_each($2) AS given JOIN blobs b ON b.hash = unhex(given.value) \
         JOIN blob_links l ON l.blob_id = b.id WHERE l.org_id = $1",
        "SELECT b.hash FROM blobs b JOIN blob_links l ON l.blob_id = b.id \
         WHERE l.org_id = $1 AND b.hash = ANY($2)",
    );
    let given: Value = hashes.iter().map(Vec::as_slice).collect();
    tx.rows(sql, &[org.into(), given]).await?.iter().map(|row| row.get(0)).collect()
}

pub async fn by_hash(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hash: &[u8],
) -> Result<Blob, StoreError> {
    scope.admits(org)?;
    let sql = "SELECT b.id, b.hash, b.size, b.payload, b.place FROM blobs b \
               JOIN blob_links l ON l.blob_id = b.id WHERE b.hash = $1 AND l.org_id = $2";
    blob(&tx.one("blob", sql, &[hash.into(), org.into()]).await?)
}

fn blob(row: &Row) -> Result<Blob, StoreError> {
    let place = row.get::<Option<String>>(4)?;
    let body = match place {
        Some(place) => Body::At(place),
        None => Body::Inline(row.get(3)?),
    };
    Ok(Blob { id: row.get(0)?, hash: row.get(1)?, size: row.get(2)?, body })
}
