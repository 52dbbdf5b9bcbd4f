//! One object of a log that is over.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use kiln_blob::{BlobError, Content};

use super::{Known, Shelf};
use crate::logs::archive::Packer;
use crate::logs::index::{Block, Index};
use crate::logs::{LogError, LogId};

/// Packs a log while the object is sent: a block at a time is in memory.
struct Packing {
    shelf: Arc<Shelf>,
    id: LogId,
    blocks: std::vec::IntoIter<Block>,
    /// None when all was sent.
    packer: Option<Packer<Vec<u8>>>,
}

impl Packing {
    async fn next(&mut self) -> Result<Option<Bytes>, LogError> {
        let Some(mut packer) = self.packer.take() else { return Ok(None) };
        let Some(block) = self.blocks.next() else {
            return Ok(Some(packer.finish()?.into()));
        };
        let bytes = self.shelf.block(self.id, &block).await?;
        let pack = move || packer.add(&block, &bytes).map(|()| packer);
        let mut packer = tokio::task::spawn_blocking(pack).await.map_err(io::Error::other)??;
        let packed = packer.take_written();
        self.packer = Some(packer);
        Ok(Some(packed.into()))
    }
}

impl Shelf {
    pub(super) async fn archive(self: &Arc<Self>, id: LogId) -> Result<bool, LogError> {
        let pieces = self.names(&id.folder(), None).await?;
        if pieces.is_empty() {
            self.live.forget(|log| log == id);
            return Ok(false);
        }
        let object = id.object();
        if self.objects.size(&object).await?.is_none() {
            let index = self.index(id, true).await?;
            self.objects.put_all(&object, self.packed(id, index)?).await?;
        }
        for piece in pieces {
            self.objects.delete(&piece.name).await?;
        }
        self.live.forget(|log| log == id);
        let log = self.log(id);
        *log.known() = Known::default();
        log.recent.clear();
        Ok(true)
    }

    fn packed(self: &Arc<Self>, id: LogId, index: Index) -> Result<Content, LogError> {
        let packer = Some(Packer::new(Vec::new())?);
        let packing =
            Packing { shelf: Arc::clone(self), id, blocks: index.blocks.into_iter(), packer };
        let pieces = stream::unfold(packing, async |mut packing| {
            let cut = |error: LogError| BlobError::Cut(error.to_string());
            let piece = packing.next().await.map_err(cut).transpose()?;
            Some((piece, packing))
        });
        Ok(pieces.boxed())
    }

    /// The bytes of a block, which its pieces still have.
    async fn block(&self, id: LogId, block: &Block) -> Result<Vec<u8>, LogError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < block.end - block.start {
            let from = block.start + bytes.len() as u64;
            let left = usize::try_from(block.end - from).unwrap_or(usize::MAX);
            let more = self.read(id, from, left).await?;
            if more.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }
}
