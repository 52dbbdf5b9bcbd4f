//! Bytes on their way to where they are kept.

use std::time::Duration;

use kiln_core::id::{JobId, OrgId, UploadId};
use kiln_core::time::Timestamp;

use crate::directory::scope::Scope;
use crate::directory::{names, organizations};
use crate::{Refusal, Row, StoreError, Tx};

/// Bytes that somebody may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub id: UploadId,
    pub org: OrgId,
    pub job: Option<JobId>,
    pub hash: Vec<u8>,
    pub size: i64,
    /// Where they go first.
    pub place: String,
    /// What the store calls it, if it comes in parts.
    pub parts: Option<String>,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct NewUpload {
    pub org: OrgId,
    pub job: Option<JobId>,
    pub hash: Vec<u8>,
    pub size: i64,
    pub place: String,
    pub parts: Option<String>,
    pub life: Duration,
}

pub async fn reserve(tx: &mut Tx<'_>, scope: Scope, new: NewUpload) -> Result<Upload, StoreError> {
    names::hash("the hash of an upload", &new.hash)?;
    names::within("the size of an upload", new.size, 0, kiln_core::id::LIMIT)?;
    names::line("the place of an upload", &new.place, 1_000)?;
    names::line_if_any("the id of an upload", new.parts.as_ref(), 2_000)?;
    organizations::require(tx, scope, new.org).await?;
    let expires_at = tx.now() + new.life;
    let row = [
        new.org.into(),
        new.job.into(),
        new.hash.as_slice().into(),
        new.size.into(),
        new.place.as_str().into(),
        new.parts.as_deref().into(),
        tx.now().into(),
        expires_at.into(),
    ];
    let sql = "INSERT INTO uploads (org_id, job_id, hash, size, place, parts, created_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id, org_id, job_id, hash, size, \
               place, parts, expires_at";
    upload(&tx.one("upload", sql, &row).await?)
}

/// An upload whose time is not over.
pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: UploadId) -> Result<Upload, StoreError> {
    let sql = "SELECT id, org_id, job_id, hash, size, place, parts, expires_at FROM uploads \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) AND expires_at > $3";
    let parameters = [id.into(), scope.parameter(), tx.now().into()];
    upload(&tx.one("upload", sql, &parameters).await?)
}

/// The bytes are kept, or were given up: there is nothing left to wait for. Of two who say so, one does
/// it. Unless they are kept where they were sent to, they go.
pub async fn finish(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: UploadId,
    stays: bool,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM uploads WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) \
               RETURNING place, size";
    let Some(row) = tx.row(sql, &[id.into(), scope.parameter()]).await? else {
        return Err(Refusal::NotFound("upload").into());
    };
    if !stays {
        super::garbage::remove(tx, vec![(row.get(0)?, row.get(1)?)]).await?;
    }
    Ok(())
}

pub(super) fn upload(row: &Row) -> Result<Upload, StoreError> {
    Ok(Upload {
        id: row.get(0)?,
        org: row.get(1)?,
        job: row.get(2)?,
        hash: row.get(3)?,
        size: row.get(4)?,
        place: row.get(5)?,
        parts: row.get(6)?,
        expires_at: row.get(7)?,
    })
}
