//! Keys that let runners in.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{OrgId, PoolId, RegistrationKeyId, UserId};
use kiln_proto::api;
use kiln_store::directory::organizations;
use kiln_store::directory::pools::{self, NewPool};
use kiln_store::directory::registration_keys::{self, NewRegistrationKey, RegistrationKey};
use kiln_store::{Actor, Page, Refusal, Scope, StoreError, Tx};

use super::orgs;
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
    let seconds = new.expires_in.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(Failure::invalid(format!("`expires_in` is 1 to {LONGEST} seconds")));
    }
    let uses = match new.uses.unwrap_or(1) {
        0 => None,
        uses => Some(i64::from(uses)),
    };
    let owner = owner_of(app, caller, &new).await?;
    let (secret, actor, user) = (Secret::new(Kind::RegistrationKey), caller.actor(), caller.user());
    let (hash, pool) = (secret.hash(), new.pool.unwrap_or_else(|| POOL.to_owned()));
    let (name, of) = (pool.clone(), owner.clone());
    let work = async move |tx: &mut Tx<'_>| {
        let org = match &of {
            Some(of) => Some(of.settle(tx, &actor, user).await?),
            None => None,
        };
        let scope = org.map_or(FIND, Scope::Org);
        let pool = pool_named(tx, scope, &actor, org, &name).await?;
        let expires_at = tx.now() + Duration::from_secs(seconds);
        let new = NewRegistrationKey { pool, hash: hash.clone(), expires_at, uses };
        let id = registration_keys::create(tx, scope, &actor, new).await?;
        Ok((id, expires_at))
    };
    let (id, expires_at) = app.store.write(work).await?;
    // Whoever made an organization belongs to it from now on.
    app.bearers.forget();
    Ok(api::RegistrationKey {
        id: id.0,
        key: Some(secret.reveal().to_owned()),
        pool,
        single_use_only: owner.is_none() && !app.config.allow_shared_host,
        owner: owner.map(|owner| owner.name),
        expires_at: expires_at.rfc3339(),
        uses_left: uses.and_then(|uses| u32::try_from(uses).ok()),
    })
}

/// An organization whose runners the caller may let in.
#[derive(Debug, Clone)]
struct Owner {
    name: String,
    /// Which one had the name when the right was looked at; none if the caller may do it in any, and make one.
    of: Option<OrgId>,
}

impl Owner {
    /// The organization of the name. Somebody may have renamed it since: another one, which the right is not for,
    /// is refused.
    async fn settle(
        &self,
        tx: &mut Tx<'_>,
        actor: &Actor,
        user: Option<UserId>,
    ) -> Result<OrgId, StoreError> {
        let now = orgs::known_or_made(tx, actor, user, &self.name).await?;
        if self.of.is_some_and(|of| of != now) {
            let message =
                format!("the organization `{}` was renamed meanwhile; try again", self.name);
            return Err(Refusal::Conflict(message).into());
        }
        Ok(now)
    }
}

/// Whose runners these will be, once it is sure that the caller may let them in: an organization's, which may not exist
/// yet, or nobody's and shared.
async fn owner_of(
    app: &App,
    caller: &Caller,
    new: &api::NewRegistrationKey,
) -> Answer<Option<Owner>> {
    let shared = || caller.require(Right::Runners, None, "organization").map(|_| None);
    match (&new.owner, new.shared) {
        (Some(_), true) => Err(Failure::invalid("say `owner` or `shared`, not both")),
        (None, true) => shared(),
        (Some(owner), false) => {
            let name = owner.clone();
            let work = async move |tx: &mut Tx<'_>| orgs::known(tx, &name).await;
            let of = app.store.read(work).await?;
            match of {
                Some(org) => caller.require(Right::Runners, Some(org), "organization")?,
                None if !caller.grants().sees_everything() => {
                    return Err(Failure::not_found("organization"));
                }
                None => caller.require(Right::Admin, None, "organization")?,
            };
            Ok(Some(Owner { name: owner.clone(), of }))
        }
        // The runners of all may run steps on their hosts: there is nothing to choose.
        (None, false) if app.config.allow_shared_host => shared(),
        (None, false) => the_only(app, caller).await.map(Some),
    }
}

/// The only organization whose runners the caller lets in. A key for shared ones would be worth nothing here to most
/// runners, so nobody gets it without asking for it.
async fn the_only(app: &App, caller: &Caller) -> Answer<Owner> {
    let scopes = caller.scopes(Right::Runners);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in scopes.iter().take(2) {
            found.extend(organizations::list(tx, *scope, Page::first(2)).await?);
        }
        Ok(found)
    };
    let found = app.store.read(work).await?;
    if let [one] = &found[..] {
        caller.require(Right::Runners, Some(one.id), "organization")?;
        return Ok(Owner { name: one.name.clone(), of: Some(one.id) });
    }
    // Whoever may do nothing here learns that first.
    caller.require(Right::Runners, None, "organization")?;
    let how_many = if found.is_empty() {
        "there is no organization yet"
    } else {
        "there are several organizations"
    };
    Err(Failure::invalid(format!(
        "owner: {how_many}; name the one whose jobs the runners take (`kiln runners key --owner NAME`; it is made if \
         there is none), or let all share them with `shared` (`--shared`), which is for runners of a single job unless \
         the server has `allow_shared_host = true`"
    )))
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
        single_use_only: false,
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

#[cfg(test)]
mod tests {
    use kiln_store::directory::organizations::NewOrganization;
    use kiln_testkit::database::Database;

    use super::*;

    /// A name that has come to mean another organization since the right was looked at, or none.
    async fn renamed_meanwhile(database: &Database) {
        let store = database.open();
        store.migrate().await.unwrap();
        let work = async move |tx: &mut Tx<'_>| {
            let actor = Actor::system("test");
            let ours = organizations::create(tx, &actor, NewOrganization::named("acme")).await?;
            let theirs = organizations::create(tx, &actor, NewOrganization::named("other")).await?;
            let owner = Owner { name: "acme".to_owned(), of: Some(ours) };
            assert_eq!(owner.settle(tx, &actor, None).await?, ours);
            organizations::rename(tx, FIND, &actor, ours, "ours").await?;
            let conflict = |settled: Result<OrgId, StoreError>| {
                assert!(
                    matches!(&settled, Err(StoreError::Refused(Refusal::Conflict(why))) if why.contains("renamed")),
                    "{settled:?}"
                );
            };
            organizations::rename(tx, FIND, &actor, theirs, "acme").await?;
            conflict(owner.settle(tx, &actor, None).await);
            organizations::rename(tx, FIND, &actor, theirs, "gone").await?;
            conflict(owner.settle(tx, &actor, None).await);
            // Whoever may do it in any organization may also make one.
            let any = Owner { name: "third".to_owned(), of: None };
            let made = any.settle(tx, &actor, None).await?;
            assert!(made != ours && made != theirs);
            assert_eq!(any.settle(tx, &actor, None).await?, made);
            Ok(())
        };
        store.write(work).await.unwrap();
    }

    #[tokio::test]
    async fn a_right_is_for_the_organization_and_not_for_its_name() {
        renamed_meanwhile(&Database::sqlite()).await;
        renamed_meanwhile(&Database::postgres().await).await;
    }
}
