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
    // The update locks the row, so that a collector that is about to remove it sees that it is used.
    let row = tx
        .one(
            "blob",
            "INSERT INTO blobs (hash, size, payload, place, created_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (hash) DO UPDATE SET unused_since = NULL \
             RETURNING id, hash, size, payload, place",
            &[hash.into(), size.into(), payload, place, tx.now().into()],
        )
        .await?;
    let blob = blob(&row)?;
    tx.execute(
        "INSERT INTO blob_links (org_id, blob_id, created_at) VALUES ($1, $2, $3) \
         ON CONFLICT DO NOTHING",
        &[org.into(), blob.id.into(), tx.now().into()],
    )
    .await?;
    Ok(blob)
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
