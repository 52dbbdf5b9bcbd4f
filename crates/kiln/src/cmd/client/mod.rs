//! Commands that ask a server. All do their work on one thread, and say what failed in words.

mod artifacts;
mod attempts;
mod cache;
mod cache_key;
mod cache_local;
mod cancel;
mod context;
mod duties;
mod interrupt;
mod login;
mod logs;
mod manifests;
mod objects;
mod open;
mod org;
mod pause;
mod place;
pub(crate) mod queue;
mod record;
mod repo;
mod repo_show;
mod rerun;
mod runner;
pub(crate) mod runners;
mod runs;
#[cfg(test)]
mod samples;
mod show;
mod status;
mod storage;
mod token;
mod trigger;
mod watch;
mod words;
mod workflows;

use anyhow::{Context as _, Result};
use kiln_proto::api::Run;
use serde::Serialize;

use crate::Outcome;
use crate::cli::{ClientCommand, ServerArgs};
use crate::client::Client;
use crate::client::target::{Target, What};
use crate::output::Console;

/// A list has an end.
const MOST: usize = 10_000;

pub(crate) fn run(command: &ClientCommand, console: &mut Console) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let outcome = runtime.block_on(dispatch(command, console));
    // A request in the middle need not be waited for.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(command: &ClientCommand, console: &mut Console) -> Result<Outcome> {
    match command {
        ClientCommand::Trigger(args) => trigger::run(args, console).await,
        ClientCommand::Runs(args) => runs::run(args, console).await,
        ClientCommand::Watch(args) => watch::run(args, console).await,
        ClientCommand::Logs(args) => logs::run(args, console).await,
        ClientCommand::Show(args) => show::run(args, console).await,
        ClientCommand::Summary(args) => show::summary(args, console).await,
        ClientCommand::Open(args) => open::run(args, console).await,
        ClientCommand::Cancel(args) => cancel::run(args, console).await,
        ClientCommand::Rerun(args) => rerun::run(args, console).await,
        ClientCommand::Status(args) => status::run(args, console).await,
        ClientCommand::Repo(args) => repo::run(args, console).await,
        ClientCommand::Org(args) => org::run(args, console).await,
        ClientCommand::Workflows(args) => workflows::run(args, console).await,
        ClientCommand::Runners(args) => runners::run(args, console).await,
        ClientCommand::Queue(args) => queue::run(args, console).await,
        ClientCommand::Duties(args) => duties::run(args, console).await,
        ClientCommand::Artifacts(args) => artifacts::run(args, console).await,
        ClientCommand::Cache(args) => cache::run(args, console).await,
        ClientCommand::Objects(args) => objects::run(args, console).await,
        ClientCommand::Tags(args) => objects::tags(args, console).await,
        ClientCommand::Manifests(args) => manifests::run(args, console).await,
        ClientCommand::Storage(args) => storage::run(args, console).await,
        ClientCommand::Pause(args) => pause::run(args, console).await,
        ClientCommand::Resume(args) => pause::resume(args, console).await,
        ClientCommand::Token(args) => token::run(args, console).await,
        ClientCommand::Login(args) => login::run(args, console).await,
        ClientCommand::Context(args) => context::run(args, console),
        ClientCommand::Whoami(args) => login::whoami(args, console).await,
    }
}

/// One thing for programs, on a line of its own.
fn print_json(console: &mut Console, thing: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(thing).context("cannot write JSON")?;
    console.print_raw(&format!("{text}\n"))
}

/// A list for programs, or a table for people, or what to say when there is nothing.
fn print_list<T: Serialize>(
    console: &mut Console,
    json: bool,
    items: &[T],
    table: impl FnOnce(&[T]) -> String,
    nothing: &str,
) -> Result<Outcome> {
    if json {
        for item in items {
            print_json(console, item)?;
        }
    } else if items.is_empty() {
        console.note_line(nothing);
    } else {
        console.print(&table(items))?;
    }
    Ok(Outcome::Clean)
}

/// What was named, else the latest run of the repository here.
async fn named_or_latest(text: Option<&str>, args: &ServerArgs) -> Result<(Client, Target)> {
    if let Some(text) = text {
        let target: Target = text.parse()?;
        return Ok((Client::open_for(args, &target)?, target));
    }
    let client = Client::open(args)?;
    let repo = client.repo_meant(None).await?.context(
        "you are in no repository that the server knows; name a run (`kiln runs --all` lists them)",
    )?;
    let latest: Vec<Run> = client.get(&["runs"]).query("repo", &repo).list(1).await?;
    let latest = latest
        .first()
        .with_context(|| format!("`{repo}` has no runs yet; `kiln trigger` starts some"))?;
    let what = What::Run(kiln_core::id::RunId(latest.id));
    Ok((client, Target::bare(what)))
}

/// A run or a job by the text that names it, at its server.
fn named(text: &str, args: &ServerArgs) -> Result<(Client, What)> {
    let target: Target = text.parse()?;
    Ok((Client::open_for(args, &target)?, target.what))
}
