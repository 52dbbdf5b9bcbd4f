//! Objects, found by their tags, and the tags themselves.

use crate::http::routes::{Routes, routes};
use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::ObjectId;
use kiln_proto::api::Page;
use kiln_proto::object::{ChangeTags, NewObject, Object, Tag};
use kiln_store::content::objects::Which;

use super::page::{page, piece};
use super::params::{OfObjects, OfTags};
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::service::keeper::Keeper;
use crate::service::objects;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(one, remove))
        .routes(routes!(tag))
        .routes(routes!(tags))
}

fn object_id(text: &str) -> Answer<ObjectId> {
    text.parse().map_err(|_| Failure::not_found("object"))
}

fn owner(said: Option<String>) -> Answer<String> {
    said.ok_or_else(|| Failure::invalid("`owner`: expected an organization"))
}

/// Objects of an organization, by type and tags, the newest first.
#[utoipa::path(
    get, path = "/api/objects", tag = "bytes", params(OfObjects),
    responses((status = 200, body = Page<Object>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    keeper: Keeper,
    Params(of): Params<OfObjects>,
) -> Answer<Reply<Page<Object>>> {
    let page = page(of.after.as_deref(), of.limit)?;
    let tags = of.tags.unwrap_or_default();
    let tags = tags.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
    let which = Which { kind: of.kind, tags };
    let found = objects::list(&app, &keeper, &owner(of.owner)?, which, page).await?;
    Ok(Reply(piece(found, page, |object| object.id)))
}

/// Makes an object of bytes that were sent before, or of something that lies elsewhere.
#[utoipa::path(
    post, path = "/api/objects", tag = "bytes", request_body = NewObject,
    responses((status = 201, body = Object), Problems)
)]
async fn create(
    State(app): State<Shared>,
    keeper: Keeper,
    Json(new): Json<NewObject>,
) -> Answer<(StatusCode, Reply<Object>)> {
    Ok((StatusCode::CREATED, Reply(objects::create(&app, &keeper, new).await?)))
}

/// An object with its tags. Its bytes are at `/api/blobs/{hash}`.
#[utoipa::path(
    get, path = "/api/objects/{object_id}", tag = "bytes",
    params(("object_id" = String, Path)), responses((status = 200, body = Object), Problems)
)]
async fn one(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
) -> Answer<Reply<Object>> {
    objects::get(&app, &keeper, object_id(&id)?).await.map(Reply)
}

/// Removes an object, unless something needs or owns it.
#[utoipa::path(
    delete, path = "/api/objects/{object_id}", tag = "bytes",
    params(("object_id" = String, Path)), responses((status = 204), Problems)
)]
async fn remove(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    objects::remove(&app, &keeper, object_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives an object tags, takes them away, or moves them to it from others.
#[utoipa::path(
    put, path = "/api/objects/{object_id}/tags", tag = "bytes",
    params(("object_id" = String, Path)), request_body = ChangeTags,
    responses((status = 200, body = Object), Problems)
)]
async fn tag(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
    Json(asked): Json<ChangeTags>,
) -> Answer<Reply<Object>> {
    objects::tag(&app, &keeper, object_id(&id)?, asked).await.map(Reply)
}

/// The tags of an organization, with how many objects have them.
#[utoipa::path(
    get, path = "/api/tags", tag = "bytes", params(OfTags),
    responses((status = 200, body = Page<Tag>), Problems)
)]
async fn tags(
    State(app): State<Shared>,
    keeper: Keeper,
    Params(of): Params<OfTags>,
) -> Answer<Reply<Page<Tag>>> {
    let limit = page(None, of.limit)?.limit;
    let (prefix, after) = (of.prefix.unwrap_or_default(), of.after.unwrap_or_default());
    let items = objects::list_tags(&app, &keeper, &owner(of.owner)?, prefix, after, limit).await?;
    let full = items.len() >= limit as usize;
    let next = items.last().filter(|_| full).map(|last| last.tag.clone());
    Ok(Reply(Page { items, next }))
}
