//! What never changes about a run: its plan and what its expressions see. Read once, then kept.

use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::plan;
use kiln_core::run::Evaluator;

use super::ready::Ready;
use super::recent::Recent;
use super::rows::Attempt;
use crate::cache::Cache;
use crate::directory::documents::{self, Hash};
use crate::postgres::Connections;
use crate::{Duty, Scope, StoreError, Tx};

/// Whose run it is was checked when it was created.
const DUTY: Scope = Scope::System(Duty::Claims);

/// Makes evaluators for runs out of what was stored with them.
pub trait Evaluators: Send + Sync + 'static {
    /// `context` is the text that was given when the run was created.
    fn evaluator(
        &self,
        run: RunId,
        attempt: u32,
        plan: &Arc<plan::Plan>,
        context: &str,
    ) -> Result<Arc<dyn Evaluator + Send + Sync>, String>;
}

/// A plan, and how its jobs hang together in both directions.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) plan: Arc<plan::Plan>,
    /// By workflow and job.
    links: Vec<Vec<Links>>,
}

/// The direct neighbours of a job, by their place in its workflow.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) needs: Vec<u32>,
    pub(super) dependents: Vec<u32>,
}

impl Plan {
    fn new(plan: plan::Plan) -> Self {
        let links = plan.workflows.iter().map(|workflow| links_of(&workflow.jobs)).collect();
        Self { plan: Arc::new(plan), links }
    }

    pub(super) fn links(&self, workflow: usize, job: usize) -> Result<&Links, StoreError> {
        let links = self.links.get(workflow).and_then(|jobs| jobs.get(job));
        links
            .ok_or_else(|| StoreError::Database("a row names a job that its plan lacks".to_owned()))
    }
}

fn links_of(jobs: &[plan::Job]) -> Vec<Links> {
    let number = |job: usize| u32::try_from(job).unwrap_or(u32::MAX);
    let mut links: Vec<Links> = jobs.iter().map(|_| Links::default()).collect();
    for (at, job) in jobs.iter().enumerate() {
        for need in &job.needs {
            links[at].needs.push(number(*need));
            links[*need].dependents.push(number(at));
        }
    }
    links
}

/// All that is needed to let a run go on.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) plan: Arc<Plan>,
    pub(super) evaluator: Arc<dyn Evaluator + Send + Sync>,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").finish_non_exhaustive()
    }
}

/// Plans and evaluators of the runs that were touched lately.
pub(super) struct Known {
    evaluators: Arc<dyn Evaluators>,
    plans: Cache<Hash, Arc<Plan>>,
    /// By all that they are made of: an embedded database gives the number of a run that was undone to
    /// the next one.
    facts: Cache<(RunId, u32, Hash, Hash), Facts>,
    /// What runners must know of jobs that wait.
    pub(super) ready: Ready,
    /// Runs as they were written last, and what claims made of them, on PostgreSQL.
    pub(super) recent: Recent,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl Known {
    pub(super) fn new(evaluators: Arc<dyn Evaluators>, connections: Connections) -> Self {
        Self {
            evaluators,
            plans: Cache::new(256),
            facts: Cache::new(4_096),
            ready: Ready::default(),
            recent: Recent::new(connections),
        }
    }

    pub(super) async fn facts(
        &self,
        tx: &mut Tx<'_>,
        run: RunId,
        number: u32,
        attempt: &Attempt,
    ) -> Result<Facts, StoreError> {
        let key = (run, number, attempt.plan, attempt.context);
        if let Some(facts) = self.facts.get(&key) {
            return Ok(facts);
        }
        let plan = self.plan(tx, attempt.plan).await?;
        let context = documents::get(tx, DUTY, attempt.context).await?;
        let evaluator = self.evaluators.evaluator(run, number, &plan.plan, &context);
        let evaluator = evaluator.map_err(|error| {
            StoreError::Database(format!("the context of run {run} cannot be used: {error}"))
        })?;
        let facts = Facts { plan, evaluator };
        self.facts.put(key, facts.clone());
        Ok(facts)
    }

    async fn plan(&self, tx: &mut Tx<'_>, hash: Hash) -> Result<Arc<Plan>, StoreError> {
        if let Some(plan) = self.plans.get(&hash) {
            return Ok(plan);
        }
        let text = documents::get(tx, DUTY, hash).await?;
        let plan: plan::Plan = serde_json::from_str(&text)
            .map_err(|error| StoreError::Database(format!("a plan cannot be read: {error}")))?;
        let plan = Arc::new(Plan::new(plan));
        self.plans.put(hash, plan.clone());
        Ok(plan)
    }
}
