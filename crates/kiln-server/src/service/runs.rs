//! Runs for those who look at them.

use std::collections::BTreeMap;

use kiln_core::access::Right;
use kiln_core::id::{JobId, RepoId, RunId};
use kiln_core::queue::Policy;
use kiln_core::run::waits_for_group;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::report::{Deployment, Used};
use kiln_proto::result::ReusedFrom;
use kiln_store::Refusal;
use kiln_store::runs::{self, Look, Looked, Picture, Reused, RunFilter, RunStatus, RunSummary};
use kiln_store::{Duty, Page, Scope, StoreError, Tx};

use super::change;
use super::jobs::{self, Seen, Tried};
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
    /// Why the whole run waits, if it does.
    pub waits: Option<String>,
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
        name_all(tx, found).await
    };
    Ok(app.store.read(work).await?)
}

/// Some of the runs that fit, and where to look for more.
#[derive(Debug, Default)]
pub struct Found {
    pub runs: Vec<Named>,
    pub further: Option<i64>,
}

/// Runs that the caller may see, the newest first, found without looking at more than the look allows.
pub async fn sift(app: &App, caller: &Caller, filter: RunFilter, look: Look) -> Answer<Found> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut looked = Vec::new();
        for scope in &scopes {
            match runs::look(tx, *scope, &filter, look).await {
                // A repository belongs to one organization; whoever is in several asks in vain in the others.
                Err(StoreError::Refused(Refusal::NotFound(_))) if scopes.len() > 1 => {}
                some => looked.push(some?),
            }
        }
        let Looked { runs, further } = together(looked, look);
        Ok(Found { runs: name_all(tx, runs).await?, further })
    };
    Ok(app.store.read(work).await?)
}

/// What several organizations have. Beyond where one of them was looked through, nothing is shown: the next look begins
/// there.
fn together(looked: Vec<Looked>, look: Look) -> Looked {
    let edges = looked.iter().filter_map(|one| one.further);
    let edge = if look.newer { edges.min() } else { edges.max() };
    let inside = |run: &RunSummary| match edge {
        Some(edge) if look.newer => run.id.0 <= edge,
        Some(edge) => run.id.0 >= edge,
        None => true,
    };
    let mut runs: Vec<RunSummary> =
        looked.into_iter().flat_map(|one| one.runs).filter(inside).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.id));
    let limit = look.limit as usize;
    if runs.len() <= limit {
        return Looked { runs, further: edge };
    }
    let further = if look.newer {
        runs.drain(..runs.len() - limit);
        runs.first()
    } else {
        runs.truncate(limit);
        runs.last()
    };
    let further = further.map(|run| run.id.0);
    Looked { runs, further }
}

async fn name_all(tx: &mut Tx<'_>, found: Vec<RunSummary>) -> Result<Vec<Named>, StoreError> {
    let mut names = Names::default();
    let repos = found.iter().map(|run| run.repo).collect();
    let workflows = found.iter().map(|run| run.workflow).collect();
    names.bring(tx, repos, workflows).await?;
    let mut waits = waits(tx, &found).await?;
    let mut named = Vec::with_capacity(found.len());
    for run in found {
        let waits = waits.remove(&run.id);
        named.push(Named { waits, ..name(tx, &mut names, run).await? });
    }
    Ok(named)
}

/// Why those of these runs wait that wait as a whole.
async fn waits(
    tx: &mut Tx<'_>,
    found: &[RunSummary],
) -> Result<BTreeMap<RunId, String>, StoreError> {
    let gated = found.iter().filter(|run| run.status == RunStatus::Pending).map(|run| run.id);
    let groups = runs::groups_of(tx, &gated.collect::<Vec<_>>()).await?;
    Ok(groups.into_iter().map(|(run, group)| (run, waits_for_group(&group, true))).collect())
}

/// The last run of each workflow, of one repository or of all that the caller may see; those that ran last first.
pub async fn latest_of_workflows(
    app: &App,
    caller: &Caller,
    repo: Option<RepoId>,
    bounds: (u32, u32),
) -> Answer<Vec<Named>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            found.extend(runs::latest_of_workflows(tx, *scope, repo, bounds).await?);
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        found.truncate(bounds.1 as usize);
        name_all(tx, found).await
    };
    Ok(app.store.read(work).await?)
}

async fn name(tx: &mut Tx<'_>, names: &mut Names, run: RunSummary) -> Result<Named, StoreError> {
    let repo = names.repo(tx, run.repo).await?;
    let workflow = names.workflow(tx, run.workflow).await?;
    Ok(Named { run, repo, workflow, waits: None })
}

/// A run, for those who know already that it may be seen.
pub async fn look(app: &App, run: RunId) -> Answer<Named> {
    let work = async move |tx: &mut Tx<'_>| {
        let run = runs::get(tx, FIND, run).await?;
        let mut named = name(tx, &mut Names::default(), run).await?;
        named.waits = waits(tx, std::slice::from_ref(&named.run)).await?.remove(&named.run.id);
        Ok(named)
    };
    Ok(app.store.read(work).await?)
}

/// A run that the caller may do this with.
pub async fn find(app: &App, caller: &Caller, right: Right, run: RunId) -> Answer<Named> {
    let named = look(app, run).await?;
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
    attempt_of(app, named, attempt).await
}

/// The current attempt of a run, or the one that is named.
pub async fn attempt_of(app: &App, named: Named, attempt: Option<u32>) -> Answer<Attempt> {
    let (runs, run, scope) = (app.runs.clone(), named.run.id, Scope::Org(named.run.org));
    let policy = app.traffic.policy();
    let work = async move |tx: &mut Tx<'_>| {
        let picture = runs.picture_in(tx, scope, run, attempt).await?;
        let jobs = seen(tx, scope, policy, &picture).await?;
        Ok((picture.view, jobs))
    };
    let (view, jobs) = app.store.read(work).await?;
    Ok(Attempt { named, view, jobs })
}

/// The last attempts of a run, the oldest of them first, without the steps of their jobs.
pub async fn attempts(app: &App, named: &Named, most: u32) -> Answer<Vec<Attempt>> {
    let (runs, scope, id) = (app.runs.clone(), Scope::Org(named.run.org), named.run.id);
    let last = named.run.attempt;
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for attempt in last.saturating_sub(most) + 1..=last {
            let picture = runs.picture_in(tx, scope, id, Some(attempt)).await?;
            let jobs = jobs::seen(tx, &picture, Vec::new()).await?;
            found.push((picture.view, jobs));
        }
        Ok(found)
    };
    let found = app.store.read(work).await?.into_iter();
    Ok(found.map(|(view, jobs)| Attempt { named: named.clone(), view, jobs }).collect())
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
    jobs::add_ends(tx, scope, picture, &mut jobs).await?;
    for (id, reused) in runs::reuses(tx, scope, run, attempt).await? {
        if let Some(job) = jobs.iter_mut().find(|job| job.id == Some(id)) {
            let Reused { job: source, attempt, number, .. } = reused;
            let slug = JobId(source).slug();
            job.reason = format!("reused from run #{number}, attempt {attempt}, job {slug}");
            job.reused = Some(reused);
        }
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
    let seen = job_of(app, &named, id).await?;
    Ok((named, seen))
}

/// One job of a run.
pub async fn job_of(app: &App, named: &Named, id: JobId) -> Answer<Seen> {
    let jobs = jobs_beside(app, named, id).await?;
    jobs.into_iter().find(|job| job.id == Some(id)).ok_or_else(|| Failure::not_found("job"))
}

/// The jobs of the last attempt of a run that has this job in it; none if no attempt has.
pub async fn jobs_beside(app: &App, named: &Named, id: JobId) -> Answer<Vec<Seen>> {
    let (runs, scope, last) = (app.runs.clone(), Scope::Org(named.run.org), named.run.attempt);
    let policy = app.traffic.policy();
    let work = async move |tx: &mut Tx<'_>| {
        // The newest attempt first: that is what people look at.
        for attempt in (1..=last).rev() {
            let picture = runs.picture_in(tx, scope, id.run(), Some(attempt)).await?;
            if picture.view.jobs.iter().any(|job| job.id == id) {
                return seen(tx, scope, policy, &picture).await;
            }
        }
        Ok(Vec::new())
    };
    Ok(app.store.read(work).await?)
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
    let Named { run, repo, workflow, .. } = named;
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
        reason: named.waits.clone(),
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
        run.reason = None;
        run.started_at = view.started.map(Timestamp::rfc3339);
        run.ended_at = view.ended.map(Timestamp::rfc3339);
    }
    // What is shown is this attempt, and how long it takes is counted from its own beginning.
    run.created_at = view.created.rfc3339();
    api::RunDetail {
        run,
        cancelled_by: view.cancelled_by.clone(),
        cancel_reason: change::given_reason(view).map(str::to_owned),
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
        prepared_at: time(job.timings.prepared),
        started_at: time(job.timings.started),
        ended_at: time(job.timings.ended),
        steps: job.steps.iter().map(step).collect(),
        outputs: job.outputs.iter().cloned().collect::<BTreeMap<_, _>>(),
        reused_from: job.reused.as_ref().map(|reused| ReusedFrom {
            run_id: JobId(reused.job).run().0,
            run_number: reused.number,
            run_attempt: reused.attempt,
            job_id: reused.job,
        }),
        used: job.used.map(|used| Used {
            cpu_ms: used.cpu_ms,
            memory_peak_kb: used.memory_peak_kb,
            disk_mb: used.disk_mb,
        }),
        allowed: job.allowed.clone(),
        deployment: job.deployed.as_ref().map(|deployed| Deployment {
            environment: deployed.environment.clone(),
            url: deployed.url.clone(),
        }),
        claims: job.claims.iter().map(tried).collect(),
        node: job.node,
        needs: job.needs.clone(),
    }
}

fn tried(tried: &Tried) -> api::PastClaim {
    let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
    let Tried { past, runner_name } = tried;
    api::PastClaim {
        attempt: past.claim,
        runner: runner_name.clone(),
        runner_id: past.runner.0,
        outcome: past.outcome.clone(),
        reason: past.reason.clone(),
        claimed_at: time(past.timings.claimed),
        prepared_at: time(past.timings.prepared),
        started_at: time(past.timings.started),
        ended_at: time(past.timings.ended),
    }
}

#[cfg(test)]
mod tests {
    use kiln_core::id::{OrgId, WorkflowId};

    use super::*;

    fn looked(ids: &[i64], further: Option<i64>) -> Looked {
        let run = |id: &i64| RunSummary {
            id: RunId(*id),
            org: OrgId(1),
            repo: RepoId(1),
            workflow: WorkflowId(1),
            number: 1,
            attempt: 1,
            event: String::new(),
            actor: String::new(),
            reference: String::new(),
            head_sha: String::new(),
            head_branch: None,
            title: String::new(),
            status: RunStatus::Completed,
            conclusion: None,
            created: Timestamp(0),
            started: None,
            ended: None,
            note: None,
        };
        Looked { runs: ids.iter().map(run).collect(), further }
    }

    fn check(all: Vec<Looked>, newer: bool, expect: (&[i64], Option<i64>)) {
        let found = together(all, Look { from: None, newer, limit: 3, most: 9 });
        let ids: Vec<i64> = found.runs.iter().map(|run| run.id.0).collect();
        assert_eq!((ids.as_slice(), found.further), expect);
    }

    #[test]
    fn what_several_organizations_have_is_one_list_without_gaps() {
        check(vec![], false, (&[], None));
        check(vec![looked(&[9, 5], None), looked(&[7], None)], false, (&[9, 7, 5], None));
        check(
            vec![looked(&[9, 8, 1], Some(1)), looked(&[7, 6], None)],
            false,
            (&[9, 8, 7], Some(7)),
        );
        // The second was looked through down to 6 only: 5 may come after something that nobody has seen.
        check(vec![looked(&[9, 5], None), looked(&[], Some(6))], false, (&[9], Some(6)));
        check(vec![looked(&[9, 5], None), looked(&[], Some(7))], true, (&[5], Some(7)));
        check(vec![looked(&[6, 5, 4], Some(6)), looked(&[3], None)], true, (&[5, 4, 3], Some(5)));
    }
}
