//! A server in this process: its threads, its log, the signals that end it.

use std::io::stderr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kiln_server::config::Config;
use kiln_server::sources::Sources;
use kiln_server::{Server, StartError};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::sources::GitSources;

/// The exit code of a process that is interrupted twice.
const AT_ONCE: i32 = 130;

/// How long a question to git may hold up the end.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// Runs a server on threads of its own, and does not wait for ever for what still goes on at its end.
pub(crate) fn run<T>(server: impl Future<Output = Result<T>>) -> Result<T> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.thread_name("kiln").enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    let answer = runtime.block_on(server);
    runtime.shutdown_timeout(LAST_MOMENT);
    answer
}

/// Opens everything. What cannot be opened is said in words.
pub(crate) async fn start(mut config: Config) -> Result<(Server, TcpListener)> {
    // Git runs elsewhere, and what is kept must not depend on where somebody stood.
    config.data = std::path::absolute(&config.data)
        .with_context(|| format!("cannot find `{}`", config.data.display()))?;
    let listener = Server::bind(&mut config)?;
    let failed = |error| StartError::Folder { path: config.data.clone(), error };
    let sources = GitSources::new(&config.data, &config.outbound).map_err(failed)?;
    let server = Server::start(config, Arc::new(sources) as Arc<dyn Sources>).await?;
    Ok((server, listener))
}

/// Writes what happens to standard error.
pub(crate) fn log(config: &Config, filter: &str) -> Result<()> {
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("`log`: `{filter}` cannot be understood; expected `info`, say"))?;
    let logger = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // When something logs already, that may go on.
    let _ = if config.log_json { logger.json().try_init() } else { logger.compact().try_init() };
    Ok(())
}

/// Cancels the token at the first signal, and ends the process at the second.
pub(crate) fn on_signals(stop: CancellationToken) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if stop.is_cancelled() {
                    signal_hook::low_level::exit(AT_ONCE);
                }
                stop.cancel();
            }
        })
        .context("cannot wait for signals")?;
    Ok(())
}
