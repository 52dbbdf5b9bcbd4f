//! Manifests: what lives and goes away together. DRAFT takes resources, SEALED is kept for a time; that it
//! has expired is derived and never written.

use std::time::Duration;

use kiln_core::id::{ManifestId, OrgId, RepoId, RunId};
use kiln_core::time::Timestamp;

use crate::directory::page::Page;
use crate::directory::scope::Scope;
use crate::directory::{names, organizations};
use crate::words::words;
use crate::{Refusal, Row, Sql, StoreError, Tx};

use super::owned;

words! {
    /// What is written; the rest is derived.
    Status: "a status of a manifest" {
        Draft = "DRAFT",
        Sealed = "SEALED",
    }
}

/// Where a manifest is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestState {
    Draft,
    Sealed,
    /// Its time is over, and what it still owns is to be removed.
    Due,
    /// Its time is over and it owns nothing any more.
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub id: ManifestId,
    pub org: OrgId,
    pub run: Option<RunId>,
    /// Kiln made it for what the run leaves.
    pub own: bool,
    pub state: ManifestState,
    /// Milliseconds; `None` for ever.
    pub retention_ms: Option<i64>,
    pub created_at: Timestamp,
    /// When it was sealed.
    pub released_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

/// Something that a manifest owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub kind: String,
    pub id: String,
    /// Higher goes first; `None` for the manifest's own.
    pub cleanup_priority: Option<i64>,
}

/// A draft. What it gets is kept for `retention` after it was sealed; `None` for ever.
pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    run: Option<RunId>,
    retention: Option<Duration>,
) -> Result<ManifestId, StoreError> {
    organizations::require(tx, scope, org).await?;
    let retention = retention.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    if let Some(retention) = retention {
        names::within("the retention of a manifest", retention, 0, kiln_core::id::LIMIT)?;
    }
    let row = [org.into(), run.into(), retention.into(), tx.now().into()];
    let sql = "INSERT INTO manifests (org_id, run_id, retention_ms, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $4) RETURNING id";
    tx.one("manifest", sql, &row).await?.get(0)
}

/// Gives a draft something that no other manifest owns. What it is cannot go before the transaction ends, so
/// whoever wants to know that it is there looks afterwards.
pub async fn add(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
    resource: Resource,
) -> Result<(), StoreError> {
    names::name("a type of resources", &resource.kind)?;
    names::line("the id of a resource", &resource.id, 500)?;
    if let Some(priority) = resource.cleanup_priority {
        names::within("a priority of clean-up", priority, 0, 100)?;
    }
    let org = lock(tx, scope, id, Status::Draft).await?;
    owned::hold(tx, &resource.kind, &resource.id).await?;
    let row = [
        id.into(),
        org.into(),
        resource.kind.as_str().into(),
        resource.id.as_str().into(),
        resource.cleanup_priority.into(),
        tx.now().into(),
    ];
    let added = tx
        .execute(
            "INSERT INTO manifest_resources (manifest_id, org_id, resource_type, resource_id, \
             cleanup_priority, added_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            &row,
        )
        .await?;
    if added == 0 {
        return names::conflict(format!(
            "the {} `{}` has an owner already",
            resource.kind, resource.id
        ));
    }
    Ok(())
}

/// From now on nothing is added, others may take what is in it, and its time runs.
pub async fn seal(tx: &mut Tx<'_>, scope: Scope, id: ManifestId) -> Result<(), StoreError> {
    lock(tx, scope, id, Status::Draft).await?;
    let sql = "UPDATE manifests SET status = 'SEALED', released_at = $2, updated_at = $2, \
               expires_at = $2 + retention_ms WHERE id = $1";
    tx.execute(sql, &[id.into(), tx.now().into()]).await?;
    Ok(())
}

/// Seals drafts whose runs have ended, or are gone: what they were to get, they have. Says how many.
pub async fn seal_ended(tx: &mut Tx<'_>, scope: Scope, most: u32) -> Result<u64, StoreError> {
    scope.system("manifest")?;
    let sql = "UPDATE manifests SET status = 'SEALED', released_at = $1, updated_at = $1, \
               expires_at = $1 + retention_ms WHERE status = 'DRAFT' AND id IN (\
               SELECT m.id FROM manifests AS m LEFT JOIN runs AS r ON r.id = m.run_id \
               WHERE m.status = 'DRAFT' AND m.run_id IS NOT NULL \
               AND (r.id IS NULL OR r.conclusion IS NOT NULL) ORDER BY m.id LIMIT $2)";
    tx.execute(sql, &[tx.now().into(), most.into()]).await
}

/// Moves something from a sealed manifest into a draft. Of two who try, one gets it.
pub async fn transfer(
    tx: &mut Tx<'_>,
    scope: Scope,
    from: ManifestId,
    to: ManifestId,
    kind: &str,
    resource: &str,
) -> Result<(), StoreError> {
    let org = lock(tx, scope, to, Status::Draft).await?;
    let sql = "UPDATE manifest_resources SET manifest_id = $2, added_at = $5 \
               WHERE manifest_id = $1 AND resource_type = $3 AND resource_id = $4 AND org_id = $6 \
               AND owner_type = 'manifest' \
               AND EXISTS (SELECT 1 FROM manifests WHERE id = $1 AND status = 'SEALED')";
    let row = [
        from.into(),
        to.into(),
        names::searchable(kind),
        names::searchable(resource),
        tx.now().into(),
        org.into(),
    ];
    if tx.execute(sql, &row).await? == 0 {
        return Err(Refusal::NotFound("resource").into());
    }
    Ok(())
}

/// Takes something out of a draft again. Nobody owns it then.
pub async fn give_up(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
    kind: &str,
    resource: &str,
) -> Result<(), StoreError> {
    lock(tx, scope, id, Status::Draft).await?;
    remove(tx, scope, id, kind, resource).await
}

/// What was cleaned up leaves its manifest.
pub async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
    kind: &str,
    resource: &str,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    let sql = "DELETE FROM manifest_resources \
               WHERE manifest_id = $1 AND resource_type = $2 AND resource_id = $3 AND org_id = $4";
    let row = [id.into(), names::searchable(kind), names::searchable(resource), org.into()];
    if tx.execute(sql, &row).await? == 0 {
        return Err(Refusal::NotFound("resource").into());
    }
    Ok(())
}

/// Locks a manifest that must be in this status, so that it does not change before the transaction ends.
async fn lock(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
    status: Status,
) -> Result<OrgId, StoreError> {
    let sql = Sql::of(
        "SELECT org_id, status FROM manifests WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)",
        "SELECT org_id, status FROM manifests WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) FOR UPDATE",
    );
    let row = tx.one("manifest", sql, &[id.into(), scope.parameter()]).await?;
    let found = row.get::<Status>(1)?;
    if found != status {
        return names::conflict(format!("the manifest is {found}; it would have to be {status}"));
    }
    row.get(0)
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, run_id, status, retention_ms, created_at, released_at, expires_at, own, \
             (SELECT count(*) FROM manifest_resources \
             WHERE manifest_id = id AND owner_type = 'manifest') FROM manifests WHERE ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: ManifestId) -> Result<Manifest, StoreError> {
    let sql = select!("id = $1 AND (org_id = $2 OR $2 IS NULL)");
    let row = tx.one("manifest", sql, &[id.into(), scope.parameter()]).await?;
    manifest(&row, tx.now())
}

/// The manifests of an organization, or of the runs of one repository of it, the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    (org, repo): (OrgId, Option<RepoId>),
    page: Page,
) -> Result<Vec<Manifest>, StoreError> {
    scope.admits(org)?;
    let sql = select!(
        "org_id = $1 AND id < $2 AND (CAST($4 AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM runs \
         WHERE runs.id = manifests.run_id AND runs.repo_id = $4)) ORDER BY id DESC LIMIT $3"
    );
    let rows = tx.rows(sql, &[org.into(), page.falling(), page.limit(), repo.into()]).await?;
    let now = tx.now();
    rows.iter().map(|row| manifest(row, now)).collect()
}

/// Sealed manifests whose time is over, the longest first, after one with this end and this id.
pub async fn due(
    tx: &mut Tx<'_>,
    scope: Scope,
    after: (Timestamp, ManifestId),
    most: u32,
) -> Result<Vec<Manifest>, StoreError> {
    scope.system("manifest")?;
    let sql = select!(
        "status = 'SEALED' AND expires_at <= $1 AND (expires_at, id) > ($2, $3) \
         ORDER BY expires_at, id LIMIT $4"
    );
    let now = tx.now();
    let rows = tx.rows(sql, &[now.into(), after.0.into(), after.1.into(), most.into()]).await?;
    rows.iter().map(|row| manifest(row, now)).collect()
}

/// The manifest that owns something.
pub async fn owner(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    kind: &str,
    resource: &str,
) -> Result<Option<ManifestId>, StoreError> {
    scope.admits(org)?;
    let sql = "SELECT manifest_id FROM manifest_resources WHERE org_id = $1 \
               AND resource_type = $2 AND resource_id = $3 AND owner_type = 'manifest'";
    let row = [org.into(), names::searchable(kind), names::searchable(resource)];
    tx.row(sql, &row).await?.map(|row| row.get(0)).transpose()
}

/// What a manifest owns, in the order of clean-up.
pub async fn resources(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ManifestId,
) -> Result<Vec<Resource>, StoreError> {
    get(tx, scope, id).await?;
    let rows = tx
        .rows(
            "SELECT resource_type, resource_id, cleanup_priority FROM manifest_resources \
             JOIN manifests ON id = manifest_id WHERE id = $1 AND owner_type = 'manifest' \
             ORDER BY coalesce(cleanup_priority, default_cleanup_priority) DESC, added_at, resource_id",
            &[id.into()],
        )
        .await?;
    let resource = |row: &Row| {
        Ok(Resource { kind: row.get(0)?, id: row.get(1)?, cleanup_priority: row.get(2)? })
    };
    rows.iter().map(resource).collect()
}

fn manifest(row: &Row, now: Timestamp) -> Result<Manifest, StoreError> {
    let expires_at = row.get::<Option<Timestamp>>(7)?;
    let is_over = expires_at.is_some_and(|expires_at| expires_at <= now);
    let owned = row.get::<i64>(9)?;
    let state = match row.get(3)? {
        Status::Draft => ManifestState::Draft,
        Status::Sealed if !is_over => ManifestState::Sealed,
        Status::Sealed if owned > 0 => ManifestState::Due,
        Status::Sealed => ManifestState::Expired,
    };
    Ok(Manifest {
        id: row.get(0)?,
        org: row.get(1)?,
        run: row.get(2)?,
        own: row.get(8)?,
        state,
        retention_ms: row.get(4)?,
        created_at: row.get(5)?,
        released_at: row.get(6)?,
        expires_at,
    })
}

/// Forgets a manifest whose time is over and that owns nothing any more.
pub async fn forget(tx: &mut Tx<'_>, scope: Scope, id: ManifestId) -> Result<(), StoreError> {
    scope.system("manifest")?;
    let sql = "DELETE FROM manifests WHERE id = $1 AND status = 'SEALED' AND expires_at <= $2 \
               AND NOT EXISTS (SELECT 1 FROM manifest_resources \
               WHERE manifest_id = $1 AND owner_type = 'manifest')";
    tx.execute(sql, &[id.into(), tx.now().into()]).await?;
    Ok(())
}
