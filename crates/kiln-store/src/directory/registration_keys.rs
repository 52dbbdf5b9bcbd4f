//! Keys that let new runners in. Only their hashes are kept.

use kiln_core::id::{OrgId, PoolId, RegistrationKeyId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, pools};
use crate::{Refusal, Row, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationKey {
    pub id: RegistrationKeyId,
    pub org: Option<OrgId>,
    pub pool: PoolId,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// `None` for any number.
    pub uses_left: Option<i64>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct NewRegistrationKey {
    pub pool: PoolId,
    /// The SHA-256 of the key.
    pub hash: Vec<u8>,
    pub expires_at: Timestamp,
    /// `None` for any number.
    pub uses: Option<i64>,
}

/// Makes a key known. It lets runners into the pool and the organization of the pool.
pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewRegistrationKey,
) -> Result<RegistrationKeyId, StoreError> {
    names::hash("the hash of a registration key", &new.hash)?;
    if let Some(uses) = new.uses {
        names::within("the uses of a registration key", uses, 1, 1_000_000)?;
    }
    if new.expires_at <= tx.now() {
        return names::invalid("the registration key would be expired already".to_owned());
    }
    let org = pools::own(tx, scope, new.pool).await?.org;
    let row = [
        org.into(),
        new.pool.into(),
        new.hash.into(),
        actor.name.replace('\0', "").into(),
        tx.now().into(),
        new.expires_at.into(),
        new.uses.into(),
    ];
    let made = tx
        .row(
            "INSERT INTO registration_keys (org_id, pool_id, hash, created_by, created_at, \
             expires_at, uses_left) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict("this registration key exists already; mint another".to_owned());
    };
    let id = row.get::<RegistrationKeyId>(0)?;
    let detail = json!({ "pool": new.pool.0, "uses": new.uses, "expires_at": new.expires_at.0 });
    record(tx, actor, org, id, "registration_key.create", detail).await?;
    Ok(id)
}

/// Counts one use of a key that is still good, and says what it is good for.
pub async fn spend(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    hash: &[u8],
) -> Result<RegistrationKey, StoreError> {
    let spent = tx
        .row(
            "UPDATE registration_keys SET uses_left = uses_left - 1 \
             WHERE hash = $1 AND (org_id = $2 OR $2 IS NULL) AND revoked_at IS NULL \
             AND expires_at > $3 AND (uses_left IS NULL OR uses_left > 0) \
             RETURNING id, org_id, pool_id, created_by, created_at, expires_at, uses_left, revoked_at",
            &[hash.into(), scope.parameter(), tx.now().into()],
        )
        .await?;
    let Some(row) = spent else { return Err(refusal(tx, scope, hash).await?.into()) };
    let key = key(&row)?;
    let detail = json!({ "uses_left": key.uses_left });
    record(tx, actor, key.org, key.id, "registration_key.spend", detail).await?;
    Ok(key)
}

/// Why a key is not good.
async fn refusal(tx: &mut Tx<'_>, scope: Scope, hash: &[u8]) -> Result<Refusal, StoreError> {
    let sql = concat!(
        "SELECT id, org_id, pool_id, created_by, created_at, expires_at, uses_left, revoked_at ",
        "FROM registration_keys WHERE hash = $1 AND (org_id = $2 OR $2 IS NULL)"
    );
    let Some(row) = tx.row(sql, &[hash.into(), scope.parameter()]).await? else {
        return Ok(Refusal::NotFound("registration key"));
    };
    let key = key(&row)?;
    let what = if key.revoked_at.is_some() {
        "was revoked"
    } else if key.expires_at <= tx.now() {
        "has expired"
    } else {
        "has been used up"
    };
    Ok(Refusal::Denied(format!(
        "the registration key {what}; make a new one with `kiln runners key`"
    )))
}

pub async fn revoke(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RegistrationKeyId,
) -> Result<(), StoreError> {
    let sql = "UPDATE registration_keys SET revoked_at = coalesce(revoked_at, $3) \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) RETURNING org_id";
    let row = [id.into(), scope.parameter(), tx.now().into()];
    let org = tx.one("registration key", sql, &row).await?.get(0)?;
    record(tx, actor, org, id, "registration_key.revoke", json!(null)).await
}

/// The keys of a pool, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    pool: PoolId,
    page: Page,
) -> Result<Vec<RegistrationKey>, StoreError> {
    pools::own(tx, scope, pool).await?;
    let sql = concat!(
        "SELECT id, org_id, pool_id, created_by, created_at, expires_at, uses_left, revoked_at ",
        "FROM registration_keys WHERE pool_id = $1 AND id > $2 ORDER BY id LIMIT $3"
    );
    let rows = tx.rows(sql, &[pool.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(key).collect()
}

fn key(row: &Row) -> Result<RegistrationKey, StoreError> {
    Ok(RegistrationKey {
        id: row.get(0)?,
        org: row.get(1)?,
        pool: row.get(2)?,
        created_by: row.get(3)?,
        created_at: row.get(4)?,
        expires_at: row.get(5)?,
        uses_left: row.get(6)?,
        revoked_at: row.get(7)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: Option<OrgId>,
    id: RegistrationKeyId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org, action, subject: id.0, detail }).await
}
