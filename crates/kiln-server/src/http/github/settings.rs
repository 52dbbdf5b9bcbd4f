//! Secrets and variables in GitHub's shape. Of secrets there are names; nobody but jobs gets their values.
//!
//! Whoever may change what runs could print variables anyway, and learn the names of secrets; readers do not.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::HeaderMap;
use kiln_core::access::Right;
use kiln_proto::github::{Secret, Secrets, Variable, Variables};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::SecretName;
use kiln_store::directory::variables;

use super::list::{Asked, Paging, Window};
use super::{account, shape};
use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::repos;
use crate::service::settings::{self, Whose};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(secrets_of_repo))
        .routes(routes!(secret_of_repo))
        .routes(routes!(secrets_above_repo))
        .routes(routes!(variables_above_repo))
        .routes(routes!(secrets_of_organization))
        .routes(routes!(variables_of_repo))
        .routes(routes!(variable_of_repo))
        .routes(routes!(variables_of_organization))
}

async fn of_repo(app: &App, caller: &Caller, owner: &str, repo: &str) -> Answer<Whose> {
    let found = repos::find(app, caller, Right::Write, &format!("{owner}/{repo}")).await?.0;
    Ok((found.org, Holder::Repo(found.id)))
}

/// What jobs of a repository get of its organization.
async fn above_repo(app: &App, caller: &Caller, owner: &str, repo: &str) -> Answer<Whose> {
    let found = repos::find(app, caller, Right::Write, &format!("{owner}/{repo}")).await?.0;
    Ok((found.org, Holder::Org(found.org)))
}

async fn of_organization(app: &App, caller: &Caller, org: &str) -> Answer<Whose> {
    let found = account::find(app, caller, Right::Write, org).await?;
    Ok((found.id, Holder::Org(found.id)))
}

async fn all_secrets(app: &App, whose: Whose) -> Answer<Vec<Secret>> {
    let shown = |secret: SecretName| Secret {
        name: secret.name,
        created_at: shape::time(secret.created_at),
        updated_at: shape::time(secret.updated_at),
    };
    Ok(settings::secrets(app, whose).await?.into_iter().map(shown).collect())
}

async fn all_variables(app: &App, whose: Whose) -> Answer<Vec<Variable>> {
    let shown = |variable: variables::Variable| Variable {
        name: variable.name,
        value: variable.value,
        created_at: shape::time(variable.created_at),
        updated_at: shape::time(variable.updated_at),
    };
    Ok(settings::variables(app, whose).await?.into_iter().map(shown).collect())
}

async fn list_secrets(
    app: &App,
    whose: Whose,
    (window, asked): (Window, &Asked),
) -> Answer<(HeaderMap, Reply<Secrets>)> {
    let all = all_secrets(app, whose).await?;
    let total_count = all.len() as u64;
    let secrets = all.into_iter().skip(window.skip).take(window.take).collect();
    Ok((window.links(app, asked, total_count), Reply(Secrets { total_count, secrets })))
}

async fn list_variables(
    app: &App,
    whose: Whose,
    (window, asked): (Window, &Asked),
) -> Answer<(HeaderMap, Reply<Variables>)> {
    let all = all_variables(app, whose).await?;
    let total_count = all.len() as u64;
    let variables = all.into_iter().skip(window.skip).take(window.take).collect();
    Ok((window.links(app, asked, total_count), Reply(Variables { total_count, variables })))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/secrets", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Secrets>)> {
    let window = paging.window()?;
    let whose = of_repo(&app, &caller, &owner, &repo).await?;
    list_secrets(&app, whose, (window, &asked)).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/secrets/{name}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Secret), Problems)
)]
async fn secret_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, name)): Path<(String, String, String)>,
) -> Answer<Reply<Secret>> {
    let whose = of_repo(&app, &caller, &owner, &repo).await?;
    let all = all_secrets(&app, whose).await?;
    let found = all.into_iter().find(|secret| secret.name.eq_ignore_ascii_case(&name));
    found.map(Reply).ok_or_else(|| Failure::not_found("secret"))
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/secrets", tag = "github",
    params(("org" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path(org): Path<String>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Secrets>)> {
    let window = paging.window()?;
    let whose = of_organization(&app, &caller, &org).await?;
    list_secrets(&app, whose, (window, &asked)).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/variables", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Variables>)> {
    let window = paging.window()?;
    let whose = of_repo(&app, &caller, &owner, &repo).await?;
    list_variables(&app, whose, (window, &asked)).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/variables/{name}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Variable), Problems)
)]
async fn variable_of_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, name)): Path<(String, String, String)>,
) -> Answer<Reply<Variable>> {
    let whose = of_repo(&app, &caller, &owner, &repo).await?;
    let all = all_variables(&app, whose).await?;
    let found = all.into_iter().find(|variable| variable.name.eq_ignore_ascii_case(&name));
    found.map(Reply).ok_or_else(|| Failure::not_found("variable"))
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/variables", tag = "github",
    params(("org" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path(org): Path<String>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Variables>)> {
    let window = paging.window()?;
    let whose = of_organization(&app, &caller, &org).await?;
    list_variables(&app, whose, (window, &asked)).await
}

/// Names of the organization's secrets that jobs of a repository get, too
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/organization-secrets", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_above_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Secrets>)> {
    let window = paging.window()?;
    let whose = above_repo(&app, &caller, &owner, &repo).await?;
    list_secrets(&app, whose, (window, &asked)).await
}

/// The organization's variables that jobs of a repository get, too
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/organization-variables", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_above_repo(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Variables>)> {
    let window = paging.window()?;
    let whose = above_repo(&app, &caller, &owner, &repo).await?;
    list_variables(&app, whose, (window, &asked)).await
}
