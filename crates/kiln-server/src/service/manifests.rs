//! Manifests, for people and programs: drafts, seals, and resources that change their owner.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{ArtifactId, CacheId, ManifestId, ObjectId, OrgId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::manifest::{Claim, Manifest, NewManifest, Resource};
use kiln_store::content::manifests::{self, ManifestState};
use kiln_store::content::{artifacts, caches, objects};
use kiln_store::directory::organizations;
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};

use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// How long resources stay that nobody said anything about.
const USUAL: Duration = Duration::from_hours(24);

/// What a manifest can own, and what is to be cleaned up first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Artifact,
    Cache,
    Object,
}

impl Kind {
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "artifact" => Some(Self::Artifact),
            "cache" => Some(Self::Cache),
            "object" => Some(Self::Object),
            _ => None,
        }
    }

    fn priority(self) -> i64 {
        match self {
            Self::Artifact => 70,
            Self::Cache => 65,
            Self::Object => 60,
        }
    }

    /// Refuses what the organization does not have.
    async fn must_exist(self, tx: &mut Tx<'_>, org: OrgId, id: i64) -> Result<(), StoreError> {
        let scope = Scope::Org(org);
        match self {
            Self::Artifact => artifacts::get(tx, scope, ArtifactId(id)).await.map(drop),
            Self::Cache => caches::get(tx, scope, CacheId(id)).await.map(drop),
            Self::Object => objects::get(tx, scope, ObjectId(id)).await.map(drop),
        }
    }
}

fn kind(word: &str) -> Answer<Kind> {
    let expected = || Failure::invalid("`type`: expected `artifact`, `cache` or `object`");
    Kind::read(word).ok_or_else(expected)
}

pub async fn create(app: &App, caller: &Caller, new: NewManifest) -> Answer<Manifest> {
    let org = org_named(app, &new.owner).await?;
    caller.require(Right::Write, Some(org), "organization")?;
    let run = new.run.as_deref().map(str::parse::<RunId>).transpose();
    let run = run.map_err(|_| Failure::not_found("run"))?;
    let retention = match (new.for_ever, new.retention) {
        (true, None) => None,
        (true, Some(_)) => {
            return Err(Failure::invalid("`retention` and `for_ever`: expected one of the two"));
        }
        (false, said) => Some(said.map_or(USUAL, Duration::from_secs)),
    };
    let work = async move |tx: &mut Tx<'_>| {
        let scope = Scope::Org(org);
        if let Some(run) = run {
            kiln_store::runs::get(tx, scope, run).await?;
        }
        let id = manifests::create(tx, scope, org, run, retention).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

async fn org_named(app: &App, owner: &str) -> Answer<OrgId> {
    let owner = owner.to_owned();
    let find = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
    Ok(app.store.read(find).await?.id)
}

/// The organization of a manifest that the caller may do this with.
async fn scope(app: &App, caller: &Caller, right: Right, id: ManifestId) -> Answer<Scope> {
    let find = async move |tx: &mut Tx<'_>| manifests::get(tx, FIND, id).await;
    let org = app.store.read(find).await?.org;
    caller.require(right, Some(org), "manifest")
}

pub async fn get(app: &App, caller: &Caller, id: ManifestId) -> Answer<Manifest> {
    let scope = scope(app, caller, Right::Read, id).await?;
    Ok(app.store.read(async move |tx: &mut Tx<'_>| shown(tx, scope, id).await).await?)
}

/// The manifests of an organization, the newest first.
pub async fn list(app: &App, caller: &Caller, owner: &str, page: Page) -> Answer<Vec<Manifest>> {
    let org = org_named(app, owner).await?;
    let scope = caller.require(Right::Read, Some(org), "organization")?;
    let work = async move |tx: &mut Tx<'_>| manifests::list(tx, scope, org, page).await;
    Ok(app.store.read(work).await?.iter().map(|one| said(one, Vec::new())).collect())
}

/// Gives a draft something that no other manifest owns.
pub async fn add(app: &App, caller: &Caller, id: ManifestId, new: Resource) -> Answer<Manifest> {
    let scope = scope(app, caller, Right::Write, id).await?;
    let kind = kind(&new.kind)?;
    let work = async move |tx: &mut Tx<'_>| {
        let org = manifests::get(tx, scope, id).await?.org;
        kind.must_exist(tx, org, new.id).await?;
        let resource = manifests::Resource {
            kind: new.kind.clone(),
            id: new.id.to_string(),
            cleanup_priority: Some(new.cleanup_priority.unwrap_or_else(|| kind.priority())),
        };
        manifests::add(tx, scope, id, resource).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// From now on nothing is added, others may take what is in it, and its time runs.
pub async fn seal(app: &App, caller: &Caller, id: ManifestId) -> Answer<Manifest> {
    let scope = scope(app, caller, Right::Write, id).await?;
    let work = async move |tx: &mut Tx<'_>| {
        manifests::seal(tx, scope, id).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// Takes something from a sealed manifest. Of two who try, one gets it.
pub async fn claim(app: &App, caller: &Caller, id: ManifestId, wish: Claim) -> Answer<Manifest> {
    let scope = scope(app, caller, Right::Write, id).await?;
    kind(&wish.kind)?;
    let from: ManifestId = wish.from.parse().map_err(|_| Failure::not_found("manifest"))?;
    let work = async move |tx: &mut Tx<'_>| {
        let resource = wish.id.to_string();
        manifests::transfer(tx, scope, from, id, &wish.kind, &resource).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

async fn shown(tx: &mut Tx<'_>, scope: Scope, id: ManifestId) -> Result<Manifest, StoreError> {
    let found = manifests::get(tx, scope, id).await?;
    Ok(said(&found, manifests::resources(tx, scope, id).await?))
}

fn said(found: &manifests::Manifest, resources: Vec<manifests::Resource>) -> Manifest {
    let state = match found.state {
        ManifestState::Draft => "DRAFT",
        ManifestState::Sealed => "SEALED",
        ManifestState::Due => "DUE",
        ManifestState::Expired => "EXPIRED",
    };
    let resource = |one: manifests::Resource| Resource {
        kind: one.kind,
        id: one.id.parse().unwrap_or_default(),
        cleanup_priority: one.cleanup_priority,
    };
    Manifest {
        id: found.id.0,
        slug: found.id.slug(),
        run_id: found.run.map(|run| run.0),
        state: state.to_owned(),
        retention: found.retention_ms.and_then(|millis| u64::try_from(millis / 1_000).ok()),
        created_at: found.created_at.rfc3339(),
        released_at: found.released_at.map(Timestamp::rfc3339),
        expires_at: found.expires_at.map(Timestamp::rfc3339),
        resources: resources.into_iter().map(resource).collect(),
    }
}

/// Removes what a manifest owned, in the transaction that takes it out of the manifest.
pub(crate) async fn clean_up(
    tx: &mut Tx<'_>,
    org: OrgId,
    id: ManifestId,
    resource: &manifests::Resource,
) -> Result<(), StoreError> {
    let (scope, actor) = (Scope::Org(org), kiln_store::Actor::system("manifests"));
    let number = resource.id.parse().unwrap_or_default();
    let removed = match Kind::read(&resource.kind) {
        Some(Kind::Artifact) => artifacts::delete(tx, scope, &actor, ArtifactId(number)).await,
        Some(Kind::Cache) => caches::delete(tx, scope, &actor, CacheId(number)).await.map(drop),
        // One that an artifact or a cache still needs goes with that.
        Some(Kind::Object) => objects::delete_unneeded(tx, scope, ObjectId(number)).await,
        // Somebody else made it, and has to remove it.
        None => return Ok(()),
    };
    match removed {
        // It went by itself.
        Ok(()) | Err(StoreError::Refused(Refusal::NotFound(_))) => {}
        Err(error) => return Err(error),
    }
    manifests::remove(tx, scope, id, &resource.kind, &resource.id).await
}
