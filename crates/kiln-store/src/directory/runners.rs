//! Runners: who does the work. Shared ones are seen by Kiln itself alone; organizations see the pool.

use std::time::Duration;

use kiln_core::id::{OrgId, PoolId, RunnerId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, pools};
use crate::{Row, Signal, Sql, StoreError, Tx, Value};

/// A sign of life is written only when the last one is older than this.
pub const DEBOUNCE: Duration = Duration::from_secs(30);
/// A runner that was silent for this long is shown as offline.
pub const OFFLINE_AFTER: Duration = Duration::from_secs(90);
/// A runner that was silent for this long is not expected back.
pub const FORGOTTEN_AFTER: Duration = Duration::from_mins(5);

/// What a runner does, derived from its last sign of life and its leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerState {
    Online,
    Busy,
    Offline,
    Forgotten,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Runner {
    pub id: RunnerId,
    /// `None` when it is shared.
    pub org: Option<OrgId>,
    pub pool: PoolId,
    pub name: String,
    pub about: About,
    /// Access tokens of an earlier epoch are revoked.
    pub epoch: i64,
    /// Others want it to take no more jobs.
    pub draining: bool,
    /// It says itself that it takes no more.
    pub leaving: bool,
    /// How its machine does, as it said last; JSON.
    pub health: Option<String>,
    /// How fast it is, compared with what jobs usually take.
    pub speed: f64,
    /// How many jobs it has ended, and how many of them failed.
    pub completed: i64,
    pub failed: i64,
    pub registered_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// How many jobs it has.
    pub leases: i64,
    pub state: RunnerState,
}

/// What a runner says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Labels, systems, features, tools, cores, memory, disk, as JSON.
    pub capabilities: String,
    pub max_parallel: i64,
    pub single_use: bool,
    pub os: String,
    pub architecture: String,
    pub version: String,
    pub protocol: i64,
    pub public_key: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub struct NewRunner {
    pub pool: PoolId,
    pub name: String,
    /// The SHA-256 of the credential that it was given.
    pub credential: Vec<u8>,
    pub about: About,
}

/// Lets a new runner in; its registration key is spent in the same transaction, by the caller.
pub async fn register(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewRunner,
) -> Result<RunnerId, StoreError> {
    names::name("a runner", &new.name)?;
    names::hash("the hash of a credential", &new.credential)?;
    check(&new.about)?;
    let pool = pools::own(tx, scope, new.pool).await?;
    let about = new.about;
    let row = [
        pool.org.into(),
        pool.id.into(),
        new.name.as_str().into(),
        about.capabilities.into(),
        about.max_parallel.into(),
        about.single_use.into(),
        about.os.into(),
        about.architecture.into(),
        about.version.into(),
        about.protocol.into(),
        about.public_key.into(),
        new.credential.into(),
        tx.now().into(),
    ];
    let made = tx
        .row(
            "INSERT INTO runners (org_id, pool_id, name, capabilities, max_parallel, single_use, os, \
             architecture, version, protocol, public_key, credential, registered_at, last_seen_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        return names::conflict(format!(
            "the pool `{}` has a runner `{}` already; unregister that one or choose another name",
            pool.name, new.name
        ));
    };
    let id = row.get::<RunnerId>(0)?;
    let detail = json!({ "name": new.name, "pool": pool.name });
    record(tx, actor, pool.org, id, "runner.register", detail).await?;
    Ok(id)
}

/// A runner that comes back with its credential keeps its id, its name, its pool and its leases. A wrong
/// credential is answered like a runner that does not exist.
pub async fn register_again(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RunnerId,
    credential: &[u8],
    about: About,
) -> Result<(), StoreError> {
    check(&about)?;
    let row = [
        id.into(),
        credential.into(),
        scope.parameter(),
        about.capabilities.into(),
        about.max_parallel.into(),
        about.single_use.into(),
        about.os.into(),
        about.architecture.into(),
        about.version.into(),
        about.protocol.into(),
        about.public_key.into(),
        tx.now().into(),
    ];
    let found = tx
        .one(
            "runner",
            "UPDATE runners SET capabilities = $4, max_parallel = $5, single_use = $6, os = $7, \
             architecture = $8, version = $9, protocol = $10, public_key = $11, last_seen_at = $12, \
             leaving = 0 \
             WHERE id = $1 AND credential = $2 AND unregistered_at IS NULL \
             AND (org_id = $3 OR $3 IS NULL) RETURNING org_id",
            &row,
        )
        .await?;
    record(tx, actor, found.get(0)?, id, "runner.register_again", json!(null)).await
}

/// Revokes all access tokens of a runner, and says what new ones must carry.
pub async fn revoke_tokens(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RunnerId,
) -> Result<i64, StoreError> {
    let sql = "UPDATE runners SET epoch = epoch + 1 WHERE id = $1 AND unregistered_at IS NULL \
               AND (org_id = $2 OR $2 IS NULL) RETURNING org_id, epoch";
    let row = tx.one("runner", sql, &[id.into(), scope.parameter()]).await?;
    let epoch = row.get(1)?;
    record(tx, actor, row.get(0)?, id, "runner.revoke_tokens", json!({ "epoch": epoch })).await?;
    Ok(epoch)
}

/// A draining runner finishes what it has and gets nothing new.
pub async fn set_draining(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RunnerId,
    draining: bool,
) -> Result<(), StoreError> {
    let sql = "UPDATE runners SET draining = $3 WHERE id = $1 AND unregistered_at IS NULL \
               AND (org_id = $2 OR $2 IS NULL) RETURNING org_id";
    let row = tx.one("runner", sql, &[id.into(), scope.parameter(), draining.into()]).await?;
    let action = if draining { "runner.drain" } else { "runner.undrain" };
    record(tx, actor, row.get(0)?, id, action, json!(null)).await
}

/// The runner goes for good. What it still has is given back when its leases end.
pub async fn unregister(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RunnerId,
) -> Result<(), StoreError> {
    let sql = "UPDATE runners SET unregistered_at = $3, epoch = epoch + 1 \
               WHERE id = $1 AND unregistered_at IS NULL \
               AND (org_id = $2 OR $2 IS NULL) RETURNING org_id";
    let row = tx.one("runner", sql, &[id.into(), scope.parameter(), tx.now().into()]).await?;
    record(tx, actor, row.get(0)?, id, "runner.unregister", json!(null)).await
}

/// A sign of life. Says whether it was written: an idle runner costs a write every 30 s at most.
pub async fn seen(tx: &mut Tx<'_>, scope: Scope, id: RunnerId) -> Result<bool, StoreError> {
    let now = tx.now();
    let before = Timestamp(now.0.saturating_sub(millis(DEBOUNCE)));
    let sql = "UPDATE runners SET last_seen_at = $3 WHERE id = $1 AND last_seen_at < $4 \
               AND unregistered_at IS NULL AND (org_id = $2 OR $2 IS NULL)";
    let row = [id.into(), scope.parameter(), now.into(), before.into()];
    Ok(tx.execute(sql, &row).await? > 0)
}

/// What a runner says of its machine (JSON), and whether it takes no more jobs. It is a sign of life, too,
/// and like that written every 30 s at most; only that it leaves is written at once. Says whether anything
/// was written.
pub async fn set_health(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: RunnerId,
    health: &str,
    leaving: bool,
) -> Result<bool, StoreError> {
    names::json("the health of a runner", health)?;
    let now = tx.now();
    let before = Timestamp(now.0.saturating_sub(millis(DEBOUNCE)));
    let sql = "UPDATE runners SET health = $5, health_at = $3, leaving = $6, last_seen_at = $3 \
               WHERE id = $1 AND unregistered_at IS NULL AND (org_id = $2 OR $2 IS NULL) \
               AND (leaving <> $6 OR last_seen_at < $4 \
               OR (coalesce(health_at, 0) < $4 AND coalesce(health, '') <> $5))";
    let row =
        [id.into(), scope.parameter(), now.into(), before.into(), health.into(), leaving.into()];
    let written = tx.execute(sql, &row).await? > 0;
    if written {
        tx.signal(Signal::Runner(id));
    }
    Ok(written)
}

/// Unregisters runners that were not heard of since and have no jobs. Says which.
pub async fn forget(tx: &mut Tx<'_>, before: Timestamp) -> Result<Vec<RunnerId>, StoreError> {
    let sql = "UPDATE runners SET unregistered_at = $2, epoch = epoch + 1 \
               WHERE unregistered_at IS NULL AND last_seen_at < $1 \
               AND NOT EXISTS (SELECT 1 FROM leases WHERE runner_id = runners.id) \
               RETURNING id, org_id";
    let rows = tx.rows(sql, &[before.into(), tx.now().into()]).await?;
    let mut forgotten = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.get(0)?;
        let detail = json!({ "silent_since": before.0 });
        record(tx, &Actor::system("retention"), row.get(1)?, id, "runner.forget", detail).await?;
        forgotten.push(id);
    }
    Ok(forgotten)
}

/// What a server must know at once when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub id: RunnerId,
    pub epoch: i64,
    pub draining: bool,
    pub leaving: bool,
}

/// The marks of these runners; one that has gone has none.
pub async fn marks(tx: &mut Tx<'_>, ids: &[RunnerId]) -> Result<Vec<Mark>, StoreError> {
    let sql = Sql::of(
        "SELECT id, epoch, draining, leaving FROM runners WHERE unregistered_at IS NULL \
         AND id IN (SELECT value FROM json_each($1))",
        "SELECT id, epoch, draining, leaving FROM runners WHERE unregistered_at IS NULL \
         AND id = ANY($1)",
    );
    let ids: Value = ids.iter().map(|id| id.0).collect();
    let mark = |row: &Row| {
        let (id, epoch) = (row.get(0)?, row.get(1)?);
        Ok(Mark { id, epoch, draining: row.get(2)?, leaving: row.get(3)? })
    };
    tx.rows(sql, &[ids]).await?.iter().map(mark).collect()
}

macro_rules! columns {
    () => {
        "runners.id, runners.org_id, runners.pool_id, runners.name, capabilities, max_parallel, \
         single_use, os, architecture, version, protocol, public_key, epoch, draining, speed, \
         completed, failed, registered_at, last_seen_at, \
         (SELECT count(*) FROM leases WHERE runner_id = runners.id), leaving, health"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM runners WHERE unregistered_at IS NULL AND ", $rest)
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: RunnerId) -> Result<Runner, StoreError> {
    let sql = select!("id = $1 AND (org_id = $2 OR $2 IS NULL)");
    let row = tx.one("runner", sql, &[id.into(), scope.parameter()]).await?;
    runner(&row, tx.now())
}

/// The runners of an organization, or the shared ones for `None`, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: Option<OrgId>,
    page: Page,
) -> Result<Vec<Runner>, StoreError> {
    match org {
        Some(org) => scope.admits(org)?,
        None => scope.system("runner")?,
    }
    let sql = select!("coalesce(org_id, 0) = $1 AND id > $2 ORDER BY id LIMIT $3");
    let org = org.map_or(0, |org| org.0);
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    let now = tx.now();
    rows.iter().map(|row| runner(row, now)).collect()
}

/// A runner with the names of whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub runner: Runner,
    /// `None` when it is shared.
    pub org_name: Option<String>,
    pub pool_name: String,
}

/// All runners that the scope sees, by age.
pub async fn list_all(
    tx: &mut Tx<'_>,
    scope: Scope,
    page: Page,
) -> Result<Vec<Listed>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        ", organizations.name, pools.name FROM runners JOIN pools ON pools.id = runners.pool_id \
         LEFT JOIN organizations ON organizations.id = runners.org_id \
         WHERE unregistered_at IS NULL AND (runners.org_id = $1 OR $1 IS NULL) AND runners.id > $2 \
         ORDER BY runners.id LIMIT $3"
    );
    let rows = tx.rows(sql, &[scope.parameter(), page.rising(), page.limit()]).await?;
    let now = tx.now();
    let listed = |row: &Row| {
        Ok(Listed { runner: runner(row, now)?, org_name: row.get(22)?, pool_name: row.get(23)? })
    };
    rows.iter().map(listed).collect()
}

fn check(about: &About) -> Result<(), StoreError> {
    names::json("the capabilities of a runner", &about.capabilities)?;
    names::within("the parallel jobs of a runner", about.max_parallel, 1, 10_000)?;
    names::line("an operating system", &about.os, 100)?;
    names::line("an architecture", &about.architecture, 100)?;
    names::line("a version", &about.version, 100)?;
    names::within("the protocol of a runner", about.protocol, 0, i64::from(u16::MAX))?;
    match &about.public_key {
        Some(key) if key.len() > 1_024 => {
            names::invalid("the public key is too long; expected up to 1024 bytes".to_owned())
        }
        _ => Ok(()),
    }
}

fn runner(row: &Row, now: Timestamp) -> Result<Runner, StoreError> {
    let last_seen_at = row.get(18)?;
    let leases = row.get(19)?;
    Ok(Runner {
        id: row.get(0)?,
        org: row.get(1)?,
        pool: row.get(2)?,
        name: row.get(3)?,
        about: About {
            capabilities: row.get(4)?,
            max_parallel: row.get(5)?,
            single_use: row.get(6)?,
            os: row.get(7)?,
            architecture: row.get(8)?,
            version: row.get(9)?,
            protocol: row.get(10)?,
            public_key: row.get(11)?,
        },
        epoch: row.get(12)?,
        draining: row.get(13)?,
        leaving: row.get(20)?,
        health: row.get(21)?,
        speed: row.get(14)?,
        completed: row.get(15)?,
        failed: row.get(16)?,
        registered_at: row.get(17)?,
        last_seen_at,
        leases,
        state: state(now.since(last_seen_at), leases),
    })
}

fn state(silent: Duration, leases: i64) -> RunnerState {
    match silent {
        silent if silent > FORGOTTEN_AFTER => RunnerState::Forgotten,
        silent if silent > OFFLINE_AFTER => RunnerState::Offline,
        _ if leases > 0 => RunnerState::Busy,
        _ => RunnerState::Online,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: Option<OrgId>,
    id: RunnerId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    // Servers keep what they know of their runners in memory.
    tx.signal(Signal::Runner(id));
    audit::record(tx, actor, Deed { org, action, subject: id.0, detail }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_says_more_than_leases() {
        let check = |seconds, leases, expected| {
            assert_eq!(state(Duration::from_secs(seconds), leases), expected);
        };
        check(0, 0, RunnerState::Online);
        check(90, 0, RunnerState::Online);
        check(90, 2, RunnerState::Busy);
        check(91, 2, RunnerState::Offline);
        check(300, 0, RunnerState::Offline);
        check(301, 1, RunnerState::Forgotten);
    }
}
