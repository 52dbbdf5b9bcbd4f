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
    /// How many bytes of one job may be on their way at once, this one included.
    pub budget: i64,
}

pub async fn reserve(tx: &mut Tx<'_>, scope: Scope, new: NewUpload) -> Result<Upload, StoreError> {
    names::hash("the hash of an upload", &new.hash)?;
    names::within("the size of an upload", new.size, 0, kiln_core::id::LIMIT)?;
    names::line("the place of an upload", &new.place, 1_000)?;
    names::line_if_any("the id of an upload", new.parts.as_ref(), 2_000)?;
    organizations::require(tx, scope, new.org).await?;
    if let Some(job) = new.job {
        within_budget(tx, job, &new).await?;
    }
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

/// What a job begins and never completes is to fill no disk.
async fn within_budget(tx: &mut Tx<'_>, job: JobId, new: &NewUpload) -> Result<(), StoreError> {
    let sql = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM uploads WHERE job_id = $1";
    let open = tx.one("upload", sql, &[job.into()]).await?.get::<i64>(0)?;
    if open.saturating_add(new.size) > new.budget {
        return names::invalid(format!(
            "the job has {open} bytes on their way that it has not completed; with these they would be more \
             than {} (`limits.open_uploads`)",
            new.budget
        ));
    }
    Ok(())
}

/// Its time is not over: that of a job is as long as the job.
macro_rules! is_open {
    () => {
        "(expires_at > $3 OR EXISTS (SELECT 1 FROM leases WHERE leases.job_id = uploads.job_id))"
    };
}

/// An upload whose time is not over.
pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: UploadId) -> Result<Upload, StoreError> {
    let sql = concat!(
        "SELECT id, org_id, job_id, hash, size, place, parts, expires_at FROM uploads \
         WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) AND ",
        is_open!()
    );
    let parameters = [id.into(), scope.parameter(), tx.now().into()];
    upload(&tx.one("upload", sql, &parameters).await?)
}

/// It takes longer than was thought: its time begins anew.
pub async fn renew(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: UploadId,
    life: Duration,
) -> Result<Upload, StoreError> {
    let sql = concat!(
        "UPDATE uploads SET expires_at = $4 WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) AND ",
        is_open!(),
        " RETURNING id, org_id, job_id, hash, size, place, parts, expires_at"
    );
    let until = tx.now() + life;
    upload(
        &tx.one("upload", sql, &[id.into(), scope.parameter(), tx.now().into(), until.into()])
            .await?,
    )
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
