//! Manifests: what lives and goes away together.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::id::ManifestId;
use kiln_proto::api::Page;
use kiln_proto::manifest::{Claim, Manifest, NewManifest, Resource};

use super::page::{page, piece};
use super::params::OfOwner;
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::keeper::Keeper;
use crate::service::manifests;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(one))
        .routes(routes!(add))
        .routes(routes!(give_up))
        .routes(routes!(seal))
        .routes(routes!(claim))
}

fn manifest_id(text: &str) -> Answer<ManifestId> {
    text.parse().map_err(|_| Failure::not_found("manifest"))
}

/// The manifests of an organization, the newest first.
#[utoipa::path(
    get, path = "/api/manifests", tag = "bytes", params(OfOwner),
    responses((status = 200, body = Page<Manifest>), Problems)
)]
async fn list(
    State(app): State<Shared>,
    keeper: Keeper,
    Params(of): Params<OfOwner>,
) -> Answer<Reply<Page<Manifest>>> {
    let page = page(of.after.as_deref(), of.limit)?;
    let owner = of.owner.ok_or_else(|| Failure::invalid("`owner`: expected an organization"))?;
    let found = manifests::list(&app, &keeper, &owner, page).await?;
    Ok(Reply(piece(found, page, |manifest| manifest.id)))
}

/// Begins a manifest.
#[utoipa::path(
    post, path = "/api/manifests", tag = "bytes", request_body = NewManifest,
    responses((status = 201, body = Manifest), Problems)
)]
async fn create(
    State(app): State<Shared>,
    keeper: Keeper,
    Json(new): Json<NewManifest>,
) -> Answer<(StatusCode, Reply<Manifest>)> {
    Ok((StatusCode::CREATED, Reply(manifests::create(&app, &keeper, new).await?)))
}

/// A manifest with what it owns.
#[utoipa::path(
    get, path = "/api/manifests/{manifest_id}", tag = "bytes",
    params(("manifest_id" = String, Path)), responses((status = 200, body = Manifest), Problems)
)]
async fn one(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
) -> Answer<Reply<Manifest>> {
    manifests::get(&app, &keeper, manifest_id(&id)?).await.map(Reply)
}

/// Gives a draft something that no other manifest owns.
#[utoipa::path(
    post, path = "/api/manifests/{manifest_id}/resources", tag = "bytes",
    params(("manifest_id" = String, Path)), request_body = Resource,
    responses((status = 200, body = Manifest), Problems)
)]
async fn add(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
    Json(resource): Json<Resource>,
) -> Answer<Reply<Manifest>> {
    manifests::add(&app, &keeper, manifest_id(&id)?, resource).await.map(Reply)
}

/// Takes something out of a draft again: nobody owns it then.
#[utoipa::path(
    delete, path = "/api/manifests/{manifest_id}/resources/{type}/{id}", tag = "bytes",
    params(("manifest_id" = String, Path), ("type" = String, Path), ("id" = i64, Path)),
    responses((status = 200, body = Manifest), Problems)
)]
async fn give_up(
    State(app): State<Shared>,
    keeper: Keeper,
    Path((id, kind, resource)): Path<(String, String, i64)>,
) -> Answer<Reply<Manifest>> {
    manifests::give_up(&app, &keeper, manifest_id(&id)?, &kind, resource).await.map(Reply)
}

/// Seals a draft: nothing is added any more, others may take what is in it, and its time runs.
#[utoipa::path(
    post, path = "/api/manifests/{manifest_id}/seal", tag = "bytes",
    params(("manifest_id" = String, Path)), responses((status = 200, body = Manifest), Problems)
)]
async fn seal(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
) -> Answer<Reply<Manifest>> {
    manifests::seal(&app, &keeper, manifest_id(&id)?).await.map(Reply)
}

/// Takes something from a sealed manifest into this draft. Of two who try, one gets it.
#[utoipa::path(
    post, path = "/api/manifests/{manifest_id}/claim", tag = "bytes",
    params(("manifest_id" = String, Path)), request_body = Claim,
    responses((status = 200, body = Manifest), Problems)
)]
async fn claim(
    State(app): State<Shared>,
    keeper: Keeper,
    Path(id): Path<String>,
    Json(wish): Json<Claim>,
) -> Answer<Reply<Manifest>> {
    manifests::claim(&app, &keeper, manifest_id(&id)?, wish).await.map(Reply)
}
