//! Runs one job that was claimed, on the thread that it has for itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_core::plan::{Access, Plan, Scope};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_fault::Point;
use kiln_proto::job::Job;
use kiln_proto::report::{Allowed, Complete, Deployment, What};
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::action::{Mirror, Nodes, Resolver};
use crate::backend::{Backend, Dummy, OnHost};
use crate::job::environment::Environment;
use crate::job::mask::Masker;
use crate::job::{self, Contexts, Host, Report, Task, disk, write_event};
use crate::origin::{Origin, Served};
use crate::process::{Control, Tree};

use super::content::OnServer;
use super::http::Http;
use super::identity::Identity;
use super::metered::{Meter, Metered};
use super::mirrors::{Mirrors, Wanted};
use super::reporter::{Progress, SpoolReporter};
use super::room::{self, Room};
use super::spool::{Spool, State};

/// How long a job may take for which nobody sets a limit: GitHub's six hours.
const LONGEST: Duration = Duration::from_hours(6);

/// The bytes that all outputs of a job may have, as on GitHub.
const MOST_OUTPUTS: usize = 1 << 20;

/// How steps run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// As processes of this machine.
    #[default]
    Host,
    /// Only in name, for benches.
    Dummy,
}

impl BackendKind {
    fn backend(self) -> Box<dyn Backend> {
        match self {
            Self::Host => Box::new(OnHost),
            Self::Dummy => Box::new(Dummy),
        }
    }
}

/// What all jobs of a runner share.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) name: String,
    pub(super) data: PathBuf,
    pub(super) work: PathBuf,
    pub(super) backend: BackendKind,
    pub(super) inherited: Environment,
    pub(super) nodes: Arc<Nodes>,
    pub(super) actions: Option<Mirror>,
    pub(super) mirrors: Mirrors,
    /// All processes of all jobs belong to it.
    pub(super) tree: Tree,
}

/// One job on its way.
pub(super) struct Work {
    pub(super) shop: Arc<Shop>,
    pub(super) job: Box<Job>,
    pub(super) identity: Arc<Identity>,
    /// Whom its artifacts and caches go to.
    pub(super) http: Http,
    pub(super) runtime: Handle,
    /// Where its repository is fetched from.
    pub(super) url: String,
    pub(super) slot: usize,
    pub(super) control: Control,
    /// It must not begin any more.
    pub(super) unwanted: Arc<AtomicBool>,
    pub(super) progress: watch::Sender<Progress>,
}

/// Why a job cannot begin. `excused` if another runner may be able to.
struct Obstacle {
    message: String,
    excused: bool,
}

impl Obstacle {
    fn of_job(message: impl Into<String>) -> Self {
        Self { message: message.into(), excused: false }
    }

    fn of_runner(message: impl Into<String>) -> Self {
        Self { message: message.into(), excused: true }
    }
}

/// A job that can begin.
struct Ready {
    task: Task,
    host: Host,
    meter: Meter,
    /// Its repository could not be had.
    unfetched: Arc<AtomicBool>,
    room: Room,
}

impl Work {
    /// Runs the job to its end and writes down what happens. `started` is called when it begins,
    /// `finished` when its slot is free. The error says why it did not begin and must be given back.
    #[expect(clippy::disallowed_methods, reason = "how long something takes needs the clock")]
    pub(super) fn run(self, started: impl FnOnce(), finished: impl FnOnce()) -> Result<(), String> {
        let got = Instant::now();
        Point::RunnerClaimed.pass();
        let tree = self.shop.tree.child().map_err(|error| error.to_string())?;
        let spool = Spool::of(&self.shop.data, self.job.reference());
        let state = State {
            job: self.job.reference(),
            name: self.job.job_name.clone(),
            token: self.job.token.clone(),
            tree: tree.token().to_owned(),
        };
        let limit = self.job.limits.log_bytes;
        let reporter = spool
            .create(&state)
            .and_then(|()| SpoolReporter::new(&spool, limit, self.progress.clone()))
            .map_err(|error| format!("the runner cannot write to its data directory: {error}"))?;
        let prepared = self.prepare();
        if self.unwanted.load(Ordering::SeqCst) {
            if let Ok(ready) = &prepared {
                leave(&ready.room, || ());
            }
            return Err("the runner is stopping".to_owned());
        }
        match prepared {
            Ok(ready) => {
                started();
                let preparing_ms = u64::try_from(got.elapsed().as_millis()).ok();
                reporter.event(What::Started { preparing_ms });
                let complete = self.execute(&ready, &reporter, &tree);
                drop(ready.host);
                Point::RunnerEnded.pass();
                reporter.finish(complete);
                leave(&ready.room, finished);
            }
            Err(obstacle) => {
                reporter.error(&obstacle.message);
                let transient = obstacle.excused.then_some(obstacle.message);
                let conclusion = Conclusion::Failure.github().to_owned();
                reporter.finish(Complete { conclusion, transient, ..Complete::default() });
                finished();
            }
        }
        Ok(())
    }

    fn execute(&self, ready: &Ready, reporter: &SpoolReporter, tree: &Tree) -> Complete {
        let Ready { task, host, meter, unfetched, .. } = ready;
        let run = || job::run(task, host, reporter, &self.control, tree);
        let ran = catch_unwind(AssertUnwindSafe(|| match self.shop.backend {
            BackendKind::Host => meter.watching(tree, run),
            BackendKind::Dummy => run(),
        }));
        tree.sweep_leftovers();
        host.origin.stop();
        if self.shop.backend == BackendKind::Host {
            meter.saw_disk(disk::used(&[&task.places.workspace, &task.places.temp]));
        }
        let report = ran.unwrap_or_else(|_| {
            reporter.error("Kiln itself failed here; please report it");
            Report::of(Conclusion::Failure)
        });
        let unenforced = report.unenforced.clone();
        let mut complete = completed(report, meter);
        complete.allowed = Some(self.allowed(task, host, unenforced));
        let size: usize = complete.outputs.iter().map(|(name, it)| name.len() + it.len()).sum();
        if size > MOST_OUTPUTS {
            let most = MOST_OUTPUTS >> 20;
            reporter.error(&format!("the outputs of the job are larger than {most} MiB"));
            complete.outputs.clear();
            Conclusion::Failure.github().clone_into(&mut complete.conclusion);
        }
        if complete.conclusion == "failure" {
            let fetch = unfetched
                .load(Ordering::SeqCst)
                .then(|| "the repository could not be fetched from the server".to_owned());
            // A job that is over its own limit is so everywhere.
            let own = tree.cage().is_some_and(|cage| cage.out_of_memory() > 0);
            complete.transient = meter.excuse().filter(|_| !own).or(fetch);
        }
        if let Some(error) = reporter.failure() {
            // Nobody should trust half a log.
            Conclusion::Failure.github().clone_into(&mut complete.conclusion);
            complete.transient = Some(format!("the log could not be written: {error}"));
        }
        complete
    }

    /// What the job was allowed.
    fn allowed(&self, task: &Task, host: &Host, unenforced: Vec<String>) -> Allowed {
        let limits = task.steps().map(|steps| steps.limits.clone()).unwrap_or_default();
        Allowed {
            wall_seconds: Some(host.timeout.as_secs()),
            silence_seconds: host.silence.map(|limit| limit.as_secs()),
            log_bytes: Some(self.job.limits.log_bytes).filter(|limit| *limit > 0),
            cpu_millis: limits.cpu_millis,
            memory_mb: limits.memory_mb,
            disk_mb: limits.disk_mb,
            unenforced,
        }
    }

    /// All that the job needs, without asking anybody for anything: git waits until a step needs it.
    fn prepare(&self) -> Result<Ready, Obstacle> {
        let (job, shop) = (&*self.job, &*self.shop);
        let plan: Plan = serde_json::from_str(job.plan.get())
            .map_err(|error| Obstacle::of_job(format!("the plan cannot be read: {error}")))?;
        if plan.workflows.first().is_none_or(|workflow| workflow.jobs.is_empty()) {
            return Err(Obstacle::of_job("the plan has no job"));
        }
        let secrets = self.identity.keys.open(job.reference(), &job.secrets);
        let secrets = secrets.map_err(|error| Obstacle::of_runner(error.to_string()))?;
        let actions = shop.data.join("actions");
        let tools = shop.data.join("tools");
        let no_room = |error: io::Error| {
            let work = shop.work.display();
            Obstacle::of_runner(format!("the runner cannot make folders in `{work}`: {error}"))
        };
        let room =
            Room::enter(&shop.work, self.slot, &job.repo, &tools, &actions).map_err(no_room)?;
        let unfetched = Arc::new(AtomicBool::new(false));
        let origin = self.origin(&room, &secrets.visible, &unfetched)?;
        let mut masker = Masker::default();
        // What is too short to be masked is too short to be a secret.
        let visible = secrets.visible.iter().map(|(_, secret)| secret.as_str());
        let hidden = secrets.hidden.iter().map(String::as_str);
        let _ = masker.add_all(visible.chain(hidden).chain([origin.token(), &*job.token]));
        let mut contexts = contexts(job)?;
        let event = room.event();
        write_event(&contexts.github, &event).map_err(Obstacle::of_runner)?;
        let path = |path: &std::path::Path| Value::from(&*path.to_string_lossy());
        contexts.github.insert("workspace", path(&room.places.workspace));
        contexts.github.insert("event_path", path(&event));
        contexts.github.insert("token", origin.token().into());
        let task = Task {
            workflow: 0,
            job: 0,
            name: job.job_name.clone(),
            contexts,
            environment: job.environment.clone(),
            secrets: origin.with_token(secrets.visible),
            masker,
            may_identify: may_write(&plan, Scope::IdToken),
            reads_caches_only: job.reads_caches_only,
            may_write_actions: may_write(&plan, Scope::Actions),
            services: Arc::new(OnServer::new(
                self.http.clone(),
                self.runtime.clone(),
                job.reference(),
                &job.token,
            )),
            plan: Arc::new(plan),
            places: room.places.clone(),
        };
        let meter = Meter::new();
        let host = self.host(origin, actions, &meter);
        Ok(Ready { task, host, meter, unfetched, room })
    }

    fn host(&self, origin: Origin, actions: PathBuf, meter: &Meter) -> Host {
        let shop = &*self.shop;
        let limits = &self.job.limits;
        let seconds = |limit: u64| Some(Duration::from_secs(limit)).filter(|it| !it.is_zero());
        let inner = shop.backend.backend();
        let (meter, work) = (meter.clone(), shop.work.clone());
        Host {
            backend: Box::new(Metered { inner, meter, work }),
            inherited: shop.inherited.clone(),
            resolver: Resolver::new(shop.actions.clone(), actions),
            origin,
            name: shop.name.clone(),
            nodes: Arc::clone(&shop.nodes),
            timeout: seconds(limits.wall).unwrap_or(LONGEST),
            silence: seconds(limits.silence),
            clean_up: limits.clean_up.map_or(job::CLEAN_UP, Duration::from_secs),
        }
    }

    /// The repository for the actions of the job, fetched when the first of them asks.
    fn origin(
        &self,
        room: &Room,
        secrets: &[(String, String)],
        unfetched: &Arc<AtomicBool>,
    ) -> Result<Origin, Obstacle> {
        let job = &*self.job;
        let mirrors = self.shop.mirrors.clone();
        let mirror = mirrors.of(&job.repo).map_err(Obstacle::of_job)?;
        let wanted = Wanted {
            repo: job.repo.clone(),
            url: self.url.clone(),
            token: job.token.clone(),
            commit: job.source.commit.clone(),
            run: job.run_id,
        };
        let unfetched = Arc::clone(unfetched);
        let fetch = Box::new(move || {
            let fetched = mirrors.fetch(&wanted);
            unfetched.fetch_or(fetched.is_err(), Ordering::SeqCst);
            fetched
        });
        let served = Served::fetched(&mirror, fetch, room.places.scripts.join("repository.git"));
        let (commit, reference) = (&job.source.commit, &job.source.reference);
        Origin::new(served, &job.repo, commit, reference, secrets)
            .map_err(|error| Obstacle::of_runner(error.to_string()))
    }
}

/// Gives the slot free, then removes what the job left.
fn leave(room: &Room, finished: impl FnOnce()) {
    let away = room.leave();
    finished();
    match away {
        Ok(away) => away.iter().for_each(|path| room::remove(path)),
        // The next job in this slot tries again, and does not begin before it worked.
        Err(error) => tracing::warn!("cannot clear up after a job: {error}"),
    }
}

fn completed(report: Report, meter: &Meter) -> Complete {
    Complete {
        conclusion: match report.conclusion {
            Conclusion::StartupFailure => Conclusion::Failure.github().to_owned(),
            other => other.github().to_owned(),
        },
        outputs: report.outputs.into_iter().collect(),
        deployment: report.deployment.map(|deployment| Deployment {
            environment: deployment.environment,
            url: deployment.url,
        }),
        used: meter.used(),
        ..Complete::default()
    }
}

/// Whether the only job of a plan was given this. The server decides; this only tells actions.
fn may_write(plan: &Plan, scope: Scope) -> bool {
    let root = plan.root();
    let said = root.jobs.first().and_then(|job| job.permissions.as_ref());
    let said = said.or(root.permissions.as_ref());
    said.is_some_and(|said| said.get(scope) == Access::Write)
}

fn contexts(job: &Job) -> Result<Contexts, Obstacle> {
    let read = |name: &str, raw: &RawValue| {
        serde_json::from_str::<Object>(raw.get())
            .map_err(|error| Obstacle::of_job(format!("the context `{name}`: {error}")))
    };
    let given = &job.contexts;
    Ok(Contexts {
        github: read("github", &given.github)?,
        vars: read("vars", &given.vars)?,
        inputs: read("inputs", &given.inputs)?,
        needs: read("needs", &given.needs)?,
        matrix: read("matrix", &given.matrix)?,
        strategy: read("strategy", &given.strategy)?,
    })
}
