//! Where the chunks of large archives lie. Each organization has its own.

use kiln_core::id::{BlobId, OrgId};

use super::blobs::{self, Body, NewBlob};
use crate::directory::names;
use crate::directory::scope::Scope;
use crate::{Row, Sql, StoreError, Tx, Value};

/// A chunk in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownChunk {
    pub hash: Vec<u8>,
    /// The place of the pack.
    pub pack: String,
    pub start: i64,
    pub stored: i64,
    pub size: i64,
}

/// A chunk of a pack that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    pub hash: Vec<u8>,
    pub start: i64,
    pub stored: i64,
    pub size: i64,
}

/// Those of these chunks that the organization has, in no order. The time of grace of their packs begins
/// anew, so that they stay until an archive refers to them.
pub async fn find(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    hashes: &[Vec<u8>],
) -> Result<Vec<KnownChunk>, StoreError> {
    scope.admits(org)?;
    let given: Value = hashes.iter().map(Vec::as_slice).collect();
    let sql = Sql::of(
        "SELECT c.hash, b.place, c.start, c.stored, c.size, b.id, b.unused_since \
         FROM (SELECT DISTINCT value FROM json_each($2)) AS given \
         JOIN chunks c ON c.org_id = $1 AND c.hash = unhex(given.value) \
         JOIN blobs b ON b.id = c.pack_id WHERE b.place IS NOT NULL",
        "SELECT c.hash, b.place, c.start, c.stored, c.size, b.id, b.unused_since \
         FROM chunks c JOIN blobs b ON b.id = c.pack_id \
         WHERE c.org_id = $1 AND c.hash = ANY($2) AND b.place IS NOT NULL",
    );
    let mut rows = tx.rows(sql, &[org.into(), given]).await?;
    let mut unused = Vec::new();
    for row in &rows {
        if row.get::<Option<i64>>(6)?.is_some() {
            unused.push(row.get::<BlobId>(5)?);
        }
    }
    if !unused.is_empty() {
        let held = hold(tx, unused).await?;
        // One that a collector took in between is not there any more.
        rows.retain(|row| {
            let is_used = row.get::<Option<i64>>(6).is_ok_and(|since| since.is_none());
            is_used || row.get::<BlobId>(5).is_ok_and(|id| held.contains(&id))
        });
    }
    rows.iter().map(chunk).collect()
}

async fn hold(tx: &mut Tx<'_>, mut packs: Vec<BlobId>) -> Result<Vec<BlobId>, StoreError> {
    packs.sort_unstable();
    packs.dedup();
    let sql = Sql::of(
        "UPDATE blobs SET unused_since = NULL WHERE id IN (SELECT value FROM json_each($1)) \
         RETURNING id",
        "UPDATE blobs SET unused_since = NULL FROM (SELECT id FROM blobs WHERE id = ANY($1) \
         ORDER BY id FOR UPDATE) AS packs WHERE blobs.id = packs.id RETURNING blobs.id",
    );
    let given: Value = packs.into_iter().map(|id| id.0).collect();
    tx.rows(sql, &[given]).await?.iter().map(|row| row.get(0)).collect()
}

/// Keeps a pack that was written, and what is in it. If the same pack is there already, that one stays:
/// the answer says where it lies.
pub async fn add(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    pack: NewBlob,
    chunks: &[NewChunk],
) -> Result<String, StoreError> {
    for chunk in chunks {
        names::hash("the hash of a chunk", &chunk.hash)?;
    }
    let kept = blobs::keep(tx, scope, org, pack).await?;
    let Body::At(place) = kept.body else {
        return names::conflict("bytes with the hash of this pack lie in the database".to_owned());
    };
    let row = |chunk: &NewChunk| {
        let NewChunk { hash, start, stored, size } = chunk;
        let hash: Value = hash.as_slice().into();
        vec![org.into(), hash, kept.id.into(), (*start).into(), (*stored).into(), (*size).into()]
    };
    let mut rows: Vec<&NewChunk> = chunks.iter().collect();
    // In one order, so that two who add the same do not wait for each other.
    rows.sort_by(|one, two| one.hash.cmp(&two.hash));
    let rows: Vec<Vec<Value>> = rows.into_iter().map(row).collect();
    let sql = Sql::of(
        "INSERT INTO chunks (org_id, hash, pack_id, start, stored, size) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        "INSERT INTO chunks (org_id, hash, pack_id, start, stored, size) \
         SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], \
         $5::bigint[], $6::bigint[]) ON CONFLICT DO NOTHING",
    );
    tx.execute_all(sql, &rows).await?;
    Ok(place)
}

fn chunk(row: &Row) -> Result<KnownChunk, StoreError> {
    Ok(KnownChunk {
        hash: row.get(0)?,
        pack: row.get(1)?,
        start: row.get(2)?,
        stored: row.get(3)?,
        size: row.get(4)?,
    })
}
