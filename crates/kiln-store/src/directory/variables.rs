//! Variables: settings that jobs see in plain.

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

/// GitHub's limit.
const LONGEST: usize = 48 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// For pages.
    pub id: i64,
    pub holder: Holder,
    pub name: String,
    pub value: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Sets a variable, whether or not it exists.
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    holder: Holder,
    name: &str,
    value: &str,
) -> Result<(), StoreError> {
    let name = names::variable("a variable", name)?;
    if value.len() > LONGEST || value.contains('\0') {
        return names::invalid(format!(
            "the value of `{name}` cannot be kept; expected up to {LONGEST} bytes without the character 0"
        ));
    }
    let org = holder.org(tx, scope).await?;
    let [kind, id] = holder.parameters();
    let now = tx.now();
    tx.execute(
        "INSERT INTO variables (org_id, scope_kind, scope_id, name, value, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (scope_kind, scope_id, name) \
         DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        &[org.into(), kind, id, name.as_str().into(), value.into(), now.into()],
    )
    .await?;
    let detail = json!({ "name": name, "value": value });
    record(tx, actor, (org, holder), "variable.put", detail).await
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
    let sql = "DELETE FROM variables WHERE scope_kind = $1 AND scope_id = $2 AND name = $3";
    if tx.execute(sql, &[kind, id, names::searchable(&name)]).await? == 0 {
        return Err(Refusal::NotFound("variable").into());
    }
    record(tx, actor, (org, holder), "variable.delete", json!({ "name": name })).await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, scope_kind, scope_id, name, value, created_at, updated_at FROM variables \
             WHERE ",
            $rest
        )
    };
}

/// What a holder has, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    holder: Holder,
    page: Page,
) -> Result<Vec<Variable>, StoreError> {
    holder.org(tx, scope).await?;
    let [kind, id] = holder.parameters();
    let sql = select!("scope_kind = $1 AND scope_id = $2 AND id > $3 ORDER BY id LIMIT $4");
    let rows = tx.rows(sql, &[kind, id, page.rising(), page.limit()]).await?;
    rows.iter().map(variable).collect()
}

/// What a job of this repository and environment sees, by name; of equal names the nearest.
pub async fn for_job(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    environment: Option<EnvironmentId>,
) -> Result<Vec<Variable>, StoreError> {
    let (_, parameters) = holder::of_job(tx, scope, repo, environment).await?;
    let sql = select!(
        "(scope_kind = 'org' AND scope_id = $1) OR (scope_kind = 'repo' AND scope_id = $2) \
         OR (scope_kind = 'environment' AND scope_id = $3) ORDER BY name, \
         CASE scope_kind WHEN 'environment' THEN 0 WHEN 'repo' THEN 1 ELSE 2 END"
    );
    let rows = tx.rows(sql, &parameters).await?;
    let mut found = rows.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    found.dedup_by(|later, nearer| later.name == nearer.name);
    Ok(found)
}

fn variable(row: &Row) -> Result<Variable, StoreError> {
    Ok(Variable {
        id: row.get(0)?,
        holder: Holder::from_row(row, 1, 2)?,
        name: row.get(3)?,
        value: row.get(4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
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
