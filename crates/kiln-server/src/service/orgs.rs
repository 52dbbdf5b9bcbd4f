//! Organizations: who shares the runners, and how.

use kiln_core::access::Right;
use kiln_core::id::{OrgId, UserId};
use kiln_proto::api;
use kiln_store::directory::members;
use kiln_store::directory::organizations::{self, NewOrganization, Organization};
use kiln_store::{Actor, Page, Refusal, Scope, StoreError, Tx};

use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// Organizations that the caller may see, by age.
pub async fn list(app: &App, caller: &Caller, page: Page) -> Answer<Vec<api::Organization>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            found.extend(organizations::list(tx, *scope, page).await?);
        }
        found.sort_by_key(|org| org.id);
        found.truncate(page.limit as usize);
        Ok(found)
    };
    Ok(app.store.read(work).await?.iter().map(shown).collect())
}

pub async fn one(app: &App, caller: &Caller, name: &str) -> Answer<api::Organization> {
    Ok(shown(&find(app, caller, name).await?))
}

async fn find(app: &App, caller: &Caller, name: &str) -> Answer<Organization> {
    let name = name.to_owned();
    let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &name).await;
    let found = app.store.read(work).await?;
    caller.require(Right::Read, Some(found.id), "organization")?;
    Ok(found)
}

/// The organization of a name, if there is one.
pub(super) async fn known(tx: &mut Tx<'_>, name: &str) -> Result<Option<OrgId>, StoreError> {
    match organizations::by_name(tx, FIND, name).await {
        Ok(org) => Ok(Some(org.id)),
        Err(StoreError::Refused(Refusal::NotFound(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The organization of a name. It is made if there is none, and whoever makes it administers it; only an administrator
/// of the installation may, which the caller has checked.
pub(super) async fn known_or_made(
    tx: &mut Tx<'_>,
    actor: &Actor,
    user: Option<UserId>,
    name: &str,
) -> Result<OrgId, StoreError> {
    if let Some(org) = known(tx, name).await? {
        return Ok(org);
    }
    let org = organizations::create(tx, actor, NewOrganization::named(name)).await?;
    if let Some(user) = user {
        members::put(tx, FIND, actor, org, user, members::Role::Admin).await?;
    }
    Ok(org)
}

/// Changes what an organization gets of the runners. That is less or more for all others, so only an
/// administrator of the installation may.
pub async fn change(
    app: &App,
    caller: &Caller,
    name: &str,
    change: api::ChangeOrganization,
) -> Answer<api::Organization> {
    let org = find(app, caller, name).await?;
    caller.require(Right::Admin, None, "organization")?;
    let limit = match (change.job_limit, change.unlimited) {
        (Some(_), true) => {
            return Err(Failure::invalid("say `job_limit` or `unlimited`, not both"));
        }
        (Some(limit), false) => Some(Some(limit)),
        (None, true) => Some(None),
        (None, false) => None,
    };
    let (actor, scope, id) = (caller.actor(), Scope::Org(org.id), org.id);
    let work = async move |tx: &mut Tx<'_>| {
        if let Some(shares) = change.shares {
            organizations::set_shares(tx, scope, &actor, id, shares).await?;
        }
        if let Some(limit) = limit {
            organizations::set_job_limit(tx, scope, &actor, id, limit).await?;
        }
        organizations::get(tx, scope, id).await
    };
    Ok(shown(&app.store.write(work).await?))
}

fn shown(org: &Organization) -> api::Organization {
    api::Organization {
        id: org.id.0,
        name: org.name.clone(),
        shares: org.shares,
        job_limit: org.job_limit,
    }
}
