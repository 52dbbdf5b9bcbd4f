//! Organizations: who shares the runners.

use kiln_core::id::OrgId;
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::names;
use super::page::Page;
use super::scope::Scope;
use crate::{Row, StoreError, Tx};

/// The most that shares can be.
pub(crate) const MOST_SHARES: i64 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    pub id: OrgId,
    pub name: String,
    pub display_name: Option<String>,
    pub plan: String,
    /// How much of the runners it gets, compared with others.
    pub shares: i64,
    /// How many of its jobs may run at once; `None` for any number.
    pub job_limit: Option<i64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct NewOrganization {
    pub name: String,
    pub display_name: Option<String>,
    pub plan: String,
    pub shares: i64,
    pub job_limit: Option<i64>,
}

impl NewOrganization {
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            display_name: None,
            plan: "free".to_owned(),
            shares: 100,
            job_limit: None,
        }
    }
}

/// Making one asks about nothing but whether the name is taken, so there is no scope.
pub async fn create(
    tx: &mut Tx<'_>,
    actor: &Actor,
    new: NewOrganization,
) -> Result<OrgId, StoreError> {
    names::name("an organization", &new.name)?;
    names::line_if_any("a display name", new.display_name.as_ref(), 200)?;
    names::name("a plan", &new.plan)?;
    names::within("shares", new.shares, 1, MOST_SHARES)?;
    let row = [
        new.name.as_str().into(),
        new.display_name.into(),
        new.plan.into(),
        new.shares.into(),
        tx.now().into(),
    ];
    let made = tx
        .row(
            "INSERT INTO organizations (name, display_name, plan, shares, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict(format!("the organization `{}` exists already", new.name));
    };
    let id = row.get::<OrgId>(0)?;
    if new.job_limit.is_some() {
        write_limit(tx, id, new.job_limit).await?;
    }
    record(tx, actor, id, "organization.create", json!({ "name": new.name })).await?;
    Ok(id)
}

pub async fn rename(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: OrgId,
    name: &str,
) -> Result<(), StoreError> {
    names::name("an organization", name)?;
    let before = get(tx, scope, id).await?.name;
    let sql = "UPDATE organizations SET name = $2, updated_at = $3 WHERE id = $1";
    let renamed = tx.execute(sql, &[id.into(), name.into(), tx.now().into()]).await;
    names::taken(renamed, || format!("the organization `{name}` exists already"))?;
    let detail = json!({ "from": before, "to": name });
    record(tx, actor, id, "organization.rename", detail).await
}

pub async fn set_plan(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: OrgId,
    plan: &str,
) -> Result<(), StoreError> {
    names::name("a plan", plan)?;
    require(tx, scope, id).await?;
    let sql = "UPDATE organizations SET plan = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, &[id.into(), plan.into(), tx.now().into()]).await?;
    record(tx, actor, id, "organization.set_plan", json!({ "plan": plan })).await
}

pub async fn set_shares(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: OrgId,
    shares: i64,
) -> Result<(), StoreError> {
    names::within("shares", shares, 1, MOST_SHARES)?;
    require(tx, scope, id).await?;
    let sql = "UPDATE organizations SET shares = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, &[id.into(), shares.into(), tx.now().into()]).await?;
    record(tx, actor, id, "organization.set_shares", json!({ "shares": shares })).await
}

/// How many jobs may run at once from now on. What runs already goes on.
pub async fn set_job_limit(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: OrgId,
    limit: Option<i64>,
) -> Result<(), StoreError> {
    require(tx, scope, id).await?;
    write_limit(tx, id, limit).await?;
    record(tx, actor, id, "organization.set_job_limit", json!({ "limit": limit })).await
}

/// Only leases that were counted will be taken off again when they end, so only they count as running
/// when the first limit is set. A row that exists is kept exact by those who claim and finish; it stays
/// when the limit goes, for the leases that it counts.
async fn write_limit(tx: &mut Tx<'_>, id: OrgId, limit: Option<i64>) -> Result<(), StoreError> {
    if let Some(limit) = limit {
        names::within("the limit of jobs", limit, 0, 1_000_000)?;
    }
    tx.execute(
        "INSERT INTO org_loads (org_id, running, job_limit) VALUES ($1, \
         (SELECT count(*) FROM leases WHERE org_id = $1 AND counted = 1), $2) \
         ON CONFLICT (org_id) DO UPDATE SET job_limit = excluded.job_limit",
        &[id.into(), limit.into()],
    )
    .await?;
    Ok(())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, display_name, plan, shares, job_limit, created_at, updated_at \
             FROM organizations LEFT JOIN org_loads ON org_id = id ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: OrgId) -> Result<Organization, StoreError> {
    let sql = select!("WHERE id = $1 AND (id = $2 OR $2 IS NULL)");
    let row = tx.one("organization", sql, &[id.into(), scope.parameter()]).await?;
    organization(&row)
}

pub async fn by_name(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
) -> Result<Organization, StoreError> {
    let sql = select!("WHERE name = $1 AND (id = $2 OR $2 IS NULL)");
    let row = tx.one("organization", sql, &[names::searchable(name), scope.parameter()]).await?;
    organization(&row)
}

/// By age. An organization sees itself alone.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    page: Page,
) -> Result<Vec<Organization>, StoreError> {
    let sql = select!("WHERE (id = $1 OR $1 IS NULL) AND id > $2 ORDER BY id LIMIT $3");
    let rows = tx.rows(sql, &[scope.parameter(), page.rising(), page.limit()]).await?;
    rows.iter().map(organization).collect()
}

/// Refuses an organization that does not exist or cannot be seen.
pub(crate) async fn require(tx: &mut Tx<'_>, scope: Scope, id: OrgId) -> Result<(), StoreError> {
    scope.admits(id)?;
    tx.one("organization", "SELECT 1 FROM organizations WHERE id = $1", &[id.into()]).await?;
    Ok(())
}

fn organization(row: &Row) -> Result<Organization, StoreError> {
    Ok(Organization {
        id: row.get(0)?,
        name: row.get(1)?,
        display_name: row.get(2)?,
        plan: row.get(3)?,
        shares: row.get(4)?,
        job_limit: row.get(5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: OrgId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: Some(id), action, subject: id.0, detail }).await
}
