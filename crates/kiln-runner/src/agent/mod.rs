//! A runner of the fleet: registers with a server, claims jobs, runs them, and tells what happened.
//!
//! [`Agent::run`] is one loop that owns the [`Dispatcher`](dispatcher::Dispatcher): what it decides is
//! done by a thread for each job that runs, a task for each job that is delivered, and two tasks that
//! talk with the server ([`talk`]). What is to be told of a job is on disk first ([`spool`]), so that
//! neither a server that is away nor a runner that is killed loses it.

mod backoff;
mod capabilities;
mod clock;
mod content;
mod delivery;
mod dispatcher;
mod ends;
mod execute;
mod health;
mod http;
mod identity;
mod lead;
mod limit;
mod metered;
mod mirrors;
mod options;
mod packs;
mod reporter;
mod room;
mod seal;
mod session;
mod spool;
mod talk;

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use kiln_proto::job::{Job, JobRef};
use kiln_proto::runner::Command;
use tokio::sync::{oneshot, watch};

use crate::process::{Guard, Tree};

pub use capabilities::detect;
pub use dispatcher::Stop;
pub use execute::BackendKind;
pub use health::Bounds;
pub use identity::Identity;
pub use options::Options;

use execute::Shop;
use health::Gauge;
use http::Http;
use lead::Lead;
use mirrors::Mirrors;
use session::{Card, Session};
use spool::Spool;

/// Why a runner cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("this runner is not registered yet; give it a key with `--key` or KILN_RUNNER_KEY")]
    NoKey,
    /// The server says what would help: another key, or another kind of runner.
    #[error("the server does not let this runner in: {0}")]
    KeyRefused(String),
    #[error("the server does not know this runner any more: {0}; register it again with `--key`")]
    CredentialRefused(String),
    #[error("the server refuses this runner: {0}")]
    Refused(String),
    #[error("{0}")]
    Setting(String),
    #[error("{0}")]
    Data(String),
    #[error("another runner uses `{0}`; give this one a `--data` of its own")]
    InUse(String),
}

/// How a runner ended that was asked to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Jobs that went back to the queue because of it.
    pub given_back: u64,
    /// It has left the fleet.
    pub unregistered: bool,
}

/// What reaches the loop of the agent.
enum Message {
    /// A job, and where it is told that it has its place.
    Claimed(Box<Job>, oneshot::Sender<()>),
    Command(Command),
    Started(JobRef),
    /// Its slot is free.
    Finished(JobRef),
    /// It did not begin, and why.
    NotBegun(JobRef, String),
    Delivered(JobRef, delivery::Delivered),
    GivenBack(JobRef),
    Fatal(AgentError),
}

/// A runner of a fleet. Several can live in one process.
#[derive(Debug)]
pub struct Agent {
    session: Arc<Session>,
    shop: Arc<Shop>,
    gauge: Gauge,
    settings: Settings,
    guard: Option<Guard>,
    /// Held as long as the agent lives: the data directory is its own.
    _lock: File,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    slots: usize,
    once: bool,
    unregister: bool,
    grace: Option<std::time::Duration>,
    alone: bool,
}

impl Agent {
    /// Makes its directories and looks at what it kept there. Nothing is sent yet.
    pub fn new(mut options: Options) -> Result<Self, AgentError> {
        let http =
            Http::new(&options.server, options.ca.as_deref()).map_err(AgentError::Setting)?;
        for folder in [&options.data, &options.work] {
            make_folder(folder)?;
        }
        let lock = lock(&options.data)?;
        let slots = options.capabilities.max_parallel.max(1);
        options.capabilities.max_parallel = if options.once { 1 } else { slots };
        options.capabilities.backends = match options.backend {
            BackendKind::Host => vec!["host".to_owned()],
            BackendKind::Dummy => vec!["dummy".to_owned()],
        };
        let failed = |error: std::io::Error| AgentError::Data(error.to_string());
        Spool::prepare(&options.data).map_err(failed)?;
        let tree = Tree::new(options.outer.as_deref()).map_err(failed)?;
        let guard = options.guard.as_deref().map(|program| Guard::start(program, &tree));
        let guard = guard.transpose().map_err(failed)?;
        let gauge = Gauge {
            work: options.work.clone(),
            bounds: options.bounds,
            cores: options.capabilities.cores,
        };
        let settings = Settings {
            slots: usize::try_from(slots).unwrap_or(1),
            once: options.once,
            unregister: options.unregister || options.once,
            grace: options.grace,
            alone: options.alone,
        };
        let mirrors = Mirrors { directory: options.data.join("mirrors"), ca: options.ca };
        let shop = Arc::new(Shop {
            name: options.name.clone(),
            data: options.data.clone(),
            work: options.work,
            backend: options.backend,
            inherited: options.inherited,
            nodes: options.nodes,
            actions: options.actions,
            mirrors,
            tree,
        });
        let card = Card {
            server: options.server,
            beside: options.beside,
            data: options.data,
            key: options.key,
            name: options.name,
            capabilities: options.capabilities,
            single_use: options.once,
        };
        let session = Arc::new(Session::new(http, card)?);
        Ok(Self { session, shop, gauge, settings, guard, _lock: lock })
    }

    /// Works until it is asked to stop, and has stopped. Must run in a runtime of tokio; any kind will do.
    pub async fn run(mut self, stop: watch::Receiver<Stop>) -> Result<Ended, AgentError> {
        let guard = self.guard.take();
        let ended = Lead::new(&self).run(stop).await;
        if let Some(guard) = guard {
            // It goes by itself when this process does.
            let _ = guard.finish();
        }
        ended
    }

    /// Leaves the fleet for a runner that does not run. Returns how many jobs went back to the queue.
    pub async fn unregister(self) -> Result<u64, AgentError> {
        self.session.unregister().await.map_err(AgentError::Refused)
    }
}

fn make_folder(folder: &Path) -> Result<(), AgentError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        AgentError::Data(format!("cannot make the folder `{}`: {error}", folder.display()))
    })
}

/// Takes the data directory for this agent alone.
fn lock(data: &Path) -> Result<File, AgentError> {
    let path = data.join("runner.lock");
    let failed = |error: std::io::Error| {
        AgentError::Data(format!("cannot lock `{}`: {error}", path.display()))
    };
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AgentError::InUse(data.display().to_string())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
