//! Tasks that failed too often and were put aside: seen, and given a new start.

use kiln_core::access::Right;
use kiln_proto::api;
use kiln_store::outbox::{self, Parked};
use kiln_store::{StoreError, Tx};

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// How many are shown, or tried again, at a time.
const MOST: u32 = 1_000;

/// What was put aside, the latest first.
pub async fn parked(app: &App, caller: &Caller) -> Answer<Vec<api::ParkedTask>> {
    let scope = caller.require(Right::Admin, None, "address")?;
    let work = async move |tx: &mut Tx<'_>| outbox::parked(tx, scope, MOST).await;
    Ok(app.store.read(work).await?.into_iter().map(shown).collect())
}

/// Tries these again, or all, because somebody mended the reason. One that was not put aside is an error, and then
/// none is.
pub async fn retry(app: &App, caller: &Caller, ids: Vec<i64>) -> Answer<u64> {
    let scope = caller.require(Right::Admin, None, "address")?;
    if ids.len() > MOST as usize {
        return Err(Failure::invalid(format!("`ids` are {MOST} at most")));
    }
    let actor = caller.actor();
    let work = async move |tx: &mut Tx<'_>| {
        let chosen = match &ids[..] {
            [] => outbox::parked(tx, scope, MOST).await?.iter().map(|one| one.task.id).collect(),
            some => some.to_vec(),
        };
        for id in &chosen {
            outbox::retry(tx, scope, &actor, *id).await?;
        }
        Ok::<_, StoreError>(chosen.len() as u64)
    };
    Ok(app.store.write(work).await?)
}

fn shown(parked: Parked) -> api::ParkedTask {
    let Parked { task, error, since } = parked;
    api::ParkedTask {
        id: task.id,
        kind: task.kind.word().to_owned(),
        run_id: task.run.map(|run| run.0),
        tries: task.tries,
        error,
        since: since.rfc3339(),
    }
}
