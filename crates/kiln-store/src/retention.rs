//! What has grown old goes, piece by piece: each piece is a transaction of its own and small enough that
//! nobody waits for it.

mod tend;

use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use serde_json::json;

use crate::content::artifacts;
use crate::directory::audit::{self, Deed};
use crate::tx::{Lock, millis};
use crate::{Actor, Refusal, Row, Scope, Signal, Sql, Store, StoreError, Tx, Value};
use crate::{partitions, runs};

pub use tend::{Caretaker, Keep, Tended};

/// How long a document stays that nobody refers to. Whoever refers to an old one again renews its
/// `created_at` in the same transaction, and so keeps it.
pub const GRACE: Duration = Duration::from_hours(24);

/// How far apart the times of a run and of the key of its trigger may be, in milliseconds. One transaction writes both.
const KEYS_AROUND: i64 = 60_000;

/// What can grow old. Documents are pruned by [`prune_documents`]. Artifacts, caches, objects, manifests
/// and blobs are not here: their lifetimes are the affair of what stores bytes, and comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Audit,
    WebhookDeliveries,
    TriggerKeys,
    /// Events, also of runs that stay.
    Events,
    /// Charges that were never added up, because nobody did it for long. After a day a charge still weighs
    /// 29 %, after a week 0.02 %: `before` should be a week ago or more.
    UsageDeltas,
    /// Runs that ended before, with all that belongs to them. A run stays as long as it has artifacts,
    /// which have a lifetime of their own.
    Runs,
    /// Queues into which no job came since, with their lanes. `used_at` may lag by an hour.
    Queues,
    /// Runners that were unregistered before and hold nothing. Jobs keep their numbers.
    Runners,
    /// Keys that expired before.
    RegistrationKeys,
    /// Tokens that expired or were revoked before.
    ApiTokens,
    /// Keys for one use that expired before.
    OneTimeKeys,
    /// Ended jobs that were never counted with their runners, because nobody did it for long.
    RunnerEnds,
    /// Tasks that were put aside before, and that nobody has mended since.
    ParkedTasks,
    /// What repositories and organizations used that are gone. `before` is when they used it last.
    Usage,
}

/// Deletes at most `limit` rows that are older than `before`, and says how many. To be repeated until
/// there are none.
pub async fn prune(
    store: &Store,
    what: What,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let sql = match what {
        What::Audit => AUDIT,
        What::WebhookDeliveries => WEBHOOK_DELIVERIES,
        What::TriggerKeys => TRIGGER_KEYS,
        What::UsageDeltas => USAGE_DELTAS,
        What::Runners => RUNNERS,
        What::RegistrationKeys => REGISTRATION_KEYS,
        What::ApiTokens => API_TOKENS,
        What::OneTimeKeys => ONE_TIME_KEYS,
        What::RunnerEnds => RUNNER_ENDS,
        What::ParkedTasks => PARKED_TASKS,
        What::Usage => USAGE,
        What::Events => {
            let piece = async move |tx: &mut Tx<'_>| events(tx, before, limit).await;
            return store.write(piece).await;
        }
        What::Runs => {
            let piece = async move |tx: &mut Tx<'_>| old_runs(tx, before, limit).await;
            return store.write(piece).await;
        }
        What::Queues => return queues(store, before, limit).await,
    };
    let sql = Sql::from(sql);
    let values = [millis(before).into(), limit.into()];
    store.write(async move |tx: &mut Tx<'_>| tx.execute(sql, &values).await).await
}

/// Makes room for the runs to come: there is always room for two million more. To be called long before
/// so many pass; nobody waits for it, and if it cannot be done now, it fails soon and can be tried later.
pub async fn make_room(store: &Store) -> Result<(), StoreError> {
    partitions::ensure_quietly(store).await
}

/// Drops the partitions of which every run ended before and can go: a thousand times cheaper than
/// [`prune`], and the space is free at once. Says how many went; SQLite has none.
pub async fn drop_partitions(store: &Store, before: Timestamp) -> Result<u64, StoreError> {
    let mut dropped = 0;
    for part in store.read(async |tx: &mut Tx<'_>| partitions::old(tx).await).await? {
        dropped += u64::from(partitions::drop_expired(store, part, before).await?);
    }
    Ok(dropped)
}

// Where there is no index by time, ids stand in for it: both grow together. The time is asked once more
// outside, where PostgreSQL looks again if a row has changed meanwhile.

const AUDIT: &str = "DELETE FROM audit WHERE at < $1
    AND id IN (SELECT id FROM audit ORDER BY id LIMIT $2)";

const WEBHOOK_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE received_at < $1
    AND id IN (SELECT id FROM webhook_deliveries WHERE received_at < $1 ORDER BY received_at LIMIT $2)";

const TRIGGER_KEYS: &str = "DELETE FROM trigger_keys WHERE at < $1
    AND key IN (SELECT key FROM trigger_keys WHERE at < $1 ORDER BY at LIMIT $2)";

const USAGE_DELTAS: &str = "DELETE FROM usage_deltas WHERE at < $1
    AND id IN (SELECT id FROM usage_deltas WHERE at < $1 ORDER BY at LIMIT $2)";

const RUNNERS: &str = "DELETE FROM runners WHERE unregistered_at < $1 AND id IN (
    SELECT id FROM runners WHERE unregistered_at < $1
    AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.runner_id = runners.id) ORDER BY id LIMIT $2)";

const REGISTRATION_KEYS: &str = "DELETE FROM registration_keys WHERE expires_at < $1
    AND id IN (SELECT id FROM registration_keys WHERE expires_at < $1 ORDER BY id LIMIT $2)";

const API_TOKENS: &str = "DELETE FROM api_tokens WHERE (expires_at < $1 OR revoked_at < $1)
    AND id IN (SELECT id FROM api_tokens WHERE expires_at < $1 OR revoked_at < $1
               ORDER BY id LIMIT $2)";

const ONE_TIME_KEYS: &str = "DELETE FROM one_time_keys WHERE expires_at < $1
    AND hash IN (SELECT hash FROM one_time_keys WHERE expires_at < $1 LIMIT $2)";

const RUNNER_ENDS: &str = "DELETE FROM runner_ends WHERE at < $1
    AND id IN (SELECT id FROM runner_ends ORDER BY id LIMIT $2)";

const PARKED_TASKS: &str = "DELETE FROM outbox WHERE parked_at < $1
    AND id IN (SELECT id FROM outbox WHERE parked_at < $1 ORDER BY parked_at LIMIT $2)";

const USAGE: &str =
    "DELETE FROM usage WHERE hour < CAST($1 AS BIGINT) / 3600000 AND (org_id, repo_id) IN (
    SELECT org_id, repo_id FROM usage WHERE hour < CAST($1 AS BIGINT) / 3600000 AND CASE repo_id
        WHEN 0 THEN NOT EXISTS (SELECT 1 FROM organizations WHERE organizations.id = usage.org_id)
        ELSE NOT EXISTS (SELECT 1 FROM repositories WHERE repositories.id = usage.repo_id) END
    ORDER BY org_id, repo_id LIMIT $2)";

async fn events(tx: &mut Tx<'_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let before = millis(before);
    let oldest = Sql::of(
        "SELECT txid, id, at FROM events ORDER BY id LIMIT $1",
        "SELECT txid, id, at FROM events ORDER BY txid, id LIMIT $1",
    );
    let rows = tx.rows(oldest, &[limit.into()]).await?;
    let mut last = None;
    for row in &rows {
        if row.get::<i64>(2)? < before {
            last = Some((row.get::<i64>(0)?, row.get::<i64>(1)?));
        }
    }
    let Some((txid, id)) = last else { return Ok(0) };
    let sql = Sql::of(
        "DELETE FROM events WHERE id <= $2 AND at < $3",
        "DELETE FROM events WHERE (txid, id) <= ($1, $2) AND at < $3",
    );
    tx.execute(sql, &[txid.into(), id.into(), before.into()]).await
}

/// A statement that deletes some rows of these runs. Not by `ctid` on PostgreSQL: it is not unique
/// across partitions.
macro_rules! some_of {
    ($table:literal, $key:literal) => {
        Sql::of(
            concat!(
                "DELETE FROM ",
                $table,
                " WHERE rowid IN (SELECT rowid FROM ",
                $table,
                " WHERE run_id IN (SELECT value FROM json_each($1)) LIMIT $2)"
            ),
            concat!(
                "DELETE FROM ",
                $table,
                " WHERE (run_id, ",
                $key,
                ") IN (SELECT run_id, ",
                $key,
                " FROM ",
                $table,
                " WHERE run_id = ANY($1) ORDER BY run_id, ",
                $key,
                " LIMIT $2)"
            ),
        )
    };
}

/// What belongs to a run, in the order in which it goes. Attempts are first: without one, a run that is
/// half gone cannot be run again.
const CHILDREN: [Sql; 8] = [
    some_of!("run_attempts", "attempt"),
    some_of!("timers", "attempt, number"),
    some_of!("steps", "attempt, job, claim, number"),
    some_of!("job_claims", "attempt, number, claim"),
    some_of!("events", "txid, id"),
    some_of!("jobs", "attempt, number"),
    some_of!("run_nodes", "attempt, number"),
    some_of!("run_scopes", "attempt, number"),
];

/// Rows of expired runs, the runs themselves last: a piece that ends in the middle is continued by the
/// next, which finds the run again.
async fn old_runs(tx: &mut Tx<'_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let expired = Sql::of(
        "SELECT id FROM runs WHERE conclusion IS NOT NULL AND ended_at < $1
         AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.run_id = runs.id)
         ORDER BY ended_at LIMIT $2",
        "SELECT id FROM runs WHERE conclusion IS NOT NULL AND ended_at < $1
         AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.run_id = runs.id)
         ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    );
    let rows = tx.rows(expired, &[millis(before).into(), limit.into()]).await?;
    let ids = rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    let ids: Value = ids.into_iter().collect();
    let limit = u64::from(limit);
    let mut deleted = 0;
    for child in CHILDREN {
        let left = i64::try_from(limit - deleted).unwrap_or(i64::MAX);
        deleted += tx.execute(child, &[ids.clone(), left.into()]).await?;
        if deleted >= limit {
            return Ok(deleted);
        }
    }
    let themselves = Sql::of(
        "DELETE FROM runs WHERE id IN (SELECT value FROM json_each($1))",
        "DELETE FROM runs WHERE id = ANY($1)",
    );
    Ok(deleted + tx.execute(themselves, &[ids]).await?)
}

/// Removes a run that has ended, with its artifacts and all that belongs to it. Its logs are not here: whoever keeps them
/// removes them.
pub async fn remove_run(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    run: RunId,
) -> Result<(), StoreError> {
    // Whoever runs it again holds these rows first; after that it is open.
    let attempts = Sql::of(
        "SELECT attempt FROM run_attempts WHERE run_id = $1 ORDER BY attempt",
        "SELECT attempt FROM run_attempts WHERE run_id = $1 ORDER BY attempt FOR UPDATE",
    );
    tx.rows(attempts, &[run.into()]).await?;
    let found = runs::get(tx, scope, run).await?;
    if found.conclusion.is_none() {
        return Err(Refusal::Conflict("the run has not ended; cancel it first".to_owned()).into());
    }
    let sql = "SELECT id FROM artifacts WHERE run_id = $1 ORDER BY id";
    for row in tx.rows(sql, &[run.into()]).await? {
        artifacts::delete(tx, scope, actor, row.get(0)?).await?;
    }
    let id: Value = std::iter::once(run.0).collect();
    for child in CHILDREN {
        tx.execute(child, &[id.clone(), i64::MAX.into()]).await?;
    }
    // What comes again is a new run, not one that is gone. Keys are found by their time, which is that of the run.
    let created = millis(found.created);
    let (from, to) = (created.saturating_sub(KEYS_AROUND), created.saturating_add(KEYS_AROUND));
    let keys = "DELETE FROM trigger_keys WHERE at >= $2 AND at <= $3 AND run_id = $1";
    tx.execute(keys, &[run.into(), from.into(), to.into()]).await?;
    tx.execute("DELETE FROM runs WHERE id = $1", &[run.into()]).await?;
    tx.signal(Signal::Run(run));
    let detail = json!({ "number": found.number, "workflow": found.workflow.0 });
    let deed = Deed { org: Some(found.org), action: "run.delete", subject: run.0, detail };
    audit::record(tx, actor, deed).await
}

/// Writes down that somebody removed the logs of a run that has ended; open ones still grow.
pub async fn logs_removed(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    run: RunId,
) -> Result<(), StoreError> {
    let found = runs::get(tx, scope, run).await?;
    if found.conclusion.is_none() {
        let message = "the run has not ended, and its logs still grow";
        return Err(Refusal::Conflict(message.to_owned()).into());
    }
    let (action, detail) = ("run.delete_logs", json!(null));
    audit::record(tx, actor, Deed { org: Some(found.org), action, subject: run.0, detail }).await
}

/// The search does not hold up those who put jobs in; under the lock it is asked once more.
async fn queues(store: &Store, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let search = async move |tx: &mut Tx<'_>| {
        let sql = "SELECT id FROM queues WHERE used_at < $1 AND paused IS NULL
             AND NOT EXISTS (SELECT 1 FROM lanes WHERE queue_id = queues.id AND active = 1)
             ORDER BY id LIMIT $2";
        let rows = tx.rows(sql, &[millis(before).into(), limit.into()]).await?;
        rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()
    };
    let unused = store.read(search).await?;
    if unused.is_empty() {
        return Ok(0);
    }
    let unused: Value = unused.into_iter().collect();
    // Lanes go with their queue.
    let delete = Sql::of(
        "DELETE FROM queues WHERE id IN (SELECT value FROM json_each($1)) AND used_at < $2
         AND NOT EXISTS (SELECT 1 FROM lanes WHERE queue_id = queues.id AND (active = 1
             OR EXISTS (SELECT 1 FROM queue WHERE lane_id = lanes.id)))",
        "DELETE FROM queues WHERE id = ANY($1) AND used_at < $2
         AND NOT EXISTS (SELECT 1 FROM lanes WHERE queue_id = queues.id AND (active = 1
             OR EXISTS (SELECT 1 FROM queue WHERE lane_id = lanes.id)))",
    );
    let work = async move |tx: &mut Tx<'_>| {
        tx.lock(Lock::Lanes).await?;
        tx.execute(delete, &[unused.clone(), millis(before).into()]).await
    };
    store.write(work).await
}

/// How far a round through all documents has come; the default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(Vec<u8>);

/// Looks at the next `limit` plans and contexts and deletes those that were made before and that no run
/// refers to. Says how many, and where to go on; after the last one there is no such place.
pub async fn prune_documents(
    store: &Store,
    before: Timestamp,
    from: Place,
    limit: u32,
) -> Result<(u64, Option<Place>), StoreError> {
    // The search reads a lot, so it does not hold up those who write; what it finds is looked at again
    // when it is deleted.
    let search = async move |tx: &mut Tx<'_>| {
        let grace = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX);
        let before = millis(before.min(Timestamp(tx.now().0.saturating_sub(grace))));
        let sql = "SELECT hash, CASE WHEN created_at < $1
                 AND NOT EXISTS (SELECT 1 FROM run_attempts WHERE plan = documents.hash)
                 AND NOT EXISTS (SELECT 1 FROM run_attempts WHERE context = documents.hash)
             THEN 1 ELSE 0 END FROM documents WHERE hash > $2 ORDER BY hash LIMIT $3";
        let rows = tx.rows(sql, &[before.into(), from.0.clone().into(), limit.into()]).await?;
        let is_old = |row: &&Row| row.get::<i64>(1).is_ok_and(|old| old == 1);
        let old = |row: &Row| Ok(vec![row.get::<Vec<u8>>(0)?.into(), before.into()]);
        let found = rows.iter().filter(is_old).map(old).collect::<Result<Vec<_>, StoreError>>()?;
        let last = rows.last().filter(|_| rows.len() >= limit as usize);
        let next = last.map(|row| row.get(0).map(Place)).transpose()?;
        Ok((found, next))
    };
    let (found, next): (Vec<Vec<Value>>, _) = store.read(search).await?;
    let delete = Sql::of(
        "DELETE FROM documents WHERE hash = $1 AND created_at < $2",
        "DELETE FROM documents USING unnest($1::bytea[], $2::bigint[]) AS old (hash, before)
         WHERE documents.hash = old.hash AND documents.created_at < old.before",
    );
    let work = async move |tx: &mut Tx<'_>| tx.execute_all(delete, &found).await;
    Ok((store.write(work).await?, next))
}
