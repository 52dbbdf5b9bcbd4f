//! What can be set about a runner.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_proto::runner::Capabilities;

use crate::action::{Mirror, Nodes};
use crate::job::environment::Environment;

use super::capabilities;
use super::execute::BackendKind;
use super::health::Bounds;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Options {
    /// The address of the server, such as `http://127.0.0.1:8420`.
    pub server: String,
    /// The server lives beside this runner: what was kept is of this server, whatever its address was then.
    pub beside: bool,
    /// The registration key; needed as long as the runner is not known.
    pub key: Option<String>,
    pub name: String,
    /// What the machine has; `max_parallel` is how many jobs run at once.
    pub capabilities: Capabilities,
    /// Who the runner is, what is not delivered yet, mirrors, tools and actions.
    pub data: PathBuf,
    /// Where jobs run.
    pub work: PathBuf,
    /// Take one job, then leave the fleet.
    pub once: bool,
    /// Leave the fleet at the end.
    pub unregister: bool,
    /// How long a draining runner waits for its jobs; for ever when there is none.
    pub grace: Option<Duration>,
    /// A file with certificates to trust besides those of the system.
    pub ca: Option<PathBuf>,
    pub bounds: Bounds,
    pub backend: BackendKind,
    /// The environment that jobs start from.
    pub inherited: Environment,
    /// Where published actions come from.
    pub actions: Option<Mirror>,
    pub nodes: Arc<Nodes>,
    /// A program that understands `__guard TOKEN`, such as `kiln` itself: it clears up when this
    /// process is killed.
    pub guard: Option<PathBuf>,
    /// This process does nothing but run this agent, so that every orphan it adopts is a job's.
    pub alone: bool,
    /// The mark of the process tree around this process.
    pub outer: Option<OsString>,
}

impl Options {
    /// A runner of this machine with all that was detected. `inherited` is what jobs start from, see
    /// [`inheritable`](crate::job::environment::inheritable).
    pub fn detect(server: &str, data: PathBuf, inherited: Environment) -> Self {
        let path = inherited.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let work = data.join("work");
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("runner");
        Self {
            server: server.to_owned(),
            beside: false,
            key: None,
            name: name.to_owned(),
            capabilities: capabilities::detect(&path, &data),
            data,
            work,
            once: false,
            unregister: false,
            grace: None,
            ca: None,
            bounds: Bounds::default(),
            backend: BackendKind::Host,
            inherited,
            actions: None,
            nodes: Arc::default(),
            guard: None,
            alone: false,
            outer: None,
        }
    }
}
