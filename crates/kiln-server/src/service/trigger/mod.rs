//! Something happened in a repository: which workflows does it start?
//!
//! One look at the database, one question to git, one transaction: a trigger whose commit was seen before
//! costs little more than that.

mod begin;
mod inputs;
mod payload;
mod trust;

use std::sync::Arc;
use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::WorkflowId;
use kiln_core::value::{Object, Value};
use kiln_lang::trigger::{self, ChangedFiles, Comparison, Decision};
use kiln_proto::api;
use kiln_store::directory::repositories::Repository;
use kiln_store::directory::{organizations, repositories, variables, workflows};
use kiln_store::{Scope, Tx};
use serde_json::json;

use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::sources::{Location, Resolved, Snapshot, SourceError, Sources, Workflow};

pub use begin::Started;

/// The priority that goes before all others.
const FIRST: i64 = 100;
/// How long ago a run may have begun that is taken for what is asked.
const LONGEST: Duration = Duration::from_hours(24);

/// What somebody asks for.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// A path, a file name or an id; all workflows when there is none.
    pub workflow: Option<String>,
    pub event: Option<String>,
    pub reference: Option<String>,
    pub sha: Option<String>,
    /// For a dispatch, as texts.
    pub inputs: Vec<(String, String)>,
    /// What is known better than Kiln could guess it.
    pub payload: Object,
    /// By which the same request is known again.
    pub key: Option<String>,
    /// A file that cannot be used is the caller's mistake, not a failed run.
    pub strict: bool,
    /// From 0 to 100; what is above 0 is for administrators.
    pub priority: i64,
    /// A run of the same commit within this time is meant, if there is one.
    pub within: Option<Duration>,
}

impl Ask {
    /// All that was asked for, by which two requests are told apart.
    fn request(&self) -> String {
        let Self {
            workflow,
            event,
            reference,
            sha,
            inputs,
            payload,
            strict,
            priority,
            within,
            key: _,
        } = self;
        json!([workflow, event, reference, sha, inputs, payload, strict, priority, within])
            .to_string()
    }
}

/// The repository of a trigger, with what its expressions see.
#[derive(Debug, Clone)]
struct Place {
    repo: Repository,
    owner: String,
    vars: Object,
}

impl Place {
    fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.repo.name)
    }

    fn location(&self) -> Answer<Location> {
        let source = self.repo.clone_url.clone().ok_or_else(|| {
            Failure::conflict("the repository has no source; add it again with one")
        })?;
        Ok(Location { id: self.repo.id.0, source })
    }
}

/// What happened, and where.
#[derive(Debug)]
struct Happening {
    place: Place,
    event: String,
    /// The full ref.
    reference: String,
    commit: String,
    payload: Object,
    snapshot: Arc<Snapshot>,
    actor: String,
    asked: Ask,
}

/// What came of a trigger.
#[derive(Debug, Default)]
pub struct Outcome {
    pub started: Vec<Started>,
    pub skipped: Vec<api::SkippedWorkflow>,
}

/// Starts what the event starts. Without a named workflow each file is for itself: one that does not
/// listen, or whose inputs are wrong, is skipped with its reason.
pub async fn trigger(app: &App, caller: &Caller, full_name: &str, ask: Ask) -> Answer<Outcome> {
    check(&ask)?;
    let place = place(app, caller, full_name).await?;
    if ask.priority > 0 {
        // It goes before the jobs of others, too.
        caller.require(Right::Admin, Some(place.repo.org), "repository")?;
    }
    let location = place.location()?;
    let Target { commit, reference } = resolve(app, &place, &location, &ask).await?;
    let snapshot = app.workflows.at(&location, &commit).await.map_err(unreadable)?;
    let chosen = choose(app, &place, &snapshot, ask.workflow.as_deref()).await?;
    let event = ask.event.clone().unwrap_or_else(|| usual_event(&ask).to_owned());
    let facts = payload::Facts {
        repo: &place.repo,
        owner: &place.owner,
        reference: &reference,
        commit: &commit,
        info: &snapshot.info,
        actor: caller.name(),
        public_url: &app.config.public_url,
    };
    let payload = payload::of(&event, &facts, &ask.payload);
    let actor = caller.name().to_owned();
    let happening =
        Happening { place, event, reference, commit, payload, snapshot, actor, asked: ask };
    let (wanted, mut skipped) = decide(app, &location, &happening, &chosen).await?;
    let (started, refused) = begin::begin(app, caller, happening, wanted).await?;
    skipped.extend(refused);
    Ok(Outcome { started, skipped })
}

/// What a trigger means that does not say what happened.
fn usual_event(ask: &Ask) -> &'static str {
    if ask.workflow.is_some() { "workflow_dispatch" } else { "push" }
}

fn check(ask: &Ask) -> Answer<()> {
    let texts = [&ask.workflow, &ask.event, &ask.reference, &ask.sha, &ask.key];
    if texts.iter().copied().flatten().any(|text| !is_word(text)) {
        return Err(Failure::invalid(
            "workflow, event, ref, sha and Idempotency-Key are 1 to 255 characters on one line",
        ));
    }
    if ask.reference.iter().chain(&ask.sha).any(|name| name.starts_with('-')) {
        return Err(Failure::invalid("no ref and no commit begins with `-`"));
    }
    if let Some(event) = &ask.event
        && trigger::event(event).is_none()
    {
        return Err(Failure::invalid(format!("there is no event `{event}`")));
    }
    if !(0..=FIRST).contains(&ask.priority) {
        return Err(Failure::invalid(format!("`priority` is a number from 0 to {FIRST}")));
    }
    if ask.within.is_some_and(|within| within.is_zero() || within > LONGEST) {
        let most = LONGEST.as_secs();
        return Err(Failure::invalid(format!("`within` is a number of seconds from 1 to {most}")));
    }
    let event = ask.event.as_deref().unwrap_or_else(|| usual_event(ask));
    if !ask.inputs.is_empty() && event != "workflow_dispatch" {
        return Err(Failure::invalid("only `workflow_dispatch` has inputs"));
    }
    Ok(())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control)
}

async fn place(app: &App, caller: &Caller, full_name: &str) -> Answer<Place> {
    let name = full_name.to_owned();
    let work = async move |tx: &mut Tx<'_>| {
        let repo = repositories::by_name(tx, FIND, &name).await?;
        let owner = organizations::get(tx, FIND, repo.org).await?.name;
        let vars = variables::for_job(tx, Scope::Org(repo.org), repo.id, None).await?;
        let vars = vars.into_iter().map(|var| (var.name, Value::from(var.value))).collect();
        Ok(Place { repo, owner, vars })
    };
    let place = app.store.read(work).await?;
    caller.require(Right::Write, Some(place.repo.org), "repository")?;
    if !place.repo.enabled {
        return Err(Failure::conflict("the repository is disabled and starts no runs"));
    }
    Ok(place)
}

/// What is to be run.
struct Target {
    commit: String,
    reference: String,
}

async fn resolve(app: &App, place: &Place, location: &Location, ask: &Ask) -> Answer<Target> {
    let usual = place.repo.default_branch.clone();
    let (name, sha) = (ask.reference.clone().unwrap_or_else(|| usual.clone()), ask.sha.clone());
    let (location, named) = (location.clone(), ask.reference.is_some());
    let default = usual.clone();
    let answer = app.workflows.ask(move |sources| {
        // A commit never changes: what the copy has of it needs no fetch.
        if let Some(sha) = sha.as_deref().filter(|sha| !named && is_whole(sha))
            && let Ok(found) = on_its_ref(sources, &location, sha, &name)
        {
            return Ok(found);
        }
        if super::repos::is_remote(&location.source) {
            sources.refresh(&location)?;
        }
        let found = match sha {
            Some(sha) => on_its_ref(sources, &location, &sha, &name)?,
            None => sources.resolve(&location, &name)?,
        };
        if found.reference.is_some() {
            return Ok(found);
        }
        // A commit that was named as a ref goes by the default branch, so it must be on that.
        on_its_ref(sources, &location, &found.commit, &default)
    });
    let Resolved { commit, reference } = answer.await.map_err(unreadable)?;
    Ok(Target { commit, reference: reference.unwrap_or_else(|| format!("refs/heads/{usual}")) })
}

/// A commit of a branch or tag. Caches, and what clouds are told, go by the ref of a run: it must not be
/// somebody's own commit under the name of a branch that they may not push to.
fn on_its_ref(
    sources: &dyn Sources,
    location: &Location,
    sha: &str,
    name: &str,
) -> Result<Resolved, SourceError> {
    let commit = sources.resolve(location, sha)?.commit;
    let tip = sources.resolve(location, name)?;
    if commit != tip.commit && !sources.is_part_of(location, &commit, &tip.commit)? {
        return Err(SourceError::NotFound(format!(
            "the commit `{sha}` is not on `{name}`; name the branch or tag that it is on with `ref`"
        )));
    }
    Ok(Resolved { commit, reference: tip.reference })
}

/// Whether this is all of a commit's id, not a part that may mean another commit later.
fn is_whole(sha: &str) -> bool {
    matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn unreadable(error: SourceError) -> Failure {
    match error {
        SourceError::NotFound(message) => Failure::invalid(message),
        SourceError::Broken(message) => {
            tracing::warn!(%message, "a repository cannot be read");
            Failure::conflict(format!("the repository cannot be read: {message}"))
        }
        SourceError::Busy => Failure::unavailable(error.to_string()),
    }
}

/// The files in question, by their places in the snapshot.
async fn choose(
    app: &App,
    place: &Place,
    snapshot: &Snapshot,
    named: Option<&str>,
) -> Answer<Vec<usize>> {
    let Some(named) = named else {
        if snapshot.files.is_empty() {
            return Err(Failure::invalid("the commit has no file in `.github/workflows`"));
        }
        return Ok((0..snapshot.files.len()).collect());
    };
    let path = match named.parse::<i64>() {
        Ok(id) => path_of(app, place, WorkflowId(id)).await?,
        Err(_) => named.to_owned(),
    };
    let found = snapshot.files.iter().position(|file| is_called(file, &path));
    found.map(|at| vec![at]).ok_or_else(|| Failure::not_found("workflow"))
}

/// A file is known by its path, its name, and its name without the ending.
fn is_called(file: &Workflow, name: &str) -> bool {
    let own = file.file_name();
    file.path == name || own == name || own.rsplit_once('.').is_some_and(|(stem, _)| stem == name)
}

async fn path_of(app: &App, place: &Place, id: WorkflowId) -> Answer<String> {
    let (scope, repo) = (Scope::Org(place.repo.org), place.repo.id);
    let work = async move |tx: &mut Tx<'_>| workflows::get(tx, scope, id).await;
    let found = app.store.read(work).await?;
    if found.repo == repo { Ok(found.path) } else { Err(Failure::not_found("workflow")) }
}

/// A workflow that is to start, with the inputs of its run.
#[derive(Debug)]
struct Wanted {
    /// Its place in the snapshot.
    at: usize,
    inputs: Object,
}

async fn decide(
    app: &App,
    location: &Location,
    happening: &Happening,
    chosen: &[usize],
) -> Answer<(Vec<Wanted>, Vec<api::SkippedWorkflow>)> {
    let (files, ask) = (&happening.snapshot.files, &happening.asked);
    let by_path = chosen.iter().any(|at| files[*at].triggers.iter().any(|on| on.paths.is_some()));
    let mut event = trigger::Event::of_payload(
        &happening.event,
        &happening.payload,
        Some(&happening.reference),
        ChangedFiles::Unknown,
    );
    if by_path {
        event.changed_files = changed(app, location, &event).await?;
    }
    let (mut wanted, mut skipped) = (Vec::new(), Vec::new());
    for &at in chosen {
        let file = &files[at];
        if let (true, Err(problem)) = (ask.strict, &file.plan) {
            return Err(Failure::invalid(problem.clone()));
        }
        match starts(file, &event, &ask.inputs) {
            Ok(inputs) => wanted.push(Wanted { at, inputs }),
            Err(reason) if ask.workflow.is_some() => return Err(Failure::invalid(reason)),
            Err(reason) => {
                skipped.push(api::SkippedWorkflow { workflow: file.path.clone(), reason });
            }
        }
    }
    Ok((wanted, skipped))
}

/// The inputs of the run that the event starts, or why it starts none. A file that cannot even be read
/// as far as its events makes a run that says so.
fn starts(
    file: &Workflow,
    event: &trigger::Event,
    inputs: &[(String, String)],
) -> Result<Object, String> {
    if file.triggers.is_empty() && file.plan.is_err() {
        return Ok(Object::new());
    }
    if let Decision::Skip(reason) = trigger::matches(&file.triggers, event) {
        return Err(reason.to_string());
    }
    match &file.plan {
        Ok(plan) if event.name == "workflow_dispatch" => inputs::typed(plan, inputs),
        _ => Ok(Object::new()),
    }
}

/// The files that a push changed, where that can be known.
async fn changed(app: &App, location: &Location, event: &trigger::Event) -> Answer<ChangedFiles> {
    let (before, after) = match trigger::compare_for(event) {
        Comparison::TwoDot { before, after } => (before.to_owned(), after.to_owned()),
        _ => return Ok(ChangedFiles::Unknown),
    };
    let location = location.clone();
    let answer = app.workflows.ask(move |sources| sources.changed(&location, &before, &after));
    match answer.await {
        Ok(Some(files)) => Ok(ChangedFiles::Known(files)),
        Ok(None) | Err(SourceError::NotFound(_)) => Ok(ChangedFiles::Unknown),
        Err(error) => Err(unreadable(error)),
    }
}

pub use inputs::texts_of;
