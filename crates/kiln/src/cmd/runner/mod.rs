//! `kiln runner`: this machine as a part of a fleet.

mod settings;
mod status;
mod unit;

use std::thread;

use anyhow::{Context as _, Result};
use kiln_runner::agent::{Agent, Ended, Stop};
use kiln_runner::process;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::Outcome;
use crate::cli::{AgentArgs, AgentCommand, AgentOptions, LogFormat};
use crate::output::Console;

/// How long files of jobs may still be removed when everything else is over.
const LAST: std::time::Duration = std::time::Duration::from_secs(5);

pub(crate) fn run(args: &AgentArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        None if args.options.print_unit => {
            console.print(&unit::text(&args.options)?)?;
            Ok(Outcome::Clean)
        }
        None => work(&args.options, console),
        Some(AgentCommand::Unregister { data, ca, json }) => {
            let agent = Agent::new(settings::known(data, ca.clone())?)?;
            let returned = runtime()?.block_on(agent.unregister())?;
            if *json {
                let done = json!({ "unregistered": true, "jobs_given_back": returned });
                console.print_raw(&format!("{done}\n"))?;
            } else {
                console.print(&format!("unregistered; {}\n", jobs_given_back(returned)))?;
            }
            Ok(Outcome::Clean)
        }
        Some(AgentCommand::Status { data, json }) => status::show(data, *json, console),
    }
}

fn work(options: &AgentOptions, console: &mut Console) -> Result<Outcome> {
    log(options.log_format);
    process::become_subreaper().context("cannot look after the children of steps")?;
    process::refuse_terminal();
    let agent = Agent::new(settings::options(options)?)?;
    let (sender, stop) = watch::channel(Stop::No);
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let handle = signals.handle();
    let listener = thread::spawn(move || {
        for (_, stop) in signals.forever().zip([Stop::Drain, Stop::HandBack, Stop::Kill]) {
            tracing::warn!(?stop, "asked to stop");
            let _ = sender.send(stop);
        }
        // The agent drains when nobody can say more.
        sender
    });
    let runtime = runtime()?;
    let ended = runtime.block_on(agent.run(stop));
    runtime.shutdown_timeout(LAST);
    handle.close();
    let _ = listener.join();
    let ended = ended?;
    console.print(&goodbye(ended))?;
    Ok(if ended.given_back > 0 { Outcome::Errors } else { Outcome::Clean })
}

/// One thread for all that is said; jobs have threads of their own while they run.
fn runtime() -> Result<Runtime> {
    let built = Builder::new_current_thread().enable_all().build();
    built.context("cannot start the runtime")
}

fn goodbye(ended: Ended) -> String {
    let left = if ended.unregistered { "stopped and unregistered" } else { "stopped" };
    format!("{left}; {}\n", jobs_given_back(ended.given_back))
}

fn jobs_given_back(count: u64) -> String {
    match count {
        0 => "no job was given back".to_owned(),
        1 => "1 job was given back to the queue".to_owned(),
        many => format!("{many} jobs were given back to the queue"),
    }
}

/// What happens goes to standard error.
fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("KILN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Somebody has set up another one before: that one hears it.
    let _ = match format {
        LogFormat::Json => subscriber.json().try_init(),
        LogFormat::Text => subscriber.with_ansi(false).with_target(false).try_init(),
    };
}
