//! Trees of files, kept so that a second save moves only what changed.
//!
//! A small file is one chunk, a large one is cut where its content says. Chunks that nobody has yet go into
//! packs. What is known about the files stands on pages of a few entries, which are chunks themselves: where
//! a page ends depends on the path of its last entry alone, so a file that changed changes one page. The root lists
//! the pages. Its SHA-256 stands for the whole tree, down to the last byte, and whoever has it can check
//! everything that it leads to.

mod entry;
mod local;
mod pack;
mod restore;
mod save;
mod walk;

use std::io;

use bytes::Bytes;

use crate::Digest;

pub use entry::Root;
pub use local::LocalShelf;
pub use pack::{Inside, check_pack, read_pack};
pub use restore::{Restored, restore};
pub use save::{Place, Saved, save};

/// Where a chunk lies in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The SHA-256 of the pack.
    pub pack: Digest,
    pub offset: u32,
    /// How many bytes it takes there. It is compressed if that is less than its size.
    pub stored: u32,
    pub size: u32,
}

/// Where packs are kept. Everything may be called from several threads at once.
pub trait Shelf: Sync {
    /// Keeps a pack. From now on, what is in it can be found.
    fn put(&self, pack: Packed) -> io::Result<()>;

    /// Where these chunks lie, in the same order, as far as they are there.
    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>>;

    /// Some bytes of a pack.
    fn read(&self, pack: Digest, from: u32, to: u32) -> io::Result<Bytes>;
}

/// A pack that is to be kept. It says itself what is in it.
#[derive(Debug, Clone)]
pub struct Packed {
    pub digest: Digest,
    pub bytes: Vec<u8>,
    pub inside: Vec<Inside>,
}

/// How many threads read, compress and write files.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8)
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests;
