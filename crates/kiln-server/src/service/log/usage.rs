//! How many bytes the logs of each repository take.
//!
//! No row says it: what lies in the store of logs is listed, which may take a while, and remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_core::id::RunId;
use kiln_store::content::storage::{self, Use};
use kiln_store::{Duty, Scope, Store, Tx};
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::logs::Logs;

/// How long what was counted is good enough.
const FRESH: Duration = Duration::from_mins(1);
/// How long somebody who asks waits for it. Counting goes on without them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many runs are looked up at a time.
const PIECE: usize = 500;
const SCOPE: Scope = Scope::System(Duty::Retention);

/// What was counted last. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LogUses(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Held by the one who counts.
    counting: Turn<()>,
    known: Mutex<Option<(Instant, Arc<Vec<Use>>)>>,
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

impl LogUses {
    /// What the logs of all repositories take; none while they are counted for the first time.
    pub(crate) async fn get(&self, app: &App) -> Option<Arc<Vec<Use>>> {
        let (own, logs, store) = (self.clone(), Arc::clone(&app.logs), app.store.clone());
        if !self.is_fresh() {
            let count = tokio::spawn(async move { own.count(&*logs, &store).await });
            let _ = timeout(PATIENCE, count).await;
        }
        self.known().map(|(_, uses)| uses)
    }

    fn known(&self) -> Option<(Instant, Arc<Vec<Use>>)> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_fresh(&self) -> bool {
        self.known().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }

    async fn count(&self, logs: &dyn Logs, store: &Store) {
        let _turn = self.0.counting.lock().await;
        if self.is_fresh() {
            return;
        }
        match counted(logs, store).await {
            Ok(uses) => {
                let known = Some((Instant::now(), Arc::new(uses)));
                *self.0.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
            }
            Err(error) => tracing::warn!(%error, "the bytes of logs cannot be counted"),
        }
    }
}

async fn counted(logs: &dyn Logs, store: &Store) -> Result<Vec<Use>, Fault> {
    let mut uses: BTreeMap<(i64, Option<String>), Use> = BTreeMap::new();
    for piece in logs.sizes().await?.chunks(PIECE) {
        let runs: Vec<RunId> = piece.iter().map(|held| held.run).collect();
        let find = async move |tx: &mut Tx<'_>| storage::of_runs(tx, SCOPE, &runs).await;
        let owners: HashMap<RunId, Use> = store.read(find).await?.into_iter().collect();
        for held in piece {
            // The logs of a run that is gone belong to nobody; they go soon.
            let Some(owner) = owners.get(&held.run) else { continue };
            let key = (owner.org.0, owner.repository.clone());
            let one = uses.entry(key).or_insert_with(|| owner.clone());
            one.count += i64::try_from(held.logs).unwrap_or(i64::MAX);
            one.bytes = one.bytes.saturating_add(i64::try_from(held.bytes).unwrap_or(i64::MAX));
        }
    }
    Ok(uses.into_values().collect())
}
