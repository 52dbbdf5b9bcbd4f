//! Artifacts, for people: what GitHub's shapes leave out.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::access::Right;
use kiln_core::id::ArtifactId;
use kiln_proto::blob::Link;
use kiln_proto::content::{ArtifactDetail, KeepArtifact, RunArtifacts};

use super::run_id;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, Path};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::content::seen;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(of_run))
        .routes(routes!(one, delete))
        .routes(routes!(keep))
        .routes(routes!(link))
}

/// An artifact as addresses name it: by its number or its slug.
pub(in crate::http) fn artifact_id(text: &str) -> Answer<ArtifactId> {
    text.parse().map_err(|_| Failure::not_found("artifact"))
}

/// The artifacts of a run, by age.
#[utoipa::path(
    get, path = "/api/runs/{run}/artifacts", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, body = RunArtifacts), Problems)
)]
async fn of_run(
    State(app): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
) -> Answer<Reply<RunArtifacts>> {
    seen::of_run(&app, &caller, run_id(&run)?).await.map(Reply)
}

/// An artifact.
#[utoipa::path(
    get, path = "/api/artifacts/{artifact_id}", tag = "runs", params(("artifact_id" = String, Path)),
    responses((status = 200, body = ArtifactDetail), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<ArtifactDetail>> {
    let found = seen::artifact(&app, &caller, Right::Read, artifact_id(&id)?).await?;
    Ok(Reply(found.detail()))
}

/// Removes an artifact.
#[utoipa::path(
    delete, path = "/api/artifacts/{artifact_id}", tag = "runs",
    params(("artifact_id" = String, Path)), responses((status = 204), Problems)
)]
async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let found = seen::artifact(&app, &caller, Right::Write, artifact_id(&id)?).await?;
    seen::delete(&app, &caller, &found).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Keeps an artifact beyond its time, or not.
#[utoipa::path(
    put, path = "/api/artifacts/{artifact_id}/keep", tag = "runs",
    params(("artifact_id" = String, Path)), request_body = KeepArtifact,
    responses((status = 200, body = ArtifactDetail), Problems)
)]
async fn keep(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Json(wish): Json<KeepArtifact>,
) -> Answer<Reply<ArtifactDetail>> {
    let found = seen::artifact(&app, &caller, Right::Write, artifact_id(&id)?).await?;
    Ok(Reply(seen::keep(&app, &caller, found, wish.keep).await?.detail()))
}

/// An address of the artifact that needs no token, for an hour. It takes ranges.
#[utoipa::path(
    get, path = "/api/artifacts/{artifact_id}/link", tag = "runs",
    params(("artifact_id" = String, Path)),
    responses(
        (status = 200, body = Link),
        (status = 410, description = "Its time is over", body = kiln_proto::problem::Problem),
        Problems,
    )
)]
async fn link(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Reply<Link>> {
    let found = seen::artifact(&app, &caller, Right::Read, artifact_id(&id)?).await?;
    seen::link(&app, &found.artifact).map(Reply)
}
