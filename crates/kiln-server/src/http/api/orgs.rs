//! Organizations, and what they get of the runners.

use axum::Json as Reply;
use axum::extract::State;
use kiln_proto::api;

use super::page::{Paging, piece};
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::extract::{OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::orgs;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(one, change))
}

/// Organizations that the caller may see.
#[utoipa::path(
    get, path = "/api/orgs", tag = "organizations", params(Paging),
    responses((status = 200, body = api::Page<api::Organization>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<api::Organization>>> {
    let page = paging.page()?;
    let found = orgs::list(&app, &caller, page).await?;
    Ok(Reply(piece(found, page, |org| org.id)))
}

#[utoipa::path(
    get, path = "/api/orgs/{owner}", tag = "organizations", params(("owner" = String, Path)),
    responses((status = 200, body = api::Organization), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(owner): Path<String>,
) -> Answer<Reply<api::Organization>> {
    orgs::one(&app, &caller, &owner).await.map(Reply)
}

/// How many of its jobs may run at once, and how much of the runners it gets.
#[utoipa::path(
    patch, path = "/api/orgs/{owner}", tag = "organizations", params(("owner" = String, Path)),
    request_body = api::ChangeOrganization,
    responses((status = 200, body = api::Organization), Problems)
)]
async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(owner): Path<String>,
    OptionalJson(wish): OptionalJson<api::ChangeOrganization>,
) -> Answer<Reply<api::Organization>> {
    orgs::change(&app, &caller, &owner, wish).await.map(Reply)
}
