//! People. They belong to no organization, but an organization sees only those who are its members.

use kiln_core::id::UserId;
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::names;
use super::page::Page;
use super::scope::Scope;
use crate::{Refusal, Row, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub name: String,
    pub email: Option<String>,
    pub display_name: Option<String>,
    pub created_at: Timestamp,
    /// Since when they may not do anything.
    pub disabled_at: Option<Timestamp>,
    /// Administrators may do everything in the whole installation.
    pub admin: bool,
}

#[derive(Debug, Clone)]
pub struct NewUser {
    pub name: String,
    pub email: Option<String>,
    pub display_name: Option<String>,
}

/// Making one asks about nothing but whether the name is taken, so there is no scope.
pub async fn create(tx: &mut Tx<'_>, actor: &Actor, new: NewUser) -> Result<UserId, StoreError> {
    names::name("a user", &new.name)?;
    names::line_if_any("an e-mail address", new.email.as_ref(), 254)?;
    names::line_if_any("a display name", new.display_name.as_ref(), 200)?;
    let row =
        [new.name.as_str().into(), new.email.into(), new.display_name.into(), tx.now().into()];
    let made = tx
        .row(
            "INSERT INTO users (name, email, display_name, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict(format!("the user `{}` exists already", new.name));
    };
    let id = row.get::<UserId>(0)?;
    record(tx, actor, id, "user.create", json!({ "name": new.name })).await?;
    Ok(id)
}

/// Takes all rights from somebody, or gives them back. This is about the whole installation.
pub async fn set_disabled(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: UserId,
    disabled: bool,
) -> Result<(), StoreError> {
    scope.system("user")?;
    let since = disabled.then(|| tx.now());
    let sql = "UPDATE users SET disabled_at = $2 WHERE id = $1";
    if tx.execute(sql, &[id.into(), since.into()]).await? == 0 {
        return Err(Refusal::NotFound("user").into());
    }
    let action = if disabled { "user.disable" } else { "user.enable" };
    record(tx, actor, id, action, json!(null)).await
}

/// Makes somebody an administrator of the whole installation, or takes that away.
pub async fn set_admin(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: UserId,
    admin: bool,
) -> Result<(), StoreError> {
    scope.system("user")?;
    let sql = "UPDATE users SET admin = $2 WHERE id = $1";
    if tx.execute(sql, &[id.into(), admin.into()]).await? == 0 {
        return Err(Refusal::NotFound("user").into());
    }
    let action = if admin { "user.make_admin" } else { "user.unmake_admin" };
    record(tx, actor, id, action, json!(null)).await
}

/// Whether there is anybody yet: a server that knows nobody lets its first administrator in.
pub async fn any(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    Ok(tx.row("SELECT 1 FROM users LIMIT 1", &[]).await?.is_some())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, email, display_name, created_at, disabled_at, admin FROM users WHERE ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: UserId) -> Result<User, StoreError> {
    let sql = select!(
        "id = $1 AND (EXISTS (SELECT 1 FROM members WHERE org_id = $2 AND user_id = id) OR $2 IS NULL)"
    );
    user(&tx.one("user", sql, &[id.into(), scope.parameter()]).await?)
}

pub async fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<User, StoreError> {
    let sql = select!(
        "name = $1 AND (EXISTS (SELECT 1 FROM members WHERE org_id = $2 AND user_id = id) OR $2 IS NULL)"
    );
    user(&tx.one("user", sql, &[names::searchable(name), scope.parameter()]).await?)
}

/// By age.
pub async fn list(tx: &mut Tx<'_>, scope: Scope, page: Page) -> Result<Vec<User>, StoreError> {
    let sql = select!(
        "(id IN (SELECT user_id FROM members WHERE org_id = $1) OR $1 IS NULL) AND id > $2 \
         ORDER BY id LIMIT $3"
    );
    let rows = tx.rows(sql, &[scope.parameter(), page.rising(), page.limit()]).await?;
    rows.iter().map(user).collect()
}

fn user(row: &Row) -> Result<User, StoreError> {
    user_from(row, 0)
}

/// A user whose columns begin at `at`, in the order that lists have them.
pub(super) fn user_from(row: &Row, at: usize) -> Result<User, StoreError> {
    Ok(User {
        id: row.get(at)?,
        name: row.get(at + 1)?,
        email: row.get(at + 2)?,
        display_name: row.get(at + 3)?,
        created_at: row.get(at + 4)?,
        disabled_at: row.get(at + 5)?,
        admin: row.get(at + 6)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: UserId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: None, action, subject: id.0, detail }).await
}
