//! Runs are cancelled and run again.

use kiln_core::access::Right;
use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Again, Cancel};
use kiln_store::runs::{self as rows, Answer as Word, Picture, Refused, RunView};
use kiln_store::{Scope, Tx, retention};

use super::late;
use super::runs::{self, Named};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// How long a reason may be.
const LONGEST: usize = 500;

/// A run that is being cancelled.
#[derive(Debug)]
pub struct Cancelling {
    pub named: Named,
    /// That it was before, in words.
    pub already: Option<String>,
}

/// Cancels a run. One that has ended already stays as it is, which is no success; one that is being
/// cancelled goes on with that, and the answer says so.
pub async fn cancel(
    app: &App,
    caller: &Caller,
    run: RunId,
    reason: Option<String>,
    forced: bool,
) -> Answer<Cancelling> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or_else(|| no_reason(caller.name()));
    if reason.len() > LONGEST || reason.contains(char::is_control) {
        return Err(Failure::invalid(format!("a reason is one line of up to {LONGEST} bytes")));
    }
    if named.run.conclusion.is_some() {
        return Err(Failure::conflict("the run has ended already"));
    }
    let scope = Scope::Org(named.run.org);
    let look = async move |tx: &mut Tx<'_>| rows::cancelling(tx, scope, run).await;
    let before = app.store.read(look).await?.filter(|before| before.forced || !forced);
    match app.runs.cancel(scope, &caller.actor(), run, reason, forced).await? {
        Word::Accepted | Word::Unwanted | Word::Otherwise(_) => {
            let named = runs::find(app, caller, Right::Write, run).await?;
            Ok(Cancelling { named, already: before.map(|before| already(app, &before)) })
        }
        Word::Refused(Refused::NoSuchRun) => Err(Failure::not_found("run")),
        Word::Refused(refused) => Err(Failure::conflict(refused.to_string())),
    }
}

/// What jobs are told when whoever cancels gives no reason.
fn no_reason(by: &str) -> String {
    format!("cancelled by {by}")
}

/// Why a run was cancelled, if somebody said it.
pub fn given_reason(view: &RunView) -> Option<&str> {
    let none = view.cancelled_by.as_deref().map(no_reason);
    view.cancel_reason.as_deref().filter(|reason| Some(*reason) != none.as_deref())
}

/// What somebody hears who cancels what is being cancelled.
fn already(app: &App, before: &Cancel) -> String {
    let Cancel { by, at, forced, .. } = before;
    let since = format!("it is being cancelled already, by {by} since {}", at.rfc3339());
    if *forced {
        return since;
    }
    let seconds = app.config.limits.clean_up.as_secs();
    format!("{since}; steps that run all the same have {seconds} s, a forced cancel ends them now")
}

/// Moves what a run has in the queue, now and later. Says which priority it had. Whoever may cancel it may put it back to
/// the usual one; to go before the jobs of others takes an administrator.
pub async fn prioritize(app: &App, caller: &Caller, run: RunId, priority: i64) -> Answer<i64> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    if priority > 0 {
        caller.require(Right::Admin, Some(named.run.org), "run")?;
    }
    let scope = Scope::Org(named.run.org);
    Ok(app.runs.prioritize(scope, &caller.actor(), run, priority).await?)
}

/// Removes a run that has ended, with its artifacts and its logs.
pub async fn remove(app: &App, caller: &Caller, run: RunId) -> Answer<()> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let (scope, actor) = (Scope::Org(named.run.org), caller.actor());
    let work = async move |tx: &mut Tx<'_>| retention::remove_run(tx, scope, &actor, run).await;
    app.store.write(work).await?;
    // Should this fail, the duty `logs` finds that the run is gone.
    app.logs.forget(run).await.map_err(Failure::internal)
}

/// Removes the logs of a run that has ended, of all its attempts.
pub async fn remove_logs(app: &App, caller: &Caller, run: RunId) -> Answer<()> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let (scope, actor) = (Scope::Org(named.run.org), caller.actor());
    let work = async move |tx: &mut Tx<'_>| retention::logs_removed(tx, scope, &actor, run).await;
    app.store.write(work).await?;
    // Somebody may have run it again since.
    if runs::find(app, caller, Right::Write, run).await?.run.conclusion.is_none() {
        return Err(Failure::conflict("the run has begun again, and its logs grow"));
    }
    app.logs.forget(run).await.map_err(Failure::internal)
}

/// What is to be run again.
#[derive(Debug, Clone)]
pub enum What {
    All,
    Failed,
    Job {
        /// By id, slug or name.
        job: String,
        /// Where it begins: by number, id or name.
        step: Option<String>,
    },
}

/// Runs a run that ended again, or a part of it. Says which attempt that is.
pub async fn rerun(app: &App, caller: &Caller, run: RunId, what: What) -> Answer<u32> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let scope = Scope::Org(named.run.org);
    let (again, step) = match what {
        What::All => (Again::All, None),
        What::Failed => (Again::Failed, None),
        What::Job { job, step } => {
            let picture = app.runs.picture(scope, run, None).await?;
            let again = one_job(app, &named, &picture, &job).await?;
            let step = step.map(|step| late::step(&picture.hood, again, step.trim()));
            (again, step.transpose()?)
        }
    };
    Ok(app.runs.again_from(scope, &caller.actor(), run, again, step).await?)
}

async fn one_job(app: &App, named: &Named, picture: &Picture, job: &str) -> Answer<Again> {
    match (named_job(picture, job), job.parse::<JobId>()) {
        (Some(again), _) => Ok(again),
        // In an earlier attempt it had another number.
        (None, Ok(id)) if id.run() == named.run.id => {
            let earlier = runs::job_of(app, named, id).await?;
            named_job(picture, &earlier.name).ok_or_else(|| Failure::not_found("job"))
        }
        (None, _) => Err(Failure::not_found("job")),
    }
}

/// The leg with this id or name; else the job of the workflow with all its legs.
fn named_job(picture: &Picture, name: &str) -> Option<Again> {
    let jobs = &picture.view.jobs;
    if let Ok(id) = name.parse::<JobId>() {
        return jobs.iter().find(|job| job.id == id).map(|job| Again::Leg(job.number));
    }
    if let Some(job) = jobs.iter().find(|job| job.name == name) {
        return Some(Again::Leg(job.number));
    }
    let hood = &picture.hood;
    let node = hood.nodes.keys().find(|node| hood.job_of(**node).id.eq_ignore_ascii_case(name));
    node.map(|node| Again::Node(*node))
}
