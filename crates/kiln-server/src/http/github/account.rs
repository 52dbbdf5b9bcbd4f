//! Who asks, and how much: where clients of GitHub begin.

use axum::extract::State;
use axum::{Extension, Json as Reply};
use kiln_core::access::Right;
use kiln_proto::github::{Account, Meta, Organization, Rate, RateLimit, Resources, Root};
use kiln_store::Tx;
use kiln_store::directory::{organizations, users};

use crate::app::{App, Shared};
use crate::auth::{Anybody, Caller};
use crate::clock;
use crate::http::addresses::GITHUB;
use crate::http::error::{Answer, Failure};
use crate::http::extract::Path;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::rate::Budget;
use crate::service::runs::FIND;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(root))
        .routes(routes!(meta))
        .routes(routes!(rate_limit))
        .routes(routes!(user))
        .routes(routes!(organization))
}

/// Where everything of GitHub's interface is.
pub(super) fn base(app: &App) -> String {
    format!("{}{GITHUB}", app.config.public_url)
}

/// Addresses to begin with
#[utoipa::path(
    get, path = "/api/v3/", tag = "github", responses((status = 200, body = Root), Problems)
)]
async fn root(State(app): State<Shared>, _: Anybody) -> Reply<Root> {
    let base = base(&app);
    Reply(Root {
        current_user_url: format!("{base}/user"),
        current_user_repositories_url: format!("{base}/user/repos"),
        organization_url: format!("{base}/orgs/{{org}}"),
        organization_repositories_url: format!("{base}/orgs/{{org}}/repos"),
        repository_url: format!("{base}/repos/{{owner}}/{{repo}}"),
        rate_limit_url: format!("{base}/rate_limit"),
    })
}

/// Which version this is
#[utoipa::path(
    get, path = "/api/v3/meta", tag = "github", responses((status = 200, body = Meta), Problems)
)]
async fn meta(_: Anybody) -> Reply<Meta> {
    Reply(Meta {
        verifiable_password_authentication: false,
        installed_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// How much this address may still ask
///
/// Not found where requests are not counted (`limits.requests`), as GitHub Enterprise has it.
#[utoipa::path(
    get, path = "/api/v3/rate_limit", tag = "github",
    responses((status = 200, body = RateLimit), Problems)
)]
async fn rate_limit(_: Anybody, budget: Option<Extension<Budget>>) -> Answer<Reply<RateLimit>> {
    let Extension(budget) =
        budget.ok_or_else(|| Failure::not_found("limit: requests are not counted"))?;
    let rate = Rate {
        limit: budget.limit,
        used: budget.used,
        remaining: budget.limit.saturating_sub(budget.used),
        reset: clock::now().0 / 1_000 + budget.seconds,
    };
    Ok(Reply(RateLimit { resources: Resources { core: rate }, rate }))
}

/// Whose token this is
#[utoipa::path(
    get, path = "/api/v3/user", tag = "github", responses((status = 200, body = Account), Problems)
)]
async fn user(State(app): State<Shared>, caller: Caller) -> Answer<Reply<Account>> {
    let found = match caller.user() {
        Some(id) => {
            let work = async move |tx: &mut Tx<'_>| users::get(tx, FIND, id).await;
            Some(app.store.read(work).await?)
        }
        None => None,
    };
    Ok(Reply(Account {
        login: caller.name().to_owned(),
        id: found.as_ref().map_or(0, |user| user.id.0),
        kind: "User".to_owned(),
        site_admin: caller.grants().sees_everything(),
        name: found.as_ref().and_then(|user| user.display_name.clone()),
        email: found.and_then(|user| user.email),
        url: format!("{}/user", base(&app)),
    }))
}

/// An organization that the caller may see.
pub(super) async fn find(
    app: &App,
    caller: &Caller,
    right: Right,
    name: &str,
) -> Answer<organizations::Organization> {
    let wanted = name.to_owned();
    let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &wanted).await;
    let found = app.store.read(work).await?;
    caller.require(right, Some(found.id), "organization")?;
    Ok(found)
}

/// An organization
#[utoipa::path(
    get, path = "/api/v3/orgs/{org}", tag = "github", params(("org" = String, Path)),
    responses((status = 200, body = Organization), Problems)
)]
async fn organization(
    State(app): State<Shared>,
    caller: Caller,
    Path(org): Path<String>,
) -> Answer<Reply<Organization>> {
    let found = find(&app, &caller, Right::Read, &org).await?;
    let url = format!("{}/orgs/{}", base(&app), found.name);
    Ok(Reply(Organization {
        login: found.name,
        id: found.id.0,
        kind: "Organization".to_owned(),
        repos_url: format!("{url}/repos"),
        url,
    }))
}
