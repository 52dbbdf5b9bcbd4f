//! Keys that are good for one thing, once: a first login, an invitation. Only their hashes are kept.

use kiln_core::id::UserId;
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::scope::Scope;
use super::{names, users};
use crate::{StoreError, Tx};

#[derive(Debug, Clone)]
pub struct NewOneTimeKey {
    /// Whom it lets in.
    pub user: UserId,
    /// What it is good for, in a word of the server.
    pub purpose: String,
    /// The SHA-256 of the key.
    pub hash: Vec<u8>,
    pub expires_at: Timestamp,
}

/// Makes a key known. Users belong to the whole installation, and so do these.
pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewOneTimeKey,
) -> Result<(), StoreError> {
    scope.system("key")?;
    names::line("the purpose of a key", &new.purpose, 100)?;
    names::hash("the hash of a key", &new.hash)?;
    if new.expires_at <= tx.now() {
        return names::invalid("the key would be expired already".to_owned());
    }
    users::get(tx, scope, new.user).await?;
    let row = [
        new.hash.into(),
        new.user.into(),
        new.purpose.as_str().into(),
        tx.now().into(),
        new.expires_at.into(),
    ];
    let sql = "INSERT INTO one_time_keys (hash, user_id, purpose, created_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    if tx.execute(sql, &row).await? == 0 {
        return names::conflict("this key exists already; mint another".to_owned());
    }
    let detail = json!({ "purpose": new.purpose, "expires_at": new.expires_at.0 });
    record(tx, actor, new.user, "user.mint_key", detail).await
}

/// Uses a key up, and says whom it lets in. One that was used, has expired or is for something else is
/// answered like one that never was.
pub async fn redeem(
    tx: &mut Tx<'_>,
    scope: Scope,
    hash: &[u8],
    purpose: &str,
) -> Result<UserId, StoreError> {
    scope.system("key")?;
    let sql = "UPDATE one_time_keys SET used_at = $3 \
               WHERE hash = $1 AND purpose = $2 AND used_at IS NULL AND expires_at > $3 \
               RETURNING user_id";
    let values = [hash.into(), names::searchable(purpose), tx.now().into()];
    let user: UserId = tx.one("key", sql, &values).await?.get(0)?;
    let actor = Actor::system("authentication");
    record(tx, &actor, user, "user.redeem_key", json!({ "purpose": purpose })).await?;
    Ok(user)
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    user: UserId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: None, action, subject: user.0, detail }).await
}
