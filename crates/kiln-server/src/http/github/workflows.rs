//! Workflows in GitHub's shape, and the dispatch of one.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_proto::github::{Dispatch, Dispatched, Workflow, WorkflowRuns, Workflows};
use kiln_proto::headers::RUN_ID;

use super::list::{Asked, Filter, Paging};
use super::{runs as runs_of, shape};
use crate::app::Shared;
use crate::auth::{Caller, OfRepo};
use crate::http::api::idempotency_key;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::names::RepoName;
use crate::service::trigger::{self, Ask};
use crate::service::{repos, runs, workflows};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(list_runs))
        .routes(routes!(dispatch))
        .routes(routes!(enable))
        .routes(routes!(disable))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/workflows", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Workflows), Problems)
)]
async fn list(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Workflows>)> {
    let window = paging.window()?;
    let full_name = format!("{owner}/{repo}");
    let (found, _) = repos::find(&app, &caller, Right::Read, &full_name).await?;
    let all = workflows::all(&app, &found).await?;
    let name = RepoName { owner, name: repo };
    let shown = all.iter().skip(window.skip).take(window.take);
    let workflows = shown.map(|workflow| shape::workflow(&app, &name, workflow)).collect();
    let total_count = all.len() as u64;
    Ok((window.links(&app, &asked, total_count), Reply(Workflows { total_count, workflows })))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path)),
    responses((status = 200, body = Workflow), Problems)
)]
async fn one(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
) -> Answer<Reply<Workflow>> {
    let (_, found) = workflows::find(&app, &caller, &format!("{owner}/{repo}"), &workflow).await?;
    Ok(Reply(shape::workflow(&app, &RepoName { owner, name: repo }, &found)))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs", tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path), Filter,
    ),
    responses((status = 200, body = WorkflowRuns), Problems)
)]
async fn list_runs(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
    asked: Asked,
    Params(filter): Params<Filter>,
) -> Answer<(HeaderMap, Reply<WorkflowRuns>)> {
    let full_name = format!("{owner}/{repo}");
    let (_, found) = workflows::find(&app, &caller, &full_name, &workflow).await?;
    runs_of::of_repo(&app, &caller, &full_name, Some(found.id), (filter, asked)).await
}

/// Starts a workflow. `workflow_id` is its id or the name of its file.
#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches", tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = Dispatch,
    responses(
        (status = 200, body = Dispatched, description = "With `return_run_details`"),
        (status = 204, description = "The header `Kiln-Run-Id` says which run it is"),
        Problems
    )
)]
async fn dispatch(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
    headers: HeaderMap,
    Json(asked): Json<Dispatch>,
) -> Answer<Response> {
    let ask = Ask {
        workflow: Some(workflow),
        event: Some("workflow_dispatch".to_owned()),
        reference: Some(asked.reference),
        inputs: trigger::texts_of(asked.inputs)?,
        key: idempotency_key(&headers)?,
        strict: true,
        ..Ask::default()
    };
    let full_name = format!("{owner}/{repo}");
    let outcome = trigger::trigger(&app, &caller, &full_name, ask).await?;
    let run = outcome.started.first().map(|started| started.run);
    let run = run.ok_or_else(|| Failure::invalid("the dispatch started nothing"))?;
    let id = (HeaderName::from_static(RUN_ID), HeaderValue::from(run.0));
    if !asked.return_run_details {
        return Ok((StatusCode::NO_CONTENT, [id]).into_response());
    }
    let name = RepoName { owner, name: repo };
    let details = Dispatched {
        workflow_run_id: run.0,
        run_url: format!("{}/actions/runs/{run}", shape::base(&app, &name)),
        html_url: runs::url(&app, &name, run),
    };
    Ok(([id], Reply(details)).into_response())
}

/// Starts runs again.
#[utoipa::path(
    put, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/enable", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn enable(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let which = (&*format!("{owner}/{repo}"), &*workflow);
    workflows::set_enabled(&app, &caller, which, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts no runs from now on; what it ran stays.
#[utoipa::path(
    put, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/disable", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn disable(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let which = (&*format!("{owner}/{repo}"), &*workflow);
    workflows::set_enabled(&app, &caller, which, false).await?;
    Ok(StatusCode::NO_CONTENT)
}
