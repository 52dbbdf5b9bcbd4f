//! Workflows in GitHub's shape, and the dispatch of one.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::WorkflowId;
use kiln_proto::github::{Dispatch, Dispatched, Workflow, WorkflowRuns, Workflows};
use kiln_proto::headers::RUN_ID;
use kiln_store::directory::{repositories, workflows};
use kiln_store::{Page, Scope, StoreError, Tx};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::list::{Filter, Paging};
use super::{runs as runs_of, shape};
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::api::idempotency_key;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::service::names::RepoName;
use crate::service::trigger::{self, Ask};
use crate::service::{repos, runs};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(list_runs))
        .routes(routes!(dispatch))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/workflows", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Workflows), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Workflows>)> {
    let window = paging.window()?;
    let full_name = format!("{owner}/{repo}");
    let (found, _) = repos::find(&app, &caller, Right::Read, &full_name).await?;
    let (scope, id) = (Scope::Org(found.org), found.id);
    let work = async move |tx: &mut Tx<'_>| all(tx, scope, id).await;
    let all = app.store.read(work).await?;
    let name = RepoName { owner, name: repo };
    let shown = all.iter().skip(window.skip).take(window.take);
    let workflows = shown.map(|workflow| shape::workflow(&app, &name, workflow)).collect();
    let total_count = all.len() as u64;
    let url = format!("{}/repos/{full_name}/actions/workflows", app.config.public_url);
    Ok((window.links(&url, total_count), Reply(Workflows { total_count, workflows })))
}

/// A repository has few of them.
async fn all(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: kiln_core::id::RepoId,
) -> Result<Vec<workflows::Workflow>, StoreError> {
    let (mut found, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = workflows::list(tx, scope, repo, page).await?;
        let Some(last) = piece.last().map(|workflow| workflow.id) else { return Ok(found) };
        found.extend(piece);
        page = Page::after(last.0, Page::LARGEST);
    }
}

/// By id, file name or path.
async fn find(
    app: &Shared,
    caller: &Caller,
    full_name: &str,
    name: &str,
) -> Answer<(repositories::Repository, workflows::Workflow)> {
    let (repo, _) = repos::find(app, caller, Right::Read, full_name).await?;
    let (scope, id) = (Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| all(tx, scope, id).await;
    let all = app.store.read(work).await?;
    let number = name.parse::<i64>().ok().map(WorkflowId);
    let called = |workflow: &workflows::Workflow| {
        let file = workflow.path.rsplit('/').next().unwrap_or_default();
        Some(workflow.id) == number || workflow.path == name || file == name
    };
    let found = all.into_iter().find(called);
    found.map(|found| (repo, found)).ok_or_else(|| Failure::not_found("workflow"))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("workflow_id" = String, Path)),
    responses((status = 200, body = Workflow), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
) -> Answer<Reply<Workflow>> {
    let (_, found) = find(&app, &caller, &format!("{owner}/{repo}"), &workflow).await?;
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
    caller: Caller,
    Path((owner, repo, workflow)): Path<(String, String, String)>,
    Params(filter): Params<Filter>,
) -> Answer<(HeaderMap, Reply<WorkflowRuns>)> {
    let full_name = format!("{owner}/{repo}");
    let (_, found) = find(&app, &caller, &full_name, &workflow).await?;
    runs_of::of_repo(&app, &caller, &full_name, Some(found.id), filter).await
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
    let details = Dispatched {
        workflow_run_id: run.0,
        run_url: format!("{}/repos/{full_name}/actions/runs/{run}", app.config.public_url),
        html_url: runs::url(&app, &RepoName { owner, name: repo }, run),
    };
    Ok(([id], Reply(details)).into_response())
}
