//! Runs for those who look at them.

use std::collections::{BTreeMap, HashMap};

use kiln_core::access::Right;
use kiln_core::id::{JobId, RunId};
use kiln_core::queue::Policy;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::report::Used;
use kiln_store::Refusal;
use kiln_store::runs::{self, JobUse, Picture, RunFilter, RunSummary};
use kiln_store::{Duty, Page, Scope, StoreError, Tx};

use super::jobs::{self, Seen};
use super::names::{Names, RepoName, WorkflowName};
use super::queue;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// To find whose something is; what comes of it is shown only after that was checked.
pub(crate) const FIND: Scope = Scope::System(Duty::Administration);

/// A run with the names of what it belongs to.
#[derive(Debug, Clone)]
pub struct Named {
    pub run: RunSummary,
    pub repo: RepoName,
    pub workflow: WorkflowName,
}

/// Where a person can look at a run.
pub fn url(app: &App, repo: &RepoName, run: RunId) -> String {
    format!("{}/{}/actions/runs/{run}", app.config.public_url, repo.full())
}

/// Runs that the caller may see, the newest first.
pub async fn list(app: &App, caller: &Caller, filter: RunFilter, page: Page) -> Answer<Vec<Named>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            match runs::search(tx, *scope, &filter, page).await {
                // A repository belongs to one organization; whoever is in several asks in vain in the others.
                Err(StoreError::Refused(Refusal::NotFound(_))) if scopes.len() > 1 => {}
                some => found.extend(some?),
            }
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        found.truncate(page.limit as usize);
        let mut names = Names::default();
        let mut named = Vec::with_capacity(found.len());
        for run in found {
            named.push(name(tx, &mut names, run).await?);
        }
        Ok(named)
    };
    Ok(app.store.read(work).await?)
}

async fn name(tx: &mut Tx<'_>, names: &mut Names, run: RunSummary) -> Result<Named, StoreError> {
    let repo = names.repo(tx, run.repo).await?;
    let workflow = names.workflow(tx, run.workflow).await?;
    Ok(Named { run, repo, workflow })
}

/// A run that the caller may do this with.
pub async fn find(app: &App, caller: &Caller, right: Right, run: RunId) -> Answer<Named> {
    let work = async move |tx: &mut Tx<'_>| {
        let run = runs::get(tx, FIND, run).await?;
        name(tx, &mut Names::default(), run).await
    };
    let named = app.store.read(work).await?;
    caller.require(right, Some(named.run.org), "run")?;
    Ok(named)
}

/// A run of a certain repository, for addresses that name both.
pub async fn find_in(
    app: &App,
    caller: &Caller,
    right: Right,
    (repo, run): (&str, RunId),
) -> Answer<Named> {
    let named = find(app, caller, right, run).await?;
    if named.repo.full() == repo { Ok(named) } else { Err(Failure::not_found("run")) }
}

/// An attempt of a run with all its jobs.
#[derive(Debug)]
pub struct Attempt {
    pub named: Named,
    pub view: runs::RunView,
    pub jobs: Vec<Seen>,
}

/// The current attempt, or the one that is named.
pub async fn attempt(
    app: &App,
    caller: &Caller,
    run: RunId,
    attempt: Option<u32>,
) -> Answer<Attempt> {
    let named = find(app, caller, Right::Read, run).await?;
    let (runs, scope) = (app.runs.clone(), Scope::Org(named.run.org));
    let policy = app.traffic.policy();
    let work = async move |tx: &mut Tx<'_>| {
        let picture = runs.picture_in(tx, scope, run, attempt).await?;
        let jobs = seen(tx, scope, policy, &picture).await?;
        Ok((picture.view, jobs))
    };
    let (view, jobs) = app.store.read(work).await?;
    Ok(Attempt { named, view, jobs })
}

/// The jobs of an attempt. Why they wait for a runner, the queue knows best.
async fn seen(
    tx: &mut Tx<'_>,
    scope: Scope,
    policy: Policy,
    picture: &Picture,
) -> Result<Vec<Seen>, StoreError> {
    let (run, attempt) = (picture.view.id, picture.view.attempt);
    let steps = runs::steps(tx, scope, run, Some(attempt)).await?;
    let mut jobs = jobs::seen(tx, picture, steps).await?;
    let mut uses: HashMap<JobId, JobUse> =
        runs::uses(tx, scope, run, attempt).await?.into_iter().collect();
    for job in &mut jobs {
        job.used = job.id.and_then(|id| uses.remove(&id));
    }
    if jobs.iter().any(|job| job.status == "queued") {
        let mut reasons = queue::reasons(tx, policy, run).await?;
        for job in &mut jobs {
            let reason = job.id.and_then(|id| reasons.remove(&id));
            job.reason = reason.unwrap_or_else(|| std::mem::take(&mut job.reason));
        }
    }
    Ok(jobs)
}

/// One job, wherever in its run's attempts it is, with the run.
pub async fn job(app: &App, caller: &Caller, right: Right, id: JobId) -> Answer<(Named, Seen)> {
    let named = find(app, caller, right, id.run()).await.map_err(no_job)?;
    let (runs, scope, last) = (app.runs.clone(), Scope::Org(named.run.org), named.run.attempt);
    let policy = app.traffic.policy();
    let work = async move |tx: &mut Tx<'_>| {
        // The newest attempt first: that is what people look at.
        for attempt in (1..=last).rev() {
            let picture = runs.picture_in(tx, scope, id.run(), Some(attempt)).await?;
            if picture.view.jobs.iter().any(|job| job.id == id) {
                let seen = seen(tx, scope, policy, &picture).await?;
                return Ok(seen.into_iter().find(|job| job.id == Some(id)));
            }
        }
        Ok(None)
    };
    let seen = app.store.read(work).await?.ok_or_else(|| Failure::not_found("job"))?;
    Ok((named, seen))
}

/// Whoever asks for a job hears about jobs.
fn no_job(failure: Failure) -> Failure {
    if failure.status() == axum::http::StatusCode::NOT_FOUND {
        Failure::not_found("job")
    } else {
        failure
    }
}

pub fn shown(app: &App, named: &Named) -> api::Run {
    let Named { run, repo, workflow } = named;
    api::Run {
        id: run.id.0,
        slug: run.id.slug(),
        repo: repo.full(),
        workflow: workflow.path.clone(),
        name: workflow.name.clone(),
        title: run.title.clone(),
        number: run.number,
        attempt: run.attempt,
        event: run.event.clone(),
        actor: run.actor.clone(),
        reference: run.reference.clone(),
        sha: run.head_sha.clone(),
        status: run.status.word().to_owned(),
        conclusion: run.conclusion.map(|conclusion| conclusion.github().to_owned()),
        created_at: run.created.rfc3339(),
        started_at: run.started.map(Timestamp::rfc3339),
        ended_at: run.ended.map(Timestamp::rfc3339),
        url: url(app, repo, run.id),
    }
}

/// The run as it was, or is, in this attempt.
pub fn detail(app: &App, found: &Attempt) -> api::RunDetail {
    let mut run = shown(app, &found.named);
    let view = &found.view;
    if view.attempt != run.attempt {
        let (status, conclusion) = jobs::run_status(&view.state);
        run.attempt = view.attempt;
        status.clone_into(&mut run.status);
        run.conclusion = conclusion.map(|conclusion| conclusion.github().to_owned());
        run.created_at = view.created.rfc3339();
        run.started_at = view.started.map(Timestamp::rfc3339);
        run.ended_at = view.ended.map(Timestamp::rfc3339);
    }
    api::RunDetail {
        run,
        cancelled_by: view.cancelled_by.clone(),
        cancel_reason: view.cancel_reason.clone(),
        note: view.note.clone(),
        jobs: found.jobs.iter().map(job_shown).collect(),
    }
}

pub fn job_shown(job: &Seen) -> api::Job {
    let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
    let step = |step: &runs::StepView| api::Step {
        number: step.number.saturating_add(1),
        name: step.name.clone(),
        status: step.status.word().to_owned(),
        conclusion: step.conclusion.map(|conclusion| conclusion.github().to_owned()),
        exit_code: step.exit_code,
        started_at: time(step.started),
        ended_at: time(step.ended),
    };
    api::Job {
        id: job.id.map(|id| id.0),
        slug: job.id.map(JobId::slug),
        run_id: job.run.0,
        run_attempt: job.run_attempt,
        name: job.name.clone(),
        status: job.status.to_owned(),
        conclusion: job.conclusion.map(|conclusion| conclusion.github().to_owned()),
        reason: job.reason.clone(),
        attempt: job.claim,
        runner: job.runner_name.clone(),
        runner_id: job.runner.map(|runner| runner.0),
        queued_at: time(job.timings.queued),
        claimed_at: time(job.timings.claimed),
        started_at: time(job.timings.started),
        ended_at: time(job.timings.ended),
        steps: job.steps.iter().map(step).collect(),
        outputs: job.outputs.iter().cloned().collect::<BTreeMap<_, _>>(),
        used: job.used.map(|used| Used {
            cpu_ms: used.cpu_ms,
            memory_peak_kb: used.memory_peak_kb,
            disk_mb: used.disk_mb,
        }),
    }
}
