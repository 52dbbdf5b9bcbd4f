//! Trees that jobs save as caches: packs of chunks, and roots that lead to them.
//!
//! What a job sends is looked through before anybody can find it, so that no chunk is ever something else than its
//! hash says. Who finds it is decided by the caches that need it: those that a job may read.

use kiln_blob::tree::{Inside, check_pack};
use kiln_blob::{BlobError, Digest, Span, collect};
use kiln_core::id::CacheId;
use kiln_proto::blob::MOST_HASHES;
use kiln_proto::content::{
    Cache, Complete, CompleteTree, FindChunks, FoundChunks, NewPack, TreeChunk,
};
use kiln_store::claims::Lease;
use kiln_store::content::blobs as rows;
use kiln_store::content::caches;
use kiln_store::content::chunks::NewChunk;
use kiln_store::content::trees::{self, FoundChunk, Readable};
use kiln_store::{Refusal, Scope, Tx};

use super::caches::shown;
use super::{Sent, Standing, is_of, number};
use crate::app::App;
use crate::http::error::{Answer, Failure};
use crate::service::blobs::{Opened, open_here, unkept};
use crate::service::job::TRUSTED;

/// No pack is larger.
const LARGEST_PACK: usize = 16 << 20;

fn digest(text: &str) -> Answer<Digest> {
    text.parse().map_err(|error: BlobError| Failure::invalid(error.to_string()))
}

fn digests(field: &str, texts: &[String]) -> Answer<Vec<Vec<u8>>> {
    if texts.len() > MOST_HASHES {
        return Err(Failure::invalid(format!("`{field}`: expected {MOST_HASHES} at most")));
    }
    texts.iter().map(|text| Ok(digest(text)?.0.to_vec())).collect()
}

/// Those chunks of caches that the job may read.
pub async fn find(app: &App, lease: &Lease, asked: &FindChunks) -> Answer<FoundChunks> {
    let hashes = digests("hashes", &asked.hashes)?;
    let standing = Standing::of(app, lease).await?;
    let readable = Readable {
        repo: lease.repo,
        trusts: standing.readable_trusts(),
        refs: standing.readable_refs(),
    };
    let scope = Scope::Org(lease.org);
    let look = async move |tx: &mut Tx<'_>| trees::find(tx, scope, &readable, &hashes).await;
    let mut chunks: Vec<TreeChunk> = app.store.read(look).await?.iter().filter_map(chunk).collect();
    chunks.sort_unstable_by(|one, other| one.hash.cmp(&other.hash));
    chunks.dedup_by(|one, other| one.hash == other.hash);
    Ok(FoundChunks { chunks })
}

/// A row that makes no sense is as good as none: the chunk is sent anew.
fn chunk(found: &FoundChunk) -> Option<TreeChunk> {
    Some(TreeChunk {
        hash: Digest::from_slice(&found.hash)?.to_string(),
        pack: Digest::from_slice(&found.pack)?.to_string(),
        offset: found.start.try_into().ok()?,
        stored: found.stored.try_into().ok()?,
        size: found.size.try_into().ok()?,
    })
}

/// Looks through a pack that has been sent. From now on, trees of this repository may need it.
pub async fn add(app: &App, lease: &Lease, new: &NewPack) -> Answer<()> {
    let hash = digest(&new.hash)?;
    let standing = Standing::of(app, lease).await?;
    let Opened::Here(found) = open_here(app, lease.org, hash, Span::All).await? else {
        return Err(Failure::internal("the bytes of a pack are elsewhere"));
    };
    let bytes = collect(found.content, LARGEST_PACK).await.map_err(unkept)?;
    // It is unpacked for a while, which is to keep nobody waiting.
    let checked = tokio::task::spawn_blocking(move || check_pack(&bytes)).await;
    let inside = checked.map_err(Failure::internal)?;
    let inside = inside.map_err(|error| Failure::invalid(format!("`hash`: no pack: {error}")))?;
    let chunks: Vec<NewChunk> = inside.iter().map(row).collect();
    let (org, repo, trust) = (lease.org, lease.repo, standing.run().trust.clone());
    let add = async move |tx: &mut Tx<'_>| {
        trees::add(tx, org, (repo, trust.as_str()), &hash.0, &chunks).await
    };
    Ok(app.store.write(add).await?)
}

fn row(inside: &Inside) -> NewChunk {
    NewChunk {
        hash: inside.digest.0.to_vec(),
        start: inside.offset.into(),
        stored: inside.stored.into(),
        size: inside.size.into(),
    }
}

/// The root of a tree and its packs have been sent. From now on the cache can be found. It counts with all bytes
/// that it keeps: those of its packs, also of those that it shares with others.
pub async fn complete(app: &App, lease: &Lease, id: i64, said: CompleteTree) -> Answer<Cache> {
    let sent = Sent::read(&Complete { hash: said.hash, size: said.size })?;
    let mut packs = digests("packs", &said.packs)?;
    packs.sort_unstable();
    packs.dedup();
    let trusts = Standing::of(app, lease).await?.readable_trusts();
    let (id, lease, content) = (CacheId(id), lease.clone(), app.config.content);
    let work = async move |tx: &mut Tx<'_>| {
        let scope = Scope::Org(lease.org);
        let reserved = caches::get(tx, scope, id).await?;
        if reserved.repo != lease.repo || !is_of(&lease, reserved.job, reserved.claim) {
            return Err(Refusal::NotFound("cache").into());
        }
        // Said again because the answer got lost.
        if reserved.finalized_at.is_some() && reserved.hash.as_deref() == Some(&sent.hash.0[..]) {
            return Ok(reserved);
        }
        let object = sent.cached(tx, lease.org).await?;
        let root = rows::by_hash(tx, scope, lease.org, &sent.hash.0).await?.id;
        let kept = trees::need(tx, (lease.repo, &trusts), root, &packs).await?;
        let size = kept.saturating_add(sent.size);
        let quota = content.quota_of(reserved.trust == TRUSTED);
        if number(size) > quota {
            let message =
                format!("the tree needs {size} bytes; the caches of a repository may have {quota}");
            return Err(Refusal::Invalid(message).into());
        }
        caches::finalize(tx, scope, id, object, &sent.hash.0, size).await?;
        caches::get(tx, scope, id).await
    };
    Ok(shown(&app.store.write(work).await?))
}
