//! Large archives in chunks, so that a second save keeps only what changed.
//!
//! Where one chunk ends and the next begins depends on the bytes around that place alone. So bytes that
//! were put in or taken out change the chunks near them, and no others. New chunks go into packs; a recipe
//! lists all chunks of an archive in their order.

mod pack;
mod read;
mod recipe;
mod split;

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::backend::{Backend, Work};
use crate::disk::blocking;
use crate::{BlobError, Content, Digest, Name, hashed};
pub(crate) use pack::unpack;
use pack::{Pack, Press};
pub use read::open_recipe;
pub use recipe::Recipe;
use recipe::RecipeWriter;
use split::Splitter;

/// Pieces of a recipe on their way.
const AHEAD: usize = 4;

/// A piece of an archive.
#[derive(Debug, Clone)]
pub struct Chunk {
    pub digest: Digest,
    pub bytes: Bytes,
}

/// Where a chunk lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    pub pack: Name,
    pub offset: u32,
    /// How many bytes it takes there. It is compressed if that is less than its size.
    pub stored: u32,
    pub size: u32,
}

/// A pack that is written, and what is in it.
#[derive(Debug, Clone)]
pub struct Packed {
    pub name: Name,
    pub digest: Digest,
    pub size: u64,
    pub chunks: Vec<(Digest, Located)>,
}

/// The chunks that somebody has already.
pub trait Index: Send + Sync {
    /// Where these chunks lie, in the same order. Whoever answers sees to it that their packs stay as long
    /// as it takes to write the recipe.
    fn find<'a>(&'a self, chunks: &'a [Digest]) -> Work<'a, Vec<Option<Located>>>;

    /// From now on, these can be found. Says under which name the pack is kept: if somebody has written
    /// the same one already, it is that one, and this one is not needed.
    fn add<'a>(&'a self, pack: &'a Packed) -> Work<'a, Name>;
}

/// An archive that is written.
#[derive(Debug, Clone)]
pub struct Chunked {
    pub digest: Digest,
    pub size: u64,
    /// The object that lists its chunks.
    pub recipe: Name,
    /// How long that one is.
    pub recipe_size: u64,
    /// All packs it needs, whoever wrote them.
    pub packs: Vec<Name>,
    /// What was written for it, without the recipe.
    pub new_bytes: u64,
}

/// Writes an archive: new chunks in packs below `packs/`, then its recipe below `recipes/`. The packs of
/// an archive that breaks off can be found by the next try.
pub async fn store_chunked(
    backend: &dyn Backend,
    content: Content,
    index: &dyn Index,
) -> Result<Chunked, BlobError> {
    let recipe = Name::fresh("recipes");
    let (lines, written) = mpsc::channel(AHEAD);
    let written = futures_util::stream::unfold(written, |mut written| async {
        written.recv().await.map(|piece| (piece, written))
    });
    let (content, passed) = hashed(content);
    let packer = Packer {
        backend,
        index,
        recipe: RecipeWriter::new(lines),
        filling: Filling::default(),
        new_bytes: 0,
    };
    let put = backend.put(&recipe, written.boxed());
    let (recipe_size, done) = futures_util::future::join(put, packer.run(content)).await;
    // What went wrong with the archive comes first: its recipe only broke off because of it.
    let (packs, new_bytes) = done?;
    let (digest, size) = passed.seen();
    Ok(Chunked { digest, size, recipe, recipe_size: recipe_size?, packs, new_bytes })
}

/// An archive that is being written.
struct Packer<'a> {
    backend: &'a dyn Backend,
    index: &'a dyn Index,
    recipe: RecipeWriter,
    filling: Filling,
    new_bytes: u64,
}

impl Packer<'_> {
    async fn run(mut self, content: Content) -> Result<(Vec<Name>, u64), BlobError> {
        match self.all(content).await {
            Ok(()) => Ok((self.recipe.end().await?, self.new_bytes)),
            Err(error) => {
                self.recipe.fail(&error).await;
                Err(error)
            }
        }
    }

    async fn all(&mut self, content: Content) -> Result<(), BlobError> {
        let mut splitter = Splitter::new(content);
        loop {
            let batch = splitter.next().await?;
            if batch.is_empty() {
                return self.flush().await;
            }
            self.add(batch).await?;
        }
    }

    async fn add(&mut self, batch: Vec<Chunk>) -> Result<(), BlobError> {
        let digests: Vec<Digest> = batch.iter().map(|chunk| chunk.digest).collect();
        let known = self.index.find(&digests).await?;
        let mut rest = batch.into_iter().zip(known).collect::<VecDeque<_>>();
        while !rest.is_empty() {
            let mut filling = std::mem::take(&mut self.filling);
            let work = blocking(move || {
                let placed = filling.take_in(&mut rest);
                Ok((filling, placed, rest))
            });
            let failed = |error| BlobError::Io { what: "pack", name: "chunks".to_owned(), error };
            let (filled, placed, left) = work.await.map_err(failed)?;
            (self.filling, rest) = (filled, left);
            for (digest, place) in placed {
                self.recipe.line(digest, &place).await?;
            }
            if self.filling.pack.is_full() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), BlobError> {
        self.filling.pending.clear();
        if let Some(packed) = self.filling.pack.write(self.backend).await? {
            self.new_bytes += packed.size;
            let kept = self.index.add(&packed).await?;
            self.recipe.rename(&packed.name, kept);
        }
        Ok(())
    }
}

/// The pack that is not written yet, and which chunks are in it.
#[derive(Debug, Default)]
struct Filling {
    pack: Pack,
    pending: HashMap<Digest, Located>,
    press: Press,
}

impl Filling {
    /// Says where chunks lie, in their order, until there are no more or the pack is full.
    fn take_in(&mut self, chunks: &mut VecDeque<Looked>) -> Vec<(Digest, Located)> {
        let mut placed = Vec::with_capacity(chunks.len());
        while !self.pack.is_full()
            && let Some((chunk, known)) = chunks.pop_front()
        {
            let place = match known.or_else(|| self.pending.get(&chunk.digest).cloned()) {
                // A chunk of another length with the same digest would be a lie of the index.
                Some(place) if place.size as usize == chunk.bytes.len() => place,
                _ => self.keep(&chunk),
            };
            placed.push((chunk.digest, place));
        }
        placed
    }

    fn keep(&mut self, chunk: &Chunk) -> Located {
        let place = self.pack.add(chunk, &mut self.press);
        self.pending.insert(chunk.digest, place.clone());
        place
    }
}

/// A chunk, and where the index says that it lies.
type Looked = (Chunk, Option<Located>);
