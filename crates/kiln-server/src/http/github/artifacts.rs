//! Artifacts in GitHub's shape, and the upload of one by a form.

use axum::Json as Reply;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_proto::github::{Artifact, ArtifactForm, ArtifactRun, Artifacts, UploadedArtifact};
use kiln_store::content::artifacts as rows;
use kiln_store::directory::repositories::{self, Repository};
use kiln_store::runs::RunSummary;
use kiln_store::{Scope, Tx};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::params::OfArtifacts;
use super::runs::known;
use super::shape;
use crate::app::{App, Shared};
use crate::auth::{Caller, shown_token};
use crate::clock;
use crate::http::api::{artifact_id, run_id};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::service::content::{form, seen};
use crate::service::names::RepoName;
use crate::service::{report, repos, runs};
use crate::token::JobAccess;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(of_repo))
        .routes(routes!(of_run))
        .routes(routes!(one, delete))
        .routes(routes!(zip))
        .routes(routes!(download))
}

/// Not among those that must answer within seconds: bytes take their time.
pub(in crate::http) fn uploads() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(upload)).layer(DefaultBodyLimit::disable())
}

/// Who looks at artifacts: somebody with a token, or the steps of a job at those of their repository.
#[derive(Debug)]
enum Reader {
    Person(Box<Caller>),
    Steps(JobAccess),
}

impl FromRequestParts<Shared> for Reader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let token = shown_token(&parts.headers).unwrap_or_default();
        let Some(access) = app.signer.check_reading(&token) else {
            let caller = Caller::from_request_parts(parts, app).await?;
            return Ok(Self::Person(Box::new(caller)));
        };
        if report::lease(app, access).await?.is_none() {
            return Err(Failure::unauthorized("the job of this token is over"));
        }
        Ok(Self::Steps(access))
    }
}

impl Reader {
    /// The repository that an address names, if it is theirs to read.
    async fn repo(&self, app: &App, owner: &str, name: &str) -> Answer<Repository> {
        let full = format!("{owner}/{name}");
        match self {
            Self::Person(caller) => Ok(repos::find(app, caller, Right::Read, &full).await?.0),
            Self::Steps(access) => {
                let (scope, id) = (Scope::Org(access.org), access.repo);
                let find = async move |tx: &mut Tx<'_>| {
                    let found = repositories::by_name(tx, scope, &full).await?;
                    Ok((found.id == id).then_some(found))
                };
                let found = app.store.read(find).await?;
                found.ok_or_else(|| Failure::not_found("repository"))
            }
        }
    }

    /// An artifact of the repository that the address names.
    async fn artifact(
        &self,
        app: &App,
        (owner, name, id): (&str, &str, &str),
    ) -> Answer<seen::Found> {
        let repo = self.repo(app, owner, name).await?;
        let found = seen::look(app, artifact_id(id)?).await?;
        let is_there = found.artifact.repo == repo.id;
        if is_there { Ok(found) } else { Err(Failure::not_found("artifact")) }
    }
}

fn shown(app: &App, repo: &RepoName, found: &rows::Artifact, run: &RunSummary) -> Artifact {
    let url = format!("{}/actions/artifacts/{}", shape::base(app, repo), found.id);
    let own = crate::service::content::artifacts::shown(found);
    Artifact {
        id: own.id,
        node_id: found.id.slug(),
        name: own.name,
        size_in_bytes: own.size,
        archive_download_url: format!("{url}/zip"),
        url,
        expired: found.is_expired(clock::now()),
        digest: format!("sha256:{}", own.hash),
        created_at: shape::time(found.created_at),
        updated_at: shape::time(found.finalized_at.unwrap_or(found.created_at)),
        expires_at: found.expires_at.map(shape::time),
        workflow_run: ArtifactRun {
            id: run.id.0,
            repository_id: run.repo.0,
            head_repository_id: run.repo.0,
            head_branch: run.head_branch.clone(),
            head_sha: run.head_sha.clone(),
        },
        keep: own.keep,
        trust: own.trust,
        content_type: own.content_type,
    }
}

async fn list(
    app: &Shared,
    reader: &Reader,
    (owner, name): (String, String),
    run: Option<RunId>,
    filter: OfArtifacts,
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    let window = filter.window()?;
    let repo = reader.repo(app, &owner, &name).await?;
    let piece = window.piece();
    let (total_count, found) = seen::list(app, &repo, (run, filter.name), piece).await?;
    let name = RepoName { owner, name };
    let artifacts = found.iter().map(|(one, run)| shown(app, &name, one, run)).collect();
    let url = match run {
        Some(run) => format!("{}/actions/runs/{run}/artifacts", shape::base(app, &name)),
        None => format!("{}/actions/artifacts", shape::base(app, &name)),
    };
    Ok((window.links(&url, total_count), Reply(Artifacts { total_count, artifacts })))
}

/// The newest first.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/artifacts", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), OfArtifacts),
    responses((status = 200, body = Artifacts), Problems)
)]
async fn of_repo(
    State(app): State<Shared>,
    reader: Reader,
    Path(repo): Path<(String, String)>,
    Params(filter): Params<OfArtifacts>,
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    list(&app, &reader, repo, None, filter).await
}

/// The newest first.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path), OfArtifacts),
    responses((status = 200, body = Artifacts), Problems)
)]
async fn of_run(
    State(app): State<Shared>,
    reader: Reader,
    Path((owner, repo, run)): Path<(String, String, String)>,
    Params(filter): Params<OfArtifacts>,
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    let run = run_id(&run)?;
    if let Reader::Person(caller) = &reader {
        runs::find_in(&app, caller, Right::Read, (&format!("{owner}/{repo}"), run)).await?;
    }
    list(&app, &reader, (owner, repo), Some(run), filter).await
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("artifact_id" = String, Path)),
    responses((status = 200, body = Artifact), Problems)
)]
async fn one(
    State(app): State<Shared>,
    reader: Reader,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<Reply<Artifact>> {
    let found = reader.artifact(&app, (&owner, &repo, &id)).await?;
    let run = seen::run_of(&app, &found.artifact).await?;
    Ok(Reply(shown(&app, &found.repo, &found.artifact, &run)))
}

#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("artifact_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let found = seen::artifact(&app, &caller, Right::Write, artifact_id(&id)?).await?;
    if found.repo.full() != format!("{owner}/{repo}") {
        return Err(Failure::not_found("artifact"));
    }
    seen::delete(&app, &caller, &found).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn redirect(app: &App, reader: &Reader, named: (&str, &str, &str)) -> Answer<Response> {
    let found = reader.artifact(app, named).await?;
    let link = seen::link(app, &found.artifact)?;
    Ok((StatusCode::FOUND, [(header::LOCATION, link.url)]).into_response())
}

/// Leads to an address that is good for an hour. What is no archive is had as it is.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/zip", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("artifact_id" = String, Path)),
    responses(
        (status = 302, description = "The address is in `Location`"),
        (status = 410, description = "Its time is over", body = kiln_proto::problem::Problem),
        Problems,
    )
)]
async fn zip(
    State(app): State<Shared>,
    reader: Reader,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<Response> {
    redirect(&app, &reader, (&owner, &repo, &id)).await
}

/// Leads to an address that is good for an hour.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/download", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("artifact_id" = String, Path)),
    responses(
        (status = 302, description = "The address is in `Location`"),
        (status = 410, description = "Its time is over", body = kiln_proto::problem::Problem),
        Problems,
    )
)]
async fn download(
    State(app): State<Shared>,
    reader: Reader,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<Response> {
    redirect(&app, &reader, (&owner, &repo, &id)).await
}

/// Adds an artifact to a run: a form with a `name` and a `file`.
#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    request_body(content = ArtifactForm, content_type = "multipart/form-data"),
    responses((status = 201, body = UploadedArtifact), Problems)
)]
async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, run)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Reply<UploadedArtifact>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run)).await?;
    let made = form::upload(&app, caller, run, &headers, body).await?;
    let path = format!("/repos/{owner}/{repo}/actions/artifacts/{}/download", made.id);
    let uploaded = UploadedArtifact {
        id: made.id.to_string(),
        name: made.name,
        size_bytes: made.size,
        content_hash: format!("sha256:{}", made.hash),
        expires_at: made.expires_at,
        download_url: path,
    };
    Ok((StatusCode::CREATED, Reply(uploaded)))
}
