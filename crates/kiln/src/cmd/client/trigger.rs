//! `kiln trigger`: starts runs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use kiln_core::id::RunId;
use kiln_proto::api::{Trigger, Triggered};
use serde_json::Value;

use super::watch::{self, Watching};
use super::words::file_name;
use super::{print_json, repo};
use crate::Outcome;
use crate::cli::{ProgressView, TriggerArgs};
use crate::client::Client;
use crate::client::call::random_key;
use crate::client::here::{Here, pasted, split};
use crate::output::{Console, Manner, one_line};
use crate::read;

/// The priority that comes before all others.
const FIRST: i64 = 100;

pub(super) async fn run(args: &TriggerArgs, console: &mut Console) -> Result<Outcome> {
    let wish = wish(args)?;
    // The page of a workflow says whose it is.
    let page = args.workflow.as_deref().filter(|name| pasted(name).is_some());
    let (client, named) = Client::open_named(&args.server, args.repo.as_deref().or(page)).await?;
    let (repo, wish) = match named {
        Some(repo) => (repo, wish),
        None => here(&client, args.add, wish, console).await?,
    };
    let (owner, name) = split(&repo)?;
    let key = args.once_key.clone().map_or_else(random_key, Ok)?;
    let call = client.post(&["repos", owner, name, "trigger"]);
    let triggered: Triggered = call.body(&wish).once(&key).json().await?;
    show(&triggered, args, console)?;
    if triggered.runs.is_empty() {
        return Ok(Outcome::Errors);
    }
    if !args.watch {
        return Ok(Outcome::Clean);
    }
    let manner = Manner::choose(args.server.json, ProgressView::Auto)?;
    let mut outcome = Outcome::Clean;
    for run in &triggered.runs {
        let watching = Watching { manner, ..Watching::default() };
        match watch::until_the_end(&client, RunId(run.id), &watching, console).await? {
            Outcome::Clean => {}
            Outcome::Cancelled => return Ok(Outcome::Cancelled),
            other => outcome = other,
        }
    }
    Ok(outcome)
}

/// What is asked for, apart from the repository.
fn wish(args: &TriggerArgs) -> Result<Trigger> {
    let mut inputs = BTreeMap::new();
    for text in &args.input {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("`--input {text}` is not `name=value`");
        };
        inputs.insert(name.to_owned(), Value::from(value));
    }
    Ok(Trigger {
        workflow: args.workflow.as_deref().map(workflow_file),
        event: args.event.clone(),
        reference: args.reference.clone(),
        sha: args.sha.clone(),
        inputs,
        payload: args.payload.as_deref().map(payload).transpose()?,
        priority: if args.first { Some(FIRST) } else { args.priority },
        within: args.within,
    })
}

/// The file of a workflow: by its name, its path, or the address of its page.
pub(super) fn workflow_file(typed: &str) -> String {
    let path = pasted(typed).map_or_else(|| typed.to_owned(), |page| page.path().to_owned());
    file_name(path.trim_end_matches('/')).to_owned()
}

fn payload(path: &Path) -> Result<Value> {
    let shown = path.display();
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let text = read::file(path).map_err(|error| anyhow!("`{shown}`: {}", error.message))?;
    match serde_json::from_str(&text).with_context(|| format!("`{shown}` is not JSON"))? {
        object @ Value::Object(_) => Ok(object),
        _ => bail!("`{shown}` must be a JSON object: the payload of an event"),
    }
}

/// The repository here, with the branch that is checked out. One that the server does not know is added
/// if that is wanted.
async fn here(
    client: &Client,
    add: bool,
    mut wish: Trigger,
    console: &mut Console,
) -> Result<(String, Trigger)> {
    let here = Here::find()?.context(
        "you are in no git repository; name one with `--repo OWNER/NAME` (`kiln repo list`)",
    )?;
    let known = client.repo_here(&here).await?;
    let repo = match known {
        Some(repo) => repo,
        None => {
            let new = repo::of(client, &here)?;
            let name = format!("{}/{}", new.owner, new.name);
            if !add
                && !agreed(
                    &format!("{} does not know {name} yet. Add it?", client.server()),
                    console,
                )?
            {
                bail!(
                    "{} does not know {name} yet; `kiln trigger --add` adds it first, `--repo OWNER/NAME` \
                     names another",
                    client.server()
                );
            }
            let repo = repo::add(client, &new).await?;
            console.note_line(&format!("added {}/{} ({})", repo.owner, repo.name, repo.source));
            repo
        }
    };
    if wish.reference.is_none() {
        wish.reference.clone_from(&here.branch);
    }
    Ok((format!("{}/{}", repo.owner, repo.name), wish))
}

/// Asks a person; a program has not agreed.
fn agreed(question: &str, console: &mut Console) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    console.eprint(&format!("{question} [Y/n] "));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(read > 0 && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

fn show(triggered: &Triggered, args: &TriggerArgs, console: &mut Console) -> Result<()> {
    if args.server.json {
        return print_json(console, triggered);
    }
    for run in &triggered.runs {
        let word = if run.existed { "had been started" } else { "started" };
        let workflow = one_line(file_name(&run.workflow));
        console.print(&format!("{word} {}  {workflow}  {}\n", run.slug, one_line(&run.url)))?;
    }
    for skipped in &triggered.skipped {
        let (workflow, reason) = (file_name(&skipped.workflow), one_line(&skipped.reason));
        console.note_line(&format!("`{}` did not start: {reason}", one_line(workflow)));
    }
    if triggered.runs.is_empty() && triggered.skipped.is_empty() {
        console.note_line(
            "no workflow listens to this event; `kiln plan FILE --event EVENT` says why",
        );
    }
    if let ([run], false) = (&triggered.runs[..], args.watch) {
        console.note_line(&format!(
            "`kiln watch {0}` shows it, `kiln logs {0} --follow` its log",
            run.slug
        ));
    }
    Ok(())
}
