//! `kiln up`: a server and a runner, all in one, and something to look at.

mod runner;
mod sample;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kiln_server::Server;
use kiln_server::app::Shared;
use kiln_server::config::Origin;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::server::{Story, host, settings::Told, systemd};
use crate::Outcome;
use crate::cli::UpArgs;
use crate::client::Client;
use crate::client::settings::{Asked, Environment, Settings};
use crate::output::Console;
use runner::Runner;

/// How long the runner may take to end. The server has its own bound afterwards.
const ENDING: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &UpArgs, console: &mut Console) -> Result<Outcome> {
    let mut told = Told::checked(&args.settings)?;
    // Its runner is this machine's own, and so are those who can reach it.
    told.config.allow_shared_host |= !args.no_runner;
    host::log(&told.config, &filter(&told))?;
    host::run(async {
        let (server, listener) = host::start(told.config).await?;
        // A signal ends the runner first: what it hands back, the server must still hear.
        let interrupted = CancellationToken::new();
        host::on_signals(interrupted.clone())?;
        let mut story = Story::new(console, args.json);
        story.serving(&server, "kiln up")?;
        systemd::notify("READY=1");
        let show = Show { app: server.app().clone(), first: first(&server)?, interrupted };
        let (told, ()) = tokio::join!(show.go(args, &mut story), server.serve(listener));
        told.map(|()| Outcome::Clean)
    })
}

/// People want to see what `kiln up` says, not every request; whoever sets something gets it.
fn filter(told: &Told) -> String {
    let log = told.settings.iter().find(|setting| setting.key.name == "log");
    match log {
        Some(setting) if setting.origin == Origin::Default => "warn".to_owned(),
        _ => told.config.log.clone(),
    }
}

/// A client with the token of the first start.
fn first(server: &Server) -> Result<Option<Client>> {
    let welcome = server.welcome();
    let Some(token) = welcome.token.as_ref().filter(|_| welcome.is_first) else { return Ok(None) };
    let config = &server.app().config;
    let url = config.local_url();
    let asked = Asked { server: Some(&url), token: Some(token.reveal()), context: None };
    let environment = Environment { ca: config.outbound.ca_file.clone(), ..Environment::default() };
    Client::of(Settings::find(asked, &environment)?).map(Some)
}

/// What happens beside the server.
struct Show {
    app: Shared,
    /// Who shows the sample, at the first start.
    first: Option<Client>,
    interrupted: CancellationToken,
}

impl Show {
    async fn go(self, args: &UpArgs, story: &mut Story<'_>) -> Result<()> {
        let Self { app, first, interrupted } = self;
        let stopping = app.stopping.clone();
        // Whatever goes wrong here, the server ends with it.
        let _end = stopping.drop_guard();
        let runner =
            if args.no_runner { None } else { Some(runner::start(&app, args.jobs).await?) };
        let (data, first) = (app.config.data.clone(), first.filter(|_| !args.no_sample));
        drop(app);
        if let Some(runner) = &runner {
            say_runner(runner, story)?;
        }
        let shown = tokio::select! {
            () = interrupted.cancelled() => Ok(()),
            shown = show(data, first.as_ref(), runner.as_ref(), story) => shown,
        };
        if let Err(error) = shown {
            // The server is as good as without it.
            story.tell(
                &json!({ "event": "sample_failed", "error": format!("{error:#}") }),
                || format!("  sample       failed: {error:#}\n"),
            )?;
        }
        tokio::select! {
            () = interrupted.cancelled() => {}
            () = gone(runner.as_ref()) => {}
        }
        systemd::notify("STOPPING=1");
        let Some(runner) = runner else { return Ok(()) };
        match tokio::time::timeout(ENDING, runner.end()).await {
            Ok(ended) => ended.context("the runner failed"),
            Err(_) => {
                tracing::warn!("the runner did not end in time; its jobs go back to the queue");
                Ok(())
            }
        }
    }
}

/// Waits until the runner has ended by itself, which it should not.
async fn gone(runner: Option<&Runner>) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if runner.is_some_and(Runner::has_ended) {
            return;
        }
    }
}

fn say_runner(runner: &Runner, story: &mut Story<'_>) -> Result<()> {
    let (name, jobs) = (&runner.name, runner.jobs);
    story.tell(&json!({ "event": "runner", "name": name, "jobs": jobs }), || {
        let jobs = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
        format!("  runner       {name}, {jobs} at once\n")
    })
}

/// Runs the sample at the first start, and says where to look.
async fn show(
    data: PathBuf,
    first: Option<&Client>,
    runner: Option<&Runner>,
    story: &mut Story<'_>,
) -> Result<()> {
    let Some(client) = first else {
        return story.tell(&json!({ "event": "ready" }), || NEXT.to_owned());
    };
    let folder = tokio::task::spawn_blocking(move || sample::make(&data)).await??;
    let run = sample::start(client, &folder).await?;
    let path = folder.display().to_string();
    let started = json!({ "event": "sample_started", "run": run, "folder": path });
    story.tell(&started, || format!("  sample       {path}, run {run} …\n"))?;
    if runner.is_some() {
        let detail = sample::ended(client, &run).await?;
        let conclusion = detail.run.conclusion.unwrap_or_default();
        let jobs = detail.jobs.len();
        let ended =
            json!({ "event": "sample_ended", "run": run, "conclusion": conclusion, "jobs": jobs });
        story.tell(&ended, || {
            let mark = if conclusion == "success" { "✓" } else { "✗" };
            format!("               {mark} {conclusion}, {jobs} jobs\n")
        })?;
    }
    story.tell(&json!({ "event": "ready" }), || {
        format!("\nlook at it:  kiln logs {run}\n{}", NEXT.trim_start())
    })
}

/// What to do next.
const NEXT: &str = "
all runs:    kiln runs
your own:    kiln trigger --add, in a repository
stop:        Ctrl-C
";
