//! Where those who are shown a token of a job find out how to check it, as the standard for it (OIDC) has it.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::error::Answer;
use super::openapi::Problems;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::routes::{Routes, routes};
use crate::service::content::{identity, rotate};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(discovery)).routes(routes!(keys)).routes(routes!(new_key))
}

/// Others ask for it with every token that they are shown; it changes rarely.
const KEPT: (HeaderName, HeaderValue) =
    (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));

/// How to check the identity tokens of jobs
#[utoipa::path(
    get, path = "/.well-known/openid-configuration", tag = "about",
    responses((status = 200, description = "OpenID Connect Discovery 1.0", body = Object)),
    security(())
)]
async fn discovery(State(app): State<Shared>) -> ([(HeaderName, HeaderValue); 1], Reply<Value>) {
    ([KEPT], Reply(identity::discovery(&app)))
}

/// The public keys of identity tokens
#[utoipa::path(
    get, path = "/.well-known/jwks", tag = "about",
    responses((status = 200, description = "A set of keys (RFC 7517)", body = Object)),
    security(())
)]
async fn keys(State(app): State<Shared>) -> Answer<([(HeaderName, HeaderValue); 1], Reply<Value>)> {
    Ok(([KEPT], Reply(identity::public_keys(&app).await?)))
}

/// A key that signs from a quarter of an hour from now on.
#[derive(Debug, Serialize, ToSchema)]
struct NewKey {
    /// Its `kid`.
    id: String,
}

/// Have a new key sign identity tokens
///
/// It can be looked up at once and signs a quarter of an hour later, so that whoever remembers the keys knows it by
/// then. The one before can be looked up for another day.
#[utoipa::path(
    post, path = "/api/identity/keys", tag = "about",
    responses((status = 200, body = NewKey), Problems)
)]
async fn new_key(State(app): State<Shared>, caller: Caller) -> Answer<Reply<NewKey>> {
    Ok(Reply(NewKey { id: rotate(&app, &caller).await? }))
}
