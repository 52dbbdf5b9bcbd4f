//! Who uses how much, and what was freed.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::time::Timestamp;
use kiln_proto::blob::{Collect, Collection, Kept, Storage, Use};
use kiln_store::content::{garbage, storage};
use kiln_store::directory::{audit, settings};
use kiln_store::{Actor, Duty, Scope, Tx};
use tokio::time::Instant;

use super::garbage::{Freed, Round, Trouble};
use crate::app::App;
use crate::auth::Caller;
use crate::clock;
use crate::http::error::{Answer, Failure};

/// How many lines an answer may have.
const MOST: u32 = 1_000;
/// How long a collection that somebody asked for may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where the last collection that freed something is kept.
const LAST: &str = "last_collection";
const SCOPE: Scope = Scope::System(Duty::Retention);

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// What the caller may know of it.
pub async fn shown(app: &App, caller: &Caller) -> Answer<Storage> {
    let scopes = caller.scopes(Right::Read);
    let sees_all = caller.grants().sees_everything();
    let logs = app.log_uses.get(app).await;
    let seen = scopes.clone();
    let sees = move |one: &&storage::Use| {
        sees_all || seen.iter().any(|scope| matches!(scope, Scope::Org(org) if *org == one.org))
    };
    let look = async move |tx: &mut Tx<'_>| {
        let mut uses = Vec::new();
        for scope in &scopes {
            uses.extend(storage::uses(tx, *scope, MOST).await?);
        }
        let kept = if sees_all { Some(storage::kept(tx, SCOPE).await?) } else { None };
        let last = if sees_all { settings::get(tx, SCOPE, LAST).await? } else { None };
        Ok((uses, kept, last))
    };
    let (mut uses, kept, last) = app.store.read(look).await?;
    uses.extend(logs.iter().flat_map(|all| all.iter()).filter(sees).cloned());
    uses.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    let one = |one: storage::Use| Use {
        repository: one.repository.map(|name| format!("{}/{name}", one.owner)),
        owner: one.owner,
        kind: one.kind,
        count: number(one.count),
        bytes: number(one.bytes),
    };
    let kept = kept.map(|kept: storage::Kept| Kept {
        blobs: number(kept.blobs),
        bytes: number(kept.bytes),
        stored: number(kept.stored),
        removals: number(kept.removals),
    });
    let last_collection = last.and_then(|text| serde_json::from_str(&text).ok());
    let uses = uses.into_iter().map(one).collect();
    Ok(Storage { uses, kept, last_collection, counting_logs: logs.is_none() })
}

/// Collects now, as far as it gets in time.
pub async fn collect(app: &App, caller: &Caller, asked: &Collect) -> Answer<Collection> {
    caller.require(Right::Admin, None, "address")?;
    if asked.dry_run {
        return foresee(app).await;
    }
    // Who asked is known even if it breaks off: what was removed until then is gone.
    let actor = caller.actor();
    let asked_for = async move |tx: &mut Tx<'_>| {
        audit::done_to_all(tx, &actor, "storage.collect", serde_json::Value::Null).await
    };
    app.store.write(asked_for).await?;
    let mut round = Round::default();
    let end = Instant::now() + PATIENCE;
    while !round.is_over() && Instant::now() < end {
        round.go_on(app).await.map_err(|trouble| match trouble {
            Trouble::Store(error) => error.into(),
            Trouble::Bytes(error) => {
                tracing::error!(%error, "bytes could not be removed");
                Failure::unavailable(format!("bytes could not be removed: {error}"))
            }
        })?;
    }
    let done = Collection { more: !round.is_over(), ..collection(round.freed) };
    note(app, caller.actor(), &done).await?;
    Ok(done)
}

async fn foresee(app: &App) -> Answer<Collection> {
    let grace = u64::try_from(app.config.storage.grace.as_millis()).unwrap_or(u64::MAX);
    let look = async move |tx: &mut Tx<'_>| {
        let before = Timestamp(tx.now().0.saturating_sub(grace));
        garbage::foresee(tx, SCOPE, before).await
    };
    let (unused, gone) = app.store.read(look).await?;
    Ok(Collection {
        at: clock::now().rfc3339(),
        dry_run: true,
        unused: unused.count,
        unused_bytes: number(unused.bytes),
        removed: gone.count,
        removed_bytes: number(gone.bytes),
        ..Collection::default()
    })
}

fn collection(freed: Freed) -> Collection {
    Collection {
        at: clock::now().rfc3339(),
        unused: freed.marked,
        removed: freed.blobs,
        removed_bytes: freed.bytes,
        uploads: freed.uploads,
        strays: freed.strays,
        ..Collection::default()
    }
}

/// Keeps what a round of the server itself freed.
pub(crate) async fn note_round(app: &App, freed: Freed) -> Result<(), kiln_store::StoreError> {
    note(app, Actor::system("garbage"), &collection(freed)).await
}

async fn note(app: &App, actor: Actor, done: &Collection) -> Result<(), kiln_store::StoreError> {
    let text = serde_json::to_string(done).expect("it is texts and numbers");
    let put = async move |tx: &mut Tx<'_>| settings::put(tx, SCOPE, &actor, LAST, &text).await;
    app.store.write(put).await
}
