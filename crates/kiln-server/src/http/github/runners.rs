//! Runners in GitHub's shape: those of an organization, which are also those of its repositories. Runners that
//! serve everybody are seen by administrators of the installation.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_core::id::RunnerId;
use kiln_proto::api;
use kiln_proto::github::{Runner, RunnerLabel, Runners};
use kiln_store::Page;

use super::account;
use super::list::{Asked, Paging, Window};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::{repos, runners};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(of_repo))
        .routes(routes!(one_of_repo, remove_of_repo))
        .routes(routes!(of_organization))
        .routes(routes!(one_of_organization, remove_of_organization))
}

fn shown(runner: api::Runner) -> Runner {
    let label = |name: String| RunnerLabel { name, kind: "custom".to_owned() };
    let is_away = matches!(runner.status.as_str(), "offline" | "forgotten");
    Runner {
        id: runner.id,
        name: runner.name,
        os: runner.os,
        status: if is_away { "offline" } else { "online" }.to_owned(),
        busy: runner.jobs > 0,
        ephemeral: runner.single_use,
        labels: runner.labels.into_iter().map(label).collect(),
    }
}

fn is_of(runner: &api::Runner, owner: &str) -> bool {
    runner.owner.as_deref().is_none_or(|own| own == owner)
}

async fn list(
    app: &App,
    caller: &Caller,
    owner: &str,
    (window, asked): (Window, &Asked),
) -> Answer<(HeaderMap, Reply<Runners>)> {
    let (mut all, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = runners::list(app, caller, page).await?;
        let Some(last) = piece.last().map(|runner| runner.id) else { break };
        all.extend(piece.into_iter().filter(|runner| is_of(runner, owner)));
        page = Page::after(last, Page::LARGEST);
    }
    let total_count = all.len() as u64;
    let runners = all.into_iter().skip(window.skip).take(window.take).map(shown).collect();
    Ok((window.links(app, asked, total_count), Reply(Runners { total_count, runners })))
}

async fn find(app: &App, caller: &Caller, owner: &str, id: &str) -> Answer<api::Runner> {
    let missing = || Failure::not_found("runner");
    let id: RunnerId = id.parse().map_err(|_| missing())?;
    let found = runners::one(app, caller, id).await?;
    Some(found).filter(|runner| is_of(runner, owner)).ok_or_else(missing)
}

async fn remove(app: &App, caller: &Caller, owner: &str, id: &str) -> Answer<StatusCode> {
    let found = find(app, caller, owner, id).await?;
    runners::remove(app, caller, RunnerId(found.id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runners", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Runners), Problems)
)]
async fn of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Runners>)> {
    let window = paging.window()?;
    repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    list(&app, &caller, &owner, (window, &asked)).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runners/{runner_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("runner_id" = String, Path)),
    responses((status = 200, body = Runner), Problems)
)]
async fn one_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<Reply<Runner>> {
    repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    Ok(Reply(shown(find(&app, &caller, &owner, &id).await?)))
}

/// Sends it away for good. Its jobs go to others.
#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/runners/{runner_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("runner_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn remove_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    remove(&app, &caller, &owner, &id).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/runners", tag = "github",
    params(("org" = String, Path), Paging),
    responses((status = 200, body = Runners), Problems)
)]
async fn of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path(org): Path<String>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Runners>)> {
    let window = paging.window()?;
    account::find(&app, &caller, Right::Read, &org).await?;
    list(&app, &caller, &org, (window, &asked)).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/runners/{runner_id}", tag = "github",
    params(("org" = String, Path), ("runner_id" = String, Path)),
    responses((status = 200, body = Runner), Problems)
)]
async fn one_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path((org, id)): Path<(String, String)>,
) -> Answer<Reply<Runner>> {
    account::find(&app, &caller, Right::Read, &org).await?;
    Ok(Reply(shown(find(&app, &caller, &org, &id).await?)))
}

/// Sends it away for good. Its jobs go to others.
#[utoipa::path(
    delete, path = "/api/v3/orgs/{org}/actions/runners/{runner_id}", tag = "github",
    params(("org" = String, Path), ("runner_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn remove_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path((org, id)): Path<(String, String)>,
) -> Answer<StatusCode> {
    account::find(&app, &caller, Right::Read, &org).await?;
    remove(&app, &caller, &org, &id).await
}
