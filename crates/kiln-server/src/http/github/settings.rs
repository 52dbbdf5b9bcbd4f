//! Secrets and variables in GitHub's shape. Of secrets there are names; nobody but jobs gets their values.
//!
//! Whoever may change what runs could print variables anyway, and learn the names of secrets; readers do not.

use axum::Json as Reply;
use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use kiln_core::access::Right;
use kiln_proto::github::{Secret, Secrets, Variable, Variables};
use kiln_store::directory::environments;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::SecretName;
use kiln_store::directory::variables;
use kiln_store::{Scope, Tx};

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
        .routes(routes!(secret_of_organization))
        .routes(routes!(variable_of_organization))
        .routes(routes!(secrets_of_environment))
        .routes(routes!(secret_of_environment))
        .routes(routes!(variables_of_environment))
        .routes(routes!(variable_of_environment))
}

async fn of_repo(app: &App, caller: &Caller, owner: &str, repo: &str) -> Answer<Whose> {
    let found = repos::find(app, caller, Right::Write, &format!("{owner}/{repo}")).await?.0;
    Ok((found.org, Holder::Repo(found.id)))
}

/// What jobs of a repository get of its organization.
async fn above_repo(app: &App, caller: &Caller, owner: &str, repo: &str) -> Answer<Whose> {
    let (org, _) = of_repo(app, caller, owner, repo).await?;
    Ok((org, Holder::Org(org)))
}

async fn of_organization(app: &App, caller: &Caller, org: &str) -> Answer<Whose> {
    let found = account::find(app, caller, Right::Write, org).await?;
    Ok((found.id, Holder::Org(found.id)))
}

async fn of_environment(
    app: &App,
    caller: &Caller,
    (owner, repo, environment): &(String, String, String),
) -> Answer<Whose> {
    let found = repos::find(app, caller, Right::Write, &format!("{owner}/{repo}")).await?.0;
    let (scope, id, name) = (Scope::Org(found.org), found.id, environment.clone());
    let work = async move |tx: &mut Tx<'_>| environments::by_name(tx, scope, id, &name).await;
    let environment = app.store.read(work).await?;
    Ok((found.org, Holder::Environment(environment.id)))
}

/// A secret by its name, whatever its capitals.
async fn one_secret(app: &App, whose: Whose, name: &str) -> Answer<Reply<Secret>> {
    let all = all_secrets(app, whose).await?;
    let found = all.into_iter().find(|secret| secret.name.eq_ignore_ascii_case(name));
    found.map(Reply).ok_or_else(|| Failure::not_found("secret"))
}

async fn one_variable(app: &App, whose: Whose, name: &str) -> Answer<Reply<Variable>> {
    let all = all_variables(app, whose).await?;
    let found = all.into_iter().find(|variable| variable.name.eq_ignore_ascii_case(name));
    found.map(Reply).ok_or_else(|| Failure::not_found("variable"))
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

/// Somebody asks for a page of what some place has.
struct Page {
    app: Shared,
    caller: Caller,
    asked: Asked,
    window: Window,
}

impl FromRequestParts<Shared> for Page {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Ok(asked) = Asked::from_request_parts(parts, app).await;
        let Params(paging) = Params::<Paging>::from_request_parts(parts, app).await?;
        Ok(Self { app: Shared::clone(app), caller, asked, window: paging.window()? })
    }
}

/// A page, with links to others.
type Listed<T> = Answer<(HeaderMap, Reply<T>)>;

impl Page {
    async fn secrets(self, whose: Whose) -> Listed<Secrets> {
        let all = all_secrets(&self.app, whose).await?;
        Ok(self.piece(all, |total_count, secrets| Secrets { total_count, secrets }))
    }

    async fn variables(self, whose: Whose) -> Listed<Variables> {
        let all = all_variables(&self.app, whose).await?;
        Ok(self.piece(all, |total_count, variables| Variables { total_count, variables }))
    }

    fn piece<T, L>(self, all: Vec<T>, list: impl Fn(u64, Vec<T>) -> L) -> (HeaderMap, Reply<L>) {
        let (total, Window { skip, take, .. }) = (all.len() as u64, self.window);
        let piece = all.into_iter().skip(skip).take(take).collect();
        (self.window.links(&self.app, &self.asked, total), Reply(list(total, piece)))
    }
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/secrets", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_of_repo(
    page: Page,
    Path((owner, repo)): Path<(String, String)>,
) -> Listed<Secrets> {
    let whose = of_repo(&page.app, &page.caller, &owner, &repo).await?;
    page.secrets(whose).await
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
    one_secret(&app, whose, &name).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/secrets", tag = "github",
    params(("org" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_of_organization(page: Page, Path(org): Path<String>) -> Listed<Secrets> {
    let whose = of_organization(&page.app, &page.caller, &org).await?;
    page.secrets(whose).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/variables", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_of_repo(
    page: Page,
    Path((owner, repo)): Path<(String, String)>,
) -> Listed<Variables> {
    let whose = of_repo(&page.app, &page.caller, &owner, &repo).await?;
    page.variables(whose).await
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
    one_variable(&app, whose, &name).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/variables", tag = "github",
    params(("org" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_of_organization(page: Page, Path(org): Path<String>) -> Listed<Variables> {
    let whose = of_organization(&page.app, &page.caller, &org).await?;
    page.variables(whose).await
}

/// Names of the organization's secrets that jobs of a repository get, too
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/organization-secrets", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_above_repo(
    page: Page,
    Path((owner, repo)): Path<(String, String)>,
) -> Listed<Secrets> {
    let whose = above_repo(&page.app, &page.caller, &owner, &repo).await?;
    page.secrets(whose).await
}

/// The organization's variables that jobs of a repository get, too
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/organization-variables", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_above_repo(
    page: Page,
    Path((owner, repo)): Path<(String, String)>,
) -> Listed<Variables> {
    let whose = above_repo(&page.app, &page.caller, &owner, &repo).await?;
    page.variables(whose).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/secrets/{name}", tag = "github",
    params(("org" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Secret), Problems)
)]
async fn secret_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path((org, name)): Path<(String, String)>,
) -> Answer<Reply<Secret>> {
    let whose = of_organization(&app, &caller, &org).await?;
    one_secret(&app, whose, &name).await
}

#[utoipa::path(
    get, path = "/api/v3/orgs/{org}/actions/variables/{name}", tag = "github",
    params(("org" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Variable), Problems)
)]
async fn variable_of_organization(
    State(app): State<Shared>,
    caller: Caller,
    Path((org, name)): Path<(String, String)>,
) -> Answer<Reply<Variable>> {
    let whose = of_organization(&app, &caller, &org).await?;
    one_variable(&app, whose, &name).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/environments/{environment_name}/secrets", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("environment_name" = String, Path), Paging),
    responses((status = 200, body = Secrets), Problems)
)]
async fn secrets_of_environment(
    page: Page,
    Path(place): Path<(String, String, String)>,
) -> Listed<Secrets> {
    let whose = of_environment(&page.app, &page.caller, &place).await?;
    page.secrets(whose).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/environments/{environment_name}/secrets/{name}", tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("environment_name" = String, Path),
        ("name" = String, Path)
    ),
    responses((status = 200, body = Secret), Problems)
)]
async fn secret_of_environment(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, environment, name)): Path<(String, String, String, String)>,
) -> Answer<Reply<Secret>> {
    let whose = of_environment(&app, &caller, &(owner, repo, environment)).await?;
    one_secret(&app, whose, &name).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/environments/{environment_name}/variables", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("environment_name" = String, Path), Paging),
    responses((status = 200, body = Variables), Problems)
)]
async fn variables_of_environment(
    page: Page,
    Path(place): Path<(String, String, String)>,
) -> Listed<Variables> {
    let whose = of_environment(&page.app, &page.caller, &place).await?;
    page.variables(whose).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/environments/{environment_name}/variables/{name}", tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("environment_name" = String, Path),
        ("name" = String, Path)
    ),
    responses((status = 200, body = Variable), Problems)
)]
async fn variable_of_environment(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, environment, name)): Path<(String, String, String, String)>,
) -> Answer<Reply<Variable>> {
    let whose = of_environment(&app, &caller, &(owner, repo, environment)).await?;
    one_variable(&app, whose, &name).await
}
