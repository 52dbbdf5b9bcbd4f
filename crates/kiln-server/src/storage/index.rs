//! The chunks of an organization, as the database knows them.

use std::collections::HashMap;

use kiln_blob::{BlobError, Digest, Index, Located, Name, Packed, Work};
use kiln_core::id::OrgId;
use kiln_store::content::blobs::NewBlob;
use kiln_store::content::chunks::{self, KnownChunk, NewChunk};
use kiln_store::{Scope, Store, StoreError, Tx};

/// Chunks that an organization has.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) store: Store,
    pub(crate) org: OrgId,
}

impl Index for Chunks {
    fn find<'a>(&'a self, asked: &'a [Digest]) -> Work<'a, Vec<Option<Located>>> {
        Box::pin(async move {
            let (org, hashes) =
                (self.org, asked.iter().map(|hash| hash.0.to_vec()).collect::<Vec<_>>());
            // It takes marks of the collector away, so that it has to be a transaction that writes.
            let find =
                async move |tx: &mut Tx<'_>| chunks::find(tx, Scope::Org(org), org, &hashes).await;
            let known = self.store.write(find).await.map_err(failed)?;
            let known: HashMap<Digest, Located> = known.into_iter().filter_map(located).collect();
            Ok(asked.iter().map(|hash| known.get(hash).cloned()).collect())
        })
    }

    fn add<'a>(&'a self, pack: &'a Packed) -> Work<'a, Name> {
        Box::pin(async move {
            let (org, size) = (self.org, signed(pack.size));
            let new = NewBlob {
                hash: pack.digest.0.to_vec(),
                size,
                place: pack.name.to_string(),
                stored: size,
                packs: Vec::new(),
            };
            let chunk = |(hash, place): &(Digest, Located)| NewChunk {
                hash: hash.0.to_vec(),
                start: place.offset.into(),
                stored: place.stored.into(),
                size: place.size.into(),
            };
            let inside: Vec<NewChunk> = pack.chunks.iter().map(chunk).collect();
            let add = async move |tx: &mut Tx<'_>| {
                chunks::add(tx, Scope::Org(org), org, new.clone(), &inside).await
            };
            Name::new(self.store.write(add).await.map_err(failed)?)
        })
    }
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A row that makes no sense is as good as none: the chunk is written anew.
fn located(known: KnownChunk) -> Option<(Digest, Located)> {
    let place = Located {
        pack: Name::new(known.pack).ok()?,
        offset: known.start.try_into().ok()?,
        stored: known.stored.try_into().ok()?,
        size: known.size.try_into().ok()?,
    };
    Some((Digest::from_slice(&known.hash)?, place))
}

#[expect(clippy::needless_pass_by_value, reason = "it ends an error, as `map_err` has it")]
fn failed(error: StoreError) -> BlobError {
    let (what, name) = ("look up", "chunks".to_owned());
    BlobError::Remote { what, name, error: error.to_string() }
}
