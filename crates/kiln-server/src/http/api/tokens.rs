//! API tokens of the caller.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::TokenId;
use kiln_proto::api;

use super::page::{Paging, piece};
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::tokens;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list, mint)).routes(routes!(revoke))
}

/// Tokens of the caller that are good.
#[utoipa::path(
    get, path = "/api/tokens", tag = "tokens", params(Paging),
    responses((status = 200, body = api::Page<api::Token>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Reply<api::Page<api::Token>>> {
    let page = paging.page()?;
    let (found, last) = tokens::list(&app, &caller, page).await?;
    let mut shown = piece(found, page, |token| token.id);
    shown.next = last.map(|id| id.to_string());
    Ok(Reply(shown))
}

/// Makes a token; it is shown this once.
#[utoipa::path(
    post, path = "/api/tokens", tag = "tokens", request_body = api::NewToken,
    responses((status = 201, body = api::Token), Problems)
)]
async fn mint(
    State(app): State<Shared>,
    caller: Caller,
    Json(new): Json<api::NewToken>,
) -> Answer<(StatusCode, Reply<api::Token>)> {
    let made = tokens::mint(&app, &caller, new).await?;
    Ok((StatusCode::CREATED, Reply(made)))
}

#[utoipa::path(
    delete, path = "/api/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let id: TokenId = id.parse().map_err(|_| Failure::not_found("token"))?;
    tokens::revoke(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
