//! A run that is under way gets another priority: what of it waits moves in the queue, what comes later follows.

use kiln_core::id::RunId;
use kiln_core::run::{RunState, Wanted};
use serde_json::json;

use super::facts::Known;
use super::{Runs, load, save, view};
use crate::directory::audit::{self, Deed};
use crate::directory::names;
use crate::{Actor, Refusal, Scope, StoreError, Tx};

/// What goes before all others.
pub const FIRST: i64 = 100;

impl Runs {
    /// Sets the priority of the current attempt, and says which it had. What runs already goes on.
    pub async fn prioritize(
        &self,
        scope: Scope,
        actor: &Actor,
        run: RunId,
        priority: i64,
    ) -> Result<i64, StoreError> {
        let (known, actor) = (self.known.clone(), actor.clone());
        let work = async move |tx: &mut Tx<'_>| {
            names::within("a priority", priority, 0, FIRST)?;
            let org = Some(view::visible(tx, scope, run).await?.org);
            let before = set(tx, &known, run, priority).await?;
            if before != priority {
                let detail = json!({ "priority": priority, "before": before });
                let deed = Deed { org, action: "run.prioritize", subject: run.0, detail };
                audit::record(tx, &actor, deed).await?;
            }
            Ok(before)
        };
        self.store.write(work).await
    }
}

async fn set(tx: &mut Tx<'_>, known: &Known, run: RunId, priority: i64) -> Result<i64, StoreError> {
    let mut batch = load::lock(tx, known, &[run].into()).await?;
    let open = batch.runs.get(&run).ok_or(Refusal::NotFound("run"))?;
    let (before, attempt) = (open.attempt.priority, open.hood.run.attempt);
    let is_over = matches!(open.hood.run.state, RunState::Done(_));
    if !is_over && before != priority {
        // Whatever waits is placed anew, for which all that it depends on must be at hand.
        let whole = Wanted { whole: true, ..Wanted::default() };
        load::bring(tx, &mut batch, &[(run, whole)]).await?;
        let open = batch.run(run);
        (open.attempt.priority, open.is_moved) = (priority, true);
        let sql = "UPDATE run_attempts SET priority = $3 WHERE run_id = $1 AND attempt = $2";
        tx.execute(sql, &[run.0.into(), attempt.into(), priority.into()]).await?;
    }
    save::save(tx, known, &mut batch).await?;
    if is_over {
        return Err(Refusal::Conflict("the run has ended already".to_owned()).into());
    }
    Ok(before)
}
