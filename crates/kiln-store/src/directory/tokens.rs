//! API tokens: programs that act for somebody. Only their hashes are kept.

use std::time::Duration;

use kiln_core::id::{OrgId, TokenId, UserId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::users::{self, User};
use super::{names, organizations};
use crate::{Row, StoreError, Tx};

/// A use is written only when the last one is older than this.
pub const DEBOUNCE: Duration = Duration::from_mins(1);
/// How many scopes a token can have.
const MOST_SCOPES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub user: UserId,
    /// The only organization it is good for; `None` for all of its user's.
    pub org: Option<OrgId>,
    pub name: String,
    /// What it may do, in words of the server.
    pub scopes: Vec<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct NewToken {
    pub user: UserId,
    pub org: Option<OrgId>,
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: Vec<u8>,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// A token that is good, and for whom it speaks. Whether they may do anything is for the caller to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    pub token: Token,
    pub user: User,
}

/// Makes a token known. An organization makes only those that are good for itself, for its members.
pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewToken,
) -> Result<TokenId, StoreError> {
    check(&new)?;
    if new.expires_at.is_some_and(|at| at <= tx.now()) {
        return names::invalid("the token would be expired already".to_owned());
    }
    users::get(tx, scope, new.user).await?;
    match new.org {
        Some(org) => organizations::require(tx, scope, org).await?,
        None => scope.system("organization")?,
    }
    let scopes = serde_json::to_string(&new.scopes).expect("they are texts");
    let row = [
        new.user.into(),
        new.org.into(),
        new.name.as_str().into(),
        new.hash.into(),
        scopes.into(),
        tx.now().into(),
        new.expires_at.into(),
    ];
    let made = tx
        .row(
            "INSERT INTO api_tokens (user_id, org_id, name, hash, scopes, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict("this token exists already; mint another".to_owned());
    };
    let id = row.get::<TokenId>(0)?;
    let detail = json!({ "user": new.user.0, "name": new.name, "scopes": new.scopes });
    record(tx, actor, new.org, id, "token.create", detail).await?;
    Ok(id)
}

fn check(new: &NewToken) -> Result<(), StoreError> {
    names::line("the name of a token", &new.name, 100)?;
    names::hash("the hash of a token", &new.hash)?;
    if new.scopes.len() > MOST_SCOPES {
        return names::invalid(format!("a token can have at most {MOST_SCOPES} scopes"));
    }
    new.scopes.iter().try_for_each(|word| names::line("a scope of a token", word, 100))
}

macro_rules! columns {
    () => {
        "t.id, t.user_id, t.org_id, t.name, t.scopes, t.created_at, t.expires_at, t.last_used_at, \
         t.revoked_at"
    };
}

/// The tokens of a user, by age, also those that are good no more.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    user: UserId,
    page: Page,
) -> Result<Vec<Token>, StoreError> {
    users::get(tx, scope, user).await?;
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM api_tokens t WHERE t.user_id = $1 AND (t.org_id = $2 OR $2 IS NULL) AND t.id > $3 \
         ORDER BY t.id LIMIT $4"
    );
    let values = [user.into(), scope.parameter(), page.rising(), page.limit()];
    tx.rows(sql, &values).await?.iter().map(token).collect()
}

/// One that was revoked before stays revoked since then.
pub async fn revoke(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: TokenId,
) -> Result<(), StoreError> {
    let sql = "UPDATE api_tokens SET revoked_at = coalesce(revoked_at, $3) \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) RETURNING org_id";
    let row = tx.one("token", sql, &[id.into(), scope.parameter(), tx.now().into()]).await?;
    record(tx, actor, row.get(0)?, id, "token.revoke", json!(null)).await
}

/// The token with this hash. One that expired or was revoked is answered like one that never was.
pub async fn find_by_hash(
    tx: &mut Tx<'_>,
    scope: Scope,
    hash: &[u8],
) -> Result<Bearer, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        ", u.id, u.name, u.email, u.display_name, u.created_at, u.disabled_at, u.admin \
         FROM api_tokens t JOIN users u ON u.id = t.user_id \
         WHERE t.hash = $1 AND (t.org_id = $2 OR $2 IS NULL) AND t.revoked_at IS NULL \
         AND (t.expires_at IS NULL OR t.expires_at > $3)"
    );
    let row = tx.one("token", sql, &[hash.into(), scope.parameter(), tx.now().into()]).await?;
    Ok(Bearer { token: token(&row)?, user: users::user_from(&row, 9)? })
}

/// It was used. Says whether that was written: a busy token costs a write every minute at most.
pub async fn used(tx: &mut Tx<'_>, scope: Scope, id: TokenId) -> Result<bool, StoreError> {
    let now = tx.now();
    let debounce = u64::try_from(DEBOUNCE.as_millis()).unwrap_or(u64::MAX);
    let before = Timestamp(now.0.saturating_sub(debounce));
    let sql = "UPDATE api_tokens SET last_used_at = $3 WHERE id = $1 \
               AND (last_used_at IS NULL OR last_used_at < $4) AND (org_id = $2 OR $2 IS NULL)";
    let values = [id.into(), scope.parameter(), now.into(), before.into()];
    Ok(tx.execute(sql, &values).await? > 0)
}

fn token(row: &Row) -> Result<Token, StoreError> {
    let scopes: String = row.get(4)?;
    let scopes = serde_json::from_str(&scopes)
        .map_err(|error| StoreError::Database(format!("the scopes of a token: {error}")))?;
    Ok(Token {
        id: row.get(0)?,
        user: row.get(1)?,
        org: row.get(2)?,
        name: row.get(3)?,
        scopes,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        last_used_at: row.get(7)?,
        revoked_at: row.get(8)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: Option<OrgId>,
    id: TokenId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org, action, subject: id.0, detail }).await
}
