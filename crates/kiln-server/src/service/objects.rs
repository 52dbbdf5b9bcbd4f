//! Objects and their tags, for people and programs.

use kiln_blob::{BlobError, Digest};
use kiln_core::access::Right;
use kiln_core::id::{ManifestId, ObjectId, OrgId};
use kiln_core::time::Timestamp;
use kiln_proto::object::{ChangeTags, NewObject, Object, Tag};
use kiln_store::content::{blobs, manifests, objects, tags};
use kiln_store::directory::audit;
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};
use serde_json::json;

use super::keeper::Keeper;
use super::manifests::{Kind, must_be_made_by_hand};
use super::runs::FIND;
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};

/// A list of tags in an address has commas between them, so none may have one.
fn check_tags(tags: &[String]) -> Answer<()> {
    if tags.iter().any(|tag| tag.contains(',')) {
        return Err(Failure::invalid("`tags`: expected tags without commas"));
    }
    Ok(())
}

/// Makes an object, which a draft owns from the beginning if one is named; a job has to name one of its run.
pub async fn create(app: &App, keeper: &Keeper, new: NewObject) -> Answer<Object> {
    let org = keeper.org(app, Right::Write, &new.owner).await?;
    let scope = Scope::Org(org);
    check_tags(&new.tags)?;
    if matches!(new.kind.as_str(), "artifact" | "cache") {
        let message = "`type`: expected another than `artifact` and `cache`, which jobs make";
        return Err(Failure::invalid(message));
    }
    let wrong = |error: BlobError| Failure::invalid(format!("`hash`: {error}"));
    let hash: Option<Digest> = new.hash.as_deref().map(str::parse).transpose().map_err(wrong)?;
    let expires_at = new.expires_at.as_deref().map(to_come).transpose()?;
    let draft = new.manifest.as_deref().map(str::parse::<ManifestId>).transpose();
    let draft = draft.map_err(|_| Failure::not_found("manifest"))?;
    if draft.is_none() {
        keeper.must_be_person("make an object that no manifest of its run owns: name one")?;
    }
    let who = keeper.clone();
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        let made = objects::NewObject {
            org,
            kind: new.kind.clone(),
            blob: match hash {
                Some(hash) => Some(blobs::by_hash(tx, scope, org, &hash.0).await?.id),
                None => None,
            },
            provider_object_id: new.provider_object_id.clone(),
            expires_at,
            tags: new.tags.clone(),
        };
        let id = objects::create(tx, scope, made).await?;
        if let Some(draft) = draft {
            let manifest = manifests::get(tx, scope, draft).await?;
            who.must_have(&manifest)?;
            must_be_made_by_hand(&manifest)?;
            own(tx, org, draft, id).await?;
        }
        let detail = json!({ "type": new.kind, "tags": new.tags });
        audit::done(tx, &actor, org, "object.create", id.0, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

fn to_come(text: &str) -> Answer<Timestamp> {
    let wrong = || Failure::invalid("`expires_at`: expected a time to come, in RFC 3339");
    Timestamp::parse_rfc3339(text).filter(|end| *end > clock::now()).ok_or_else(wrong)
}

async fn own(
    tx: &mut Tx<'_>,
    org: OrgId,
    draft: ManifestId,
    id: ObjectId,
) -> Result<(), StoreError> {
    let resource = manifests::Resource {
        kind: "object".to_owned(),
        id: id.0.to_string(),
        cleanup_priority: Some(Kind::Object.priority()),
    };
    manifests::add(tx, Scope::Org(org), draft, resource).await
}

/// Objects of an organization, the newest first.
pub async fn list(
    app: &App,
    keeper: &Keeper,
    owner: &str,
    which: objects::Which,
    page: Page,
) -> Answer<Vec<Object>> {
    keeper.must_be_person("look through objects; those of a manifest stand there")?;
    let org = keeper.org(app, Right::Read, owner).await?;
    let scope = Scope::Org(org);
    let work = async move |tx: &mut Tx<'_>| {
        let mut all = Vec::new();
        for found in objects::search(tx, scope, org, &which, page).await? {
            all.push(shown(tx, scope, found.id).await?);
        }
        Ok(all)
    };
    Ok(app.store.read(work).await?)
}

/// What the keeper may do with an object.
async fn scope(app: &App, keeper: &Keeper, right: Right, id: ObjectId) -> Answer<Scope> {
    let who = keeper.clone();
    let find = async move |tx: &mut Tx<'_>| {
        let org = objects::get(tx, FIND, id).await?.org;
        who.must_see_object(tx, (org, id.0), right).await?;
        Ok(org)
    };
    keeper.require(right, app.store.read(find).await?, "object")
}

pub async fn get(app: &App, keeper: &Keeper, id: ObjectId) -> Answer<Object> {
    let scope = scope(app, keeper, Right::Read, id).await?;
    Ok(app.store.read(async move |tx: &mut Tx<'_>| shown(tx, scope, id).await).await?)
}

/// Gives an object tags, or takes them away.
pub async fn tag(app: &App, keeper: &Keeper, id: ObjectId, asked: ChangeTags) -> Answer<Object> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    check_tags(&asked.add)?;
    if asked.moves {
        keeper.must_be_person("take tags from other objects")?;
    }
    let change = tags::Change { add: asked.add, remove: asked.remove, alone: asked.moves };
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| {
        tags::change(tx, scope, id, &change).await?;
        let org = objects::get(tx, scope, id).await?.org;
        let tags::Change { add, remove, alone } = &change;
        let detail = json!({ "add": add, "remove": remove, "moves": alone });
        audit::done(tx, &actor, org, "object.tag", id.0, detail).await?;
        shown(tx, scope, id).await
    };
    Ok(app.store.write(work).await?)
}

/// Removes an object that nothing needs and nobody owns.
pub async fn remove(app: &App, keeper: &Keeper, id: ObjectId) -> Answer<()> {
    let scope = scope(app, keeper, Right::Write, id).await?;
    let actor = keeper.actor();
    let work = async move |tx: &mut Tx<'_>| objects::remove(tx, scope, &actor, id).await;
    Ok(app.store.write(work).await?)
}

/// The tags of an organization that begin like this.
pub async fn list_tags(
    app: &App,
    keeper: &Keeper,
    owner: &str,
    beginning: String,
    after: String,
    limit: u32,
) -> Answer<Vec<Tag>> {
    keeper.must_be_person("look through tags")?;
    let org = keeper.org(app, Right::Read, owner).await?;
    let scope = Scope::Org(org);
    let work =
        async move |tx: &mut Tx<'_>| tags::list(tx, scope, org, &beginning, &after, limit).await;
    let tag = |one: tags::Tag| Tag {
        tag: one.tag,
        objects: u64::try_from(one.objects).unwrap_or_default(),
    };
    Ok(app.store.read(work).await?.into_iter().map(tag).collect())
}

async fn shown(tx: &mut Tx<'_>, scope: Scope, id: ObjectId) -> Result<Object, StoreError> {
    let found = objects::get(tx, scope, id).await?;
    let bytes = objects::bytes_of(tx, scope, id).await?;
    let broken = || Refusal::Conflict("the bytes of the object are gone".to_owned());
    let hash = bytes.as_ref().map(|(hash, _)| Digest::from_slice(hash).ok_or_else(broken));
    Ok(Object {
        id: id.0,
        slug: id.slug(),
        kind: found.kind,
        hash: hash.transpose()?.map(|hash| hash.to_string()),
        size: bytes.and_then(|(_, size)| u64::try_from(size).ok()),
        provider_object_id: found.provider_object_id,
        tags: objects::tags(tx, scope, id).await?,
        created_at: found.created_at.rfc3339(),
        expires_at: found.expires_at.map(Timestamp::rfc3339),
    })
}
