//! Artifacts of a job whose result stands for another: the other job has them, too, as its own.

use std::time::Duration;

use kiln_core::id::{ArtifactId, ObjectId};
use kiln_core::time::Timestamp;

use super::artifacts::{self, NewArtifact, let_go};
use super::belongings::{self, Bytes};
use super::objects;
use crate::claims::Lease;
use crate::directory::actor::Actor;
use crate::directory::scope::Scope;
use crate::runs::Candidate;
use crate::{Refusal, Row, Sql, StoreError, Tx};

/// How the artifacts of another job became those of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handed {
    /// All of them, by name.
    All(Vec<String>),
    /// Nothing was changed: the time of one is over.
    Expired(String),
    /// Nothing was changed: the run has one of this name from another job.
    Taken(String),
}

struct Left {
    name: String,
    content_type: String,
    object: ObjectId,
    hash: Vec<u8>,
    size: i64,
    created: Timestamp,
    expires: Option<Timestamp>,
    keep: bool,
}

/// Gives the job of a lease what another one left. The bytes are shared, the rows are its own: each is kept for
/// as long as it would have been had the job made it itself, and what belongs to its run for `retention`. Asking
/// again does the same again.
pub async fn hand_on(
    tx: &mut Tx<'_>,
    actor: &Actor,
    from: &Candidate,
    lease: &Lease,
    retention: Duration,
) -> Result<Handed, StoreError> {
    let all = left_by(tx, from).await?;
    let now = tx.now();
    let expired = |one: &&Left| !one.keep && one.expires.is_some_and(|end| end <= now);
    if let Some(one) = all.iter().find(expired) {
        return Ok(Handed::Expired(one.name.clone()));
    }
    if let Some(name) = taken(tx, from, lease).await? {
        return Ok(Handed::Taken(name));
    }
    remove_own(tx, lease).await?;
    let mut names = Vec::with_capacity(all.len());
    for one in all {
        names.push(one.name.clone());
        add(tx, actor, lease, one, retention).await?;
    }
    Ok(Handed::All(names))
}

/// Nobody can remove them before the transaction ends.
async fn left_by(tx: &mut Tx<'_>, from: &Candidate) -> Result<Vec<Left>, StoreError> {
    let sql = Sql::of(
        "SELECT name, content_type, object_id, hash, size, created_at, expires_at, keep FROM artifacts
         WHERE run_id = $1 AND job_id = $2 AND claim = $3 AND finalized_at IS NOT NULL ORDER BY id",
        "SELECT name, content_type, object_id, hash, size, created_at, expires_at, keep FROM artifacts
         WHERE run_id = $1 AND job_id = $2 AND claim = $3 AND finalized_at IS NOT NULL ORDER BY id
         FOR SHARE",
    );
    let left = |row: &Row| {
        Ok(Left {
            name: row.get(0)?,
            content_type: row.get(1)?,
            object: row.get(2)?,
            hash: row.get(3)?,
            size: row.get(4)?,
            created: row.get(5)?,
            expires: row.get(6)?,
            keep: row.get(7)?,
        })
    };
    let of = [from.run.into(), from.job.into(), from.claim.into()];
    tx.rows(sql, &of).await?.iter().map(left).collect()
}

/// A name that another job of the run has taken already.
async fn taken(
    tx: &mut Tx<'_>,
    from: &Candidate,
    lease: &Lease,
) -> Result<Option<String>, StoreError> {
    let sql =
        "SELECT own.name FROM artifacts AS own JOIN artifacts AS other ON other.name = own.name
               WHERE own.run_id = $1 AND (own.job_id <> $2 OR own.job_id IS NULL)
               AND other.run_id = $3 AND other.job_id = $4 AND other.claim = $5 LIMIT 1";
    let row =
        [lease.run.into(), lease.job.into(), from.run.into(), from.job.into(), from.claim.into()];
    tx.row(sql, &row).await?.map(|row| row.get(0)).transpose()
}

/// Removes what the job left under this claim and earlier ones: it begins now.
pub async fn remove_own(tx: &mut Tx<'_>, lease: &Lease) -> Result<(), StoreError> {
    let sql = "DELETE FROM artifacts WHERE run_id = $1 AND job_id = $2 AND claim <= $3
               RETURNING object_id, job_id";
    let gone = tx.rows(sql, &[lease.run.into(), lease.job.into(), lease.claim.into()]).await?;
    let_go(tx, &gone).await
}

async fn add(
    tx: &mut Tx<'_>,
    actor: &Actor,
    lease: &Lease,
    left: Left,
    retention: Duration,
) -> Result<ArtifactId, StoreError> {
    let scope = Scope::Org(lease.org);
    let lasts = left.expires.map(|end| end.since(left.created));
    let new = NewArtifact {
        run: lease.run,
        attempt: lease.attempt.into(),
        job: Some(lease.job),
        claim: Some(lease.claim),
        name: left.name,
        content_type: left.content_type,
        expires_at: lasts.map(|lasts| tx.now() + lasts),
        overwrite: false,
    };
    let id = artifacts::create(tx, scope, actor, new).await?;
    let lost =
        || StoreError::Database("an artifact lost its bytes while it was handed on".to_owned());
    let blob = objects::get(tx, scope, left.object).await?.blob.ok_or_else(lost)?;
    let bytes = Bytes { blob, hash: left.hash, size: left.size };
    match belongings::complete(tx, scope, actor, id, &bytes, retention).await {
        // It was just looked at under a lock.
        Err(StoreError::Refused(Refusal::NotFound(_))) => Err(lost()),
        done => done.map(|()| id),
    }
}
