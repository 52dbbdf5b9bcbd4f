//! The beginning of a run, and of a further attempt.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{OrgId, RepoId, RunId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::Class;
use kiln_core::run::{self, Again, Event, Run};
use sha2::{Digest as _, Sha256};

use super::change::Work;
use super::facts::Known;
use super::open::{Batch, Open};
use super::rows::Attempt;
use super::{Runs, load, save};
use crate::tx::millis;
use crate::{Refusal, StoreError, Tx};

/// The priority of what a person asked to be built again: it goes first.
pub const REBUILD: i64 = 100;

/// A run to be.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub org: OrgId,
    pub repo: RepoId,
    pub workflow: WorkflowId,
    /// The run that this one was made from.
    pub root: Option<RunId>,
    /// What triggered it, as GitHub calls it: `push`, `schedule`.
    pub event: String,
    pub actor: String,
    pub trust: String,
    pub reference: String,
    pub head_sha: String,
    pub head_branch: Option<String>,
    pub title: String,
    pub plan: Arc<Plan>,
    /// What its expressions see, as the evaluators of the program understand it.
    pub context: String,
    pub class: Class,
    pub priority: i64,
    /// A trigger with the same key within the time makes no second run.
    pub once: Option<(String, Duration)>,
}

/// What became of a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    New(RunId),
    /// The same trigger made this run before.
    Before(RunId),
}

impl Created {
    pub fn run(self) -> RunId {
        match self {
            Self::New(run) | Self::Before(run) => run,
        }
    }
}

impl Runs {
    /// Creates a run and starts it: what needs nothing is in the queue when this returns.
    pub async fn create(&self, new: NewRun) -> Result<Created, StoreError> {
        let plan = serde_json::to_string(&*new.plan)
            .map_err(|error| Refusal::Invalid(format!("the plan cannot be kept: {error}")))?;
        let (known, plan) = (self.known.clone(), Arc::<str>::from(plan));
        let work = async move |tx: &mut Tx<'_>| create(tx, &known, &new, &plan).await;
        self.store.write(work).await
    }

    /// Runs a run that ended again, or a part of it, as a further attempt. It goes first.
    pub async fn again(
        &self,
        run: RunId,
        what: Again,
        actor: impl Into<String>,
    ) -> Result<u32, StoreError> {
        let (known, actor) = (self.known.clone(), actor.into());
        let work = async move |tx: &mut Tx<'_>| again(tx, &known, run, what, &actor).await;
        self.store.write(work).await
    }
}

async fn create(
    tx: &mut Tx<'_>,
    known: &Known,
    new: &NewRun,
    plan: &str,
) -> Result<Created, StoreError> {
    if let Some((key, window)) = &new.once
        && let Some(run) = seen_before(tx, key, *window).await?
    {
        return Ok(Created::Before(run));
    }
    let number = next_number(tx, new).await?;
    let run = insert_run(tx, new, number).await?;
    if let Some((key, _)) = &new.once {
        let sql = "UPDATE trigger_keys SET run_id = $2 WHERE key = $1";
        tx.execute(sql, &[key.into(), run.0.into()]).await?;
    }
    let attempt = Attempt {
        org: new.org,
        repo: new.repo,
        plan: keep(tx, plan).await?,
        context: keep(tx, &new.context).await?,
        actor: new.actor.clone(),
        trust: new.trust.clone(),
        class: new.class.word().to_owned(),
        priority: new.priority,
        created: tx.now(),
        jobs_made: 0,
        started: None,
        ended: None,
    };
    let facts = known.facts(tx, run, 1, &attempt).await?;
    let row = Run::new(run.0.unsigned_abs(), facts.plan.plan.clone());
    start(tx, Open::new(row, attempt, facts)).await?;
    Ok(Created::New(run))
}

/// Lets a fresh attempt begin.
async fn start(tx: &mut Tx<'_>, open: Open) -> Result<(), StoreError> {
    let run = open.id();
    let mut batch = Batch::default();
    batch.runs.insert(run, open);
    Work::single(run, Event::Start).drive(tx, &mut batch).await?;
    save::save(tx, &mut batch).await
}

/// The run that this key made within the window; otherwise the key is ours now.
async fn seen_before(
    tx: &mut Tx<'_>,
    key: &str,
    window: Duration,
) -> Result<Option<RunId>, StoreError> {
    let now = millis(tx.now());
    let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
    let taken = tx
        .row(
            "INSERT INTO trigger_keys (key, run_id, at) VALUES ($1, 0, $2)
             ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE trigger_keys.at <= $3
             RETURNING key",
            &[key.into(), now.into(), now.saturating_sub(window).into()],
        )
        .await?;
    if taken.is_some() {
        return Ok(None);
    }
    let sql = "SELECT run_id FROM trigger_keys WHERE key = $1";
    let row = tx.one("trigger", sql, &[key.into()]).await?;
    Ok(Some(RunId(row.get(0)?)))
}

async fn next_number(tx: &mut Tx<'_>, new: &NewRun) -> Result<i64, StoreError> {
    let row = tx
        .one(
            "workflow",
            "UPDATE workflows SET runs = runs + 1 WHERE id = $1 AND repo_id = $2 AND org_id = $3
             RETURNING runs",
            &[new.workflow.0.into(), new.repo.0.into(), new.org.0.into()],
        )
        .await?;
    row.get(0)
}

async fn insert_run(tx: &mut Tx<'_>, new: &NewRun, number: i64) -> Result<RunId, StoreError> {
    let row = tx
        .one(
            "run",
            "INSERT INTO runs (org_id, repo_id, workflow_id, run_number, root_run_id, event, actor,
                 trust, ref, head_sha, head_branch, title, status, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'queued', $13)
             RETURNING id",
            &[
                new.org.0.into(),
                new.repo.0.into(),
                new.workflow.0.into(),
                number.into(),
                new.root.map(|root| root.0).into(),
                (&new.event).into(),
                (&new.actor).into(),
                (&new.trust).into(),
                (&new.reference).into(),
                (&new.head_sha).into(),
                new.head_branch.as_deref().into(),
                (&new.title).into(),
                millis(tx.now()).into(),
            ],
        )
        .await?;
    Ok(RunId(row.get(0)?))
}

/// Keeps a text under its hash.
async fn keep(tx: &mut Tx<'_>, text: &str) -> Result<Arc<[u8]>, StoreError> {
    let hash: [u8; 32] = Sha256::digest(text).into();
    let sql = "INSERT INTO documents (hash, body, created_at) VALUES ($1, $2, $3)
               ON CONFLICT (hash) DO NOTHING";
    tx.execute(sql, &[hash[..].into(), text.into(), millis(tx.now()).into()]).await?;
    Ok(hash[..].into())
}

async fn again(
    tx: &mut Tx<'_>,
    known: &Known,
    run: RunId,
    what: Again,
    actor: &str,
) -> Result<u32, StoreError> {
    let mut batch = load::lock(tx, known, &[run].into()).await?;
    if !batch.runs.contains_key(&run) {
        return Err(Refusal::NotFound("run").into());
    }
    let wanted = run::Wanted { whole: true, ..run::Wanted::default() };
    load::bring(tx, &mut batch, &[(run, wanted)]).await?;
    let earlier = batch.runs.remove(&run).expect("it was found before");
    let hood = run::again(&earlier.hood, what)
        .map_err(|refused| Refusal::Conflict(refused.to_string()))?;
    let attempt = Attempt {
        actor: actor.to_owned(),
        priority: REBUILD,
        created: tx.now(),
        started: None,
        ended: None,
        ..earlier.attempt
    };
    let number = hood.run.attempt;
    let facts = known.facts(tx, run, number, &attempt).await?;
    let mut open = Open::new(hood.run.clone(), attempt, facts);
    open.hood = hood;
    open.at_hand.whole = true;
    start(tx, open).await?;
    Ok(number)
}
