//! A run as readers see it.

use kiln_core::id::{JobId, OrgId, RepoId, RunId, WorkflowId};
use kiln_core::run::{Cancel, Conclusion, LegState, NodeState, RunState};
use kiln_core::time::Timestamp;

use super::rows::{self, ATTEMPTS, JOBS, NODES};
use crate::{Row, Scope, StoreError, Tx};

/// An attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    pub id: RunId,
    pub attempt: u32,
    pub org: OrgId,
    pub repo: RepoId,
    pub actor: String,
    pub trust: String,
    pub state: RunState,
    pub group: Option<String>,
    pub cancelled_by: Option<String>,
    pub cancel_reason: Option<String>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Why the run could not start.
    pub note: Option<String>,
    pub nodes: Vec<NodeView>,
    pub jobs: Vec<JobView>,
}

/// A job of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub number: u32,
    pub scope: u32,
    pub conclusion: Option<Conclusion>,
    pub outputs: Vec<(String, String)>,
    pub note: Option<String>,
}

/// A job as a runner has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    pub id: JobId,
    pub number: u32,
    pub node: u32,
    pub name: String,
    pub state: LegState,
    pub runner: Option<i64>,
    pub claim: u32,
    pub retries: u32,
    pub losses: u32,
    pub cancelling: bool,
    pub timings: kiln_core::run::Timings,
    pub outputs: Vec<(String, String)>,
    pub note: Option<String>,
}

/// An attempt with all its jobs; the current one if none is named.
pub async fn view(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: Option<u32>,
) -> Result<RunView, StoreError> {
    let whose = visible(tx, scope, run).await?;
    let attempt = attempt.unwrap_or(whose.attempt);
    let key = [run.0.into(), attempt.into()];
    let row = tx.one("run", ATTEMPTS.of_run(), &key).await?;
    let mut view = run_view(&row)?;
    view.note = whose.note;
    for row in tx.rows(NODES.of_run(), &key).await? {
        view.nodes.push(node_view(&row)?);
    }
    for row in tx.rows(JOBS.of_run(), &key).await? {
        view.jobs.push(job_view(&row)?);
    }
    view.nodes.sort_by_key(|node| node.number);
    view.jobs.sort_by_key(|job| job.number);
    Ok(view)
}

/// Who asked for the end of the current attempt, if anybody did.
pub async fn cancelling(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
) -> Result<Option<Cancel>, StoreError> {
    let whose = visible(tx, scope, run).await?;
    let key = [run.0.into(), whose.attempt.into()];
    let row = tx.one("run", ATTEMPTS.of_run(), &key).await?;
    Ok(rows::attempt_of(&row, std::sync::Arc::default())?.cancel)
}

/// What must be known of a run before anything is done with it.
pub(super) struct Whose {
    /// The current one.
    pub(super) attempt: u32,
    pub(super) org: OrgId,
    pub(super) workflow: WorkflowId,
    note: Option<String>,
}

/// Refuses a run that the scope cannot see; says whose it is.
pub(super) async fn visible(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
) -> Result<Whose, StoreError> {
    let sql = "SELECT attempt, org_id, workflow_id, note FROM runs \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    let row = tx.one("run", sql, &[run.into(), scope.parameter()]).await?;
    Ok(Whose { attempt: row.get(0)?, org: row.get(1)?, workflow: row.get(2)?, note: row.get(3)? })
}

fn run_view(row: &Row) -> Result<RunView, StoreError> {
    let (id, attempt, facts) = rows::attempt_facts(row)?;
    // The plan plays no part in what is shown here.
    let run = rows::attempt_of(row, std::sync::Arc::default())?;
    Ok(RunView {
        id,
        attempt,
        org: facts.org,
        repo: facts.repo,
        actor: facts.actor,
        trust: facts.trust,
        state: run.state,
        group: run.group,
        cancelled_by: run.cancel.as_ref().map(|cancel| cancel.by.clone()),
        cancel_reason: run.cancel.map(|cancel| cancel.reason),
        created: facts.created,
        started: facts.started,
        ended: facts.ended,
        note: None,
        nodes: Vec::new(),
        jobs: Vec::new(),
    })
}

fn node_view(row: &Row) -> Result<NodeView, StoreError> {
    let node = rows::bare_node_of(row)?;
    let conclusion = match node.state {
        NodeState::Done(conclusion) => Some(conclusion),
        _ => None,
    };
    let (number, scope) = (node.number, node.scope);
    Ok(NodeView { number, scope, conclusion, outputs: node.outputs, note: node.note })
}

fn job_view(row: &Row) -> Result<JobView, StoreError> {
    let (leg, job) = rows::job_of(row)?;
    Ok(JobView {
        id: job.id,
        number: leg.number,
        node: leg.node,
        name: job.name,
        state: leg.state,
        runner: job.runner,
        claim: leg.attempt,
        retries: leg.retries,
        losses: leg.losses,
        cancelling: leg.cancelling,
        timings: leg.timings,
        outputs: leg.outputs,
        note: leg.note,
    })
}
