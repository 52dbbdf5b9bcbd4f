//! Secrets, sealed before they come here: the store never sees a plain one.

use kiln_core::id::{EnvironmentId, OrgId, RepoId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::holder::{self, Holder};
use super::names;
use super::page::Page;
use super::scope::Scope;
use crate::{Refusal, Row, StoreError, Tx};

/// The longest sealed secret: GitHub's 48 KiB and room for the seal.
const LONGEST: usize = 64 << 10;

/// Bytes that only the key with this id can open.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    pub key_id: String,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// What may be told about a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// For pages.
    pub id: i64,
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A secret with all that its seal is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// For pages.
    pub id: i64,
    pub org: OrgId,
    pub holder: Holder,
    pub name: String,
    pub sealed: Sealed,
}

/// Sets a secret, whether or not it exists. Says whether it is new.
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    holder: Holder,
    name: &str,
    sealed: Sealed,
) -> Result<bool, StoreError> {
    let name = names::variable("a secret", name)?;
    check(&sealed)?;
    let org = holder.org(tx, scope).await?;
    let [kind, id] = holder.parameters();
    let now = tx.now();
    let row = [
        org.into(),
        kind,
        id,
        name.as_str().into(),
        sealed.key_id.into(),
        sealed.bytes.into(),
        now.into(),
    ];
    let changed = tx
        .execute(
            "UPDATE secrets SET key_id = $5, sealed = $6, updated_at = $7 \
             WHERE org_id = $1 AND scope_kind = $2 AND scope_id = $3 AND name = $4",
            &row,
        )
        .await?;
    if changed == 0 {
        // Somebody else may have been quicker; the later value stays.
        tx.execute(
            "INSERT INTO secrets (org_id, scope_kind, scope_id, name, key_id, sealed, created_at, \
             updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
             ON CONFLICT (scope_kind, scope_id, name) DO UPDATE SET key_id = excluded.key_id, \
             sealed = excluded.sealed, updated_at = excluded.updated_at",
            &row,
        )
        .await?;
    }
    record(tx, actor, (org, holder), "secret.put", json!({ "name": name })).await?;
    Ok(changed == 0)
}

pub async fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    holder: Holder,
    name: &str,
) -> Result<(), StoreError> {
    let org = holder.org(tx, scope).await?;
    let [kind, id] = holder.parameters();
    let name = name.to_ascii_uppercase();
    let sql = "DELETE FROM secrets WHERE scope_kind = $1 AND scope_id = $2 AND name = $3";
    if tx.execute(sql, &[kind, id, names::searchable(&name)]).await? == 0 {
        return Err(Refusal::NotFound("secret").into());
    }
    record(tx, actor, (org, holder), "secret.delete", json!({ "name": name })).await
}

/// The names that a holder has, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    holder: Holder,
    page: Page,
) -> Result<Vec<SecretName>, StoreError> {
    holder.org(tx, scope).await?;
    let [kind, id] = holder.parameters();
    let rows = tx
        .rows(
            "SELECT id, name, created_at, updated_at FROM secrets \
             WHERE scope_kind = $1 AND scope_id = $2 AND id > $3 ORDER BY id LIMIT $4",
            &[kind, id, page.rising(), page.limit()],
        )
        .await?;
    let name = |row: &Row| {
        Ok(SecretName {
            id: row.get(0)?,
            name: row.get(1)?,
            created_at: row.get(2)?,
            updated_at: row.get(3)?,
        })
    };
    rows.iter().map(name).collect()
}

/// What a job of this repository and environment may have, by name; of equal names the nearest. Reading
/// is recorded, so this needs a transaction that writes.
pub async fn for_job(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    repo: RepoId,
    environment: Option<EnvironmentId>,
) -> Result<Vec<Secret>, StoreError> {
    let (org, parameters) = holder::of_job(tx, scope, repo, environment).await?;
    let rows = tx
        .rows(
            "SELECT id, org_id, scope_kind, scope_id, name, key_id, sealed FROM secrets \
             WHERE (scope_kind = 'org' AND scope_id = $1) OR (scope_kind = 'repo' AND scope_id = $2) \
             OR (scope_kind = 'environment' AND scope_id = $3) ORDER BY name, \
             CASE scope_kind WHEN 'environment' THEN 0 WHEN 'repo' THEN 1 ELSE 2 END",
            &parameters,
        )
        .await?;
    let mut found = rows.iter().map(secret).collect::<Result<Vec<_>, _>>()?;
    found.dedup_by(|later, nearer| later.name == nearer.name);
    if !found.is_empty() {
        let names: Vec<&str> = found.iter().map(|secret| secret.name.as_str()).collect();
        let holder = environment.map_or(Holder::Repo(repo), Holder::Environment);
        record(tx, actor, (org, holder), "secret.read", json!({ "names": names })).await?;
    }
    Ok(found)
}

/// What is sealed with a key, by age: when a key is replaced, page after page is sealed anew.
pub async fn sealed_with(
    tx: &mut Tx<'_>,
    scope: Scope,
    key_id: &str,
    page: Page,
) -> Result<Vec<Secret>, StoreError> {
    let rows = tx
        .rows(
            "SELECT id, org_id, scope_kind, scope_id, name, key_id, sealed FROM secrets \
             WHERE key_id = $1 AND (org_id = $2 OR $2 IS NULL) AND id > $3 ORDER BY id LIMIT $4",
            &[names::searchable(key_id), scope.parameter(), page.rising(), page.limit()],
        )
        .await?;
    rows.iter().map(secret).collect()
}

/// Replaces the seal of a secret that nobody has changed since it was read. Says whether that was so.
pub async fn reseal(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    secret: &Secret,
    sealed: Sealed,
) -> Result<bool, StoreError> {
    check(&sealed)?;
    let row = [
        secret.id.into(),
        secret.sealed.bytes.as_slice().into(),
        sealed.key_id.as_str().into(),
        sealed.bytes.into(),
        scope.parameter(),
    ];
    let sql = "UPDATE secrets SET key_id = $3, sealed = $4 \
               WHERE id = $1 AND sealed = $2 AND (org_id = $5 OR $5 IS NULL)";
    if tx.execute(sql, &row).await? == 0 {
        return Ok(false);
    }
    let detail = json!({ "name": secret.name, "key": sealed.key_id });
    record(tx, actor, (secret.org, secret.holder), "secret.reseal", detail).await?;
    Ok(true)
}

fn check(sealed: &Sealed) -> Result<(), StoreError> {
    names::line("the id of a key", &sealed.key_id, 100)?;
    if sealed.bytes.len() > LONGEST {
        return names::invalid(format!("the secret is too long; expected up to {LONGEST} bytes"));
    }
    Ok(())
}

fn secret(row: &Row) -> Result<Secret, StoreError> {
    Ok(Secret {
        id: row.get(0)?,
        org: row.get(1)?,
        holder: Holder::from_row(row, 2, 3)?,
        name: row.get(4)?,
        sealed: Sealed { key_id: row.get(5)?, bytes: row.get(6)? },
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    (org, holder): (OrgId, Holder),
    action: &'static str,
    mut detail: serde_json::Value,
) -> Result<(), StoreError> {
    detail["of"] = holder.kind().into();
    audit::record(tx, actor, Deed { org: Some(org), action, subject: holder.id(), detail }).await
}
