//! Runs in GitHub's shape.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_core::id::{RunId, WorkflowId};
use kiln_proto::github::{Nothing, Timing, WorkflowRun, WorkflowRuns};
use kiln_store::{Page, Scope, Tx};

use super::list::{Asked, Filter};
use super::shape;
use crate::app::Shared;
use crate::auth::{Caller, OfRepo};
use crate::clock;
use crate::http::api::run_id;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::change::{self, What};
use crate::service::{repos, runs};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(one, remove))
        .routes(routes!(timing))
        .routes(routes!(attempt))
        .routes(routes!(cancel))
        .routes(routes!(force_cancel))
        .routes(routes!(rerun))
        .routes(routes!(rerun_failed))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Filter),
    responses((status = 200, body = WorkflowRuns), Problems)
)]
async fn list(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(filter): Params<Filter>,
) -> Answer<(HeaderMap, Reply<WorkflowRuns>)> {
    of_repo(&app, &caller, &format!("{owner}/{repo}"), None, (filter, asked)).await
}

/// The runs of a repository, or of one of its workflows.
pub(super) async fn of_repo(
    app: &Shared,
    caller: &Caller,
    full_name: &str,
    workflow: Option<WorkflowId>,
    (filter, asked): (Filter, Asked),
) -> Answer<(HeaderMap, Reply<WorkflowRuns>)> {
    let (repo, _) = repos::find(app, caller, Right::Read, full_name).await?;
    let window = filter.window()?;
    let mut filter = filter.read()?;
    filter.repo = Some(repo.id);
    filter.workflow = workflow;
    let (scope, counted) = (Scope::Org(repo.org), filter.clone());
    let count = async move |tx: &mut Tx<'_>| kiln_store::runs::total(tx, scope, &counted).await;
    let total_count = app.store.read(count).await?;
    let mut found = Vec::new();
    let mut page = window.first();
    loop {
        let piece = runs::list(app, caller, filter.clone(), page).await?;
        let full = piece.len() >= page.limit as usize;
        found.extend(piece);
        let Some(last) = found.last().filter(|_| full && found.len() < window.skip + window.take)
        else {
            break;
        };
        page = Page::after(last.run.id.0, page.limit);
    }
    let shown = found.iter().skip(window.skip).take(window.take);
    let workflow_runs = shown.map(|named| shape::run(app, named)).collect();
    let links = window.links(app, &asked, total_count);
    Ok((links, Reply(WorkflowRuns { total_count, workflow_runs })))
}

/// A run of the repository that the address names.
pub(super) async fn known(
    app: &Shared,
    caller: &Caller,
    right: Right,
    (owner, repo, run): (&str, &str, &str),
) -> Answer<RunId> {
    let run = run_id(run)?;
    runs::find_in(app, caller, right, (&format!("{owner}/{repo}"), run)).await?;
    Ok(run)
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = WorkflowRun), Problems)
)]
async fn one(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<Reply<WorkflowRun>> {
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run_id)).await?;
    let found = runs::attempt(&app, &caller, run, None).await?;
    Ok(Reply(shape::attempt(&app, &found)))
}

/// Removes a run that has ended, with its artifacts and its logs.
#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/runs/{run_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run_id)).await?;
    change::remove(&app, &caller, run).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How long a run took. Nothing of it is billed.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/timing", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 200, body = Timing), Problems)
)]
async fn timing(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<Reply<Timing>> {
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run_id)).await?;
    let run = runs::find(&app, &caller, Right::Read, run).await?.run;
    let until = run.ended.unwrap_or_else(clock::now);
    let took = until.since(run.started.unwrap_or(run.created)).as_millis();
    let run_duration_ms = u64::try_from(took).unwrap_or(u64::MAX);
    Ok(Reply(Timing { billable: Nothing {}, run_duration_ms }))
}

/// An attempt as addresses name it.
pub(super) fn attempt_number(text: &str) -> Answer<u32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::not_found("attempt"))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}",
    tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path),
        ("attempt_number" = String, Path),
    ),
    responses((status = 200, body = WorkflowRun), Problems)
)]
async fn attempt(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id, number)): Path<(String, String, String, String)>,
) -> Answer<Reply<WorkflowRun>> {
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run_id)).await?;
    let number = attempt_number(&number)?;
    let found = runs::attempt(&app, &caller, run, Some(number)).await?;
    Ok(Reply(shape::attempt(&app, &found)))
}

#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 202, body = Nothing), Problems)
)]
async fn cancel(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<(StatusCode, Reply<Nothing>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run_id)).await?;
    change::cancel(&app, &caller, run, None, false).await?;
    Ok((StatusCode::ACCEPTED, Reply(Nothing {})))
}

#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/force-cancel", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 202, body = Nothing), Problems)
)]
async fn force_cancel(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<(StatusCode, Reply<Nothing>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run_id)).await?;
    change::cancel(&app, &caller, run, None, true).await?;
    Ok((StatusCode::ACCEPTED, Reply(Nothing {})))
}

#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 201, body = Nothing), Problems)
)]
async fn rerun(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<(StatusCode, Reply<Nothing>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run_id)).await?;
    change::rerun(&app, &caller, run, What::All).await?;
    Ok((StatusCode::CREATED, Reply(Nothing {})))
}

#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 201, body = Nothing), Problems)
)]
async fn rerun_failed(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
) -> Answer<(StatusCode, Reply<Nothing>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run_id)).await?;
    change::rerun(&app, &caller, run, What::Failed).await?;
    Ok((StatusCode::CREATED, Reply(Nothing {})))
}
