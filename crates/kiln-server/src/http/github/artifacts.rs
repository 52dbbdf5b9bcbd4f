//! Artifacts in GitHub's shape, and the upload of one by a form.

use axum::Json as Reply;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::RunId;
use kiln_core::plan::Scope as Permission;
use kiln_proto::github::{Artifact, ArtifactForm, ArtifactRun, Artifacts, UploadedArtifact};
use kiln_store::content::artifacts as rows;
use kiln_store::directory::repositories::Repository;
use kiln_store::runs::RunSummary;

use super::list::Asked;
use super::params::OfArtifacts;
use super::runs::known;
use super::shape;
use crate::app::{App, Shared};
use crate::auth::{Caller, OfRepo, Steps};
use crate::clock;
use crate::http::api::{artifact_id, run_id};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::content::{actor, form, seen};
use crate::service::names::RepoName;
use crate::service::{repos, runs};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(of_repo))
        .routes(routes!(of_run))
        .routes(routes!(one, delete))
        .routes(routes!(zip))
        .routes(routes!(download))
}

/// Not among those that must answer within seconds: bytes take their time.
pub(in crate::http) fn uploads() -> Routes {
    Routes::new().routes(routes!(upload)).layer(DefaultBodyLimit::disable())
}

/// Who looks at artifacts: somebody with a token, or the steps of a job: at those of their run, and with
/// `actions: read` at those of other runs that they may rely on.
#[derive(Debug)]
enum Reader {
    Person(Box<Caller>),
    Steps(Box<Steps>),
}

/// Their own run's they always see.
fn may_read(steps: &Steps, artifact: &rows::Artifact) -> bool {
    let Steps { lease, standing } = steps;
    let other = || {
        let trusts = standing.readable_trusts();
        standing.may_read(Permission::Actions) && trusts.contains(&artifact.trust)
    };
    artifact.repo == lease.repo && (artifact.run == lease.run || other())
}

impl FromRequestParts<Shared> for Reader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        Ok(match Steps::of(&parts.headers, app).await? {
            Some(steps) => Self::Steps(Box::new(steps)),
            None => Self::Person(Box::new(Caller::from_request_parts(parts, app).await?)),
        })
    }
}

impl Reader {
    /// The repository that an address names, if it is theirs to read.
    async fn repo(&self, app: &App, owner: &str, name: &str) -> Answer<Repository> {
        let full = format!("{owner}/{name}");
        match self {
            Self::Person(caller) => Ok(repos::find(app, caller, Right::Read, &full).await?.0),
            Self::Steps(steps) => steps.repo(app, full).await,
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
        let is_seen = match self {
            Self::Person(_) => true,
            Self::Steps(steps) => may_read(steps, &found.artifact),
        };
        if is_seen && found.artifact.repo == repo.id {
            Ok(found)
        } else {
            Err(Failure::not_found("artifact"))
        }
    }
}

impl Reader {
    /// What of a list they see: a trusted run nothing of others, and without the right only their own. Nothing at
    /// all if it is of a run that they may not look at.
    fn narrow(&self, mut which: rows::Which) -> Option<rows::Which> {
        let Self::Steps(steps) = self else { return Some(which) };
        let own = Some(steps.lease.run);
        if which.run == own {
            return Some(which);
        }
        if !steps.standing.may_read(Permission::Actions) {
            if which.run.is_some() {
                return None;
            }
            which.run = own;
            return Some(which);
        }
        let trusts = steps.standing.readable_trusts();
        which.trust = (trusts.len() == 1).then(|| trusts[0].clone());
        Some(which)
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
    (filter, asked): (OfArtifacts, Asked),
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    let window = filter.window()?;
    let repo = reader.repo(app, &owner, &name).await?;
    let piece = window.piece();
    let which = rows::Which { repo: repo.id, run, name: filter.name, trust: None };
    let (total_count, found) = match reader.narrow(which) {
        Some(which) => seen::list(app, &repo, which, piece).await?,
        None => (0, Vec::new()),
    };
    let name = RepoName { owner, name };
    let artifacts = found.iter().map(|(one, run)| shown(app, &name, one, run)).collect();
    Ok((window.links(app, &asked, total_count), Reply(Artifacts { total_count, artifacts })))
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
    asked: Asked,
    Params(filter): Params<OfArtifacts>,
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    list(&app, &reader, repo, None, (filter, asked)).await
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
    asked: Asked,
    Params(filter): Params<OfArtifacts>,
) -> Answer<(HeaderMap, Reply<Artifacts>)> {
    let run = run_id(&run)?;
    if let Reader::Person(caller) = &reader {
        runs::find_in(&app, caller, Right::Read, (&format!("{owner}/{repo}"), run)).await?;
    }
    list(&app, &reader, (owner, repo), Some(run), (filter, asked)).await
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
    reader: Reader,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let actor = match &reader {
        Reader::Person(caller) => {
            seen::artifact(&app, caller, Right::Write, artifact_id(&id)?).await?;
            caller.actor()
        }
        Reader::Steps(steps) => {
            // Whatever a job may: what is of others does not exist for it.
            reader.repo(&app, &owner, &repo).await?;
            if !steps.standing.may_write(Permission::Actions) {
                let message = "the job lacks `actions: write` in its `permissions`";
                return Err(Failure::forbidden(message));
            }
            actor(steps.lease.job)
        }
    };
    let found = reader.artifact(&app, (&owner, &repo, &id)).await?;
    seen::delete_as(&app, actor, &found).await?;
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

/// Adds an artifact to a run: a form with a `name` and a `file`. A name that the run has is refused unless the form
/// says `overwrite`.
#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    request_body(content = ArtifactForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, body = UploadedArtifact),
        (status = 409, description = "The run has one of that name", body = kiln_proto::problem::Problem),
        Problems,
    )
)]
async fn upload(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Reply<UploadedArtifact>)> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run)).await?;
    if caller.steps().is_some_and(|steps| steps.lease.run != run) {
        return Err(Failure::forbidden("a job adds artifacts to its own run"));
    }
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
