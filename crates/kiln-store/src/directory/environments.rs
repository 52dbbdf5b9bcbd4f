//! Environments that jobs deploy to.

use kiln_core::id::{EnvironmentId, OrgId, RepoId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, repositories};
use crate::{Row, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub id: EnvironmentId,
    pub org: OrgId,
    pub repo: RepoId,
    pub name: String,
    /// Reviewers, wait timer and branches that may deploy, as JSON.
    pub rules: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Makes an environment, or gives it other rules (JSON).
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    repo: RepoId,
    name: &str,
    rules: &str,
) -> Result<EnvironmentId, StoreError> {
    names::line("the name of an environment", name, 255)?;
    names::json("the rules of an environment", rules)?;
    let org = repositories::org_of(tx, scope, repo).await?;
    let row = tx
        .one(
            "environment",
            "INSERT INTO environments (org_id, repo_id, name, rules, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (repo_id, name) DO UPDATE \
             SET rules = excluded.rules, updated_at = excluded.updated_at RETURNING id",
            &[org.into(), repo.into(), name.into(), rules.into(), tx.now().into()],
        )
        .await?;
    let id = row.get::<EnvironmentId>(0)?;
    let detail = json!({ "name": name, "rules": rules });
    let deed = Deed { org: Some(org), action: "environment.put", subject: id.0, detail };
    audit::record(tx, actor, deed).await?;
    Ok(id)
}

/// Its secrets and variables go with it.
pub async fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: EnvironmentId,
) -> Result<(), StoreError> {
    let environment = get(tx, scope, id).await?;
    for sql in [
        "DELETE FROM secrets WHERE scope_kind = 'environment' AND scope_id = $1",
        "DELETE FROM variables WHERE scope_kind = 'environment' AND scope_id = $1",
        "DELETE FROM environments WHERE id = $1",
    ] {
        tx.execute(sql, &[id.into()]).await?;
    }
    let detail = json!({ "name": environment.name });
    let org = Some(environment.org);
    audit::record(tx, actor, Deed { org, action: "environment.delete", subject: id.0, detail })
        .await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, repo_id, name, rules, created_at, updated_at FROM environments \
             WHERE (org_id = $1 OR $1 IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: EnvironmentId,
) -> Result<Environment, StoreError> {
    let sql = select!("id = $2");
    environment(&tx.one("environment", sql, &[scope.parameter(), id.into()]).await?)
}

pub async fn by_name(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    name: &str,
) -> Result<Environment, StoreError> {
    let sql = select!("repo_id = $2 AND name = $3");
    let parameters = [scope.parameter(), repo.into(), names::searchable(name)];
    environment(&tx.one("environment", sql, &parameters).await?)
}

/// By age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    page: Page,
) -> Result<Vec<Environment>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = select!("repo_id = $2 AND id > $3 ORDER BY id LIMIT $4");
    let parameters = [scope.parameter(), repo.into(), page.rising(), page.limit()];
    tx.rows(sql, &parameters).await?.iter().map(environment).collect()
}

fn environment(row: &Row) -> Result<Environment, StoreError> {
    Ok(Environment {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        name: row.get(3)?,
        rules: row.get(4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}
