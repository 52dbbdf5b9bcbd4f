//! The beginning of a run, and of a further attempt.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{OrgId, RepoId, RunId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::Class;
use kiln_core::run::{self, Again, Event, Neighbourhood, Run};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::assignments::RunFacts;
use super::change::Work;
use super::facts::Known;
use super::open::{Batch, Open};
use super::rows::{Attempt, FromStep};
use super::{Runs, failed, load, save, view};
use crate::directory::audit::{self, Deed};
use crate::directory::documents::{self, Hash};
use crate::directory::{names, workflows};
use crate::tx::millis;
use crate::{Actor, Refusal, Scope, StoreError, Tx};

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
    /// A trigger with one of these keys in the same repository within its time makes no second run: see
    /// [`Self::fingerprint`] and [`Self::callers_key`].
    pub once: Vec<(String, Duration)>,
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

/// Events that somebody or a timetable asks for: each is meant, however soon it follows the last.
const MEANT: [&str; 3] = ["workflow_dispatch", "repository_dispatch", "schedule"];

/// How long a forge may tell the same event again.
const TOLD_AGAIN: Duration = Duration::from_mins(5);
/// How long a caller may ask again with the same key.
const ASKED_AGAIN: Duration = Duration::from_hours(24);

impl NewRun {
    /// For [`Self::once`]: a forge that tells the same event twice within five minutes means one run of
    /// the workflow for the commit and ref. `None` for manual and scheduled runs.
    pub fn fingerprint(&self) -> Option<(String, Duration)> {
        let is_meant = MEANT.contains(&self.event.as_str());
        (!is_meant).then(|| self.fingerprint_within(TOLD_AGAIN, &[]))
    }

    /// For [`Self::once`], on request: one run of the workflow for the event, commit, ref and these inputs within
    /// a time, also of manual runs.
    pub fn fingerprint_within(
        &self,
        window: Duration,
        inputs: &[(String, String)],
    ) -> (String, Duration) {
        let Self { workflow, event, reference, head_sha, .. } = self;
        let mut parts = json!([workflow.0, event, reference, head_sha]);
        if let (false, Some(parts)) = (inputs.is_empty(), parts.as_array_mut()) {
            parts.push(json!(inputs));
        }
        (format!("fingerprint {}", Hash::of(&parts.to_string())), window)
    }

    /// For [`Self::once`]: the key with which a caller may ask for the same run of the workflow again
    /// within a day, as HTTP's `Idempotency-Key`.
    pub fn callers_key(&self, key: &str) -> (String, Duration) {
        let parts = json!([self.workflow.0, key]).to_string();
        (format!("caller {}", Hash::of(&parts)), ASKED_AGAIN)
    }

    /// Refuses texts that cannot be kept, before anything is written.
    fn check(&self) -> Result<(), StoreError> {
        let branch = self.head_branch.as_deref().unwrap_or_default();
        names::text("an event", &self.event, 100)?;
        names::text("an actor", &self.actor, 255)?;
        names::text("a degree of trust", &self.trust, 100)?;
        names::text("a ref", &self.reference, 1_000)?;
        names::text("the hash of a commit", &self.head_sha, 100)?;
        names::text("a branch", branch, 1_000)?;
        names::text("the title of a run", &self.title, 4_000)?;
        documents::check(&self.context)?;
        self.once.iter().try_for_each(|(key, _)| names::line("the key of a trigger", key, 500))
    }

    pub(super) fn plan_text(&self) -> Result<Arc<str>, StoreError> {
        let text = serde_json::to_string(&*self.plan)
            .map_err(|error| Refusal::Invalid(format!("the plan cannot be kept: {error}")))?;
        documents::check(&text)?;
        Ok(text.into())
    }
}

impl Runs {
    /// Creates a run and starts it: what needs nothing is in the queue when this returns.
    ///
    /// After [`StoreError::InDoubt`] nobody knows whether there is a run. Who asks again then must give
    /// [`NewRun::once`], or there may be two.
    pub async fn create(&self, new: NewRun) -> Result<Created, StoreError> {
        let (known, plan) = (self.known.clone(), new.plan_text()?);
        let work = async move |tx: &mut Tx<'_>| create(tx, &known, &new, &plan).await;
        self.store.write(work).await
    }

    /// Creates a run with whatever else the transaction does, so that neither is without the other: the
    /// schedule that moves on, the delivery that is handled. A refusal leaves no trace, so the rest may go
    /// on without the run.
    pub async fn create_in(&self, tx: &mut Tx<'_>, new: &NewRun) -> Result<Created, StoreError> {
        create(tx, &self.known, new, &new.plan_text()?).await
    }

    /// Runs a run that ended again, or a part of it, as a further attempt. It goes first.
    pub async fn again(
        &self,
        scope: Scope,
        actor: &Actor,
        run: RunId,
        what: Again,
    ) -> Result<u32, StoreError> {
        self.again_from(scope, actor, run, what, None).await
    }

    /// The same of one job, or one leg, that begins at a step; what depends on it runs whole.
    pub async fn again_from(
        &self,
        scope: Scope,
        actor: &Actor,
        run: RunId,
        what: Again,
        step: Option<u32>,
    ) -> Result<u32, StoreError> {
        let (known, actor) = (self.known.clone(), actor.clone());
        let work = async move |tx: &mut Tx<'_>| {
            let whose = view::visible(tx, scope, run).await?;
            workflows::may_start(tx, Scope::Org(whose.org), whose.workflow).await?;
            let number = again(tx, &known, run, (what, step), &actor.shown()).await?;
            let mut detail = json!({ "attempt": number, "what": word_of(what) });
            if let Some(step) = step {
                detail["from_step"] = json!(step);
            }
            let deed = Deed { org: Some(whose.org), action: "run.again", subject: run.0, detail };
            audit::record(tx, &actor, deed).await?;
            Ok(number)
        };
        self.store.write(work).await
    }
}

async fn create(
    tx: &mut Tx<'_>,
    known: &Known,
    new: &NewRun,
    plan: &str,
) -> Result<Created, StoreError> {
    match begin(tx, known, new, plan).await? {
        Begun::Before(run) => Ok(Created::Before(run)),
        Begun::New(open) => {
            let run = open.id();
            start(tx, known, *open).await?;
            Ok(Created::New(run))
        }
    }
}

/// A run that is about to start, unless the same trigger made one before.
pub(super) enum Begun {
    New(Box<Open>),
    Before(RunId),
}

pub(super) async fn begin(
    tx: &mut Tx<'_>,
    known: &Known,
    new: &NewRun,
    plan: &str,
) -> Result<Begun, StoreError> {
    new.check()?;
    if workflows::may_start(tx, Scope::Org(new.org), new.workflow).await? != new.repo {
        return Err(Refusal::NotFound("workflow").into());
    }
    for (at, once) in new.once.iter().enumerate() {
        if let Some(run) = seen_before(tx, new.repo, once).await? {
            stand_for(tx, new.repo, &new.once[..at], run).await?;
            return Ok(Begun::Before(run));
        }
    }
    let number = workflows::next_run_number(tx, Scope::Org(new.org), new.workflow).await?;
    let run = insert_run(tx, new, number).await?;
    stand_for(tx, new.repo, &new.once, run).await?;
    let attempt = Attempt {
        org: new.org,
        repo: new.repo,
        plan: documents::put(tx, plan).await?,
        context: documents::put(tx, &new.context).await?,
        actor: new.actor.clone(),
        trust: new.trust.clone(),
        class: new.class.word().to_owned(),
        priority: new.priority,
        created: tx.now(),
        from: None,
        jobs_made: 0,
        started: None,
        ended: None,
        version: 0,
    };
    known.ready.note_run(tx, first_facts(new, run, number, tx.now()));
    let facts = known.facts(tx, run, 1, &attempt).await?;
    let row = Run::new(run.0.unsigned_abs(), facts.plan.plan.clone());
    Ok(Begun::New(Box::new(Open::new(row, attempt, facts))))
}

/// What stays as it is of a new run. Where it belongs is looked up with each claim.
fn first_facts(new: &NewRun, id: RunId, number: i64, created: Timestamp) -> RunFacts {
    RunFacts {
        id,
        number,
        attempt: 1,
        root: new.root,
        event: new.event.clone(),
        actor: new.actor.clone(),
        triggering_actor: new.actor.clone(),
        trust: new.trust.clone(),
        reference: new.reference.clone(),
        head_sha: new.head_sha.clone(),
        head_branch: new.head_branch.clone(),
        title: new.title.clone(),
        created,
        org: new.org,
        org_name: String::new(),
        repo: new.repo,
        repo_name: String::new(),
        default_branch: String::new(),
        clone_url: None,
        workflow: new.workflow,
        workflow_path: String::new(),
        workflow_name: String::new(),
        has_secrets: false,
        from: None,
    }
}

/// Lets a fresh attempt begin.
async fn start(tx: &mut Tx<'_>, known: &Known, open: Open) -> Result<(), StoreError> {
    let run = open.id();
    let mut batch = Batch::default();
    batch.runs.insert(run, Box::new(open));
    Work::single(run, Event::Start).drive(tx, &mut batch).await?;
    save::save(tx, known, &mut batch).await
}

/// The run that this key made in the repository within the window; otherwise the key is ours now.
async fn seen_before(
    tx: &mut Tx<'_>,
    repo: RepoId,
    (key, window): &(String, Duration),
) -> Result<Option<RunId>, StoreError> {
    let now = millis(tx.now());
    let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
    let taken = tx
        .row(
            "INSERT INTO trigger_keys (repo_id, key, run_id, at) VALUES ($1, $2, 0, $3)
             ON CONFLICT (key, repo_id) DO UPDATE SET at = excluded.at WHERE trigger_keys.at <= $4
             RETURNING key",
            &[repo.into(), key.into(), now.into(), now.saturating_sub(window).into()],
        )
        .await?;
    if taken.is_some() {
        return Ok(None);
    }
    let sql = "SELECT run_id FROM trigger_keys WHERE repo_id = $1 AND key = $2";
    let row = tx.one("trigger", sql, &[repo.into(), key.into()]).await?;
    Ok(Some(RunId(row.get(0)?)))
}

/// These keys, which are ours, lead to this run from now on, and have its time: by that they go with it.
async fn stand_for(
    tx: &mut Tx<'_>,
    repo: RepoId,
    keys: &[(String, Duration)],
    run: RunId,
) -> Result<(), StoreError> {
    for (key, _) in keys {
        let sql =
            "UPDATE trigger_keys SET run_id = $3, at = (SELECT created_at FROM runs WHERE id = $3)
                   WHERE repo_id = $1 AND key = $2";
        tx.execute(sql, &[repo.into(), key.into(), run.into()]).await?;
    }
    Ok(())
}

/// Remembers what was asked under the key of a caller, whatever workflows it started. To be called in the transaction
/// of its runs, one of which is named: where the key was for another request, they are refused with it.
pub async fn asked(
    tx: &mut Tx<'_>,
    repo: RepoId,
    key: &str,
    request: &str,
    run: RunId,
) -> Result<(), StoreError> {
    let key = format!("request {}", Hash::of(key));
    let request = Hash::of(request).to_string();
    let window = i64::try_from(ASKED_AGAIN.as_millis()).unwrap_or(i64::MAX);
    let over = millis(tx.now()).saturating_sub(window);
    let values = [repo.into(), (&key).into(), run.into(), (&request).into(), over.into()];
    let sql = "INSERT INTO trigger_keys (repo_id, key, run_id, at, request)
                   SELECT $1, $2, id, created_at, $4 FROM runs WHERE id = $3
               ON CONFLICT (key, repo_id) DO UPDATE SET at = excluded.at, run_id = excluded.run_id,
                   request = excluded.request WHERE trigger_keys.at <= $5
               RETURNING key";
    if tx.row(sql, &values).await?.is_some() {
        return Ok(());
    }
    let sql = "SELECT request FROM trigger_keys WHERE repo_id = $1 AND key = $2";
    let row = tx.one("trigger", sql, &[repo.into(), key.into()]).await?;
    if row.get::<Option<String>>(0)?.is_none_or(|before| before == request) {
        return Ok(());
    }
    let message = "this `Idempotency-Key` was used for another request within the last day; the same key is for the \
                   same request again: give this one a key of its own";
    Err(Refusal::Invalid(message.to_owned()).into())
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

/// For the audit log.
fn word_of(what: Again) -> serde_json::Value {
    match what {
        Again::All => json!("all"),
        Again::Failed => json!("failed"),
        Again::Node(node) => json!({ "node": node }),
        Again::Leg(leg) => json!({ "leg": leg }),
    }
}

async fn again(
    tx: &mut Tx<'_>,
    known: &Known,
    run: RunId,
    (what, step): (Again, Option<u32>),
    actor: &str,
) -> Result<u32, StoreError> {
    let mut batch = load::lock(tx, known, &[run].into()).await?;
    if !batch.runs.contains_key(&run) {
        return Err(Refusal::NotFound("run").into());
    }
    let wanted = run::Wanted { whole: true, ..run::Wanted::default() };
    load::bring(tx, &mut batch, &[(run, wanted)]).await?;
    let earlier = batch.runs.remove(&run).expect("it was found before");
    failed::may_run_again(&earlier.facts.plan.plan)?;
    let hood = run::again(&earlier.hood, what)
        .map_err(|refused| Refusal::Conflict(refused.to_string()))?;
    let from = step.map(|step| begins_late(&hood, what, step)).transpose()?;
    let attempt = Attempt {
        actor: actor.to_owned(),
        priority: REBUILD,
        created: tx.now(),
        from,
        started: None,
        ended: None,
        ..earlier.attempt
    };
    let number = hood.run.attempt;
    let facts = known.facts(tx, run, number, &attempt).await?;
    let mut open = Open::new(hood.run.clone(), attempt, facts);
    open.hood = hood;
    open.at_hand.whole = true;
    start(tx, known, open).await?;
    Ok(number)
}

/// The job that begins at a step.
fn begins_late(hood: &Neighbourhood, what: Again, step: u32) -> Result<FromStep, StoreError> {
    let node = match what {
        Again::Node(node) => Some(node),
        Again::Leg(leg) => hood.legs.get(&leg).map(|leg| leg.node),
        Again::All | Again::Failed => None,
    };
    let one = || Refusal::Invalid("only one job can begin at a step".to_owned());
    Ok(FromStep { node: node.ok_or_else(one)?, step })
}
