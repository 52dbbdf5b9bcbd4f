//! Pools: runners that belong together. One without an organization is shared by all, who may see it but
//! not change it.

use kiln_core::id::{OrgId, PoolId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, organizations};
use crate::{Refusal, Row, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub id: PoolId,
    /// `None` when it is shared.
    pub org: Option<OrgId>,
    pub name: String,
    /// JSON.
    pub settings: String,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct NewPool {
    /// `None` makes a shared one.
    pub org: Option<OrgId>,
    pub name: String,
    /// JSON.
    pub settings: String,
}

pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewPool,
) -> Result<PoolId, StoreError> {
    names::name("a pool", &new.name)?;
    names::json("the settings of a pool", &new.settings)?;
    may_own(tx, scope, new.org).await?;
    let row = [new.org.into(), new.name.as_str().into(), new.settings.into(), tx.now().into()];
    let made = tx
        .row(
            "INSERT INTO pools (org_id, name, settings, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict(format!("there is a pool `{}` already", new.name));
    };
    let id = row.get::<PoolId>(0)?;
    let detail = json!({ "name": new.name });
    audit::record(tx, actor, Deed { org: new.org, action: "pool.create", subject: id.0, detail })
        .await?;
    Ok(id)
}

/// Gives a pool other settings (JSON).
pub async fn configure(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: PoolId,
    settings: &str,
) -> Result<(), StoreError> {
    names::json("the settings of a pool", settings)?;
    let org = own(tx, scope, id).await?.org;
    let sql = "UPDATE pools SET settings = $2 WHERE id = $1";
    tx.execute(sql, &[id.into(), settings.into()]).await?;
    let detail = json!({ "settings": settings });
    audit::record(tx, actor, Deed { org, action: "pool.configure", subject: id.0, detail }).await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, name, settings, created_at FROM pools \
             WHERE (org_id = $1 OR $1 IS NULL OR org_id IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: PoolId) -> Result<Pool, StoreError> {
    let sql = select!("id = $2");
    pool(&tx.one("pool", sql, &[scope.parameter(), id.into()]).await?)
}

/// A pool of an organization, or a shared one.
pub async fn by_name(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: Option<OrgId>,
    name: &str,
) -> Result<Pool, StoreError> {
    let sql = select!("coalesce(org_id, 0) = $2 AND name = $3");
    let org = org.map_or(0, |org| org.0);
    pool(&tx.one("pool", sql, &[scope.parameter(), org.into(), names::searchable(name)]).await?)
}

/// What an organization can use: its own and the shared ones, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Pool>, StoreError> {
    scope.admits(org)?;
    let sql = "SELECT id, org_id, name, settings, created_at FROM pools \
               WHERE coalesce(org_id, 0) IN (0, $1) AND id > $2 ORDER BY id LIMIT $3";
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(pool).collect()
}

/// A pool that the scope may change.
pub(crate) async fn own(tx: &mut Tx<'_>, scope: Scope, id: PoolId) -> Result<Pool, StoreError> {
    let pool = get(tx, scope, id).await?;
    may_own(tx, scope, pool.org).await?;
    Ok(pool)
}

/// Refuses what belongs to nobody in particular to everybody in particular.
async fn may_own(tx: &mut Tx<'_>, scope: Scope, org: Option<OrgId>) -> Result<(), StoreError> {
    match (scope, org) {
        (_, Some(org)) => organizations::require(tx, scope, org).await,
        (Scope::System(_), None) => Ok(()),
        (Scope::Org(_), None) => {
            let message = "shared pools belong to the whole installation; ask its administrator";
            Err(Refusal::Denied(message.to_owned()).into())
        }
    }
}

fn pool(row: &Row) -> Result<Pool, StoreError> {
    Ok(Pool {
        id: row.get(0)?,
        org: row.get(1)?,
        name: row.get(2)?,
        settings: row.get(3)?,
        created_at: row.get(4)?,
    })
}
