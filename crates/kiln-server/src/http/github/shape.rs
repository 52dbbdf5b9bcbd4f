//! Rows in GitHub's shape.

use kiln_core::id::{JOBS_PER_RUN, JobId};
use kiln_core::time::Timestamp;
use kiln_proto::github::{Job, Repository, Step, User, Workflow, WorkflowRun};
use kiln_store::directory::workflows;
use kiln_store::runs::StepView;

use crate::app::App;
use crate::http::addresses::GITHUB;
use crate::service::jobs::{self, Seen};
use crate::service::names::RepoName;
use crate::service::runs::{self, Attempt, Named};

/// Where the interface of a repository begins.
pub(super) fn base(app: &App, repo: &RepoName) -> String {
    format!("{}{GITHUB}/repos/{}", app.config.public_url, repo.full())
}

pub(super) fn user(login: &str) -> User {
    User { login: login.to_owned(), kind: "User".to_owned() }
}

/// GitHub's times have no parts of a second.
pub(super) fn time(at: Timestamp) -> String {
    let whole = Timestamp(at.0 / 1_000 * 1_000).rfc3339();
    whole.replace(".000Z", "Z")
}

pub(super) fn run(app: &App, named: &Named) -> WorkflowRun {
    let Named { run, repo, workflow, .. } = named;
    let base = base(app, repo);
    let url = format!("{base}/actions/runs/{}", run.id);
    let earlier = run.attempt.checked_sub(1).filter(|attempt| *attempt > 0);
    let last = run.ended.or(run.started).unwrap_or(run.created);
    WorkflowRun {
        id: run.id.0,
        node_id: run.id.slug(),
        name: workflow.name.clone(),
        display_title: run.title.clone(),
        head_branch: run.head_branch.clone(),
        head_sha: run.head_sha.clone(),
        path: workflow.path.clone(),
        run_number: run.number,
        run_attempt: run.attempt,
        event: run.event.clone(),
        status: run.status.word().to_owned(),
        conclusion: run.conclusion.map(|conclusion| conclusion.github().to_owned()),
        workflow_id: run.workflow.0,
        html_url: runs::url(app, repo, run.id),
        created_at: time(run.created),
        updated_at: time(last),
        run_started_at: run.started.or(Some(run.created)).map(time),
        actor: user(&run.actor),
        triggering_actor: user(&run.actor),
        jobs_url: format!("{url}/jobs"),
        logs_url: format!("{url}/logs"),
        artifacts_url: format!("{url}/artifacts"),
        cancel_url: format!("{url}/cancel"),
        rerun_url: format!("{url}/rerun"),
        workflow_url: format!("{base}/actions/workflows/{}", run.workflow),
        previous_attempt_url: earlier.map(|attempt| format!("{url}/attempts/{attempt}")),
        pull_requests: Vec::new(),
        head_repository: repository(app, repo, run.repo.0),
        repository: repository(app, repo, run.repo.0),
        url,
    }
}

/// The run as it was in this attempt.
pub(super) fn attempt(app: &App, found: &Attempt) -> WorkflowRun {
    let mut shown = run(app, &found.named);
    let view = &found.view;
    shown.triggering_actor = user(&view.actor);
    if view.attempt != shown.run_attempt {
        let (status, conclusion) = jobs::run_status(&view.state);
        let earlier = view.attempt.checked_sub(1).filter(|attempt| *attempt > 0);
        shown.run_attempt = view.attempt;
        status.clone_into(&mut shown.status);
        shown.conclusion = conclusion.map(|conclusion| conclusion.github().to_owned());
        shown.run_started_at = view.started.or(Some(view.created)).map(time);
        shown.updated_at = time(view.ended.or(view.started).unwrap_or(view.created));
        let before = |attempt| format!("{}/attempts/{attempt}", shown.url);
        shown.previous_attempt_url = earlier.map(before);
    }
    shown
}

pub(super) fn repository(app: &App, repo: &RepoName, id: i64) -> Repository {
    Repository {
        id,
        name: repo.name.clone(),
        full_name: repo.full(),
        owner: User::organization(&repo.owner),
        html_url: format!("{}/{}", app.config.public_url, repo.full()),
        url: base(app, repo),
    }
}

/// A job that never became a leg has a number that no leg will ever have.
fn id_of(job: &Seen) -> JobId {
    let none = || JobId::of(job.run, JOBS_PER_RUN - 1 - i64::from(job.node));
    job.id.unwrap_or_else(none)
}

pub(super) fn job(app: &App, named: &Named, job: &Seen) -> Job {
    let Named { run, repo, workflow, .. } = named;
    let (base, id) = (base(app, repo), id_of(job));
    Job {
        id: id.0,
        node_id: id.slug(),
        run_id: run.id.0,
        run_url: format!("{base}/actions/runs/{}", run.id),
        run_attempt: job.run_attempt,
        head_branch: run.head_branch.clone(),
        head_sha: run.head_sha.clone(),
        workflow_name: workflow.name.clone(),
        name: job.name.clone(),
        status: job.status.to_owned(),
        conclusion: job.conclusion.map(|conclusion| conclusion.github().to_owned()),
        url: format!("{base}/actions/jobs/{id}"),
        html_url: format!("{}/job/{id}", runs::url(app, repo, run.id)),
        created_at: time(job.timings.queued.unwrap_or(run.created)),
        started_at: job.timings.started.map(time),
        completed_at: job.timings.ended.map(time),
        labels: job.labels.clone(),
        runner_id: job.runner.map(|runner| runner.0),
        runner_name: job.runner_name.clone(),
        runner_group_id: None,
        runner_group_name: None,
        check_run_url: format!("{base}/check-runs/{id}"),
        steps: job.steps.iter().map(step).collect(),
    }
}

fn step(step: &StepView) -> Step {
    Step {
        name: step.name.clone(),
        status: step.status.word().to_owned(),
        conclusion: step.conclusion.map(|conclusion| conclusion.github().to_owned()),
        number: step.number.saturating_add(1),
        started_at: step.started.map(time),
        completed_at: step.ended.map(time),
    }
}

pub(super) fn workflow(app: &App, repo: &RepoName, found: &workflows::Workflow) -> Workflow {
    let html = format!("{}/{}", app.config.public_url, repo.full());
    let file = found.path.rsplit('/').next().unwrap_or(&found.path);
    let state = if found.enabled { "active" } else { "disabled_manually" };
    Workflow {
        id: found.id.0,
        node_id: found.id.slug(),
        name: found.name.clone(),
        path: found.path.clone(),
        state: state.to_owned(),
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        url: format!("{}/actions/workflows/{}", base(app, repo), found.id),
        html_url: format!("{html}/actions/workflows/{file}"),
        badge_url: format!("{html}/actions/workflows/{file}/badge.svg"),
    }
}
