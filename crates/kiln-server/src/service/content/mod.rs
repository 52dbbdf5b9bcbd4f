//! What jobs leave behind and find again, and the word of the server for who they are.

pub mod artifacts;
pub mod caches;
pub mod form;
pub mod identity;
mod keys;
pub(crate) mod kinds;
mod multipart;
pub mod results;
pub mod seen;
mod standing;
pub mod trees;

use kiln_blob::{BlobError, Digest};
use kiln_core::id::{ArtifactId, BlobId, JobId, ObjectId, OrgId};
use kiln_core::time::Timestamp;
use kiln_proto::content::Complete;
use kiln_store::claims::Lease;
use kiln_store::content::artifacts as rows;
use kiln_store::content::belongings::{self, Bytes};
use kiln_store::content::{blobs, objects};
use kiln_store::{Actor, ActorKind, Refusal, Scope, StoreError, Tx};

use super::runs::FIND;
use crate::config::Content;
use crate::http::error::{Answer, Failure};

pub use keys::rotate;
pub use standing::Standing;
pub(crate) use standing::cache_write_denied;

/// For audit rows.
pub(crate) fn actor(job: JobId) -> Actor {
    Actor::new(ActorKind::Job, job.slug())
}

/// Bytes that were sent before, as they are named now.
#[derive(Debug, Clone, Copy)]
struct Sent {
    hash: Digest,
    size: i64,
}

impl Sent {
    fn read(said: &Complete) -> Answer<Self> {
        let hash = said.hash.strip_prefix("sha256:").unwrap_or(&said.hash);
        let hash = hash.parse().map_err(|error: BlobError| Failure::invalid(error.to_string()))?;
        let size = i64::try_from(said.size).map_err(|_| Failure::invalid("`size` is too large"))?;
        Ok(Self { hash, size })
    }

    /// Where they are.
    async fn blob(self, tx: &mut Tx<'_>, org: OrgId) -> Result<BlobId, StoreError> {
        let scope = Scope::Org(org);
        let blob = match blobs::by_hash(tx, scope, org, &self.hash.0).await {
            Err(StoreError::Refused(Refusal::NotFound(_))) => {
                let message = "the bytes have not arrived; send them first".to_owned();
                return Err(Refusal::Conflict(message).into());
            }
            found => found?,
        };
        if blob.size != self.size {
            let message = format!("`size`: the bytes of this hash are {}", blob.size);
            return Err(Refusal::Invalid(message).into());
        }
        Ok(blob.id)
    }

    /// Makes an object of a cache of them, which keeps them as long as it is there.
    async fn cached(self, tx: &mut Tx<'_>, org: OrgId) -> Result<ObjectId, StoreError> {
        let new = objects::NewObject {
            org,
            kind: "cache".to_owned(),
            blob: Some(self.blob(tx, org).await?),
            provider_object_id: None,
            expires_at: None,
            tags: Vec::new(),
        };
        objects::create(tx, Scope::Org(org), new).await
    }

    /// Completes an artifact with them, which belongs to its run from now on.
    async fn left(
        self,
        tx: &mut Tx<'_>,
        actor: &Actor,
        content: &Content,
        id: ArtifactId,
    ) -> Result<rows::Artifact, StoreError> {
        let reserved = rows::get(tx, FIND, id).await?;
        let scope = Scope::Org(reserved.org);
        let blob = self.blob(tx, reserved.org).await?;
        let bytes = Bytes { blob, hash: self.hash.0.to_vec(), size: self.size };
        let retention = kinds::longest(tx, scope, content, reserved.run).await?;
        belongings::complete(tx, scope, actor, id, &bytes, retention).await?;
        rows::get(tx, scope, id).await
    }
}

/// Whether what was reserved is this job's, under this claim.
fn is_of(lease: &Lease, job: Option<JobId>, claim: Option<u32>) -> bool {
    job == Some(lease.job) && claim == Some(lease.claim)
}

fn hex(hash: Option<&Vec<u8>>) -> String {
    let digest = hash.and_then(|hash| Digest::from_slice(hash));
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}

fn number(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or_default()
}

fn time(at: Timestamp) -> String {
    at.rfc3339()
}
