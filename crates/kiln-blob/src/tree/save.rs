//! Saves a tree: reads its files on several threads, and packs what nobody has yet.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fastcdc::v2020::StreamCDC;

use super::entry::{Entry, Kind, Root, pages};
use super::pack::Filling;
use super::walk::{Found, What, named, walk};
use super::{Shelf, threads};
use crate::Digest;

/// Up to this size a file is one chunk.
const SMALL: u64 = 256 << 10;
/// How large files are cut.
const SMALLEST: usize = 64 << 10;
const USUAL: usize = 256 << 10;
const LARGEST: usize = 1 << 20;
/// How much is compressed at a time, and how many chunks are looked up together.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_CHUNKS: usize = 1024;
/// How many files a thread takes at a time.
const FILES: usize = 64;
const LEVEL: i32 = 1;

/// Something that is to be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What the tree calls it, so that it can be put back into the right place.
    pub name: String,
    pub at: PathBuf,
}

/// A tree that is saved.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The bytes of its root, which whoever saved it keeps.
    pub root: Vec<u8>,
    pub files: u64,
    pub bytes: u64,
    /// What was written for it, without the root.
    pub new_bytes: u64,
    pub new_packs: u64,
    /// All packs that it needs, new ones and others, in order.
    pub packs: Vec<Digest>,
}

/// Saves what lies at these places. Chunks that the shelf has are not packed again.
/// What `leaves_out` names is not looked at.
pub fn save(
    places: &[Place],
    leaves_out: &dyn Fn(&Path) -> bool,
    shelf: &dyn Shelf,
) -> io::Result<Saved> {
    let found = walk(places.iter().map(|place| place.at.as_path()), leaves_out)?;
    let saving = Saving {
        shelf,
        found: &found,
        next: AtomicUsize::new(0),
        taken: Mutex::default(),
        packs: Mutex::default(),
    };
    let mut chunks: Vec<Vec<(Digest, u32)>> = vec![Vec::new(); found.len()];
    let mut last = Worker::new(&saving)?;
    thread::scope(|scope| {
        let helpers: Vec<_> =
            (1..threads()).map(|_| scope.spawn(|| Worker::new(&saving)?.run())).collect();
        let mut done = vec![last.files()];
        for helper in helpers {
            done.push(helper.join().unwrap_or_else(|_| Err(io::Error::other("a thread died"))));
        }
        for cut in done {
            let (cut, written) = cut?;
            last.written.add(written);
            for (at, list) in cut {
                chunks[at] = list;
            }
        }
        Ok::<(), io::Error>(())
    })?;
    let entries: Vec<Entry> =
        found.iter().zip(chunks).map(|(found, chunks)| entry(found, chunks)).collect();
    let mut root = last.pages(&entries)?;
    root.places = places.iter().map(|place| place.name.clone()).collect();
    let Written { bytes, packs } = last.written;
    Ok(Saved {
        root: root.write(),
        files: root.files,
        bytes: root.bytes,
        new_bytes: bytes,
        new_packs: packs,
        packs: saving
            .packs
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .into_iter()
            .collect(),
    })
}

fn entry(found: &Found, chunks: Vec<(Digest, u32)>) -> Entry {
    let kind = match &found.what {
        What::Folder => Kind::Folder,
        What::Link(target) => Kind::Link(target.clone()),
        What::File { .. } => Kind::File(chunks),
    };
    let Found { place, mode, modified, .. } = *found;
    Entry { place, path: found.path.clone(), mode, modified, kind }
}

/// A tree on its way, for all threads.
struct Saving<'s> {
    shelf: &'s dyn Shelf,
    found: &'s [Found],
    next: AtomicUsize,
    /// Chunks that somebody packs.
    taken: Mutex<HashSet<Digest>>,
    /// The packs that it needs.
    packs: Mutex<BTreeSet<Digest>>,
}

impl Saving<'_> {
    fn needs(&self, packs: impl IntoIterator<Item = Digest>) {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner).extend(packs);
    }

    /// The numbers of the next files that nobody has taken.
    fn turn(&self) -> std::ops::Range<usize> {
        let from = self.next.fetch_add(FILES, Ordering::Relaxed).min(self.found.len());
        from..(from + FILES).min(self.found.len())
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    bytes: u64,
    packs: u64,
}

impl Written {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.packs += other.packs;
    }
}

/// The number of a file, and its chunks.
type Cut = Vec<(usize, Vec<(Digest, u32)>)>;

struct Worker<'s> {
    saving: &'s Saving<'s>,
    pack: Filling,
    /// Chunks that were read and are to be looked up.
    pending: Vec<(Digest, Vec<u8>)>,
    size: usize,
    written: Written,
}

impl<'s> Worker<'s> {
    fn new(saving: &'s Saving<'s>) -> io::Result<Self> {
        let (pack, pending) = (Filling::new(LEVEL)?, Vec::new());
        Ok(Self { saving, pack, pending, size: 0, written: Written::default() })
    }

    fn run(mut self) -> io::Result<(Cut, Written)> {
        let (cut, _) = self.files()?;
        self.flush()?;
        self.put()?;
        Ok((cut, self.written))
    }

    /// Reads files until none is left. What is packed last stays open.
    fn files(&mut self) -> io::Result<(Cut, Written)> {
        let mut done = Vec::new();
        loop {
            let turn = self.saving.turn();
            if turn.is_empty() {
                return Ok((done, Written::default()));
            }
            for at in turn {
                let found = &self.saving.found[at];
                if let What::File { size } = found.what {
                    let chunks = self.file(&found.at, size);
                    done.push((at, chunks.map_err(|error| named(&found.at, &error))?));
                }
            }
        }
    }

    fn file(&mut self, at: &Path, size: u64) -> io::Result<Vec<(Digest, u32)>> {
        let mut file = File::open(at)?;
        if size > SMALL {
            let mut chunks = Vec::new();
            for chunk in StreamCDC::new(file, SMALLEST, USUAL, LARGEST) {
                chunks.push(self.chunk(chunk.map_err(io::Error::from)?.data)?);
            }
            return Ok(chunks);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
        // One that grows meanwhile is cut off where it may be no chunk any more.
        file.by_ref().take(LARGEST as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() { Ok(Vec::new()) } else { Ok(vec![self.chunk(bytes)?]) }
    }

    fn chunk(&mut self, bytes: Vec<u8>) -> io::Result<(Digest, u32)> {
        let found = (Digest::of(&bytes), u32::try_from(bytes.len()).expect("a chunk is small"));
        self.size += bytes.len();
        self.pending.push((found.0, bytes));
        if self.size >= BATCH_BYTES || self.pending.len() >= BATCH_CHUNKS {
            self.flush()?;
        }
        Ok(found)
    }

    /// Packs those of the pending chunks that are new.
    fn flush(&mut self) -> io::Result<()> {
        self.size = 0;
        let mut pending = std::mem::take(&mut self.pending);
        {
            let mut taken = self.saving.taken.lock().unwrap_or_else(PoisonError::into_inner);
            pending.retain(|(digest, _)| taken.insert(*digest));
        }
        let digests: Vec<Digest> = pending.iter().map(|(digest, _)| *digest).collect();
        let known = self.saving.shelf.find(&digests)?;
        self.saving.needs(known.iter().flatten().map(|spot| spot.pack));
        for ((digest, bytes), known) in pending.into_iter().zip(known) {
            if known.is_none() {
                self.pack.add(digest, &bytes)?;
            }
            if self.pack.is_full() {
                self.put()?;
            }
        }
        Ok(())
    }

    fn put(&mut self) -> io::Result<()> {
        if let Some(packed) = self.pack.take() {
            self.written.add(Written { bytes: packed.bytes.len() as u64, packs: 1 });
            self.saving.needs([packed.digest]);
            self.saving.shelf.put(packed)?;
        }
        Ok(())
    }

    /// The pages of all entries, and the root that lists them.
    fn pages(&mut self, entries: &[Entry]) -> io::Result<Root> {
        let mut root = Root { places: Vec::new(), pages: Vec::new(), files: 0, bytes: 0 };
        for entry in entries {
            if let Kind::File(chunks) = &entry.kind {
                root.files += 1;
                root.bytes += chunks.iter().map(|(_, size)| u64::from(*size)).sum::<u64>();
            }
        }
        for page in pages(entries) {
            root.pages.push(self.chunk(page)?);
        }
        self.flush()?;
        self.put()?;
        Ok(root)
    }
}
