//! Runs: lists, one, and what can be done with it.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_core::run::Conclusion;
use kiln_proto::api;
use kiln_proto::summary::StepSummary;
use kiln_store::runs::{Look, RunFilter, RunStatus};

use super::page;
use super::params::{OfAttempt, OfRuns, OfSummaries};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::{annotations, change, repos, runs, summaries};

/// How many runs a request looks at.
const LOOKED: u32 = 100_000;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(summaries))
        .routes(routes!(annotations))
        .routes(routes!(cancel))
        .routes(routes!(force_cancel))
        .routes(routes!(rerun))
        .routes(routes!(prioritize))
}

/// A run by its number or slug. What cannot be one names nothing.
pub(in crate::http) fn run_id(text: &str) -> Answer<RunId> {
    text.parse().map_err(|_| Failure::not_found("run"))
}

/// Words of GitHub; one that does not exist is the caller's mistake.
pub(in crate::http) fn status_of(word: &str) -> Answer<RunStatus> {
    let all = [RunStatus::Queued, RunStatus::Pending, RunStatus::InProgress, RunStatus::Completed];
    let found = all.into_iter().find(|status| status.word() == word);
    found.ok_or_else(|| {
        Failure::invalid(
            "`status` is one of queued, pending, in_progress, completed; how runs ended is `conclusion`: \
             success, failure, cancelled, skipped, timed_out, startup_failure",
        )
    })
}

impl OfRuns {
    async fn read(&self, app: &App, caller: &Caller) -> Answer<RunFilter> {
        let repo = match &self.repo {
            Some(name) => Some(repos::find(app, caller, Right::Read, name).await?.0.id),
            None => None,
        };
        let conclusion = |word: &String| {
            Conclusion::of_github(word).ok_or_else(|| {
                Failure::invalid(
                    "`conclusion` is one of success, failure, cancelled, skipped, timed_out, \
                     startup_failure",
                )
            })
        };
        Ok(RunFilter {
            repo,
            workflow_named: self.workflow.clone(),
            status: self.status.as_deref().map(status_of).transpose()?,
            conclusion: self.conclusion.as_ref().map(conclusion).transpose()?,
            branch: self.branch.clone(),
            event: self.event.clone(),
            head_sha: self.sha.clone(),
            actor: self.actor.clone(),
            text: self.q.clone().filter(|text| !text.is_empty()),
            ..RunFilter::default()
        })
    }
}

/// Runs that the caller may see, the newest first
///
/// A request looks at 100,000 runs at most: where few of them fit, the answer may be short and have a `next` all the same.
#[utoipa::path(
    get, path = "/api/runs", tag = "runs", params(OfRuns),
    responses((status = 200, body = api::Page<api::Run>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(filter): Params<OfRuns>,
) -> Answer<Reply<api::Page<api::Run>>> {
    let page = page::page(filter.after.as_deref(), filter.limit)?;
    let look = Look { from: page.after, newer: false, limit: page.limit, most: LOOKED };
    let filter = filter.read(&app, &caller).await?;
    let found = runs::sift(&app, &caller, filter, look).await?;
    let items = found.runs.iter().map(|named| runs::shown(&app, named)).collect();
    Ok(Reply(api::Page { items, next: found.further.map(|run| run.to_string()) }))
}

/// A run with its jobs and their steps. `run` is its number or its slug.
#[utoipa::path(
    get, path = "/api/runs/{run}", tag = "runs",
    params(("run" = String, Path), OfAttempt),
    responses((status = 200, body = api::RunDetail), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    Params(which): Params<OfAttempt>,
) -> Answer<Reply<api::RunDetail>> {
    let found = runs::attempt(&app, &caller, run_id(&run)?, which.attempt).await?;
    Ok(Reply(runs::detail(&app, &found)))
}

/// What steps of a run wrote for its page, as Markdown.
///
/// It is as jobs wrote it, without secrets. An answer has about 4 MiB; `next` leads to more.
#[utoipa::path(
    get, path = "/api/runs/{run}/summaries", tag = "runs",
    params(("run" = String, Path), OfSummaries),
    responses((status = 200, body = api::Page<StepSummary>), Problems)
)]
async fn summaries(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    Params(which): Params<OfSummaries>,
) -> Answer<Reply<api::Page<StepSummary>>> {
    let after = which.after.as_deref().map_or(Ok(0), page::number)?;
    let found = runs::attempt(&app, &caller, run_id(&run)?, which.attempt).await?;
    summaries::list(&app, &found, after, summaries::ROOM).await.map(Reply)
}

/// What steps of a run said about places in the source, 1000 of an attempt at most.
#[utoipa::path(
    get, path = "/api/runs/{run}/annotations", tag = "runs",
    params(("run" = String, Path), OfAttempt),
    responses((status = 200, body = api::Page<api::Annotation>), Problems)
)]
async fn annotations(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    Params(which): Params<OfAttempt>,
) -> Answer<Reply<api::Page<api::Annotation>>> {
    let found = runs::attempt(&app, &caller, run_id(&run)?, which.attempt).await?;
    let items = annotations::list(&app, &found).await?;
    Ok(Reply(api::Page { items, next: None }))
}

/// Ends a run; jobs whose conditions say so go on.
#[utoipa::path(
    post, path = "/api/runs/{run}/cancel", tag = "runs",
    params(("run" = String, Path)), request_body = Option<api::Cancel>,
    responses((status = 202, body = api::Cancelling), Problems)
)]
async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    OptionalJson(asked): OptionalJson<api::Cancel>,
) -> Answer<(StatusCode, Reply<api::Cancelling>)> {
    let done = change::cancel(&app, &caller, run_id(&run)?, asked.reason, false).await?;
    let change::Cancelling { named, already } = done;
    Ok((StatusCode::ACCEPTED, Reply(api::Cancelling { run: runs::shown(&app, &named), already })))
}

/// Ends a run with everything in it.
#[utoipa::path(
    post, path = "/api/runs/{run}/force-cancel", tag = "runs",
    params(("run" = String, Path)), request_body = Option<api::Cancel>,
    responses((status = 202, body = api::Cancelling), Problems)
)]
async fn force_cancel(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    OptionalJson(asked): OptionalJson<api::Cancel>,
) -> Answer<(StatusCode, Reply<api::Cancelling>)> {
    let done = change::cancel(&app, &caller, run_id(&run)?, asked.reason, true).await?;
    let change::Cancelling { named, already } = done;
    Ok((StatusCode::ACCEPTED, Reply(api::Cancelling { run: runs::shown(&app, &named), already })))
}

/// Runs all of it again, what failed, or one job, from its beginning or from one of its steps.
#[utoipa::path(
    post, path = "/api/runs/{run}/rerun", tag = "runs",
    params(("run" = String, Path)), request_body = Option<api::Rerun>,
    responses((status = 201, body = api::Rerunning), Problems)
)]
async fn rerun(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    OptionalJson(asked): OptionalJson<api::Rerun>,
) -> Answer<(StatusCode, Reply<api::Rerunning>)> {
    let what = match (asked.failed, asked.job, asked.step) {
        (true, Some(_), _) => {
            return Err(Failure::invalid("say `failed` or `job`, not both"));
        }
        (_, None, Some(_)) => {
            return Err(Failure::invalid("a `step` is one of a job: say which `job`, too"));
        }
        (true, None, None) => change::What::Failed,
        (false, Some(job), step) => change::What::Job { job, step },
        (false, None, None) => change::What::All,
    };
    let run = run_id(&run)?;
    let attempt = change::rerun(&app, &caller, run, what).await?;
    let again = api::Rerunning { id: run.0, slug: run.slug(), attempt };
    Ok((StatusCode::CREATED, Reply(again)))
}

/// Moves what a run has in the queue, and what of it comes there later; what runs already goes on.
#[utoipa::path(
    post, path = "/api/runs/{run}/priority", tag = "runs",
    params(("run" = String, Path)), request_body = api::Prioritize,
    responses((status = 200, body = api::Prioritized), Problems)
)]
async fn prioritize(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
    Json(asked): Json<api::Prioritize>,
) -> Answer<Reply<api::Prioritized>> {
    let (run, priority) = (run_id(&run)?, asked.priority);
    let before = change::prioritize(&app, &caller, run, priority).await?;
    Ok(Reply(api::Prioritized { id: run.0, slug: run.slug(), priority, before }))
}
