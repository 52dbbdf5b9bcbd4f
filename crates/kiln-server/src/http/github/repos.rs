//! Repositories in GitHub's shape.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_proto::github::{FullRepository, Permissions, RepositoryDispatch};
use kiln_store::Page;
use kiln_store::directory::repositories::{Repository, Visibility};
use serde_json::json;

use super::list::{Asked, Paging, Window};
use super::{account, shape};
use crate::app::{App, Shared};
use crate::auth::{Caller, OfRepo};
use crate::http::api::idempotency_key;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::names::RepoName;
use crate::service::repos;
use crate::service::trigger::{self, Ask};

/// More are not listed in this manner; `GET /api/repos` lists all.
const MOST: usize = 10_000;
/// As GitHub has it.
const LONGEST_TYPE: usize = 100;
const MOST_PROPERTIES: usize = 10;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(one))
        .routes(routes!(dispatch))
        .routes(routes!(mine))
        .routes(routes!(of_organization))
}

fn shown(app: &App, caller: &Caller, (repo, owner): &(Repository, String)) -> FullRepository {
    let name = RepoName { owner: owner.clone(), name: repo.name.clone() };
    let may = |right| caller.require(right, Some(repo.org), "repository").is_ok();
    FullRepository {
        node_id: repo.id.slug(),
        private: repo.visibility != Visibility::Public,
        visibility: repo.visibility.word().to_owned(),
        description: None,
        archived: false,
        disabled: !repo.enabled,
        default_branch: repo.default_branch.clone(),
        clone_url: format!("{}/{}.git", app.config.public_url, name.full()),
        created_at: shape::time(repo.created_at),
        updated_at: shape::time(repo.updated_at),
        permissions: Permissions {
            admin: may(Right::Admin),
            push: may(Right::Write),
            pull: may(Right::Read),
        },
        repository: shape::repository(app, &name, repo.id.0),
    }
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 200, body = FullRepository), Problems)
)]
async fn one(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<Reply<FullRepository>> {
    let found = repos::find(&app, &caller, Right::Read, &format!("{owner}/{repo}")).await?;
    Ok(Reply(shown(&app, &caller, &found)))
}

/// Tells that something happened, which starts the workflows of the default branch that listen to
/// `repository_dispatch` of this type
#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/dispatches", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = RepositoryDispatch,
    responses((status = 204), Problems)
)]
async fn dispatch(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    headers: HeaderMap,
    Json(asked): Json<RepositoryDispatch>,
) -> Answer<StatusCode> {
    let length = asked.event_type.chars().count();
    if !(1..=LONGEST_TYPE).contains(&length) || asked.event_type.contains(char::is_control) {
        let message = format!("`event_type` is 1 to {LONGEST_TYPE} characters on one line");
        return Err(Failure::invalid(message));
    }
    if asked.client_payload.len() > MOST_PROPERTIES {
        let message = format!("`client_payload` has at most {MOST_PROPERTIES} properties");
        return Err(Failure::invalid(message));
    }
    let payload = json!({ "action": asked.event_type, "client_payload": asked.client_payload });
    let ask = Ask {
        event: Some("repository_dispatch".to_owned()),
        payload: serde_json::from_value(payload).map_err(Failure::internal)?,
        key: idempotency_key(&headers)?,
        ..Ask::default()
    };
    trigger::trigger(&app, &caller, &format!("{owner}/{repo}"), ask).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Repositories that the caller may see
#[utoipa::path(
    get, path = "/api/v3/user/repos", tag = "github", params(Paging),
    responses((status = 200, body = Vec<FullRepository>), Problems)
)]
async fn mine(
    State(app): State<Shared>,
    caller: Caller,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Vec<FullRepository>>)> {
    let window = paging.window()?;
    let all = all(&app, &caller).await?;
    Ok(list(&app, &caller, &all, (window, &asked)))
}

/// Repositories of an organization
#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/repos", tag = "github", params(("org" = String, Path), Paging),
    responses((status = 200, body = Vec<FullRepository>), Problems)
)]
async fn of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path(org): Path<String>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Vec<FullRepository>>)> {
    let window = paging.window()?;
    let found = account::find(&app, &caller, Right::Read, &org).await?;
    let mut all = all(&app, &caller).await?;
    all.retain(|(repo, _)| repo.org == found.id);
    Ok(list(&app, &caller, &all, (window, &asked)))
}

async fn all(app: &App, caller: &Caller) -> Answer<Vec<(Repository, String)>> {
    let (mut all, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    while all.len() < MOST {
        let piece = repos::list(app, caller, page).await?;
        let Some(last) = piece.last().map(|(repo, _)| repo.id) else { break };
        all.extend(piece);
        page = Page::after(last.0, Page::LARGEST);
    }
    Ok(all)
}

fn list(
    app: &App,
    caller: &Caller,
    all: &[(Repository, String)],
    (window, asked): (Window, &Asked),
) -> (HeaderMap, Reply<Vec<FullRepository>>) {
    let piece = all.iter().skip(window.skip).take(window.take);
    let piece = piece.map(|found| shown(app, caller, found)).collect();
    (window.links(app, asked, all.len() as u64), Reply(piece))
}
