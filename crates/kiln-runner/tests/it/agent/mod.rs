//! A runner of a fleet against a small server that speaks the protocol, and breaks it on demand.

mod faults;
mod jobs;
mod server;
mod stop;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_lang::compile::{NoLibrary, compile};
use kiln_lang::source::SourceMap;
use kiln_proto::job::{Contexts, Job, Limits, Sealed, Source};
use kiln_runner::agent::{Agent, AgentError, Bounds, Ended, Options, Stop};
use kiln_runner::job::environment::inheritable;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;

use server::Fake;

/// Nothing in these tests takes longer.
const BOUND: Duration = Duration::from_secs(30);

/// A server, and a place for runners.
struct Case {
    server: Arc<Fake>,
    directory: tempfile::TempDir,
}

/// A runner that works.
struct Running {
    stop: watch::Sender<Stop>,
    thread: JoinHandle<Result<Ended, AgentError>>,
}

impl Running {
    fn stop(&self, stop: Stop) {
        self.stop.send(stop).unwrap();
    }

    fn ended(self) -> Result<Ended, AgentError> {
        wait("the runner ends", || self.thread.is_finished());
        self.thread.join().unwrap()
    }

    /// Lets it finish and go.
    fn drained(self) -> Ended {
        self.stop(Stop::Drain);
        self.ended().unwrap()
    }
}

impl Case {
    fn new() -> Self {
        Self { server: Arc::new(Fake::new()), directory: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> &Path {
        self.directory.path()
    }

    fn options(&self) -> Options {
        let inherited = inheritable(std::env::vars_os(), &[]);
        let mut options = Options::detect(&self.server.address(), self.data().into(), inherited);
        options.key = Some(server::KEY.to_owned());
        "tester".clone_into(&mut options.name);
        options.bounds = Bounds { least_memory_mb: 0, least_disk_mb: 0, most_load: f64::INFINITY };
        options.capabilities.max_parallel = 2;
        options
    }

    fn start(&self) -> Running {
        self.start_with(|_| ())
    }

    fn start_with(&self, change: impl FnOnce(&mut Options)) -> Running {
        let mut options = self.options();
        change(&mut options);
        let agent = Agent::new(options).unwrap();
        let (stop, told) = watch::channel(Stop::No);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(agent.run(told))
        });
        Running { stop, thread }
    }
}

/// Waits until something is so, and says what never was.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < BOUND, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// A job with these steps, as a server hands it out.
fn job(id: i64, steps: &str) -> Job {
    let workflow = format!(
        "on: push\njobs:\n  a:\n    runs-on: x\n    outputs: {{v: '${{{{ steps.one.outputs.v }}}}'}}\n    steps:\n{steps}"
    );
    let compiled = compile(&mut SourceMap::new(), "ci.yml", &workflow, &NoLibrary, None);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics));
    let none = || raw(&serde_json::json!({}));
    let github = serde_json::json!({
        "repository": "acme/app", "sha": "0".repeat(40), "ref": "refs/heads/main",
        "event": {"hello": "world"}, "server_url": "http://ci.example",
    });
    Job {
        job_id: id,
        run_id: 1,
        attempt: 1,
        repo: "acme/app".to_owned(),
        workflow: "ci.yml".to_owned(),
        job_name: format!("job {id}"),
        steps: Vec::new(),
        secrets: Sealed::default(),
        services: Vec::new(),
        timeout_minutes: 10,
        token: format!("kjt_token-of-job-{id}-1234567890"),
        lease: 60,
        source: Source {
            clone_url: "/acme/app.git".to_owned(),
            commit: "0".repeat(40),
            reference: "refs/heads/main".to_owned(),
        },
        environment: None,
        reads_caches_only: false,
        plan: to_raw_value(&plan).unwrap(),
        contexts: Contexts {
            github: raw(&github),
            vars: none(),
            inputs: none(),
            needs: none(),
            matrix: none(),
            strategy: none(),
        },
        limits: Limits { log_bytes: 0, wall: 60, silence: 0, clean_up: None },
    }
}
