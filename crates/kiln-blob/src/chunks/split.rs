//! Cuts a stream where its content says.

use bytes::BytesMut;
use fastcdc::v2020::FastCDC;
use futures_util::StreamExt as _;
use futures_util::stream::Fuse;

use super::Chunk;
use crate::disk::blocking;
use crate::{BlobError, Content, Digest};

const SMALLEST: usize = 16 << 10;
const USUAL: usize = 64 << 10;
pub(super) const LARGEST: usize = 256 << 10;
/// How much is read before it is cut, and what the last piece may bring beyond that.
const BATCH: usize = 4 << 20;
const BEYOND: usize = 1 << 20;

/// Chunks of a stream, in order.
pub(super) struct Splitter {
    content: Fuse<Content>,
    rest: BytesMut,
    over: bool,
}

impl Splitter {
    pub(super) fn new(content: Content) -> Self {
        Self { content: content.fuse(), rest: BytesMut::new(), over: false }
    }

    /// The next chunks; none at the end. They share what was read.
    pub(super) async fn next(&mut self) -> Result<Vec<Chunk>, BlobError> {
        // Nobody has the last chunks any more, so this is the same buffer each time.
        self.rest.reserve((BATCH + BEYOND).saturating_sub(self.rest.len()));
        while !self.over && self.rest.len() < BATCH {
            match self.content.next().await {
                Some(piece) => self.rest.extend_from_slice(&piece?),
                None => self.over = true,
            }
        }
        let (mut rest, over) = (std::mem::take(&mut self.rest), self.over);
        let cut = blocking(move || {
            let mut chunks = Vec::new();
            // Where a chunk ends is certain when as much is there as the largest may have.
            while rest.len() >= LARGEST || over && !rest.is_empty() {
                chunks.push(cut(&mut rest));
            }
            Ok((chunks, rest))
        });
        let failed = |error| BlobError::Io { what: "cut", name: "an archive".to_owned(), error };
        let (chunks, rest) = cut.await.map_err(failed)?;
        self.rest = rest;
        Ok(chunks)
    }
}

fn cut(rest: &mut BytesMut) -> Chunk {
    let window = &rest[..rest.len().min(LARGEST)];
    let (_, end) = FastCDC::new(window, SMALLEST, USUAL, LARGEST).cut(0, window.len());
    let bytes = rest.split_to(end).freeze();
    Chunk { digest: Digest::of(&bytes), bytes }
}
