//! `kiln run`: the workflows of this repository, on this machine.

mod report;
mod select;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow, bail};
use kiln_core::run::Conclusion;
use kiln_core::value::Value;
use kiln_runner::action::{Mirror, Resolver};
use kiln_runner::git::Repository;
use kiln_runner::job::Host;
use kiln_runner::local::{EventSource, LocalRun, Options, Summary, github_context};
use kiln_runner::process::{self, Guard, Tree};
use kiln_runner::workspace::Pristine;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::compiled::{self, Compiled};
use crate::Outcome;
use crate::cli::RunArgs;
use crate::events::{Decision, Event};
use crate::find;
use crate::inputs;
use crate::output::Console;
use crate::read;

use report::Screen;

pub(crate) fn run(args: &RunArgs, console: &mut Console) -> Result<Outcome> {
    super::plan::known_event(&args.event)?;
    let event = event(args)?;
    let workflows = select::workflows(&args.workflow)?;
    let mut chosen = Vec::new();
    for path in &workflows {
        let Some(compiled) = compiled::compile(path, console)? else { return Ok(Outcome::Trouble) };
        match compiled.triggers.decide(&event) {
            Decision::Run(_) => chosen.push((path.clone(), compiled)),
            Decision::Skip(reason) if workflows.len() == 1 => {
                console.note_line(&format!("`{}` does not run: {reason}", path.display()));
            }
            Decision::Skip(_) => {}
        }
    }
    if chosen.is_empty() && workflows.len() > 1 {
        console.note_line(&format!("no workflow listens to `{}`", event.name));
    }
    let mut outcome = Outcome::Clean;
    for (path, compiled) in chosen {
        let ended = one(args, &event, &path, compiled, console)?;
        outcome = worse(outcome, ended);
        if ended == Outcome::Cancelled {
            break;
        }
    }
    Ok(outcome)
}

fn worse(left: Outcome, right: Outcome) -> Outcome {
    if right == Outcome::Clean { left } else { right }
}

fn event(args: &RunArgs) -> Result<Event> {
    let payload =
        args.event_file.as_deref().map(read::json_object).transpose()?.unwrap_or_default();
    let reference = payload.get("ref").and_then(Value::as_str).map(str::to_owned);
    Ok(Event { name: args.event.clone(), payload, reference, changed: None })
}

fn one(
    args: &RunArgs,
    event: &Event,
    path: &Path,
    compiled: Compiled,
    console: &mut Console,
) -> Result<Outcome> {
    let root = find::Target::of(path)?.root;
    let repository = Repository::at(&root);
    let head = repository.head().map_err(|_| {
        anyhow!(
            "`{}` is not a git repository with a commit; `kiln run` runs a commit",
            root.display()
        )
    })?;
    let plan = select::jobs(compiled.plan, args.job.as_deref())?;
    let plan = select::matrix(plan, &args.matrix)?;
    if args.dry_run {
        return super::plan::show(&plan, &compiled.triggers, event, false, console);
    }
    let source = EventSource {
        name: event.name.clone(),
        payload: event.payload.clone(),
        reference: event.reference.clone(),
    };
    let name = plan.root().name.clone().unwrap_or_else(|| plan.root().path.clone());
    let directory = run_directory()?;
    let files = directory.join("files");
    // Git takes its time for both, and one does not wait for the other.
    let (github, pristine) = std::thread::scope(|scope| {
        let github =
            scope.spawn(|| github_context(&repository, &head, (&name, &plan.root().path), &source));
        let pristine = if args.dirty {
            Pristine::of_working_tree(&repository, files)
        } else {
            Pristine::of_commit(&repository, &head.commit, files)
        };
        (github.join().expect("it does not panic"), pristine)
    });
    let (github, pristine) = (github?, pristine?);
    let options = Options {
        inputs: inputs::typed(&plan, &given_inputs(args, event)?)?,
        plan: Arc::new(plan),
        github,
        vars: pairs(&args.var)?
            .into_iter()
            .map(|(name, value)| (name, Value::from(value)))
            .collect(),
        secrets: secrets(args)?,
        jobs: args
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        pristine,
        host: host(args, root)?,
        tool_cache: state_directory()?.join("tools"),
        directory: directory.clone(),
    };
    let summary = execute(options, args, console)?;
    let _ = std::fs::remove_dir_all(directory.join("files"));
    let _ = std::fs::remove_dir_all(directory.join("jobs"));
    Ok(match summary.conclusion {
        Conclusion::Success | Conclusion::Skipped => Outcome::Clean,
        Conclusion::Cancelled => Outcome::Cancelled,
        _ => Outcome::Errors,
    })
}

/// Runs with signals wired to cancel: the first asks, the second forces.
fn execute(options: Options, args: &RunArgs, console: &mut Console) -> Result<Summary> {
    process::become_subreaper().context("cannot look after the children of steps")?;
    let tree = Tree::new(outer_tree().as_deref())?;
    let guard = Guard::start(&std::env::current_exe().context("cannot find this program")?, &tree)?;
    let directory = options.directory.clone();
    let run = LocalRun::new(options, &tree);
    let canceller = run.canceller();
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let handle = signals.handle();
    let watcher = std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            canceller.cancel(count > 0);
        }
    });
    let screen = Mutex::new(Screen::new(console, args.json));
    let summary = run.run(&|progress| {
        screen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).show(progress);
    });
    handle.close();
    // The thread ends with its handle; it has nothing to tell.
    let _ = watcher.join();
    guard.finish()?;
    let summary = summary?;
    screen
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .finish(&summary, &directory)?;
    Ok(summary)
}

/// The mark of the run that this one is a step of.
#[expect(clippy::disallowed_methods, reason = "the mark is in the environment")]
fn outer_tree() -> Option<OsString> {
    std::env::var_os(process::VARIABLE)
}

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
fn host(args: &RunArgs, repository: PathBuf) -> Result<Host> {
    let mirror = args.actions.clone().or_else(|| std::env::var("KILN_ACTIONS").ok());
    // A workflow must not see what Kiln itself is told, nor another run's variables.
    let foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        ["KILN_", "GITHUB_", "RUNNER_", "INPUT_", "ACTIONS_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    Ok(Host {
        inherited: std::env::vars_os().filter(|(name, _)| !foreign(name)).collect(),
        resolver: Resolver {
            mirror: mirror.as_deref().map(Mirror::parse),
            store: state_directory()?.join("actions"),
        },
        repository,
        silence: None,
    })
}

#[expect(clippy::disallowed_methods, reason = "the environment says where state belongs")]
fn state_directory() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("KILN_STATE") {
        return Ok(directory.into());
    }
    if let Some(directory) = std::env::var_os("XDG_STATE_HOME") {
        return Ok(Path::new(&directory).join("kiln"));
    }
    let home = std::env::home_dir().context("there is no home directory; set KILN_STATE")?;
    Ok(home.join(".local/state/kiln"))
}

/// A new directory for this run, named by its time and process.
#[expect(clippy::disallowed_methods, reason = "runs are named by when they started")]
fn run_directory() -> Result<PathBuf> {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{}-{}", since.as_millis(), std::process::id());
    let directory = state_directory()?.join("runs").join(name);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))?;
    Ok(directory)
}

/// What was typed, else what the payload of a dispatch says.
fn given_inputs(args: &RunArgs, event: &Event) -> Result<Vec<(String, String)>> {
    let mut given = pairs(&args.input)?;
    let typed = |name: &str| args.input.iter().any(|pair| pair.starts_with(&format!("{name}=")));
    given.extend(inputs::of_payload(event).into_iter().filter(|(name, _)| !typed(name)));
    Ok(given)
}

/// `name=value`, each.
fn pairs(given: &[String]) -> Result<Vec<(String, String)>> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => bail!("`{text}` is not `name=value`"),
    };
    given.iter().map(pair).collect()
}

/// Secrets as given, from a file of `name=value` lines, or by name from the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "a secret without a value is read from the environment"
)]
fn secrets(args: &RunArgs) -> Result<Vec<(String, String)>> {
    let mut secrets = Vec::new();
    if let Some(file) = &args.secret_file {
        let text =
            read::file(file).map_err(|error| anyhow!("`{}`: {}", file.display(), error.message))?;
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        secrets.extend(pairs(&lines.map(str::to_owned).collect::<Vec<_>>())?);
    }
    for given in &args.secret {
        match given.split_once('=') {
            Some((name, value)) => secrets.push((name.to_owned(), value.to_owned())),
            None => {
                let value = std::env::var(given);
                secrets.push((
                    given.clone(),
                    value.with_context(|| {
                        format!("the secret `{given}` has no value and is not in the environment")
                    })?,
                ));
            }
        }
    }
    Ok(secrets)
}
