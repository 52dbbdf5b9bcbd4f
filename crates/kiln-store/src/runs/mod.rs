//! Runs through the store: the engine of `kiln-core` on rows of a database.
//!
//! [`Runs`] creates runs, tells them what happened, runs them again, and carries out what one run asks
//! of another. An event loads the rows it touches, lets the engine change them, and writes what changed
//! with the events, tasks and queue places that follow, all in one transaction.

mod change;
mod create;
mod enqueue;
mod facts;
mod job;
mod load;
mod open;
mod record;
mod release;
mod rows;
mod save;
mod tasks;
mod unsupported;
mod view;

use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::run::Event;

use crate::{Scope, Store, StoreError, Tx};

pub use change::{Answer, Happened, JobNews, Refused, Word};
pub use create::{Created, NewRun, REBUILD};
pub use facts::Evaluators;
pub(crate) use job::{JobRow, job_rows, write_jobs};
pub(crate) use record::{Order, What};
pub(crate) use release::{Used, charge};
pub use tasks::Chore;
pub use view::{JobView, NodeView, RunView, view};

use facts::Known;

/// The runs of a store. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Runs {
    store: Store,
    known: Arc<Known>,
}

impl Runs {
    pub fn new(store: Store, evaluators: Arc<dyn Evaluators>) -> Self {
        Self { store, known: Arc::new(Known::new(evaluators)) }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Tells runs what happened, all of it in one transaction, and says what became of each.
    pub async fn happened(&self, happened: Vec<Happened>) -> Result<Vec<Answer>, StoreError> {
        let known = self.known.clone();
        let work = async move |tx: &mut Tx<'_>| change::apply_all(tx, &known, &happened).await;
        self.store.write(work).await
    }

    /// Cancels a run. Jobs that must run even then go on, unless it is forced.
    pub async fn cancel(
        &self,
        scope: Scope,
        run: RunId,
        by: impl Into<String>,
        reason: impl Into<String>,
        forced: bool,
    ) -> Result<Answer, StoreError> {
        let (known, by, reason) = (self.known.clone(), by.into(), reason.into());
        let work = async move |tx: &mut Tx<'_>| {
            view::visible(tx, scope, run).await?;
            let event = Event::Cancel { by: by.clone(), reason: reason.clone(), forced };
            change::apply_all(tx, &known, &[Happened::Run { run, event }]).await
        };
        Ok(self.store.write(work).await?.remove(0))
    }
}
