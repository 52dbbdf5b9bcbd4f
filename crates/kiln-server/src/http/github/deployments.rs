//! Deployments in GitHub's shape: one for each job that deployed to an environment.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::HeaderMap;
use kiln_core::access::Right;
use kiln_core::run::Conclusion;
use kiln_proto::github::{Deployment, DeploymentStatus};
use kiln_store::runs::{self as rows, DeploymentFilter};
use kiln_store::{Scope, Tx};

use super::list::{Asked, Paging};
use super::params::OfDeployments;
use super::shape;
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::api::job_id;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::names::RepoName;
use crate::service::{repos, runs};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(one)).routes(routes!(statuses))
}

/// Deployments of a repository, the newest first.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/deployments", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), OfDeployments),
    responses((status = 200, body = Vec<Deployment>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, name)): Path<(String, String)>,
    asked: Asked,
    Params(wanted): Params<OfDeployments>,
) -> Answer<(HeaderMap, Reply<Vec<Deployment>>)> {
    let window = Paging { per_page: wanted.per_page, page: wanted.page }.window()?;
    let filter = wanted.filter();
    let repo = RepoName { owner, name };
    let (total, found) = find(&app, &caller, &repo, filter, window.piece()).await?;
    let found = found.iter().map(|one| shown(&app, &repo, one)).collect();
    Ok((window.links(&app, &asked, total), Reply(found)))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/deployments/{deployment_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("deployment_id" = String, Path)),
    responses((status = 200, body = Deployment), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, name, id)): Path<(String, String, String)>,
) -> Answer<Reply<Deployment>> {
    let repo = RepoName { owner, name };
    let found = named(&app, &caller, &repo, &id).await?;
    Ok(Reply(shown(&app, &repo, &found)))
}

/// How a deployment ended: there is one status, that of its job.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/deployments/{deployment_id}/statuses", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("deployment_id" = String, Path)),
    responses((status = 200, body = Vec<DeploymentStatus>), Problems)
)]
async fn statuses(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, name, id)): Path<(String, String, String)>,
) -> Answer<Reply<Vec<DeploymentStatus>>> {
    let repo = RepoName { owner, name };
    let found = named(&app, &caller, &repo, &id).await?;
    Ok(Reply(vec![status(&app, &repo, &found)]))
}

type Found = (u64, Vec<rows::Deployment>);

async fn find(
    app: &App,
    caller: &Caller,
    repo: &RepoName,
    filter: DeploymentFilter,
    piece: (u32, u32),
) -> Answer<Found> {
    let (found, _) = repos::find(app, caller, Right::Read, &repo.full()).await?;
    let work = async move |tx: &mut Tx<'_>| {
        rows::deployments(tx, Scope::Org(found.org), found.id, &filter, piece).await
    };
    Ok(app.store.read(work).await?)
}

async fn named(app: &App, caller: &Caller, repo: &RepoName, id: &str) -> Answer<rows::Deployment> {
    let none = || Failure::not_found("deployment");
    let job = Some(job_id(id).map_err(|_| none())?);
    let filter = DeploymentFilter { job, ..DeploymentFilter::default() };
    find(app, caller, repo, filter, (0, 1)).await?.1.pop().ok_or_else(none)
}

fn shown(app: &App, repo: &RepoName, found: &rows::Deployment) -> Deployment {
    let base = shape::base(app, repo);
    let url = format!("{base}/deployments/{}", found.job);
    let environment = &found.deployed.environment;
    Deployment {
        id: found.job.0,
        node_id: found.job.slug(),
        sha: found.sha.clone(),
        reference: found.reference.clone(),
        task: "deploy".to_owned(),
        environment: environment.clone(),
        original_environment: environment.clone(),
        description: Some(found.job_name.clone()),
        creator: shape::user(&found.actor),
        created_at: shape::time(found.created),
        updated_at: shape::time(found.ended.unwrap_or(found.created)),
        statuses_url: format!("{url}/statuses"),
        repository_url: base,
        transient_environment: false,
        production_environment: environment.eq_ignore_ascii_case("production"),
        url,
    }
}

fn status(app: &App, repo: &RepoName, found: &rows::Deployment) -> DeploymentStatus {
    let base = shape::base(app, repo);
    let deployment = format!("{base}/deployments/{}", found.job);
    let log = format!("{}/job/{}", runs::url(app, repo, found.job.run()), found.job);
    let at = shape::time(found.ended.unwrap_or(found.created));
    DeploymentStatus {
        id: found.job.0,
        node_id: found.job.slug(),
        url: format!("{deployment}/statuses/{}", found.job),
        state: state(found.conclusion).to_owned(),
        creator: shape::user(&found.actor),
        description: String::new(),
        environment: found.deployed.environment.clone(),
        environment_url: found.deployed.url.clone().unwrap_or_default(),
        target_url: log.clone(),
        log_url: log,
        created_at: at.clone(),
        updated_at: at,
        deployment_url: deployment,
        repository_url: base,
    }
}

/// In GitHub's words, which are others than those of jobs.
fn state(conclusion: Option<Conclusion>) -> &'static str {
    match conclusion {
        None => "in_progress",
        Some(Conclusion::Success) => "success",
        Some(Conclusion::Skipped | Conclusion::Cancelled) => "inactive",
        Some(_) => "failure",
    }
}
