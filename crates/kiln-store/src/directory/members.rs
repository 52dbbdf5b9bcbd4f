//! Who belongs to an organization, and as what.

use kiln_core::id::{OrgId, UserId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::organizations;
use super::page::Page;
use super::scope::Scope;
use crate::words::words;
use crate::{Refusal, Row, StoreError, Tx};

words! {
    /// What a member may do.
    Role: "a role" {
        Viewer = "viewer",
        Developer = "developer",
        Admin = "admin",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub org: OrgId,
    pub user: UserId,
    pub user_name: String,
    pub role: Role,
    pub since: Timestamp,
}

/// Makes somebody a member, or gives a member another role.
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    org: OrgId,
    user: UserId,
    role: Role,
) -> Result<(), StoreError> {
    organizations::require(tx, scope, org).await?;
    tx.one("user", "SELECT 1 FROM users WHERE id = $1", &[user.into()]).await?;
    tx.execute(
        "INSERT INTO members (org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role",
        &[org.into(), user.into(), role.into(), tx.now().into()],
    )
    .await?;
    let detail = json!({ "role": role.word() });
    record(tx, actor, org, user, "member.put", detail).await
}

/// Also takes them out of the organization's teams.
pub async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    org: OrgId,
    user: UserId,
) -> Result<(), StoreError> {
    scope.admits(org)?;
    let sql = "DELETE FROM members WHERE org_id = $1 AND user_id = $2";
    if tx.execute(sql, &[org.into(), user.into()]).await? == 0 {
        return Err(Refusal::NotFound("member").into());
    }
    tx.execute(
        "DELETE FROM team_members WHERE user_id = $2 \
         AND team_id IN (SELECT id FROM teams WHERE org_id = $1)",
        &[org.into(), user.into()],
    )
    .await?;
    record(tx, actor, org, user, "member.remove", json!(null)).await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT org_id, user_id, users.name, role, members.created_at \
             FROM members JOIN users ON users.id = user_id WHERE ",
            $rest
        )
    };
}

pub async fn get(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    user: UserId,
) -> Result<Member, StoreError> {
    scope.admits(org)?;
    let sql = select!("org_id = $1 AND user_id = $2");
    member(&tx.one("member", sql, &[org.into(), user.into()]).await?)
}

/// Who belongs to an organization; the page goes by the id of the user.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Member>, StoreError> {
    scope.admits(org)?;
    let sql = select!("org_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3");
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(member).collect()
}

/// What somebody belongs to; the page goes by the id of the organization.
pub async fn of_user(
    tx: &mut Tx<'_>,
    scope: Scope,
    user: UserId,
    page: Page,
) -> Result<Vec<Member>, StoreError> {
    let sql = select!(
        "user_id = $1 AND (org_id = $2 OR $2 IS NULL) AND org_id > $3 ORDER BY org_id LIMIT $4"
    );
    let rows = tx.rows(sql, &[user.into(), scope.parameter(), page.rising(), page.limit()]).await?;
    rows.iter().map(member).collect()
}

fn member(row: &Row) -> Result<Member, StoreError> {
    Ok(Member {
        org: row.get(0)?,
        user: row.get(1)?,
        user_name: row.get(2)?,
        role: row.get(3)?,
        since: row.get(4)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    user: UserId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: Some(org), action, subject: user.0, detail }).await
}
