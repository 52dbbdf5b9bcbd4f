//! Caches, for jobs. Key and version are the job's word; ref and trust are the server's.

use kiln_core::id::CacheId;
use kiln_proto::content::{Cache, Complete, FindCache, FoundCache, NewCache, Reserved};
use kiln_store::claims::Lease;
use kiln_store::content::caches::{self, Wanted};
use kiln_store::{Refusal, Scope, Tx};

use super::{Sent, Standing, hex, is_of, number, time};
use crate::app::App;
use crate::http::error::{Answer, Failure};
use crate::service::job::TRUSTED;

/// How many characters a key may have.
const LONGEST: usize = 512;
/// How many keys a question may name beside the first, as GitHub's clients do.
const MOST: usize = 10;

fn check_key(field: &str, key: &str) -> Answer<()> {
    if key.is_empty() || key.chars().count() > LONGEST || key.contains(',') {
        let message = format!("`{field}`: expected 1 to {LONGEST} characters without a comma");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// The best cache that the job may read.
pub async fn find(app: &App, lease: &Lease, asked: FindCache) -> Answer<FoundCache> {
    check_key("key", &asked.key)?;
    if asked.restore_keys.len() > MOST {
        return Err(Failure::invalid(format!("`restore_keys`: expected {MOST} at most")));
    }
    for key in &asked.restore_keys {
        check_key("restore_keys", key)?;
    }
    let standing = Standing::of(app, lease).await?;
    let wanted = Wanted {
        repo: lease.repo,
        trusts: standing.readable_trusts(),
        refs: standing.readable_refs(),
        key: asked.key,
        restore_keys: asked.restore_keys,
        version: asked.version,
    };
    let scope = Scope::Org(lease.org);
    let look = async move |tx: &mut Tx<'_>| caches::look_up(tx, scope, &wanted).await;
    let found = app.store.read(look).await?;
    // A run that is not trusted has no say in what of the others stays.
    let hit = found.as_ref().map(|found| (found.id, found.trust == standing.run().trust));
    let repo = lease.repo;
    let note = async move |tx: &mut Tx<'_>| {
        if let Some((id, renews)) = hit {
            caches::hit(tx, scope, id, renews).await?;
        }
        caches::looked(tx, scope, repo, hit.is_some()).await
    };
    app.store.write(note).await?;
    Ok(FoundCache { cache: found.as_ref().map(shown) })
}

pub fn shown(cache: &caches::Cache) -> Cache {
    Cache {
        id: cache.id.0,
        key: cache.key.clone(),
        version: cache.version.clone(),
        git_ref: cache.git_ref.clone(),
        size: number(cache.size),
        hash: hex(cache.hash.as_ref()),
        created_at: time(cache.created_at),
        used_at: time(cache.used_at),
        hits: number(cache.hits),
    }
}

/// Reserves a key for the ref and the trust of the job's run.
pub async fn create(app: &App, lease: &Lease, new: NewCache) -> Answer<Reserved> {
    check_key("key", &new.key)?;
    let standing = Standing::of(app, lease).await?;
    if let Some(reason) = standing.write_denied() {
        return Err(Failure::forbidden(reason));
    }
    let (org, run) = (lease.org, standing.run());
    let new = caches::NewCache {
        repo: lease.repo,
        git_ref: run.reference.clone(),
        trust: run.trust.clone(),
        key: new.key,
        version: new.version,
        by: Some((lease.job, lease.claim)),
    };
    let reserve =
        async move |tx: &mut Tx<'_>| caches::reserve(tx, Scope::Org(org), new.clone()).await;
    Ok(Reserved { id: app.store.write(reserve).await?.0 })
}

/// The bytes of a reserved cache have been sent. From now on it can be found.
pub async fn complete(app: &App, lease: &Lease, id: i64, said: &Complete) -> Answer<Cache> {
    let sent = Sent::read(said)?;
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
        let quota = content.quota_of(reserved.trust == TRUSTED);
        if number(sent.size) > quota {
            let message = format!("`size`: the caches of a repository may have {quota} bytes");
            return Err(Refusal::Invalid(message).into());
        }
        let object = sent.cached(tx, lease.org).await?;
        caches::finalize(tx, scope, id, object, &sent.hash.0, sent.size).await?;
        caches::get(tx, scope, id).await
    };
    Ok(shown(&app.store.write(work).await?))
}
