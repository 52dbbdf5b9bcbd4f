//! Runs are cancelled and run again.

use kiln_core::access::Right;
use kiln_core::id::{JobId, RunId};
use kiln_core::run::Again;
use kiln_store::Scope;
use kiln_store::runs::{Answer as Word, Picture, Refused};

use super::runs::{self, Named};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// How long a reason may be.
const LONGEST: usize = 500;

/// Cancels a run. One that has ended already stays as it is, which is no success.
pub async fn cancel(
    app: &App,
    caller: &Caller,
    run: RunId,
    reason: Option<String>,
    forced: bool,
) -> Answer<Named> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or_else(|| format!("cancelled by {}", caller.name()));
    if reason.len() > LONGEST || reason.contains(char::is_control) {
        return Err(Failure::invalid(format!("a reason is one line of up to {LONGEST} bytes")));
    }
    if named.run.conclusion.is_some() {
        return Err(Failure::conflict("the run has ended already"));
    }
    let scope = Scope::Org(named.run.org);
    match app.runs.cancel(scope, &caller.actor(), run, reason, forced).await? {
        Word::Accepted => runs::find(app, caller, Right::Write, run).await,
        Word::Refused(Refused::NoSuchRun) => Err(Failure::not_found("run")),
        Word::Refused(refused) => Err(Failure::conflict(refused.to_string())),
    }
}

/// What is to be run again.
#[derive(Debug, Clone)]
pub enum What {
    All,
    Failed,
    /// By id, slug or name.
    Job(String),
}

/// Runs a run that ended again, or a part of it. Says which attempt that is.
pub async fn rerun(app: &App, caller: &Caller, run: RunId, what: What) -> Answer<u32> {
    let named = runs::find(app, caller, Right::Write, run).await?;
    let scope = Scope::Org(named.run.org);
    let again = match what {
        What::All => Again::All,
        What::Failed => Again::Failed,
        What::Job(name) => {
            let picture = app.runs.picture(scope, run, None).await?;
            named_job(&picture, &name).ok_or_else(|| Failure::not_found("job"))?
        }
    };
    Ok(app.runs.again(scope, &caller.actor(), run, again).await?)
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
