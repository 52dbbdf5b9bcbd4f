//! Who uses how many bytes, and the collection of those that nobody uses.

use axum::Json as Reply;
use axum::extract::State;
use kiln_proto::blob::{Collect, Collection, Storage};

use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::extract::OptionalJson;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::storage;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(shown)).routes(routes!(collect))
}

/// Who uses how many bytes, the most first.
#[utoipa::path(
    get, path = "/api/storage", tag = "bytes", responses((status = 200, body = Storage), Problems)
)]
async fn shown(State(app): State<Shared>, caller: Caller) -> Answer<Reply<Storage>> {
    storage::shown(&app, &caller).await.map(Reply)
}

/// Removes bytes that nothing refers to and whose time of grace is over.
#[utoipa::path(
    post, path = "/api/storage/gc", tag = "bytes", request_body = Option<Collect>,
    responses((status = 200, body = Collection), Problems)
)]
async fn collect(
    State(app): State<Shared>,
    caller: Caller,
    OptionalJson(asked): OptionalJson<Collect>,
) -> Answer<Reply<Collection>> {
    storage::collect(&app, &caller, &asked).await.map(Reply)
}
