//! Artifacts and caches for people: what there is, how it is had, how it goes.

use kiln_core::access::Right;
use kiln_core::id::{ArtifactId, CacheId, RunId};
use kiln_proto::blob::Link;
use kiln_proto::content::{ArtifactDetail, RunArtifacts};
use kiln_store::content::artifacts::{self, Artifact, Which};
use kiln_store::content::caches::{self, Filter, Order};
use kiln_store::directory::repositories::Repository;
use kiln_store::runs::RunSummary;
use kiln_store::{Actor, Scope, StoreError, Tx};

use super::artifacts::{ZIP, all, shown};
use super::number;
use crate::app::App;
use crate::auth::Caller;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::service::names::{Names, RepoName};
use crate::service::runs::{self, FIND};
use crate::service::{blobs, repos};
use crate::storage::{Grant, LIFE};

/// A complete artifact with the name of its repository.
#[derive(Debug, Clone)]
pub struct Found {
    pub artifact: Artifact,
    pub repo: RepoName,
}

impl Found {
    pub fn detail(&self) -> ArtifactDetail {
        ArtifactDetail {
            artifact: shown(&self.artifact),
            slug: self.artifact.id.slug(),
            repo: self.repo.full(),
            expired: self.artifact.is_expired(clock::now()),
        }
    }
}

/// An artifact, whoever asks.
pub async fn look(app: &App, id: ArtifactId) -> Answer<Found> {
    let work = async move |tx: &mut Tx<'_>| {
        let artifact = artifacts::get(tx, FIND, id).await?;
        let repo = Names::default().repo(tx, artifact.repo).await?;
        Ok(Found { artifact, repo })
    };
    let found = app.store.read(work).await?;
    let is_complete = found.artifact.finalized_at.is_some();
    if is_complete { Ok(found) } else { Err(Failure::not_found("artifact")) }
}

/// An artifact that the caller may do this with.
pub async fn artifact(app: &App, caller: &Caller, right: Right, id: ArtifactId) -> Answer<Found> {
    let found = look(app, id).await?;
    caller.require(right, Some(found.artifact.org), "artifact")?;
    Ok(found)
}

/// The complete artifacts of a run that the caller may see, by age.
pub async fn of_run(app: &App, caller: &Caller, run: RunId) -> Answer<RunArtifacts> {
    let named = runs::find(app, caller, Right::Read, run).await?;
    let scope = Scope::Org(named.run.org);
    let work = async move |tx: &mut Tx<'_>| all(tx, scope, run).await;
    let found = app.store.read(work).await?.into_iter();
    let artifacts = found.map(|artifact| Found { artifact, repo: named.repo.clone() }.detail());
    Ok(RunArtifacts { artifacts: artifacts.collect() })
}

/// One piece of a repository's artifacts, the newest first, with their runs and how many there are.
pub async fn list(
    app: &App,
    repo: &Repository,
    which: Which,
    (skip, take): (u32, u32),
) -> Answer<(u64, Vec<(Artifact, RunSummary)>)> {
    let scope = Scope::Org(repo.org);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found: Vec<(Artifact, RunSummary)> = Vec::new();
        for artifact in artifacts::search(tx, scope, &which, skip, take).await? {
            let known = found.iter().find(|(_, run)| run.id == artifact.run);
            let run = match known.map(|(_, run)| run.clone()) {
                Some(run) => run,
                None => kiln_store::runs::get(tx, scope, artifact.run).await?,
            };
            found.push((artifact, run));
        }
        Ok((artifacts::total(tx, scope, &which).await?, found))
    };
    Ok(app.store.read(work).await?)
}

pub async fn run_of(app: &App, artifact: &Artifact) -> Answer<RunSummary> {
    let (scope, run) = (Scope::Org(artifact.org), artifact.run);
    let work = async move |tx: &mut Tx<'_>| kiln_store::runs::get(tx, scope, run).await;
    Ok(app.store.read(work).await?)
}

pub async fn delete(app: &App, caller: &Caller, found: &Found) -> Answer<()> {
    delete_as(app, caller.actor(), found).await
}

/// Like [`delete`], by whoever may, as the caller has made sure.
pub async fn delete_as(app: &App, actor: Actor, found: &Found) -> Answer<()> {
    let (scope, id) = (Scope::Org(found.artifact.org), found.artifact.id);
    let work = async move |tx: &mut Tx<'_>| artifacts::delete(tx, scope, &actor, id).await;
    Ok(app.store.write(work).await?)
}

/// Keeps an artifact beyond its time, or not.
pub async fn keep(app: &App, caller: &Caller, found: Found, keep: bool) -> Answer<Found> {
    let (scope, id, actor) = (Scope::Org(found.artifact.org), found.artifact.id, caller.actor());
    let work = async move |tx: &mut Tx<'_>| {
        artifacts::set_keep(tx, scope, &actor, id, keep).await?;
        artifacts::get(tx, scope, id).await
    };
    Ok(Found { artifact: app.store.write(work).await?, ..found })
}

/// What a download is called.
pub fn file_name(artifact: &Artifact) -> String {
    let name = &artifact.name;
    if artifact.content_type == ZIP && !name.to_ascii_lowercase().ends_with(".zip") {
        return format!("{name}.zip");
    }
    name.clone()
}

pub(crate) fn gone() -> Failure {
    use axum::http::StatusCode;
    Failure::new(StatusCode::GONE, "gone", "the time of this artifact is over")
}

/// An address from which it can be had for an hour, without a token.
pub fn link(app: &App, artifact: &Artifact) -> Answer<Link> {
    let now = clock::now();
    if artifact.is_expired(now) {
        return Err(gone());
    }
    let file = file_name(artifact);
    let grant = Grant {
        method: "GET",
        object: object(artifact.id, &file),
        size: number(artifact.size),
        org: artifact.org,
        job: None,
        expires: now + LIFE,
    };
    let query = app.storage.sign(&grant);
    let (url, id) = (&app.config.public_url, artifact.id);
    let url = format!("{url}/api/signed/artifacts/{id}/{}?{query}", encoded(&file));
    Ok(Link { url, expires_at: grant.expires.rfc3339() })
}

/// What an address of an artifact is for.
pub fn object(id: ArtifactId, file: &str) -> String {
    format!("artifact/{id}/{file}")
}

/// The bytes of an artifact, for whoever has an address of ours. One that is gone by now cannot be had.
pub async fn open(
    app: &App,
    grant: &Grant,
    signature: &str,
    id: ArtifactId,
    span: kiln_blob::Span,
) -> Answer<(Artifact, blobs::Opened)> {
    if !app.storage.check(grant, signature, clock::now()) {
        return Err(Failure::not_found("artifact"));
    }
    let found = look(app, id).await?.artifact;
    if found.is_expired(clock::now()) {
        return Err(gone());
    }
    let hash = found.hash.as_deref().and_then(kiln_blob::Digest::from_slice);
    let hash = hash.filter(|_| found.org == grant.org);
    let hash = hash.ok_or_else(|| Failure::not_found("artifact"))?;
    let opened = blobs::open_here(app, grant.org, hash, span).await?;
    Ok((found, opened))
}

/// One piece of a repository's caches, and how many there are.
pub async fn caches(
    app: &App,
    repo: &Repository,
    (key, git_ref): (Option<String>, Option<String>),
    order: (Order, bool),
    piece: (u32, u32),
) -> Answer<(u64, Vec<caches::Cache>)> {
    let (scope, filter) = (Scope::Org(repo.org), Filter { repo: repo.id, key, git_ref });
    let work = async move |tx: &mut Tx<'_>| {
        let found = caches::search(tx, scope, &filter, order, piece).await?;
        Ok((caches::total(tx, scope, &filter).await?, found))
    };
    Ok(app.store.read(work).await?)
}

/// What the caches of a repository take, and how often jobs looked for one.
pub async fn usage(app: &App, repo: &Repository) -> Answer<(Vec<caches::Usage>, caches::Looks)> {
    let (scope, id) = (Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        Ok((caches::usage(tx, scope, id).await?, caches::looks(tx, scope, id).await?))
    };
    Ok(app.store.read(work).await?)
}

pub async fn delete_cache(app: &App, caller: &Caller, full_name: &str, id: CacheId) -> Answer<()> {
    let (repo, _) = repos::find(app, caller, Right::Write, full_name).await?;
    let (scope, actor) = (Scope::Org(repo.org), caller.actor());
    let work = async move |tx: &mut Tx<'_>| {
        if caches::get(tx, scope, id).await?.repo != repo.id {
            return Err(StoreError::from(kiln_store::Refusal::NotFound("cache")));
        }
        caches::delete(tx, scope, &actor, id).await
    };
    app.store.write(work).await?;
    Ok(())
}

/// Removes all caches of a key, of one ref or of all. Says which.
pub async fn delete_caches(
    app: &App,
    caller: &Caller,
    full_name: &str,
    (key, git_ref): (String, Option<String>),
) -> Answer<Vec<caches::Cache>> {
    let (repo, _) = repos::find(app, caller, Right::Write, full_name).await?;
    let (scope, id, actor) = (Scope::Org(repo.org), repo.id, caller.actor());
    let work = async move |tx: &mut Tx<'_>| {
        caches::delete_by_key(tx, scope, &actor, (id, &key, git_ref.as_deref())).await
    };
    let gone = app.store.write(work).await?;
    if gone.is_empty() { Err(Failure::not_found("cache")) } else { Ok(gone) }
}
