//! Teams: members who get rights on repositories together.

use kiln_core::id::{OrgId, RepoId, TeamId, UserId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{members, names, organizations, repositories};
use crate::words::words;
use crate::{Refusal, Row, StoreError, Tx};

words! {
    /// What somebody is in a team.
    TeamRole: "a role in a team" {
        Member = "member",
        Maintainer = "maintainer",
    }
}

words! {
    /// What a team may do with a repository.
    Permission: "a permission" {
        Read = "read",
        Write = "write",
        Admin = "admin",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    pub id: TeamId,
    pub org: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    org: OrgId,
    name: &str,
) -> Result<TeamId, StoreError> {
    names::name("a team", name)?;
    organizations::require(tx, scope, org).await?;
    let made = tx
        .row(
            "INSERT INTO teams (org_id, name, created_at) VALUES ($1, $2, $3) \
             ON CONFLICT DO NOTHING RETURNING id",
            &[org.into(), name.into(), tx.now().into()],
        )
        .await?;
    let Some(row) = made else {
        return names::conflict(format!("the organization has a team `{name}` already"));
    };
    let id = row.get::<TeamId>(0)?;
    record(tx, actor, org, id, "team.create", json!({ "name": name })).await?;
    Ok(id)
}

pub async fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TeamId,
) -> Result<(), StoreError> {
    let team = get(tx, scope, id).await?;
    tx.execute("DELETE FROM teams WHERE id = $1", &[id.into()]).await?;
    record(tx, actor, team.org, id, "team.delete", json!({ "name": team.name })).await
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: TeamId) -> Result<Team, StoreError> {
    let sql = "SELECT id, org_id, name, created_at FROM teams \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    team(&tx.one("team", sql, &[id.into(), scope.parameter()]).await?)
}

/// By age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Team>, StoreError> {
    scope.admits(org)?;
    let sql = "SELECT id, org_id, name, created_at FROM teams \
               WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(team).collect()
}

/// Takes a member of the organization into the team, or gives them another role in it.
pub async fn put_member(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TeamId,
    user: UserId,
    role: TeamRole,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    members::get(tx, scope, org, user).await?;
    tx.execute(
        "INSERT INTO team_members (team_id, user_id, role) VALUES ($1, $2, $3) \
         ON CONFLICT (team_id, user_id) DO UPDATE SET role = excluded.role",
        &[id.into(), user.into(), role.into()],
    )
    .await?;
    let detail = json!({ "user": user.0, "role": role.word() });
    record(tx, actor, org, id, "team.put_member", detail).await
}

pub async fn remove_member(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TeamId,
    user: UserId,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    let sql = "DELETE FROM team_members WHERE team_id = $1 AND user_id = $2";
    if tx.execute(sql, &[id.into(), user.into()]).await? == 0 {
        return Err(Refusal::NotFound("member of the team").into());
    }
    record(tx, actor, org, id, "team.remove_member", json!({ "user": user.0 })).await
}

/// The page goes by the id of the user.
pub async fn members_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: TeamId,
    page: Page,
) -> Result<Vec<(UserId, TeamRole)>, StoreError> {
    get(tx, scope, id).await?;
    let sql = "SELECT user_id, role FROM team_members \
               WHERE team_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";
    let rows = tx.rows(sql, &[id.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Gives the team a right on a repository of its organization.
pub async fn grant(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TeamId,
    repo: RepoId,
    permission: Permission,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    // Even the system cannot give a team what belongs to somebody else.
    repositories::org_of(tx, Scope::Org(org), repo).await?;
    tx.execute(
        "INSERT INTO team_repositories (team_id, repo_id, permission) VALUES ($1, $2, $3) \
         ON CONFLICT (team_id, repo_id) DO UPDATE SET permission = excluded.permission",
        &[id.into(), repo.into(), permission.into()],
    )
    .await?;
    let detail = json!({ "repository": repo.0, "permission": permission.word() });
    record(tx, actor, org, id, "team.grant", detail).await
}

pub async fn revoke(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TeamId,
    repo: RepoId,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    let sql = "DELETE FROM team_repositories WHERE team_id = $1 AND repo_id = $2";
    if tx.execute(sql, &[id.into(), repo.into()]).await? == 0 {
        return Err(Refusal::NotFound("right of the team").into());
    }
    record(tx, actor, org, id, "team.revoke", json!({ "repository": repo.0 })).await
}

/// The page goes by the id of the repository.
pub async fn repositories_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: TeamId,
    page: Page,
) -> Result<Vec<(RepoId, Permission)>, StoreError> {
    get(tx, scope, id).await?;
    let sql = "SELECT repo_id, permission FROM team_repositories \
               WHERE team_id = $1 AND repo_id > $2 ORDER BY repo_id LIMIT $3";
    let rows = tx.rows(sql, &[id.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

fn team(row: &Row) -> Result<Team, StoreError> {
    Ok(Team { id: row.get(0)?, org: row.get(1)?, name: row.get(2)?, created_at: row.get(3)? })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    id: TeamId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: Some(org), action, subject: id.0, detail }).await
}
