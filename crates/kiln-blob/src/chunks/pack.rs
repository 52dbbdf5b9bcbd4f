//! Many chunks in one object.

use std::cell::RefCell;
use std::fmt;

use bytes::{Bytes, BytesMut};
use zstd::bulk::{Compressor, Decompressor};

use super::split::LARGEST;
use super::{Chunk, Located, Packed};
use crate::backend::Backend;
use crate::{BlobError, Digest, Name, of_bytes};

/// A pack with this many bytes is written.
const FULL: usize = 8 << 20;
const LEVEL: i32 = 1;

/// Compresses chunks. What it works with is large, so it is made once for many, and when the first one comes.
#[derive(Default)]
pub(super) struct Press(Option<Compressor<'static>>);

impl Press {
    /// Adds what a chunk becomes, if that is less than the chunk.
    fn add(&mut self, chunk: &[u8], to: &mut BytesMut) {
        if self.0.is_none() {
            self.0 = Compressor::new(LEVEL).ok();
        }
        let from = to.len();
        // It may take as much as the chunk itself, and no more: what would take more is kept as it is.
        to.resize(from + chunk.len(), 0);
        let packed =
            self.0.as_mut().and_then(|it| it.compress_to_buffer(chunk, &mut to[from..]).ok());
        match packed.filter(|length| *length < chunk.len()) {
            Some(length) => to.truncate(from + length),
            None => to[from..].copy_from_slice(chunk),
        }
    }
}

impl fmt::Debug for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Press")
    }
}

/// A pack that is being filled.
#[derive(Debug)]
pub(super) struct Pack {
    name: Name,
    bytes: BytesMut,
    chunks: Vec<(Digest, Located)>,
}

impl Default for Pack {
    fn default() -> Self {
        Self { name: Name::fresh("packs"), bytes: BytesMut::new(), chunks: Vec::new() }
    }
}

impl Pack {
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Each chunk is compressed by itself, so that it can be read by itself.
    pub(super) fn add(&mut self, chunk: &Chunk, press: &mut Press) -> Located {
        let small = |length: usize| u32::try_from(length).expect("a pack is small");
        if self.bytes.is_empty() {
            // It does not grow then, for which it would be in memory twice.
            self.bytes.reserve(FULL + LARGEST);
        }
        let offset = small(self.bytes.len());
        press.add(&chunk.bytes, &mut self.bytes);
        let stored = small(self.bytes.len()) - offset;
        let size = small(chunk.bytes.len());
        let place = Located { pack: self.name.clone(), offset, stored, size };
        self.chunks.push((chunk.digest, place.clone()));
        place
    }

    /// Writes it, and begins the next one; nothing if it is empty.
    pub(super) async fn write(
        &mut self,
        backend: &dyn Backend,
    ) -> Result<Option<Packed>, BlobError> {
        if self.chunks.is_empty() {
            return Ok(None);
        }
        let Self { name, bytes, chunks } = std::mem::take(self);
        let bytes = bytes.freeze();
        let digest = Digest::of(&bytes);
        let size = backend.put(&name, of_bytes(bytes.clone())).await?;
        // The next one fills the same memory.
        if let Ok(mut used) = bytes.try_into_mut() {
            used.clear();
            self.bytes = used;
        }
        Ok(Some(Packed { name, digest, size, chunks }))
    }
}

thread_local! {
    /// What opens chunks is large, so a thread makes it once.
    static OPENER: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

/// A chunk as it was, from what a pack holds of it.
pub(crate) fn unpack(stored: Bytes, size: usize, digest: Digest) -> Result<Bytes, String> {
    let bytes = if stored.len() == size { stored } else { open(&stored, size)? };
    let found = Digest::of(&bytes);
    if found != digest {
        return Err(format!("a chunk has the SHA-256 {found}, expected {digest}"));
    }
    Ok(bytes)
}

fn open(stored: &[u8], size: usize) -> Result<Bytes, String> {
    let opened = OPENER.with_borrow_mut(|opener| match opener {
        Some(opener) => opener.decompress(stored, size),
        None => zstd::bulk::decompress(stored, size),
    });
    opened.map(Bytes::from).map_err(|error| format!("a chunk cannot be read: {error}"))
}
