//! Runs of real workflows in a store, whose runners the test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_core::id::{OrgId, QueueId, RepoId, RunId, RunnerId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::{Class, Policy};
use kiln_core::run::{Conclusion, Evaluator, Event};
use kiln_core::value::{Object, Value};
use kiln_lang::compile::{Library, LoadedFile, Lookup, NoLibrary, compile};
pub use kiln_lang::engine;
use kiln_lang::engine::Expressions;
use kiln_lang::source::SourceMap;
use kiln_lang::workflow::uses::CallTarget;
use kiln_store::claims::{self, Asking, Claimed};
use kiln_store::runs::{self, Answer, Evaluators, Happened, JobNews, NewRun, RunView, Runs, Word};
use kiln_store::{Actor, ActorKind, Duty, Scope, Sql, Store, StoreError, Tx};

/// What follows in this transaction, somebody writes who knows nothing of versions: a server from before them, or a person.
pub async fn like_others(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let sql = Sql::of("SELECT ''", "SELECT set_config('kiln.versions', '', true)");
    tx.rows(sql, &[]).await.map(drop)
}

/// Evaluates expressions as a server would, with a push to `main`.
#[derive(Debug)]
pub struct Pushed;

impl Evaluators for Pushed {
    fn evaluator(
        &self,
        _run: RunId,
        attempt: u32,
        _plan: &Arc<Plan>,
        _context: &str,
    ) -> Result<Arc<dyn Evaluator + Send + Sync>, String> {
        Ok(Arc::new(expressions().at_attempt(attempt)))
    }
}

/// What the expressions of a test see.
pub fn expressions() -> Expressions {
    let github: Object = [("ref", Value::from("refs/heads/main"))].into_iter().collect();
    Expressions { github, ..Expressions::default() }
}

/// A library of one workflow, whatever it is called.
#[derive(Debug)]
pub struct Callee(pub String);

impl Library for Callee {
    fn workflow(&self, _target: &CallTarget) -> Lookup {
        Lookup::Found(LoadedFile { path: "callee.yml".to_owned(), text: self.0.clone() })
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        None
    }
}

/// A workflow with what a companion adds to it.
#[derive(Debug)]
pub struct Beside(pub String);

impl Library for Beside {
    fn workflow(&self, _target: &CallTarget) -> Lookup {
        Lookup::OutOfReach
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        Some(LoadedFile { path: ".kiln/workflows/a.yml".to_owned(), text: self.0.clone() })
    }
}

/// Compiles a workflow that the test knows to be right.
pub fn plan(text: &str) -> Arc<Plan> {
    plan_with(text, &NoLibrary)
}

pub fn plan_with(text: &str, library: &dyn Library) -> Arc<Plan> {
    let compiled = compile(&mut SourceMap::new(), ".github/workflows/a.yml", text, library, None);
    Arc::new(compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics)))
}

/// A store with one organization, one repository and one workflow.
#[derive(Debug, Clone)]
pub struct Site {
    pub runs: Runs,
    pub org: OrgId,
    pub repo: RepoId,
    pub workflow: WorkflowId,
}

impl Site {
    pub async fn new(store: Store) -> Self {
        store.migrate().await.expect("the database is new");
        let (org, repo, workflow) = add_repository(&store, "acme", "app").await;
        let runs = Runs::new(store, Arc::new(Pushed));
        Self { runs, org, repo, workflow }
    }

    pub fn store(&self) -> &Store {
        self.runs.store()
    }

    /// A push that triggers this workflow.
    pub fn push(&self, plan: Arc<Plan>) -> NewRun {
        NewRun {
            org: self.org,
            repo: self.repo,
            workflow: self.workflow,
            root: None,
            event: "push".to_owned(),
            actor: "octocat".to_owned(),
            trust: "trusted".to_owned(),
            reference: "refs/heads/main".to_owned(),
            head_sha: "0".repeat(40),
            head_branch: Some("main".to_owned()),
            title: "a push".to_owned(),
            plan,
            context: "{}".to_owned(),
            class: Class::Normal,
            priority: 0,
            once: Vec::new(),
        }
    }

    /// Creates a run of these jobs, written as below `jobs:`.
    pub async fn run(&self, jobs: &str) -> RunId {
        let plan = plan(&format!("on: push\njobs:\n{jobs}"));
        self.runs.create(self.push(plan)).await.expect("the run is as it should be").run()
    }
}

/// Adds a repository with one workflow, and its organization if that is new.
pub async fn add_repository(store: &Store, org: &str, repo: &str) -> (OrgId, RepoId, WorkflowId) {
    let (org, repo) = (org.to_owned(), repo.to_owned());
    let work = async move |tx: &mut Tx<'_>| insert_repository(tx, &org, &repo).await;
    store.write(work).await.expect("the names are free")
}

async fn insert_repository(
    tx: &mut Tx<'_>,
    org: &str,
    repo: &str,
) -> Result<(OrgId, RepoId, WorkflowId), StoreError> {
    let sql = "INSERT INTO organizations (name, created_at, updated_at) VALUES ($1, 0, 0)
               ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id";
    let org: i64 = tx.one("organization", sql, &[org.into()]).await?.get(0)?;
    let sql = "INSERT INTO repositories (org_id, name, created_at, updated_at)
               VALUES ($1, $2, 0, 0) RETURNING id";
    let repo: i64 = tx.one("repository", sql, &[org.into(), repo.into()]).await?.get(0)?;
    let sql = "INSERT INTO workflows (org_id, repo_id, path, name, created_at, updated_at)
               VALUES ($1, $2, 'ci.yml', 'CI', 0, 0) RETURNING id";
    let workflow: i64 = tx.one("workflow", sql, &[org.into(), repo.into()]).await?.get(0)?;
    Ok((OrgId(org), RepoId(repo), WorkflowId(workflow)))
}

/// What runners do, one call each.
impl Site {
    /// All queues there are, as a runner that meets all requirements sees them.
    pub async fn queues(&self) -> Vec<QueueId> {
        let queues = self.store().read(async |tx| claims::queues(tx).await).await;
        queues.expect("the database is there").into_iter().map(|(queue, _)| queue).collect()
    }

    /// Claims up to this many jobs for a runner that can do everything.
    pub async fn claim(&self, runner: i64, want: u32) -> Vec<Claimed> {
        let nonce = format!("{runner}-{}", NONCE.fetch_add(1, Ordering::Relaxed));
        let queues = self.queues().await;
        let asking = Asking::new(RunnerId(runner), queues, want, nonce);
        self.claim_all(vec![asking]).await.remove(0)
    }

    pub async fn claim_all(&self, asking: Vec<Asking>) -> Vec<Vec<Claimed>> {
        let work =
            async move |tx: &mut Tx<'_>| Ok(claims::claim(tx, Policy::Fair, &asking).await?.jobs);
        self.store().write(work).await.expect("claims are well formed")
    }

    /// A runner says something about a job that it claimed.
    pub async fn say(&self, claimed: &Claimed, runner: i64, word: Word) -> Answer {
        let news = JobNews {
            job: claimed.job,
            claim: Some(claimed.claim),
            runner: Some(RunnerId(runner)),
            word,
            heard: None,
        };
        let mut answers = self.runs.happened(vec![Happened::Job(news)]).await.expect("it is heard");
        answers.remove(0)
    }

    /// Starts and ends a job in one go.
    pub async fn finish(&self, claimed: &Claimed, runner: i64, conclusion: Conclusion) -> Answer {
        let started = self.say(claimed, runner, Word::Started).await;
        assert_eq!(started, Answer::Accepted);
        self.say(claimed, runner, Word::Finished { conclusion, outputs: Vec::new() }).await
    }

    /// Something that happens to a run as a whole.
    pub async fn tell(&self, run: RunId, event: Event) -> Answer {
        let happened = vec![Happened::Run { run, event }];
        self.runs.happened(happened).await.expect("it is heard").remove(0)
    }

    pub async fn view(&self, run: RunId) -> RunView {
        let read = async move |tx: &mut Tx<'_>| runs::view(tx, SYSTEM, run, None).await;
        self.store().read(read).await.expect("the run exists")
    }
}

/// Whoever cancels runs and runs them again.
pub fn somebody() -> Actor {
    Actor::new(ActorKind::Person, "me")
}

/// Tests see everything.
pub const SYSTEM: Scope = Scope::System(Duty::Claims);

static NONCE: AtomicU64 = AtomicU64::new(0);
