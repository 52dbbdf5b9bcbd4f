//! Cuts a stream where its content says.

use bytes::{Bytes, BytesMut};
use fastcdc::v2020::FastCDC;
use futures_util::StreamExt as _;
use futures_util::stream::Fuse;

use super::Chunk;
use crate::{BlobError, Content, Digest};

const SMALLEST: usize = 16 << 10;
const USUAL: usize = 64 << 10;
pub(super) const LARGEST: usize = 256 << 10;

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

    /// The next chunks, up to this many; none at the end.
    pub(super) async fn next(&mut self, most: usize) -> Result<Vec<Chunk>, BlobError> {
        let mut chunks = Vec::new();
        while chunks.len() < most {
            // Where a chunk ends is certain when as much is there as the largest may have.
            while !self.over && self.rest.len() < LARGEST {
                match self.content.next().await {
                    Some(piece) => self.rest.extend_from_slice(&piece?),
                    None => self.over = true,
                }
            }
            if self.rest.is_empty() {
                break;
            }
            chunks.push(self.cut());
        }
        Ok(chunks)
    }

    fn cut(&mut self) -> Chunk {
        let window = &self.rest[..self.rest.len().min(LARGEST)];
        let cdc = FastCDC::new(window, SMALLEST, USUAL, LARGEST);
        let (_, end) = cdc.cut(0, window.len());
        let bytes: Bytes = Bytes::copy_from_slice(&window[..end]);
        bytes::Buf::advance(&mut self.rest, end);
        Chunk { digest: Digest::of(&bytes), bytes }
    }
}
