//! Keys that let runners in.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::RegistrationKeyId;
use kiln_proto::api;

use super::page::{self, piece};
use super::params::OfOwner;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::keys;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list, mint)).routes(routes!(revoke))
}

#[utoipa::path(
    get, path = "/api/registration-keys", tag = "runners", params(OfOwner),
    responses((status = 200, body = api::Page<api::RegistrationKey>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(which): Params<OfOwner>,
) -> Answer<Reply<api::Page<api::RegistrationKey>>> {
    let page = page::page(which.after.as_deref(), which.limit)?;
    let found = keys::list(&app, &caller, which.owner, page).await?;
    Ok(Reply(piece(found, page, |key| key.id)))
}

/// Makes a key; it is shown this once.
#[utoipa::path(
    post, path = "/api/registration-keys", tag = "runners",
    request_body = Option<api::NewRegistrationKey>,
    responses((status = 201, body = api::RegistrationKey), Problems)
)]
async fn mint(
    State(app): State<Shared>,
    caller: Caller,
    OptionalJson(new): OptionalJson<api::NewRegistrationKey>,
) -> Answer<(StatusCode, Reply<api::RegistrationKey>)> {
    let made = keys::mint(&app, &caller, new).await?;
    Ok((StatusCode::CREATED, Reply(made)))
}

#[utoipa::path(
    delete, path = "/api/registration-keys/{id}", tag = "runners", params(("id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let id: RegistrationKeyId = id.parse().map_err(|_| Failure::not_found("registration key"))?;
    keys::revoke(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
