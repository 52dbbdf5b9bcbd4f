//! What a job leaves behind and finds again, and who it is.
//!
//! All of it is said with the token of the job, while it runs. A token of another job finds nothing here.

use axum::Json as Reply;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use kiln_proto::content::{
    Artifact, Artifacts, AskIdToken, Cache, Complete, CompleteTree, FindCache, FindChunks,
    FoundCache, FoundChunks, IdToken, NewArtifact, NewCache, NewPack, Reserved,
};
use kiln_proto::problem::Problem;
use kiln_proto::result::{AskResult, FoundResult};
use serde::Deserialize;

use super::params::Which;
use super::who::Working;
use crate::app::Shared;
use crate::http::error::Answer;
use crate::http::extract::{Json, OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::content::{artifacts, caches, identity, results, trees};

/// The most bytes of a question.
const QUESTION: usize = 64 << 10;
/// The same where it may hold many hashes.
const HASHES: usize = 1 << 20;

pub(super) fn routes() -> Routes {
    let trees = Routes::new()
        .routes(routes!(find_chunks))
        .routes(routes!(add_pack))
        .routes(routes!(complete_tree))
        .layer(DefaultBodyLimit::max(HASHES));
    Routes::new()
        .routes(routes!(find_cache))
        .routes(routes!(create_cache))
        .routes(routes!(complete_cache))
        .routes(routes!(create_artifact, list_artifacts))
        .routes(routes!(complete_artifact))
        .routes(routes!(delete_artifact))
        .routes(routes!(id_token))
        .routes(routes!(ask_result))
        .layer(DefaultBodyLimit::max(QUESTION))
        .merge(trees)
}

/// Which part of a path names something of the job.
#[derive(Debug, Deserialize)]
struct OfCache {
    cache: i64,
}

#[derive(Debug, Deserialize)]
struct OfArtifact {
    artifact: i64,
}

/// Look for a cache
///
/// In the job's ref, the branch that a pull request goes to, the default branch: first the key, then what begins
/// with it, then what begins with each restore key, newest first. What runs of less trust wrote is not looked at.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches/find", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = FindCache,
    responses((status = 200, body = FoundCache), Problems)
)]
async fn find_cache(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(asked): Json<FindCache>,
) -> Answer<Reply<FoundCache>> {
    caches::find(&app, &lease, asked).await.map(Reply)
}

/// Reserve a cache
///
/// 403 with `cache write denied:` if the event of the run may not write for its ref.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = NewCache,
    responses(
        (status = 201, body = Reserved),
        (status = 409, description = "There is one, or another job writes it", body = Problem),
        Problems,
    )
)]
async fn create_cache(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(new): Json<NewCache>,
) -> Answer<(StatusCode, Reply<Reserved>)> {
    Ok((StatusCode::CREATED, Reply(caches::create(&app, &lease, new).await?)))
}

/// Say which bytes a cache has
///
/// They have been sent before. Saying it again has the same answer.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches/{cache}/complete", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path), ("cache" = i64, Path)),
    request_body = Complete,
    responses((status = 200, body = Cache), Problems)
)]
async fn complete_cache(
    State(app): State<Shared>,
    Working(lease): Working,
    Path(OfCache { cache }): Path<OfCache>,
    Json(said): Json<Complete>,
) -> Answer<Reply<Cache>> {
    caches::complete(&app, &lease, cache, &said).await.map(Reply)
}

/// Where chunks of trees lie
///
/// As far as a cache has them that the job may read.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches/chunks", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = FindChunks,
    responses((status = 200, body = FoundChunks), Problems)
)]
async fn find_chunks(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(asked): Json<FindChunks>,
) -> Answer<Reply<FoundChunks>> {
    trees::find(&app, &lease, &asked).await.map(Reply)
}

/// Say that a pack of chunks has been sent
///
/// Each chunk is compared with its SHA-256.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches/packs", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = NewPack,
    responses((status = 204), Problems)
)]
async fn add_pack(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(new): Json<NewPack>,
) -> Answer<StatusCode> {
    trees::add(&app, &lease, &new).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say which tree a cache is
///
/// Its root and its packs have been sent before. Saying it again has the same answer.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/caches/{cache}/tree", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path), ("cache" = i64, Path)),
    request_body = CompleteTree,
    responses(
        (status = 200, body = Cache),
        (status = 409, description = "A pack is missing", body = Problem),
        Problems,
    )
)]
async fn complete_tree(
    State(app): State<Shared>,
    Working(lease): Working,
    Path(OfCache { cache }): Path<OfCache>,
    Json(said): Json<CompleteTree>,
) -> Answer<Reply<Cache>> {
    trees::complete(&app, &lease, cache, said).await.map(Reply)
}

/// Reserve the name of an artifact
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/artifacts", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = NewArtifact,
    responses(
        (status = 201, body = Reserved),
        (status = 409, description = "The run has one of that name", body = Problem),
        Problems,
    )
)]
async fn create_artifact(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(new): Json<NewArtifact>,
) -> Answer<(StatusCode, Reply<Reserved>)> {
    Ok((StatusCode::CREATED, Reply(artifacts::create(&app, &lease, new).await?)))
}

/// The complete artifacts of the job's run
#[utoipa::path(
    get, path = "/actions/jobs/{id}/attempts/{attempt}/artifacts", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path), Which),
    responses((status = 200, body = Artifacts), Problems)
)]
async fn list_artifacts(
    State(app): State<Shared>,
    Working(lease): Working,
    Params(which): Params<Which>,
) -> Answer<Reply<Artifacts>> {
    artifacts::list(&app, &lease, which.name, which.number).await.map(Reply)
}

/// Say which bytes an artifact has
///
/// They have been sent before. Saying it again has the same answer.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/artifacts/{artifact}/complete",
    tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path), ("artifact" = i64, Path)),
    request_body = Complete,
    responses((status = 200, body = Artifact), Problems)
)]
async fn complete_artifact(
    State(app): State<Shared>,
    Working(lease): Working,
    Path(OfArtifact { artifact }): Path<OfArtifact>,
    Json(said): Json<Complete>,
) -> Answer<Reply<Artifact>> {
    artifacts::complete(&app, &lease, artifact, &said).await.map(Reply)
}

/// Remove an artifact of the job's run
#[utoipa::path(
    delete, path = "/actions/jobs/{id}/attempts/{attempt}/artifacts/{artifact}", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path), ("artifact" = i64, Path)),
    responses((status = 204), Problems)
)]
async fn delete_artifact(
    State(app): State<Shared>,
    Working(lease): Working,
    Path(OfArtifact { artifact }): Path<OfArtifact>,
) -> Answer<StatusCode> {
    artifacts::delete(&app, &lease, artifact).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A token that says who the job is
///
/// For one audience, for five minutes, if the job has `id-token: write`.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/id-token", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = Option<AskIdToken>,
    responses((status = 200, body = IdToken), Problems)
)]
async fn id_token(
    State(app): State<Shared>,
    Working(lease): Working,
    OptionalJson(asked): OptionalJson<AskIdToken>,
) -> Answer<Reply<IdToken>> {
    identity::token(&app, &lease, asked).await.map(Reply)
}

/// Look for the result of an earlier job
///
/// Of the same repository and the same trust, green, with the same fingerprint, and with all that it left. If there
/// is none, this job is remembered with the fingerprint. Asking again has the same answer.
#[utoipa::path(
    post, path = "/actions/jobs/{id}/attempts/{attempt}/result", tag = "runners",
    params(("id" = i64, Path), ("attempt" = u32, Path)), request_body = AskResult,
    responses((status = 200, body = FoundResult), Problems)
)]
async fn ask_result(
    State(app): State<Shared>,
    Working(lease): Working,
    Json(asked): Json<AskResult>,
) -> Answer<Reply<FoundResult>> {
    results::ask(&app, &lease, &asked).await.map(Reply)
}
