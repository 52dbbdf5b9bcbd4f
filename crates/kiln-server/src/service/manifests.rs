//! Manifests, for people and programs: drafts, seals, and resources that change their owner.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{ArtifactId, CacheId, ManifestId, ObjectId, OrgId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::manifest::{Claim, Manifest, NewManifest, Resource};
use kiln_store::content::manifests::{self, ManifestState};
use kiln_store::content::{artifacts, caches, objects};
use kiln_store::directory::{audit, organizations};
use kiln_store::{Actor, Page, Refusal, Scope, StoreError, Tx};
use serde_json::json;

use super::content::kinds;
use super::keeper::Keeper;
use super::runs::FIND;
use crate::app::App;
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

    pub(super) fn priority(self) -> i64 {
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

/// Begins a manifest. One of a job is for its run, and keeps things no longer than that may keep artifacts.
pub async fn create(app: &App, keeper: &Keeper, new: NewManifest) -> Answer<Manifest> {
    let org = keeper.org(app, Right::Write, &new.owner).await?;
    let run = new.run.as_deref().map(str::parse::<RunId>).transpose();
    let run = keeper.run(run.map_err(|_| Failure::not_found("run"))?)?;
    if new.for_ever && new.retention.is_some() {
        return Err(Failure::invalid("`retention` and `for_ever`: expected one of the two"));
    }
    if new.for_ever {
        keeper.must_be_person("keep something for ever")?;
    }
    let (content, is_bounded) = (app.config.content, matches!(keeper, Keeper::Job(_)));
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        let scope = Scope::Org(org);
        let (mut usual, mut longest) = (USUAL, Duration::MAX);
        if let Some(run) = run {
            kiln_store::runs::get(tx, scope, run).await?;
            usual = kinds::kept(tx, scope, &content.of_kind, run).await?.unwrap_or(USUAL);
            if is_bounded {
                longest = kinds::longest(tx, scope, &content, run).await?;
            }
        }
        let said = new.retention.map_or_else(|| usual.min(longest), Duration::from_secs);
        if said > longest {
            let message = format!("`retention`: expected {} seconds at most", longest.as_secs());
            return Err(Refusal::Invalid(message).into());
        }
        let retention = (!new.for_ever).then_some(said);
        let id = manifests::create(tx, scope, org, run, retention).await?;
        let detail = json!({ "run": run.map(|run| run.0) });
        audit::done(tx, &actor, org, "manifest.create", id.0, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

pub(super) async fn org_named(app: &App, owner: &str) -> Answer<OrgId> {
    let owner = owner.to_owned();
    let find = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
    Ok(app.store.read(find).await?.id)
}

/// The organization of a manifest that the keeper may do this with.
async fn scope(app: &App, keeper: &Keeper, right: Right, id: ManifestId) -> Answer<Scope> {
    let who = keeper.clone();
    let find = async move |tx: &mut Tx<'_>| {
        let found = manifests::get(tx, FIND, id).await?;
        match right {
            Right::Read => who.must_see(tx, &found).await?,
            _ => who.must_have(&found)?,
        }
        if right != Right::Read {
            must_be_made_by_hand(&found)?;
        }
        Ok(found.org)
    };
    keeper.require(right, app.store.read(find).await?, "manifest")
}

pub(super) fn must_be_made_by_hand(manifest: &manifests::Manifest) -> Result<(), StoreError> {
    if manifest.own {
        let message = "the manifest is what its run leaves; it changes with the run alone";
        return Err(Refusal::Conflict(message.to_owned()).into());
    }
    Ok(())
}

pub async fn get(app: &App, keeper: &Keeper, id: ManifestId) -> Answer<Manifest> {
    let scope = scope(app, keeper, Right::Read, id).await?;
    Ok(app.store.read(async move |tx: &mut Tx<'_>| shown(tx, scope, id).await).await?)
}

/// The manifests of an organization that the keeper sees, the newest first.
pub async fn list(app: &App, keeper: &Keeper, owner: &str, page: Page) -> Answer<Vec<Manifest>> {
    let org = keeper.org(app, Right::Read, owner).await?;
    let (scope, repo) = (Scope::Org(org), keeper.repo());
    let work = async move |tx: &mut Tx<'_>| manifests::list(tx, scope, (org, repo), page).await;
    Ok(app.store.read(work).await?.iter().map(|one| said(one, Vec::new())).collect())
}

/// Gives a draft something that no other manifest owns.
pub async fn add(app: &App, keeper: &Keeper, id: ManifestId, new: Resource) -> Answer<Manifest> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    let kind = kind(&new.kind)?;
    if kind == Kind::Object {
        keeper.must_be_person("take an object that nobody owns; make it in the draft")?;
    }
    let who = keeper.clone();
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        let org = manifests::get(tx, scope, id).await?.org;
        let resource = manifests::Resource {
            kind: new.kind.clone(),
            id: new.id.to_string(),
            cleanup_priority: Some(new.cleanup_priority.unwrap_or_else(|| kind.priority())),
        };
        manifests::add(tx, scope, id, resource).await?;
        // It cannot go any more if it is there now.
        kind.must_exist(tx, org, new.id).await?;
        who.must_reach(tx, kind, new.id).await?;
        let detail = json!({ "type": new.kind, "id": new.id });
        note(tx, scope, &actor, "manifest.add", id, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// Takes something out of a draft again. Nobody owns it then, and an object that nobody owns stays for ever.
pub async fn give_up(
    app: &App,
    keeper: &Keeper,
    id: ManifestId,
    of: &str,
    resource: i64,
) -> Answer<Manifest> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    if kind(of)? == Kind::Object {
        keeper.must_be_person("leave an object to nobody; it goes with its manifest")?;
    }
    let (of, actor) = (of.to_owned(), keeper.actor());
    let work = async move |tx: &mut Tx<'_>| {
        manifests::give_up(tx, scope, id, &of, &resource.to_string()).await?;
        let detail = json!({ "type": of, "id": resource });
        note(tx, scope, &actor, "manifest.give_up", id, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// From now on nothing is added, others may take what is in it, and its time runs.
pub async fn seal(app: &App, keeper: &Keeper, id: ManifestId) -> Answer<Manifest> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        manifests::seal(tx, scope, id).await?;
        note(tx, scope, &actor, "manifest.seal", id, serde_json::Value::Null).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// Takes something from a sealed manifest. Of two who try, one gets it.
pub async fn claim(app: &App, keeper: &Keeper, id: ManifestId, wish: Claim) -> Answer<Manifest> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    let kind = kind(&wish.kind)?;
    let from: ManifestId = wish.from.parse().map_err(|_| Failure::not_found("manifest"))?;
    let who = keeper.clone();
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        let owner = manifests::get(tx, scope, from).await?;
        who.must_see(tx, &owner).await?;
        who.must_reach(tx, kind, wish.id).await?;
        let resource = wish.id.to_string();
        manifests::transfer(tx, scope, from, id, &wish.kind, &resource).await?;
        let detail = json!({ "type": wish.kind, "id": wish.id, "from": from.0 });
        note(tx, scope, &actor, "manifest.claim", id, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// Writes down who changed a manifest, and how.
async fn note(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    action: &'static str,
    id: ManifestId,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    let org = manifests::get(tx, scope, id).await?.org;
    audit::done(tx, actor, org, action, id.0, detail).await
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
        own: found.own,
        state: state.to_owned(),
        retention: found.retention_ms.and_then(|millis| u64::try_from(millis / 1_000).ok()),
        created_at: found.created_at.rfc3339(),
        released_at: found.released_at.map(Timestamp::rfc3339),
        expires_at: found.expires_at.map(Timestamp::rfc3339),
        resources: resources.into_iter().map(resource).collect(),
    }
}

/// Removes what a manifest owned, in the transaction that takes it out of the manifest. An artifact that
/// somebody keeps stays, and is nobody's from now on.
pub async fn clean_up(
    tx: &mut Tx<'_>,
    org: OrgId,
    id: ManifestId,
    resource: &manifests::Resource,
) -> Result<(), StoreError> {
    let (scope, actor) = (Scope::Org(org), Actor::system("manifests"));
    let number = resource.id.parse().unwrap_or_default();
    let Some(kind) = Kind::read(&resource.kind) else {
        // Somebody else made it, and has to remove it.
        return Ok(());
    };
    manifests::remove(tx, scope, id, &resource.kind, &resource.id).await?;
    let removed = match kind {
        Kind::Artifact => artifacts::delete_unkept(tx, scope, &actor, ArtifactId(number)).await,
        Kind::Cache => caches::delete(tx, scope, &actor, CacheId(number)).await.map(drop),
        // One that an artifact or a cache still needs goes with that.
        Kind::Object => objects::delete_unneeded(tx, scope, ObjectId(number)).await,
    };
    match removed {
        // It went by itself.
        Err(StoreError::Refused(Refusal::NotFound(_))) => Ok(()),
        removed => removed,
    }
}
