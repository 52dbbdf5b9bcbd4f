//! `kiln run`: the workflows of this repository, on this machine.

mod earlier;
mod given;
mod host;
mod prune;
mod report;
mod select;
mod state;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::{Context as _, Result, anyhow, bail};
use kiln_core::plan::Plan;
use kiln_core::run::{Conclusion, Neighbourhood, Run};
use kiln_core::value::Value;
use kiln_runner::gateway::local::{Artifacts, Caches, Shelf};
use kiln_runner::git::{Head, Repository};
use kiln_runner::local::{EventSource, LocalRun, Options, Order, Record, Summary, github_context};
use kiln_runner::origin::{Origin, Served};
use kiln_runner::process::{self, Guard, Tree};
use kiln_runner::workspace::Pristine;
use signal_hook::consts::{SIGCONT, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::compiled::{self, Compiled};
use crate::Outcome;
use crate::cli::RunArgs;
use crate::events::{Decision, Event};
use crate::find;
use crate::inputs;
use crate::output::{Console, Manner};
use crate::read;

use earlier::{Batch, Earlier};
use given::{given_inputs, pairs};
use prune::Keep;
use report::Screen;
use state::{cache_directory, remove_used_up, run_directory, state_directory};

/// One workflow that is about to run.
struct Chosen {
    path: PathBuf,
    compiled: Compiled,
    order: Order,
    /// The run that this one goes on from.
    earlier: Option<Earlier>,
}

pub(crate) fn run(args: &RunArgs, console: &mut Console) -> Result<Outcome> {
    let chosen = if args.from_failed { again(args, console)? } else { chosen(args, console)? };
    let Some(chosen) = chosen else { return Ok(Outcome::Trouble) };
    let mut outcome = Outcome::Clean;
    let mut batch = Batch::default();
    let several = chosen.len() > 1 && !args.json && !args.dry_run;
    let mut verdicts = String::new();
    for chosen in chosen {
        let name = chosen.compiled.plan.root().path.clone();
        if several {
            console.print(&report::heading(&name))?;
        }
        let ended = one(args, chosen, &mut batch, console)?;
        verdicts.push_str(&report::verdict(&name, ended));
        outcome = worse(outcome, ended);
        if ended == Outcome::Cancelled {
            break;
        }
    }
    if several {
        console.print(&verdicts)?;
    }
    Ok(outcome)
}

/// The caches that runs of the repository around this folder keep on this machine.
pub(crate) fn caches_here() -> Result<Caches> {
    let repository = Repository::at(find::home()?);
    // Nothing is saved, so nothing has to go.
    Ok(Caches::new(cache_directory()?, earlier::name_of(repository.root())?, u64::MAX))
}

/// The workflows that an event starts; nothing when one of them has errors.
fn chosen(args: &RunArgs, console: &mut Console) -> Result<Option<Vec<Chosen>>> {
    super::plan::known_event(&args.event)?;
    let event = event(args)?;
    let workflows = select::workflows(&args.workflow)?;
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for path in &workflows {
        let Some(compiled) = compiled::compile(path, console)? else { return Ok(None) };
        let note = |reason: &str| format!("`{}`: {reason}", path.display());
        match compiled.triggers.decide(&event) {
            Decision::Run(reason) => {
                if reason.contains("(assuming") && !args.dry_run {
                    console.note_line(&note(&reason));
                }
                let order = order(args, &event, path)?;
                chosen.push(Chosen { path: path.clone(), compiled, order, earlier: None });
            }
            Decision::Skip(reason) => skipped.push(note(&format!("does not run: {reason}"))),
        }
    }
    if chosen.is_empty() {
        for line in &skipped {
            console.note_line(line);
        }
        if args.event == "push" {
            console
                .note_line("other events: `--event workflow_dispatch`, `--event pull_request`, …");
        }
    }
    Ok(Some(select::fitting(chosen)?))
}

/// The workflows that failed last time, as they were asked for then.
fn again(args: &RunArgs, console: &mut Console) -> Result<Option<Vec<Chosen>>> {
    let mut chosen = Vec::new();
    for run in earlier::failed(&state_directory()?, &find::home()?)? {
        let path = PathBuf::from(&run.record.order.workflow);
        if !path.is_file() {
            bail!("the workflow `{}` of the last run is gone", path.display());
        }
        let Some(compiled) = compiled::compile(&path, console)? else { return Ok(None) };
        let mut order = run.record.order.clone();
        order.dirty |= args.dirty;
        replace(&mut order.inputs, pairs(&args.input)?);
        replace(&mut order.vars, pairs(&args.var)?);
        chosen.push(Chosen { path, compiled, order, earlier: Some(run) });
    }
    Ok(Some(select::fitting(chosen)?))
}

/// What is typed now counts more than what was typed then.
fn replace(old: &mut Vec<(String, String)>, new: Vec<(String, String)>) {
    old.retain(|(name, _)| !new.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    old.extend(new);
}

fn worse(left: Outcome, right: Outcome) -> Outcome {
    if right == Outcome::Clean { left } else { right }
}

fn event(args: &RunArgs) -> Result<Event> {
    let payload =
        args.event_file.as_deref().map(read::json_object).transpose()?.unwrap_or_default();
    let told = payload.get("ref").and_then(Value::as_str).map(str::to_owned);
    // A push is one to the branch that is checked out.
    let reference = match told {
        None if args.event == "push" => {
            Repository::at(find::home()?).head().ok().and_then(|head| head.reference)
        }
        told => told,
    };
    Ok(Event { name: args.event.clone(), payload, reference, changed: None })
}

fn order(args: &RunArgs, event: &Event, path: &Path) -> Result<Order> {
    let path =
        std::fs::canonicalize(path).with_context(|| format!("cannot find `{}`", path.display()))?;
    Ok(Order {
        workflow: path.to_string_lossy().into_owned(),
        commit: String::new(),
        dirty: args.dirty,
        event: EventSource {
            name: event.name.clone(),
            payload: event.payload.clone(),
            reference: event.reference.clone(),
        },
        job: args.job.clone(),
        from_step: args.from_step.clone(),
        matrix: args.matrix.clone(),
        inputs: given_inputs(args, event)?,
        vars: pairs(&args.var)?,
    })
}

fn one(
    args: &RunArgs,
    chosen: Chosen,
    batch: &mut Batch,
    console: &mut Console,
) -> Result<Outcome> {
    let Chosen { path, compiled, order, earlier } = chosen;
    let root = find::Target::of(&path)?.root;
    let repository = Repository::at(&root);
    let head = repository.head().map_err(|_| no_commit(&root))?;
    let plan = compiled.plan;
    if args.dry_run {
        let event = event(args)?;
        return super::plan::show(&plan, &compiled.triggers, &event, false, console);
    }
    let record = earlier.as_ref().map(|earlier| &earlier.record);
    let start = start(plan, record, &head.commit, console)?;
    let manner = Manner::choose(args.json, args.progress)?;
    process::become_subreaper().context("cannot look after the children of steps")?;
    let tree = Tree::new(outer_tree().as_deref())?;
    // It gets ready while git writes out the files, and goes while they are removed.
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut guard = Guard::start(&program, &tree)?;
    let options = prepare(args, order, &repository, head, start)?;
    if let Some(Earlier { directory, .. }) = &earlier {
        let artifacts = &options.shelf.artifacts;
        artifacts.take_over(directory).context("cannot take over the artifacts of the last run")?;
    }
    let directory = options.directory.clone();
    if args.json {
        let workflow = options.start.run.plan.root();
        console.print_raw(&report::started(workflow))?;
    }
    let state = state_directory()?;
    batch.add(&state, &root, &directory)?;
    // Beside the run, which does not wait for it.
    let keep = Keep { age: args.keep_runs, bytes: args.runs_limit };
    let pruning = std::thread::spawn(move || prune::earlier_runs(&state, keep));
    let summary = execute(options, &tree, manner, console);
    guard.dismiss()?;
    remove_used_up(&directory);
    guard.finish()?;
    // What it could not remove is there for the next run.
    let _ = pruning.join();
    let summary = summary?;
    if let Some(why) = &summary.unrecorded {
        console.note_line(&format!("`--from-failed` cannot go on from this run: {why}"));
    }
    Ok(match summary.conclusion {
        Conclusion::Success | Conclusion::Skipped => Outcome::Clean,
        Conclusion::Cancelled => Outcome::Cancelled,
        _ => Outcome::Errors,
    })
}

/// `kiln run` runs a commit, so there must be one.
fn no_commit(root: &Path) -> anyhow::Error {
    let place = root.display();
    if root.ancestors().any(|above| above.join(".git").exists()) {
        anyhow!(
            "`{place}` has no commit yet, and `kiln run` runs a commit: `git add -A && git commit`"
        )
    } else {
        anyhow!(
            "`{place}` is not in a git repository, and `kiln run` runs a commit: `git init && git add -A && git commit`"
        )
    }
}

/// All that a run needs: its files, its contexts, its place.
fn prepare(
    args: &RunArgs,
    mut order: Order,
    repository: &Repository,
    head: Head,
    start: Neighbourhood,
) -> Result<Options> {
    let workflow = start.run.plan.root();
    let name = workflow.name.as_ref().unwrap_or(&workflow.path);
    let inputs = inputs::typed(&start.run.plan, &order.event.name, &order.inputs)?;
    inputs::put_into_payload(&mut order.event, &inputs);
    let secrets = given::secrets(args)?;
    let directory = run_directory()?;
    let served = Served::of(repository, directory.join("repository.git"));
    let (commit, files) = served.commit(&head.commit, order.dirty)?;
    order.commit.clone_from(&head.commit);
    let head = Head { commit, ..head };
    // Git takes its time for both, and one does not wait for the other.
    let names = (name.as_str(), workflow.path.as_str());
    let (github, pristine) = std::thread::scope(|scope| {
        let github = scope.spawn(|| github_context(repository, &head, names, &order.event));
        let pristine = Pristine::of_commit(files, &head.commit, directory.join("files"));
        (github.join().expect("it does not panic"), pristine)
    });
    let (github, pristine) = (github?, pristine?);
    let text = |name: &str| github.get(name).and_then(Value::as_str).unwrap_or_default();
    let origin = Origin::new(served, text("repository"), &head.commit, text("ref"), &secrets)?;
    let vars = order.vars.iter().map(|(name, value)| (name.as_str(), value.as_str().into()));
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Options {
        start,
        inputs,
        github,
        vars: vars.collect(),
        order,
        secrets,
        jobs: args.jobs.unwrap_or_else(cores),
        pristine,
        host: host::host(args, origin)?,
        shelf: Arc::new(Shelf::new(
            Artifacts::new(&directory),
            Caches::new(cache_directory()?, earlier::name_of(repository.root())?, args.cache_limit),
        )),
        tool_cache: state_directory()?.join("tools"),
        directory,
        labels: args.label.clone(),
        log_limit: args.log_limit,
    })
}

/// A new run, or a further attempt of an earlier one.
fn start(
    plan: Plan,
    earlier: Option<&Record>,
    commit: &str,
    console: &mut Console,
) -> Result<Neighbourhood> {
    let Some(record) = earlier else {
        return Ok(Neighbourhood::new(Run::new(1, Arc::new(plan))));
    };
    earlier::tell(record, &record.changes(&plan), commit, console);
    record
        .take_over(Run::new(1, Arc::new(plan)))
        .map_err(|refused| earlier::refused(refused, record))
}

/// Runs with signals wired to cancel: the first asks, the second forces.
fn execute(
    options: Options,
    tree: &Tree,
    manner: Manner,
    console: &mut Console,
) -> Result<Summary> {
    let directory = options.directory.clone();
    let run = LocalRun::new(options, tree);
    let canceller = run.canceller();
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGCONT]).context("cannot listen to signals")?;
    let closer = Closer(signals.handle());
    let screen = Screen::new(console, manner);
    let summary = std::thread::scope(|scope| {
        // Both threads end when these two are dropped, even if the run panics.
        let (_running, stop) = mpsc::channel();
        let _closer = closer;
        let screen = &screen;
        scope.spawn(move || screen.animate(&stop));
        scope.spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                if signal == SIGCONT {
                    screen.resumed();
                    continue;
                }
                screen.cancelling(asked);
                canceller.cancel(asked);
                asked = true;
            }
        });
        run.run(&|progress| screen.show(&progress))
    });
    let summary = summary?;
    screen.finish(&summary, &directory)?;
    Ok(summary)
}

/// Ends the thread that listens to signals.
struct Closer(signal_hook::iterator::Handle);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The mark of the run that this one is a step of.
#[expect(clippy::disallowed_methods, reason = "the mark is in the environment")]
fn outer_tree() -> Option<OsString> {
    std::env::var_os(process::VARIABLE)
}
