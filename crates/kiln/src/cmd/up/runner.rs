//! The runner of `kiln up`: in this process, on threads of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kiln_runner::action::{Mirror, Nodes};
use kiln_runner::agent::{Agent, Options, Stop};
use kiln_runner::job::environment::inheritable;
use kiln_runner::process::become_subreaper;
use kiln_server::app::Shared;
use kiln_server::config::Outbound;
use kiln_server::first;
use tokio::sync::watch;

use crate::cmd::server::settings::variable;

/// Labels by which workflows written for GitHub find it.
const LABELS: [&str; 6] =
    ["self-hosted", "linux", "x64", "ubuntu-latest", "ubuntu-22.04", "ubuntu-24.04"];
/// How long jobs have to end when the machine is told to stop.
const GRACE: Duration = Duration::from_secs(8);

/// A runner that is at work.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) name: String,
    pub(super) jobs: u32,
    stop: watch::Sender<Stop>,
    thread: JoinHandle<Result<()>>,
}

/// Starts it. The key is good for this one runner, and only for a moment; one that was here before needs
/// none.
pub(super) async fn start(app: &Shared, jobs: Option<u32>) -> Result<Runner> {
    let key = first::registration_key(&app.store).await.context("cannot let the runner in")?;
    let config = &app.config;
    let mut options = options(&config.local_url(), config.data.join("runner"), &config.outbound);
    options.key = Some(key.reveal().to_owned());
    options.beside = true;
    options.ca = config.outbound.ca_file.clone().filter(|_| config.tls.is_some());
    if let Some(jobs) = jobs {
        options.capabilities.max_parallel = jobs;
    }
    let (name, jobs) = (options.name.clone(), options.capabilities.max_parallel);
    become_subreaper().context("cannot look after the processes of jobs")?;
    let agent = Agent::new(options)?;
    let (stop, stopped) = watch::channel(Stop::No);
    let work = move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("runner")
            .enable_all()
            .build()?;
        runtime.block_on(agent.run(stopped))?;
        Ok(())
    };
    let thread = std::thread::Builder::new().name("runner".to_owned()).spawn(work)?;
    Ok(Runner { name, jobs, stop, thread })
}

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
fn options(server: &str, data: PathBuf, outbound: &Outbound) -> Options {
    let inherited = inheritable(std::env::vars_os().chain(variables(outbound)), &[]);
    let mut options = Options::detect(server, data, inherited);
    for label in LABELS {
        if !options.capabilities.labels.iter().any(|known| known == label) {
            options.capabilities.labels.push(label.to_owned());
        }
    }
    options.actions = variable("KILN_ACTIONS").as_deref().map(Mirror::parse);
    options.nodes = std::sync::Arc::new(Nodes::configured(|name| std::env::var_os(name)));
    options.guard = Some(PathBuf::from("/proc/self/exe"));
    options.grace = Some(GRACE);
    options.alone = true;
    options.outer = std::env::var_os(kiln_runner::process::VARIABLE);
    options
}

/// How jobs reach others: as the server does.
fn variables(outbound: &Outbound) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    // Programs do not agree on how these are written.
    let mut set = |names: &[&str], value: OsString| {
        variables.extend(names.iter().map(|name| (name.into(), value.clone())));
    };
    if let Some(proxy) = &outbound.proxy {
        set(&["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"], proxy.into());
    }
    if !outbound.no_proxy.is_empty() {
        set(&["no_proxy", "NO_PROXY"], outbound.no_proxy.join(",").into());
    }
    if let Some(file) = &outbound.ca_file {
        // The one of these that adds to the certificates of the system and does not replace them.
        set(&["NODE_EXTRA_CA_CERTS"], file.into());
    }
    variables
}

impl Runner {
    /// Gives back what has not begun, ends the rest, and waits for that.
    pub(super) async fn end(self) -> Result<()> {
        let _ = self.stop.send(Stop::HandBack);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        joined.unwrap_or_else(|_| Err(anyhow!("the runner panicked")))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn jobs_reach_others_as_the_server_does_and_loopback_without_a_proxy() {
        let outbound = Outbound {
            proxy: Some("http://proxy:3128".to_owned()),
            no_proxy: vec!["git.internal".to_owned(), "db".to_owned()],
            ca_file: Some("/etc/ca.pem".into()),
        };
        let own = [("http_proxy".into(), "http://other:1".into()), ("PATH".into(), "/bin".into())];
        let seen = inheritable(own.into_iter().chain(variables(&outbound)), &[]);
        let get = |name: &str| seen.get(OsStr::new(name)).and_then(|value| value.to_str());
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            assert_eq!(get(name), Some("http://proxy:3128"), "{name}");
        }
        let free = get("no_proxy").unwrap();
        assert!(free.starts_with("git.internal,db") && free.contains("127.0.0.1"), "{free}");
        assert_eq!(get("NODE_EXTRA_CA_CERTS"), Some("/etc/ca.pem"));
        assert_eq!(get("PATH"), Some("/bin"));
        assert_eq!(variables(&Outbound::default()), []);
    }
}
