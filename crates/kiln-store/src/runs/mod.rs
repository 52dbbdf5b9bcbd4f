//! Runs through the store: the engine of `kiln-core` on rows of a database.
//!
//! [`Runs`] creates runs, tells them what happened, runs them again, and carries out what one run asks
//! of another. An event loads the rows it touches, lets the engine change them, and writes what changed
//! with the events, tasks and queue places that follow, all in one transaction.

mod assignments;
mod change;
mod create;
mod deployments;
mod ends;
mod enqueue;
mod facts;
mod failed;
mod held;
mod job;
mod list;
mod load;
mod logs;
mod look;
mod memory;
mod notes;
mod open;
mod picture;
mod priority;
mod ready;
mod recent;
mod record;
mod release;
mod reports;
mod results;
mod rows;
mod save;
mod steps;
mod tasks;
mod tried;
mod unsupported;
mod used;
mod view;

use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::run::Event;
use serde_json::json;

use crate::directory::audit::{self, Deed};
use crate::{Actor, Scope, Store, StoreError, Tx};

pub use assignments::{Assignment, RunFacts};
pub use change::{Answer, Happened, JobNews, Refused, Word};
pub use create::{Created, NewRun, REBUILD, asked};
pub use deployments::{Deployment, DeploymentFilter, deployments};
pub use facts::Evaluators;
pub use failed::NewFailedRun;
pub use held::{Held, HeldPlace, Holds, groups_of, held};
pub(crate) use job::{JobRow, job_rows, write_jobs};
pub(crate) use list::pattern;
pub use list::{
    COUNTED, RunFilter, RunStatus, RunSummary, ends, get, latest, latest_of_workflows, list,
    search, total,
};
pub use logs::{LoggedJob, logged, taken_over};
pub use look::{Look, Looked, look};
pub(crate) use memory::Memory;
pub use picture::Picture;
pub use priority::FIRST;
pub(crate) use record::{Order, What};
pub(crate) use release::{Used, charge};
pub use reports::{Report, ReportAnswer, Reported, Said, report};
pub(crate) use results::spoil;
pub use results::{
    Candidate, Reused, earlier_fingerprint, latest_result, note_fingerprint, note_reuse, reuses,
};
pub use rows::FromStep;
pub use steps::{StepStatus, StepView, steps};
pub use tasks::Chore;
pub use tried::{PastClaim, past_claims};
pub use used::{Deployed, EndNotes, JobUse, end_notes, note_end};
pub use view::{JobView, NodeView, RunView, cancelling, view};

use facts::Known;

/// The runs of a store. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Runs {
    store: Store,
    known: Arc<Known>,
}

impl Runs {
    pub fn new(store: Store, evaluators: Arc<dyn Evaluators>) -> Self {
        let known = Arc::new(Known::new(evaluators, store.connections()));
        Self { store, known }
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
        actor: &Actor,
        run: RunId,
        reason: impl Into<String>,
        forced: bool,
    ) -> Result<Answer, StoreError> {
        let (known, actor, reason) = (self.known.clone(), actor.clone(), reason.into());
        let work = async move |tx: &mut Tx<'_>| {
            let org = Some(view::visible(tx, scope, run).await?.org);
            let event = Event::Cancel { by: actor.shown(), reason: reason.clone(), forced };
            let answer =
                change::apply_all(tx, &known, &[Happened::Run { run, event }]).await?.remove(0);
            if answer == Answer::Accepted {
                let detail = json!({ "reason": reason, "forced": forced });
                let deed = Deed { org, action: "run.cancel", subject: run.0, detail };
                audit::record(tx, &actor, deed).await?;
            }
            Ok(answer)
        };
        self.store.write(work).await
    }
}
