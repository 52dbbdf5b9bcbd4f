//! `kiln run`: the workflows of this repository, on this machine.

mod earlier;
mod report;
mod select;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::{Context as _, Result, anyhow, bail};
use kiln_core::plan::Plan;
use kiln_core::run::{Conclusion, Neighbourhood, Run};
use kiln_core::value::Value;
use kiln_runner::action::{Mirror, Nodes, Resolver};
use kiln_runner::backend::OnHost;
use kiln_runner::git::{BINDING_VARIABLES, Repository};
use kiln_runner::job::Host;
use kiln_runner::job::environment::Environment;
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
use crate::output::Console;
use crate::read;

use earlier::Batch;
use report::{Manner, Screen};

/// One workflow that is about to run.
struct Chosen {
    path: PathBuf,
    compiled: Compiled,
    order: Order,
    /// The run that this one goes on from.
    earlier: Option<Record>,
}

pub(crate) fn run(args: &RunArgs, console: &mut Console) -> Result<Outcome> {
    let chosen = if args.from_failed { again(args, console)? } else { chosen(args, console)? };
    let Some(chosen) = chosen else { return Ok(Outcome::Trouble) };
    let mut outcome = Outcome::Clean;
    let mut batch = Batch::default();
    for chosen in chosen {
        let ended = one(args, chosen, &mut batch, console)?;
        outcome = worse(outcome, ended);
        if ended == Outcome::Cancelled {
            break;
        }
    }
    Ok(outcome)
}

/// The workflows that an event starts; nothing when one of them has errors.
fn chosen(args: &RunArgs, console: &mut Console) -> Result<Option<Vec<Chosen>>> {
    super::plan::known_event(&args.event)?;
    let event = event(args)?;
    let workflows = select::workflows(&args.workflow)?;
    let mut chosen = Vec::new();
    for path in &workflows {
        let Some(compiled) = compiled::compile(path, console)? else { return Ok(None) };
        match compiled.triggers.decide(&event) {
            Decision::Run(_) => {
                let order = order(args, &event, path)?;
                chosen.push(Chosen { path: path.clone(), compiled, order, earlier: None });
            }
            Decision::Skip(reason) if workflows.len() == 1 => {
                console.note_line(&format!("`{}` does not run: {reason}", path.display()));
            }
            Decision::Skip(_) => {}
        }
    }
    if chosen.is_empty() && workflows.len() > 1 {
        console.note_line(&format!("no workflow listens to `{}`", event.name));
    }
    Ok(Some(chosen))
}

/// The workflows that failed last time, as they were asked for then.
fn again(args: &RunArgs, console: &mut Console) -> Result<Option<Vec<Chosen>>> {
    let mut chosen = Vec::new();
    for record in earlier::failed(&state_directory()?, &find::home()?)? {
        let path = PathBuf::from(&record.order.workflow);
        if !path.is_file() {
            bail!("the workflow `{}` of the last run is gone", path.display());
        }
        let Some(compiled) = compiled::compile(&path, console)? else { return Ok(None) };
        let mut order = record.order.clone();
        order.dirty |= args.dirty;
        replace(&mut order.inputs, pairs(&args.input)?);
        replace(&mut order.vars, pairs(&args.var)?);
        chosen.push(Chosen { path, compiled, order, earlier: Some(record) });
    }
    Ok(Some(chosen))
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
    let reference = payload.get("ref").and_then(Value::as_str).map(str::to_owned);
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
    let Chosen { path, compiled, mut order, earlier } = chosen;
    let root = find::Target::of(&path)?.root;
    let repository = Repository::at(&root);
    let head = repository.ask(&["rev-parse", "--verify", "-q", "HEAD"]).map_err(|_| {
        anyhow!(
            "`{}` is not a git repository with a commit; `kiln run` runs a commit",
            root.display()
        )
    })?;
    let plan = select::jobs(compiled.plan, order.job.as_deref())?;
    let plan = select::matrix(plan, &order.matrix)?;
    if args.dry_run {
        let event = event(args)?;
        return super::plan::show(&plan, &compiled.triggers, &event, false, console);
    }
    let name = plan.root().name.clone().unwrap_or_else(|| plan.root().path.clone());
    let names = (name.as_str(), plan.root().path.as_str());
    let inputs = inputs::typed(&plan, &order.inputs)?;
    let secrets = secrets(args)?;
    let directory = run_directory()?;
    let served = Served::of(&repository, directory.join("repository.git"));
    let (commit, files) = served.commit(&head, order.dirty)?;
    let pristine = Pristine::of_commit(files, &commit, directory.join("files"))?;
    let github = github_context(&repository, &commit, names, &order.event)?;
    order.commit = head;
    let start = start(plan, earlier.as_ref(), &order.commit, console)?;
    batch.add(&state_directory()?, &root, &directory)?;
    let text = |name: &str| github.get(name).and_then(Value::as_str).unwrap_or_default();
    let origin = Origin::new(served, text("repository"), &commit, text("ref"), &secrets)?;
    let vars = order.vars.iter().map(|(name, value)| (name.as_str(), value.as_str().into()));
    let options = Options {
        start,
        inputs,
        github,
        vars: vars.collect(),
        order,
        secrets,
        jobs: args
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        pristine,
        host: host(args, origin)?,
        tool_cache: state_directory()?.join("tools"),
        directory: directory.clone(),
        labels: args.label.clone(),
        log_limit: args.log_limit,
    };
    let manner = Manner::choose(args.json, args.progress)?;
    let summary = execute(options, manner, console)?;
    if let Some(why) = &summary.unrecorded {
        console.note_line(&format!("`--from-failed` cannot go on from this run: {why}"));
    }
    for used_up in ["files", "jobs", "repository.git"] {
        let _ = std::fs::remove_dir_all(directory.join(used_up));
    }
    Ok(match summary.conclusion {
        Conclusion::Success | Conclusion::Skipped => Outcome::Clean,
        Conclusion::Cancelled => Outcome::Cancelled,
        _ => Outcome::Errors,
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
fn execute(options: Options, manner: Manner, console: &mut Console) -> Result<Summary> {
    process::become_subreaper().context("cannot look after the children of steps")?;
    let tree = Tree::new(outer_tree().as_deref())?;
    let guard = Guard::start(&std::env::current_exe().context("cannot find this program")?, &tree)?;
    let directory = options.directory.clone();
    let run = LocalRun::new(options, &tree);
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
    guard.finish()?;
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

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
fn host(args: &RunArgs, origin: Origin) -> Result<Host> {
    let mirror = args.actions.clone().or_else(|| std::env::var("KILN_ACTIONS").ok());
    // A workflow must not see what Kiln itself is told, nor another run's variables, nor the
    // repository whose hook Kiln may have been started by.
    let foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        ["KILN_", "GITHUB_", "RUNNER_", "INPUT_", "ACTIONS_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || BINDING_VARIABLES.contains(&&*name)
    };
    let mut inherited: Environment =
        std::env::vars_os().filter(|(name, _)| !foreign(name)).collect();
    keep_from_proxies(&mut inherited);
    Ok(Host {
        inherited,
        resolver: Resolver {
            mirror: mirror.as_deref().map(Mirror::parse),
            store: state_directory()?.join("actions"),
        },
        origin,
        nodes: Nodes::configured(|name| std::env::var_os(name)),
        backend: Box::new(OnHost),
        timeout: args.timeout,
        silence: Some(args.silence).filter(|limit| !limit.is_zero()),
    })
}

/// What a run serves on loopback must not be looked for behind a proxy.
fn keep_from_proxies(environment: &mut Environment) {
    let is_proxy = |name: &OsString| name.to_string_lossy().to_lowercase().ends_with("_proxy");
    if !environment.keys().any(is_proxy) {
        return;
    }
    // Some programs read one, some the other.
    for name in ["no_proxy", "NO_PROXY"] {
        let exceptions = environment.entry(name.into()).or_default();
        if !exceptions.is_empty() {
            exceptions.push(",");
        }
        exceptions.push("localhost,.localhost,127.0.0.1");
    }
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
