//! A whole attempt as the engine sees it, for those who only look.

use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::run::{Evaluator, Neighbourhood};

use super::assignments::look_at;
use super::rows::{self, JOBS, NODES, SCOPES};
use super::{RunView, Runs, load};
use crate::{Refusal, Scope, StoreError, Tx};

/// An attempt of a run with all its jobs, those that are not in a queue yet among them.
pub struct Picture {
    pub view: RunView,
    pub hood: Neighbourhood,
    pub evaluator: Arc<dyn Evaluator + Send + Sync>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Runs {
    /// An attempt as it is now; the current one if none is named.
    pub async fn picture(
        &self,
        scope: Scope,
        run: RunId,
        attempt: Option<u32>,
    ) -> Result<Picture, StoreError> {
        let runs = self.clone();
        let work = async move |tx: &mut Tx<'_>| runs.picture_in(tx, scope, run, attempt).await;
        self.store.read(work).await
    }

    /// The same among other questions.
    pub async fn picture_in(
        &self,
        tx: &mut Tx<'_>,
        scope: Scope,
        run: RunId,
        attempt: Option<u32>,
    ) -> Result<Picture, StoreError> {
        let view = super::view(tx, scope, run, attempt).await?;
        let key = [run.0.into(), view.attempt.into()];
        let mut batch = look_at(tx, &self.known, &[key.to_vec()]).await?;
        if !batch.runs.contains_key(&run) {
            return Err(Refusal::NotFound("run").into());
        }
        load::add_scopes(&mut batch, tx.rows(SCOPES.of_run(), &key).await?)?;
        load::add_nodes(&mut batch, tx.rows(NODES.of_run(), &key).await?)?;
        for row in tx.rows(JOBS.of_run(), &key).await? {
            let (leg, job) = rows::job_of(&row)?;
            batch.run(run).glance_at(leg, job);
        }
        let open = batch.runs.remove(&run).expect("it was there before");
        Ok(Picture { view, hood: open.hood, evaluator: open.facts.evaluator })
    }
}
