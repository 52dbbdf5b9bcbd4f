//! What is set for the whole installation, by name; among it, whether the server is paused.

use kiln_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::names;
use super::scope::Scope;
use crate::{Signal, StoreError, Tx};

/// The longest value that is kept.
const LONGEST: usize = 1 << 20;
/// Where a pause is kept. Claims look for it, too: see `claims/lanes.rs`.
const PAUSED: &str = "paused";

/// The value of a setting, if it has one.
pub async fn get(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<String>, StoreError> {
    scope.system("setting")?;
    let sql = "SELECT value FROM settings WHERE name = $1";
    tx.row(sql, &[names::searchable(name)]).await?.map(|row| row.get(0)).transpose()
}

/// Like [`get`], by somebody who sets it next: nobody else does in between.
pub async fn take(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<String>, StoreError> {
    scope.system("setting")?;
    let sql = "UPDATE settings SET value = value WHERE name = $1 RETURNING value";
    tx.row(sql, &[names::searchable(name)]).await?.map(|row| row.get(0)).transpose()
}

/// Sets it, whatever it was. The audit names it, but not its value, which may be a secret.
pub async fn put(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    name: &str,
    value: &str,
) -> Result<(), StoreError> {
    write(tx, scope, name, value).await?;
    record(tx, actor, "setting.put", json!({ "name": name })).await
}

/// Says whether there was one.
pub async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    name: &str,
) -> Result<bool, StoreError> {
    let there = erase(tx, scope, name).await?;
    if there {
        record(tx, actor, "setting.remove", json!({ "name": name })).await?;
    }
    Ok(there)
}

/// The value that it has, or else this one from now on: of several servers that begin at once, all get
/// the value of the first.
pub async fn get_or_put(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
    value: &str,
) -> Result<String, StoreError> {
    if let Some(there) = get(tx, scope, name).await? {
        return Ok(there);
    }
    check(name, value)?;
    // Without a change the row of another transaction would be seen by nobody but that one.
    let sql = "INSERT INTO settings (name, value, updated_at) VALUES ($1, $2, $3) \
               ON CONFLICT (name) DO UPDATE SET value = settings.value RETURNING value";
    tx.one("setting", sql, &[name.into(), value.into(), tx.now().into()]).await?.get(0)
}

/// Who paused the server, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    by: String,
    reason: String,
    at: u64,
}

/// No job is handed out until the server is resumed. What runs goes on. One that is paused already gets
/// the new reason.
pub async fn pause_server(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    reason: &str,
) -> Result<(), StoreError> {
    names::line("a reason", reason, 500)?;
    let kept = Kept { by: actor.shown(), reason: reason.to_owned(), at: tx.now().0 };
    let value = serde_json::to_string(&kept).expect("it is texts and a number");
    write(tx, scope, PAUSED, &value).await?;
    record(tx, actor, "server.pause", json!({ "reason": reason })).await
}

/// Jobs are handed out again. A server that is not paused stays as it is.
pub async fn resume_server(tx: &mut Tx<'_>, scope: Scope, actor: &Actor) -> Result<(), StoreError> {
    if erase(tx, scope, PAUSED).await? {
        tx.signal(Signal::Everything);
        record(tx, actor, "server.resume", json!(null)).await?;
    }
    Ok(())
}

/// Whether the server is paused. Everybody may know that.
pub async fn server_pause(tx: &mut Tx<'_>) -> Result<Option<Pause>, StoreError> {
    let sql = "SELECT value FROM settings WHERE name = $1";
    let Some(row) = tx.row(sql, &[PAUSED.into()]).await? else { return Ok(None) };
    let Kept { by, reason, at } = serde_json::from_str(&row.get::<String>(0)?)
        .map_err(|error| StoreError::Database(format!("the setting `{PAUSED}`: {error}")))?;
    Ok(Some(Pause { by, reason, at: Timestamp(at) }))
}

fn check(name: &str, value: &str) -> Result<(), StoreError> {
    names::line("the name of a setting", name, 100)?;
    names::text("the value of a setting", value, LONGEST)
}

async fn write(tx: &mut Tx<'_>, scope: Scope, name: &str, value: &str) -> Result<(), StoreError> {
    scope.system("setting")?;
    check(name, value)?;
    let sql = "INSERT INTO settings (name, value, updated_at) VALUES ($1, $2, $3) \
               ON CONFLICT (name) DO UPDATE \
               SET value = excluded.value, updated_at = excluded.updated_at";
    tx.execute(sql, &[name.into(), value.into(), tx.now().into()]).await?;
    Ok(())
}

async fn erase(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<bool, StoreError> {
    scope.system("setting")?;
    let sql = "DELETE FROM settings WHERE name = $1";
    Ok(tx.execute(sql, &[names::searchable(name)]).await? > 0)
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: None, action, subject: 0, detail }).await
}
