//! Keys that let runners in.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{OrgId, PoolId, RegistrationKeyId};
use kiln_proto::api;
use kiln_store::directory::organizations;
use kiln_store::directory::pools::{self, NewPool};
use kiln_store::directory::registration_keys::{self, NewRegistrationKey, RegistrationKey};
use kiln_store::{Actor, Page, Refusal, Scope, StoreError, Tx};

use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::token::{Kind, Secret};

/// Seconds that a key lasts unless it is said.
const USUAL: u64 = 60 * 60;
/// A year: what should last longer is made anew.
const LONGEST: u64 = 365 * 24 * 60 * 60;
/// Where runners go that nobody put elsewhere.
const POOL: &str = "default";

/// The organization of an owner; the whole installation without one.
async fn org_of(app: &App, owner: Option<String>) -> Answer<Option<OrgId>> {
    let Some(owner) = owner else { return Ok(None) };
    let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
    Ok(Some(app.store.read(work).await?.id))
}

pub async fn mint(
    app: &App,
    caller: &Caller,
    new: api::NewRegistrationKey,
) -> Answer<api::RegistrationKey> {
    let org = org_of(app, new.owner.clone()).await?;
    let scope = caller.require(Right::Runners, org, "organization")?;
    let seconds = new.expires_in.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(Failure::invalid(format!("`expires_in` is 1 to {LONGEST} seconds")));
    }
    let uses = match new.uses.unwrap_or(1) {
        0 => None,
        uses => Some(i64::from(uses)),
    };
    let (secret, actor) = (Secret::new(Kind::RegistrationKey), caller.actor());
    let (hash, pool) = (secret.hash(), new.pool.clone().unwrap_or_else(|| POOL.to_owned()));
    let name = pool.clone();
    let work = async move |tx: &mut Tx<'_>| {
        let pool = pool_named(tx, scope, &actor, org, &name).await?;
        let expires_at = tx.now() + Duration::from_secs(seconds);
        let new = NewRegistrationKey { pool, hash: hash.clone(), expires_at, uses };
        let id = registration_keys::create(tx, scope, &actor, new).await?;
        Ok((id, expires_at))
    };
    let (id, expires_at) = app.store.write(work).await?;
    Ok(api::RegistrationKey {
        id: id.0,
        key: Some(secret.reveal().to_owned()),
        pool,
        owner: new.owner,
        expires_at: expires_at.rfc3339(),
        uses_left: uses.and_then(|uses| u32::try_from(uses).ok()),
    })
}

/// A pool of an organization, or a shared one. It is made if there is none.
async fn pool_named(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    org: Option<OrgId>,
    name: &str,
) -> Result<PoolId, StoreError> {
    match pools::by_name(tx, scope, org, name).await {
        Ok(pool) => Ok(pool.id),
        Err(StoreError::Refused(Refusal::NotFound(_))) => {
            let new = NewPool { org, name: name.to_owned(), settings: "{}".to_owned() };
            pools::create(tx, scope, actor, new).await
        }
        Err(error) => Err(error),
    }
}

/// The keys of an organization's pools, or of the shared ones, by age.
pub async fn list(
    app: &App,
    caller: &Caller,
    owner: Option<String>,
    page: Page,
) -> Answer<Vec<api::RegistrationKey>> {
    let org = org_of(app, owner.clone()).await?;
    let scope = caller.require(Right::Runners, org, "organization")?;
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        // No organization has the number 0: what remains are the shared pools.
        let all = pools::list(tx, scope, org.unwrap_or(OrgId(0)), Page::first(Page::LARGEST));
        for pool in all.await?.into_iter().filter(|pool| pool.org == org) {
            for key in registration_keys::list(tx, scope, pool.id, page).await? {
                found.push((key, pool.name.clone()));
            }
        }
        found.sort_by_key(|(key, _)| key.id);
        found.truncate(page.limit as usize);
        Ok(found)
    };
    let found = app.store.read(work).await?;
    Ok(found.into_iter().map(|(key, pool)| shown(&key, pool, owner.clone())).collect())
}

fn shown(key: &RegistrationKey, pool: String, owner: Option<String>) -> api::RegistrationKey {
    let revoked = key.revoked_at.is_some();
    let left = key.uses_left.and_then(|uses| u32::try_from(uses).ok());
    api::RegistrationKey {
        id: key.id.0,
        key: None,
        pool,
        owner,
        expires_at: key.revoked_at.unwrap_or(key.expires_at).rfc3339(),
        uses_left: if revoked { Some(0) } else { left },
    }
}

/// The store knows whose it is; what is not the caller's is not found.
pub async fn revoke(app: &App, caller: &Caller, id: RegistrationKeyId) -> Answer<()> {
    let scopes = caller.scopes(Right::Runners);
    if scopes.contains(&FIND) {
        caller.require(Right::Runners, None, "registration key")?;
    }
    for scope in scopes {
        let actor = caller.actor();
        let work =
            async move |tx: &mut Tx<'_>| registration_keys::revoke(tx, scope, &actor, id).await;
        match app.store.write(work).await {
            Err(StoreError::Refused(Refusal::NotFound(_))) => {}
            answer => return Ok(answer?),
        }
    }
    Err(Failure::not_found("registration key"))
}
