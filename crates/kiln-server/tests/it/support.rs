//! A server in this process over real HTTP, with repositories in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_core::id::{OrgId, PoolId, RepoId, RunId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::{Class, Policy};
use kiln_core::time::Timestamp;
use kiln_core::value::{Object, Value};
use kiln_server::app::{App, Shared};
use kiln_server::auth::Bearers;
use kiln_server::bus::Bus;
use kiln_server::config::{Config, Place as Bytes};
use kiln_server::fleet::{Fleet, Rates};
use kiln_server::logs::objects::ObjectLogs;
use kiln_server::logs::tails::Tails;
use kiln_server::logs::{FileLogs, Logs};
use kiln_server::seal::{Key, Letters, Vault};
use kiln_server::service::blobs::Arrivals;
use kiln_server::service::context::{Context, Contexts};
use kiln_server::service::job::Texts;
use kiln_server::service::log::room::Rooms;
use kiln_server::service::log::usage::LogUses;
use kiln_server::sources::{CommitInfo, Location, Resolved, SourceError, Sources, Workflows};
use kiln_server::storage::Storage;
use kiln_server::tasks::Board;
use kiln_server::token::{Kind, Secret, Signer};
use kiln_store::directory::{organizations, pools, registration_keys, repositories, workflows};
use kiln_store::runs::{NewRun, Runs};
use kiln_store::{Actor, ActorKind, Duty, Scope, Traffic, Tx};
use kiln_testkit::database::Database;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SYSTEM: Scope = Scope::System(Duty::Administration);

pub(crate) fn somebody() -> Actor {
    Actor::new(ActorKind::Person, "ada")
}

/// A server that listens, and all that keeps it going.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) app: Shared,
    pub(crate) address: SocketAddr,
    pub(crate) sources: Arc<MemorySources>,
    pub(crate) database: Database,
    pub(crate) client: reqwest::Client,
    serving: JoinHandle<()>,
    _data: TempDir,
}

/// What a test may want otherwise.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rates: Rates,
    pub(crate) log_bytes: u64,
    pub(crate) allow_shared_host: bool,
    pub(crate) authentication: bool,
    /// A folder for logs that several servers share.
    pub(crate) logs: Option<PathBuf>,
    pub(crate) grace: Duration,
    /// Where bytes lie; in a folder unless it is said.
    pub(crate) bytes: Option<kiln_server::config::Place>,
    /// How long what runs of each kind leave is kept.
    pub(crate) of_kind: kiln_server::config::OfKind,
    pub(crate) keep_logs: Duration,
    /// After how long a viewer that takes nothing is cut off.
    pub(crate) slow_viewer: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rates: Rates::default(),
            log_bytes: 64 << 20,
            allow_shared_host: false,
            authentication: true,
            logs: None,
            grace: Duration::from_hours(24),
            bytes: None,
            of_kind: kiln_server::config::OfKind::default(),
            keep_logs: Duration::from_hours(90 * 24),
            slow_viewer: Duration::from_secs(30),
        }
    }
}

impl Server {
    pub(crate) async fn start(database: Database) -> Self {
        Self::with(database, Options::default()).await
    }

    pub(crate) async fn with(database: Database, options: Options) -> Self {
        let store = database.open();
        store.migrate().await.unwrap();
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sources = Arc::new(MemorySources::default());
        let runs = Runs::new(store.clone(), Arc::new(Contexts));
        let bus = Bus::start(&store, Duration::from_secs(2));
        let signer = Signer::new(b"the key of a test");
        let mut bytes = Config::in_folder(data.path()).storage;
        bytes.grace = options.grace;
        bytes.place = options.bytes.unwrap_or(bytes.place);
        let mut content = Config::in_folder(data.path()).content;
        content.of_kind = options.of_kind;
        let storage = Storage::open(&bytes, &signer).unwrap();
        let folder = options.logs.unwrap_or_else(|| data.path().join("logs"));
        // Where bytes go to S3, logs go there, too.
        let logs: Arc<dyn Logs> = match &bytes.place {
            Bytes::S3(_) => {
                Arc::new(ObjectLogs::new(Arc::clone(storage.backend()), options.log_bytes))
            }
            Bytes::Folder(_) => Arc::new(FileLogs::new(folder, options.log_bytes)),
        };
        let app = Arc::new(App {
            letters: Letters::default(),
            texts: Texts::default(),
            storage,
            config: Config {
                listen: address,
                public_url: format!("http://{address}"),
                database: database.options.clone(),
                data: data.path().to_owned(),
                authentication: options.authentication,
                allow_shared_host: options.allow_shared_host,
                log_bytes: options.log_bytes,
                keep_logs: options.keep_logs,
                storage: bytes.clone(),
                content,
                ..Config::in_folder(data.path())
            },
            traffic: Traffic::new(&runs, Policy::Fair),
            runs,
            signer,
            vault: Vault::new(Key::generate(), Vec::new()),
            logs,
            workflows: Workflows::new(Arc::clone(&sources) as Arc<dyn Sources>),
            tails: Tails::start(&store, &bus).cutting_after(options.slow_viewer),
            rooms: Rooms::default(),
            fleet: Fleet::start(&store, &bus, options.rates),
            bus,
            bearers: Bearers::default(),
            arrivals: Arrivals::default(),
            log_uses: LogUses::default(),
            board: Board::default(),
            probe: kiln_server::http::health::Probe::new(),
            stopping: CancellationToken::new(),
            store,
        });
        let front = kiln_server::http::Front::new(Arc::clone(&app));
        let router = axum::Router::new().fallback(move |request| front.answer(request));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        // Tests look at answers as they are.
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { app, address, sources, database, client, serving, _data: data }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// An organization and a repository with a workflow `ci`, whose files are in memory.
    pub(crate) async fn repository(&self, org: &str, name: &str) -> Place {
        let (org_name, repo_name) = (org.to_owned(), name.to_owned());
        let work = async move |tx: &mut Tx<'_>| {
            let actor = somebody();
            let org = match organizations::by_name(tx, SYSTEM, &org_name).await {
                Ok(found) => found.id,
                Err(_) => {
                    let new = organizations::NewOrganization::named(&org_name);
                    organizations::create(tx, &actor, new).await?
                }
            };
            let mut new = repositories::NewRepository::named(org, &repo_name);
            new.clone_url = Some(format!("/in/memory/{org_name}/{repo_name}"));
            let repo = repositories::create(tx, SYSTEM, &actor, new).await?;
            let found = workflows::FoundWorkflow {
                path: ".github/workflows/ci.yml".to_owned(),
                name: "CI".to_owned(),
                triggers: "{}".to_owned(),
            };
            let workflow = workflows::upsert(tx, SYSTEM, &actor, repo, found).await?;
            Ok((org, repo, workflow))
        };
        let (org_id, repo, workflow) = self.app.store.write(work).await.unwrap();
        Place { org: org_id, repo, workflow, name: format!("{org}/{name}") }
    }

    /// A pool with a key to it that can be used any number of times.
    pub(crate) async fn pool(&self, org: Option<OrgId>, name: &str) -> (PoolId, String) {
        let new = pools::NewPool { org, name: name.to_owned(), settings: "{}".to_owned() };
        let work =
            async move |tx: &mut Tx<'_>| pools::create(tx, SYSTEM, &somebody(), new.clone()).await;
        let pool = self.app.store.write(work).await.unwrap();
        (pool, self.key(pool, None, Duration::from_mins(1)).await)
    }

    /// A key that lets runners into a pool.
    pub(crate) async fn key(&self, pool: PoolId, uses: Option<i64>, valid: Duration) -> String {
        let secret = Secret::new(Kind::RegistrationKey);
        let hash = secret.hash();
        let work = async move |tx: &mut Tx<'_>| {
            let expires_at = tx.now() + valid;
            let hash = hash.clone();
            let new = registration_keys::NewRegistrationKey { pool, hash, expires_at, uses };
            registration_keys::create(tx, SYSTEM, &somebody(), new).await
        };
        self.app.store.write(work).await.unwrap();
        secret.reveal().to_owned()
    }

    /// A run of these jobs, written as below `jobs:`.
    pub(crate) async fn run(&self, place: &Place, jobs: &str) -> RunId {
        self.run_plan(place, kiln_testkit::runs::plan(&format!("on: push\njobs:\n{jobs}"))).await
    }

    pub(crate) async fn run_plan(&self, place: &Place, plan: Arc<Plan>) -> RunId {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        let github: Object = [
            ("event_name", Value::from("push")),
            ("ref", Value::from("refs/heads/main")),
            ("sha", Value::from(sha)),
        ]
        .into_iter()
        .collect();
        let context = Context { github, ..Context::default() }.write();
        let new = NewRun {
            org: place.org,
            repo: place.repo,
            workflow: place.workflow,
            root: None,
            event: "push".to_owned(),
            actor: "octocat".to_owned(),
            trust: "trusted".to_owned(),
            reference: "refs/heads/main".to_owned(),
            head_sha: sha.to_owned(),
            head_branch: Some("main".to_owned()),
            title: "a push".to_owned(),
            plan,
            context,
            class: Class::Normal,
            priority: 0,
            once: Vec::new(),
        };
        self.app.runs.create(new).await.unwrap().run()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.stopping.cancel();
        self.serving.abort();
    }
}

/// A repository of a test.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) org: OrgId,
    pub(crate) repo: RepoId,
    pub(crate) workflow: WorkflowId,
    /// `owner/name`.
    pub(crate) name: String,
}

/// Repositories that are lists of files.
#[derive(Debug, Default)]
pub(crate) struct MemorySources(Mutex<HashMap<String, Files>>);

#[derive(Debug, Default)]
struct Files {
    commits: Vec<(String, BTreeMap<String, Vec<u8>>, CommitInfo)>,
    /// Full refs to commits.
    references: BTreeMap<String, String>,
}

impl MemorySources {
    /// A commit with all these files on a branch, after what was there. Says its id.
    pub(crate) fn commit(&self, source: &str, branch: &str, files: &[(&str, &str)]) -> String {
        let mut repositories = self.0.lock().unwrap();
        let repository = repositories.entry(source.to_owned()).or_default();
        let id = format!("{:040x}", repository.commits.len() + 1);
        let reference = format!("refs/heads/{branch}");
        let before = repository.references.insert(reference, id.clone());
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        let about = CommitInfo {
            message: format!("Commit {id}"),
            author_name: "Ada".to_owned(),
            author_email: "ada@example.com".to_owned(),
            authored_at: "2026-01-02T03:04:05+00:00".to_owned(),
            parents: before.into_iter().collect(),
        };
        repository.commits.push((id.clone(), files.collect(), about));
        id
    }

    fn of<T>(
        &self,
        repository: &Location,
        look: impl FnOnce(&Files) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let repositories = self.0.lock().unwrap();
        match repositories.get(&repository.source) {
            Some(files) => look(files),
            None => Err(SourceError::Broken(format!("cannot read `{}`", repository.source))),
        }
    }

    fn at<T>(
        &self,
        repository: &Location,
        commit: &str,
        look: impl FnOnce(&BTreeMap<String, Vec<u8>>, &CommitInfo) -> T,
    ) -> Result<T, SourceError> {
        self.of(repository, |files| {
            let found = files.commits.iter().find(|(id, ..)| id == commit);
            let missing = || SourceError::NotFound(format!("there is no commit `{commit}`"));
            found.map(|(_, files, about)| look(files, about)).ok_or_else(missing)
        })
    }
}

impl Sources for MemorySources {
    fn refresh(&self, repository: &Location) -> Result<(), SourceError> {
        self.of(repository, |_| Ok(()))
    }

    fn default_branch(&self, repository: &Location) -> Result<String, SourceError> {
        self.of(repository, |files| {
            let main = files.references.keys().find(|name| *name == "refs/heads/main");
            let found = main.or_else(|| files.references.keys().next());
            let name = found.and_then(|name| name.strip_prefix("refs/heads/"));
            name.map(ToOwned::to_owned).ok_or_else(|| SourceError::NotFound("no branch".to_owned()))
        })
    }

    fn resolve(&self, repository: &Location, name: &str) -> Result<Resolved, SourceError> {
        self.of(repository, |files| {
            let full = [name.to_owned(), format!("refs/heads/{name}"), format!("refs/tags/{name}")];
            for reference in full {
                if let Some(commit) = files.references.get(&reference) {
                    return Ok(Resolved { commit: commit.clone(), reference: Some(reference) });
                }
            }
            let found = files.commits.iter().find(|(id, ..)| id == name);
            let missing = || SourceError::NotFound(format!("there is no `{name}`"));
            found
                .map(|(id, ..)| Resolved { commit: id.clone(), reference: None })
                .ok_or_else(missing)
        })
    }

    fn list(
        &self,
        repository: &Location,
        commit: &str,
        folder: &str,
    ) -> Result<Vec<String>, SourceError> {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        self.at(repository, commit, |files, _| {
            files.keys().filter(|path| path.starts_with(&folder)).cloned().collect()
        })
    }

    fn read(
        &self,
        repository: &Location,
        commit: &str,
        paths: &[String],
        limit: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, SourceError> {
        self.at(repository, commit, |files, _| {
            let text = |path| files.get(path).filter(|text| text.len() <= limit).cloned();
            paths.iter().map(text).collect()
        })
    }

    fn commit(&self, repository: &Location, commit: &str) -> Result<CommitInfo, SourceError> {
        self.at(repository, commit, |_, about| about.clone())
    }

    fn changed(
        &self,
        repository: &Location,
        before: &str,
        after: &str,
    ) -> Result<Option<Vec<String>>, SourceError> {
        self.of(repository, |files| {
            let at = |id: &str| files.commits.iter().find(|(own, ..)| own == id);
            let (Some(before), Some(after)) = (at(before), at(after)) else { return Ok(None) };
            let paths: BTreeSet<&String> = before.1.keys().chain(after.1.keys()).collect();
            let differs = |path: &&String| before.1.get(*path) != after.1.get(*path);
            Ok(Some(paths.into_iter().filter(differs).cloned().collect()))
        })
    }

    /// All commits are of one line.
    fn is_part_of(
        &self,
        repository: &Location,
        commit: &str,
        of: &str,
    ) -> Result<bool, SourceError> {
        self.of(repository, |files| {
            let at = |id: &str| files.commits.iter().position(|(own, ..)| own == id);
            Ok(at(commit).is_some_and(|commit| at(of).is_some_and(|of| commit <= of)))
        })
    }

    /// Not git's protocol: what comes back shows what was asked.
    fn upload_pack(
        &self,
        repository: &Location,
        protocol: Option<&str>,
        body: Option<Vec<u8>>,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), SourceError> {
        self.of(repository, |_| Ok(()))?;
        let protocol = protocol.unwrap_or("none");
        let asked = match body {
            None => "refs".to_owned(),
            Some(body) => String::from_utf8_lossy(&body).into_owned(),
        };
        let answer = format!("{} {protocol} {asked}", repository.source);
        write(answer.as_bytes()).map_err(|error| SourceError::Broken(error.to_string()))
    }
}

/// A time of the database's that is this far away.
pub(crate) fn from_now(duration: Duration) -> Timestamp {
    kiln_server::clock::now() + duration
}
