//! What a run leaves belongs to a manifest of the run's own.
//!
//! It is made with the first artifact, so that runs without any cost nothing, and sealed when the run ends. It owns
//! the object of each artifact from the moment there is one. Such an object goes with its artifact, whose time
//! and fate are its own affair, unless somebody claims the object for another manifest.

use std::time::Duration;

use kiln_core::id::{ArtifactId, BlobId, ManifestId, ObjectId, OrgId, RunId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::artifacts::{self, Artifact};
use super::manifests::{self, Resource};
use super::objects::{self, NewObject};
use crate::directory::actor::Actor;
use crate::directory::audit;
use crate::directory::scope::Scope;
use crate::{Sql, StoreError, Tx, Value};

/// The type of objects that are artifacts.
pub const KIND: &str = "artifact";
/// Generic objects go before instances, and after caches.
const PRIORITY: i64 = 60;

/// Bytes that make an artifact complete.
#[derive(Debug, Clone)]
pub struct Bytes {
    pub blob: BlobId,
    pub hash: Vec<u8>,
    pub size: i64,
}

/// Completes an artifact with bytes of its organization: they become an object that is found by its tags, and
/// that the run's manifest owns. What is left of the run then is kept for `retention` after its end.
pub async fn complete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ArtifactId,
    bytes: &Bytes,
    retention: Duration,
) -> Result<(), StoreError> {
    let reserved = artifacts::get(tx, scope, id).await?;
    let new = NewObject {
        org: reserved.org,
        kind: KIND.to_owned(),
        blob: Some(bytes.blob),
        provider_object_id: None,
        expires_at: None,
        tags: tags(&reserved),
    };
    let object = objects::create(tx, scope, new).await?;
    artifacts::finalize(tx, scope, id, object, &bytes.hash, bytes.size).await?;
    let draft = draft(tx, actor, (reserved.org, reserved.run), retention).await?;
    let resource = Resource {
        kind: "object".to_owned(),
        id: object.0.to_string(),
        cleanup_priority: Some(PRIORITY),
    };
    manifests::add(tx, Scope::Org(reserved.org), draft, resource).await
}

/// By which the object of an artifact is found. Lists of tags have commas between them.
fn tags(artifact: &Artifact) -> Vec<String> {
    let name = artifacts::plain_name(&artifact.name).replace(',', "%2C");
    let job = artifact.job.map(|job| format!("job_id:{}", job.0));
    let mut tags = vec![format!("run_id:{}", artifact.run.0), format!("name:{name}")];
    tags.extend(job);
    tags
}

/// The open manifest of a run, locked; a new one if there is none.
async fn draft(
    tx: &mut Tx<'_>,
    actor: &Actor,
    (org, run): (OrgId, RunId),
    retention: Duration,
) -> Result<ManifestId, StoreError> {
    let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    let known = Sql::of(
        "SELECT id FROM manifests WHERE run_id = $1 AND own = 1 AND status = 'DRAFT'",
        "SELECT id FROM manifests WHERE run_id = $1 AND own = 1 AND status = 'DRAFT' FOR UPDATE",
    );
    if let Some(row) = tx.row(known, &[run.into()]).await? {
        return row.get(0);
    }
    // Of two jobs that are the first, one waits here for the other, and finds what that made.
    let sql = "INSERT INTO manifests (org_id, run_id, own, retention_ms, created_at, updated_at) \
               VALUES ($1, $2, 1, $3, $4, $4) ON CONFLICT DO NOTHING RETURNING id";
    let row = [org.into(), run.into(), retention.min(kiln_core::id::LIMIT).into(), tx.now().into()];
    let Some(made) = tx.row(sql, &row).await? else {
        return tx.one("manifest", known, &[run.into()]).await?.get(0);
    };
    let id = made.get::<ManifestId>(0)?;
    let detail = json!({ "run": run.0, "own": true });
    audit::done(tx, actor, org, "manifest.create", id.0, detail).await?;
    Ok(id)
}

/// Objects lose what they belonged to: where nothing needs them any more, they leave the manifests of their runs.
pub(super) async fn leave(tx: &mut Tx<'_>, objects: &Value) -> Result<(), StoreError> {
    tx.execute(LEAVE, std::slice::from_ref(objects)).await?;
    Ok(())
}

macro_rules! unneeded {
    () => {
        "r.org_id = o.org_id AND r.resource_type = 'object' AND r.resource_id = CAST(o.id AS TEXT) \
         AND r.owner_type = 'manifest' AND m.id = r.manifest_id AND m.own = 1 \
         AND NOT EXISTS (SELECT 1 FROM artifacts WHERE object_id = o.id) \
         AND NOT EXISTS (SELECT 1 FROM caches WHERE object_id = o.id)"
    };
}

const LEAVE: Sql = Sql::of(
    concat!(
        "DELETE FROM manifest_resources WHERE rowid IN (SELECT r.rowid FROM objects AS o \
         CROSS JOIN manifest_resources AS r CROSS JOIN manifests AS m \
         WHERE o.id IN (SELECT value FROM json_each($1)) AND ",
        unneeded!(),
        ")"
    ),
    concat!(
        "DELETE FROM manifest_resources AS r USING objects AS o, manifests AS m WHERE o.id = ANY($1) AND ",
        unneeded!()
    ),
);

/// A run's own manifest whose time is over owns what an artifact still has, because somebody keeps that or it belongs
/// to another manifest: it stays the owner, and is looked at again later.
pub async fn put_off(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
    until: Timestamp,
) -> Result<(), StoreError> {
    scope.system("manifest")?;
    let sql = "UPDATE manifests SET expires_at = $2, updated_at = $3 \
               WHERE id = $1 AND own = 1 AND status = 'SEALED'";
    tx.execute(sql, &[id.into(), until.into(), tx.now().into()]).await?;
    Ok(())
}

/// Whether an artifact has this object.
pub async fn is_needed(
    tx: &mut Tx<'_>,
    scope: Scope,
    object: ObjectId,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM artifacts WHERE object_id = $1 AND (org_id = $2 OR $2 IS NULL)";
    Ok(tx.row(sql, &[object.into(), scope.parameter()]).await?.is_some())
}

/// How far the code of a run is trusted, and so what it leaves.
pub async fn trust_of(tx: &mut Tx<'_>, scope: Scope, run: RunId) -> Result<String, StoreError> {
    let sql = "SELECT trust FROM runs WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    tx.one("run", sql, &[run.into(), scope.parameter()]).await?.get(0)
}
