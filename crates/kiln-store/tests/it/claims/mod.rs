//! Who gets which job, what becomes of claims, and that nothing is lost on the way.

mod fair;
mod lanes;
mod leases;
mod moved;
mod prefer;
mod waiting;
mod world;

use kiln_core::id::{JobId, QueueId, RunnerId};
use kiln_core::queue::Policy;
use kiln_store::claims::{self, Asking, Claimed};
use kiln_store::{Store, Tx, Value};

pub(crate) fn asking(runner: i64, queues: &[QueueId], want: u32, nonce: &str) -> Asking {
    Asking::new(RunnerId(runner), queues.iter().copied(), want, nonce)
}

async fn claim_as(store: &Store, policy: Policy, asking: Vec<Asking>) -> Vec<Vec<Claimed>> {
    let work = async move |tx: &mut Tx<'_>| Ok(claims::claim(tx, policy, &asking).await?.jobs);
    store.write(work).await.unwrap()
}

pub(crate) async fn claim(store: &Store, asking: Asking) -> Vec<Claimed> {
    claim_as(store, Policy::Fair, vec![asking]).await.remove(0)
}

fn jobs_of(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job).collect()
}

/// One whole number of the database.
async fn number(store: &Store, sql: &'static str, values: Vec<Value>) -> i64 {
    let read = async move |tx: &mut Tx<'_>| tx.one("row", sql, &values).await?.get(0);
    store.read(read).await.unwrap()
}

async fn execute(store: &Store, sql: &'static str, values: Vec<Value>) -> u64 {
    store.write(async move |tx: &mut Tx<'_>| tx.execute(sql, &values).await).await.unwrap()
}
