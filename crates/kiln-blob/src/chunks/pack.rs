//! Many chunks in one object.

use bytes::Bytes;

use super::{Chunk, Located, Packed};
use crate::backend::Backend;
use crate::{BlobError, Digest, Name, of_bytes};

/// A pack with this many bytes is written.
const FULL: usize = 8 << 20;
const LEVEL: i32 = 1;

/// A pack that is being filled.
#[derive(Debug)]
pub(super) struct Pack {
    name: Name,
    bytes: Vec<u8>,
    chunks: Vec<(Digest, Located)>,
}

impl Pack {
    pub(super) fn new() -> Self {
        Self { name: Name::fresh("packs"), bytes: Vec::new(), chunks: Vec::new() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Each chunk is compressed by itself, so that it can be read by itself.
    pub(super) fn add(&mut self, chunk: &Chunk) -> Located {
        let small = |length: usize| u32::try_from(length).expect("a pack is small");
        let offset = small(self.bytes.len());
        match zstd::bulk::compress(&chunk.bytes, LEVEL) {
            Ok(packed) if packed.len() < chunk.bytes.len() => self.bytes.extend(packed),
            _ => self.bytes.extend_from_slice(&chunk.bytes),
        }
        let stored = small(self.bytes.len()) - offset;
        let size = small(chunk.bytes.len());
        let place = Located { pack: self.name.clone(), offset, stored, size };
        self.chunks.push((chunk.digest, place.clone()));
        place
    }

    /// Nothing if it is empty.
    pub(super) async fn write(self, backend: &dyn Backend) -> Result<Option<Packed>, BlobError> {
        if self.chunks.is_empty() {
            return Ok(None);
        }
        let (name, bytes) = (self.name, Bytes::from(self.bytes));
        let digest = Digest::of(&bytes);
        let size = backend.put(&name, of_bytes(bytes)).await?;
        Ok(Some(Packed { name, digest, size, chunks: self.chunks }))
    }
}

/// A chunk as it was, from what a pack holds of it.
pub(crate) fn unpack(stored: Bytes, size: usize, digest: Digest) -> Result<Bytes, String> {
    let bytes = if stored.len() == size {
        stored
    } else {
        let raw = zstd::bulk::decompress(&stored, size);
        raw.map_err(|error| format!("a chunk cannot be read: {error}"))?.into()
    };
    let found = Digest::of(&bytes);
    if found != digest {
        return Err(format!("a chunk has the SHA-256 {found}, expected {digest}"));
    }
    Ok(bytes)
}
