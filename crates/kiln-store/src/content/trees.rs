//! The packs and chunks of trees that jobs save as caches.
//!
//! A pack is a blob like any other. What is in it is known when somebody has looked through it, and can be found
//! by the jobs that may read a cache which needs it, and by nobody else.

use kiln_core::id::{BlobId, OrgId, RepoId};

use super::blobs;
use super::chunks::NewChunk;
use crate::directory::names;
use crate::directory::repositories;
use crate::directory::scope::Scope;
use crate::{Refusal, Row, Sql, StoreError, Tx, Value};

/// How many refs and trusts a question may name.
const MOST: usize = 32;

/// The caches that a job may read.
#[derive(Debug, Clone)]
pub struct Readable {
    pub repo: RepoId,
    pub trusts: Vec<String>,
    pub refs: Vec<String>,
}

/// A chunk that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChunk {
    pub hash: Vec<u8>,
    /// The SHA-256 of the pack.
    pub pack: Vec<u8>,
    pub start: i64,
    pub stored: i64,
    pub size: i64,
}

/// A pack of these chunks was sent by a run of this trust, and each of them was compared with its hash.
pub async fn add(
    tx: &mut Tx<'_>,
    org: OrgId,
    (repo, trust): (RepoId, &str),
    pack: &[u8],
    chunks: &[NewChunk],
) -> Result<(), StoreError> {
    let scope = Scope::Org(org);
    names::line("a trust", trust, 50)?;
    for chunk in chunks {
        names::hash("the hash of a chunk", &chunk.hash)?;
    }
    repositories::org_of(tx, scope, repo).await?;
    // It stays for the time of grace from now on.
    blobs::hold(tx, scope, org, &[pack.to_vec()]).await?;
    let pack = blobs::by_hash(tx, scope, org, pack).await?.id;
    let sql = "INSERT INTO tree_packs (pack_id, repo_id, trust) VALUES ($1, $2, $3) \
               ON CONFLICT DO NOTHING";
    tx.execute(sql, &[pack.into(), repo.into(), trust.into()]).await?;
    let mut sorted: Vec<&NewChunk> = chunks.iter().collect();
    // In one order, so that two who add the same do not wait for each other.
    sorted.sort_by(|one, two| one.hash.cmp(&two.hash));
    let row = |chunk: &NewChunk| {
        let hash: Value = chunk.hash.as_slice().into();
        vec![hash, pack.into(), chunk.start.into(), chunk.stored.into(), chunk.size.into()]
    };
    let rows: Vec<Vec<Value>> = sorted.into_iter().map(row).collect();
    let sql = Sql::of(
        "INSERT INTO tree_chunks (hash, pack_id, start, stored, size) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        "INSERT INTO tree_chunks (hash, pack_id, start, stored, size) \
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
         ON CONFLICT DO NOTHING",
    );
    tx.execute_all(sql, &rows).await?;
    Ok(())
}

/// A cache that may be read needs the pack, and somebody who may be relied on has sent it here: two caches may
/// have the same root and yet be of strangers.
macro_rules! is_readable {
    ($trusts:literal, $refs:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM blob_parts p JOIN objects o ON o.blob_id = p.blob_id \
             JOIN caches c ON c.object_id = o.id WHERE p.part_id = k.pack_id AND c.repo_id = $1 \
             AND c.finalized_at IS NOT NULL AND c.trust ",
            $trusts,
            " AND c.ref ",
            $refs,
            ") AND EXISTS (SELECT 1 FROM tree_packs t WHERE t.pack_id = k.pack_id \
             AND t.repo_id = $1 AND t.trust ",
            $trusts,
            ")"
        )
    };
}

/// Those of these chunks that a cache has which may be read, in no order, some perhaps more than once.
pub async fn find(
    tx: &mut Tx<'_>,
    scope: Scope,
    readable: &Readable,
    hashes: &[Vec<u8>],
) -> Result<Vec<FoundChunk>, StoreError> {
    if readable.trusts.len().max(readable.refs.len()) > MOST {
        return names::invalid(format!("expected up to {MOST} refs and trusts"));
    }
    repositories::org_of(tx, scope, readable.repo).await?;
    let texts = |texts: &[String]| texts.iter().map(|text| names::searchable(text)).collect();
    let parameters: [Value; 4] = [
        readable.repo.into(),
        texts(&readable.trusts),
        texts(&readable.refs),
        hashes.iter().map(Vec::as_slice).collect(),
    ];
    let sql = Sql::of(
        concat!(
            "SELECT k.hash, b.hash, k.start, k.stored, k.size \
             FROM (SELECT DISTINCT value FROM json_each($4)) AS given \
             JOIN tree_chunks k ON k.hash = unhex(given.value) JOIN blobs b ON b.id = k.pack_id WHERE ",
            is_readable!(
                "IN (SELECT value FROM json_each($2))",
                "IN (SELECT value FROM json_each($3))"
            )
        ),
        concat!(
            "SELECT k.hash, b.hash, k.start, k.stored, k.size FROM tree_chunks k \
             JOIN blobs b ON b.id = k.pack_id WHERE k.hash = ANY($4) AND ",
            is_readable!("= ANY($2)", "= ANY($3)")
        ),
    );
    let chunk = |row: &Row| {
        Ok(FoundChunk {
            hash: row.get(0)?,
            pack: row.get(1)?,
            start: row.get(2)?,
            stored: row.get(3)?,
            size: row.get(4)?,
        })
    };
    tx.rows(sql, &parameters).await?.iter().map(chunk).collect()
}

/// The tree of this root needs these packs from now on, which runs of these trusts have sent to the repository. Says
/// how many bytes all of them have.
pub async fn need(
    tx: &mut Tx<'_>,
    (repo, trusts): (RepoId, &[String]),
    root: BlobId,
    packs: &[Vec<u8>],
) -> Result<i64, StoreError> {
    let trusts: Value = trusts.iter().map(|trust| names::searchable(trust)).collect();
    let hashes: Value = packs.iter().map(Vec::as_slice).collect();
    // The update locks the packs, in one order, so that no collector removes them from now on.
    let sql = Sql::of(
        "UPDATE blobs SET unused_since = NULL WHERE hash IN (SELECT unhex(value) FROM json_each($3)) \
         AND EXISTS (SELECT 1 FROM tree_packs t WHERE t.pack_id = blobs.id AND t.repo_id = $1 \
         AND t.trust IN (SELECT value FROM json_each($2))) RETURNING id, size",
        "UPDATE blobs SET unused_since = NULL FROM (SELECT b.id FROM blobs b WHERE b.hash = ANY($3) \
         AND EXISTS (SELECT 1 FROM tree_packs t WHERE t.pack_id = b.id AND t.repo_id = $1 \
         AND t.trust = ANY($2)) ORDER BY b.id FOR UPDATE) AS packs \
         WHERE blobs.id = packs.id RETURNING blobs.id, blobs.size",
    );
    let rows = tx.rows(sql, &[repo.into(), trusts, hashes]).await?;
    if rows.len() != packs.len() {
        let message = "a pack of this tree was never sent, or is gone; save it again".to_owned();
        return Err(Refusal::Conflict(message).into());
    }
    let part = |row: &Row| Ok(vec![root.into(), row.get::<BlobId>(0)?.into()]);
    let parts = rows.iter().map(part).collect::<Result<Vec<Vec<Value>>, StoreError>>()?;
    let insert = Sql::of(
        "INSERT INTO blob_parts (blob_id, part_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        "INSERT INTO blob_parts (blob_id, part_id) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING",
    );
    tx.execute_all(insert, &parts).await?;
    rows.iter().map(|row| row.get::<i64>(1)).sum()
}
