//! Uploads on their way: in pieces, in any order, in files that go with the job.
//!
//! Nothing of an upload can be read before all of it was put together and completed. Whatever was not is
//! removed when the gateway stops, or with the folder of the job.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::services::{Reason, Refusal, Spooled};

/// The bytes of one upload, in all.
pub(super) const MOST_BYTES: u64 = 64 << 30;
/// Azure's own limit.
const MOST_BLOCKS: usize = 50_000;
/// How much is read at once.
pub(super) const BUFFER: usize = 256 << 10;

/// Where the files of a gateway's uploads are.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    numbers: AtomicU64,
}

impl Spool {
    /// Makes the folder, for nobody else to look into.
    pub(super) fn new(directory: PathBuf) -> io::Result<Self> {
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory, numbers: AtomicU64::new(1) })
    }

    /// A new file, gone with what this returns.
    pub(super) fn file(&self) -> io::Result<Piece> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let piece = Piece { path: self.directory.join(number.to_string()), size: 0 };
        File::options().write(true).create_new(true).open(&piece.path)?;
        Ok(piece)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // What cannot be removed goes with the folder of the job.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A file of an upload.
#[derive(Debug)]
pub(super) struct Piece {
    path: PathBuf,
    pub(super) size: u64,
}

impl Piece {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn writer(&self) -> io::Result<BufWriter<File>> {
        let file = File::options().write(true).open(&self.path)?;
        Ok(BufWriter::with_capacity(BUFFER, file))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A file that was moved to where it stays is not there any more, which is fine.
        let _ = fs::remove_file(&self.path);
    }
}

/// What has arrived of one upload.
#[derive(Debug, Default)]
pub(super) struct Upload {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By their ids, which the client chooses.
    blocks: HashMap<String, Piece>,
    /// What all blocks have together.
    bytes: u64,
    /// One file that is written to at any place, and which parts of it are there.
    open: Option<(Piece, Ranges)>,
    whole: Option<Whole>,
}

#[derive(Debug)]
struct Whole {
    /// Keeps the file.
    _piece: Piece,
    spooled: Spooled,
    /// The blocks it was made of.
    list: Vec<String>,
}

impl Upload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes, if all have come.
    pub(super) fn whole(&self) -> Option<Spooled> {
        self.state().whole.as_ref().map(|whole| whole.spooled.clone())
    }

    /// A block has come; it replaces one with the same id.
    pub(super) fn add_block(&self, id: String, block: Piece) -> Result<(), Refusal> {
        let mut state = self.state();
        let old = state.blocks.get(&id).map(|block| block.size);
        let total = state.bytes - old.unwrap_or(0) + block.size;
        if total > MOST_BYTES || (old.is_none() && state.blocks.len() >= MOST_BLOCKS) {
            return Err(too_large());
        }
        state.bytes = total;
        state.blocks.insert(id, block);
        Ok(())
    }

    /// Puts blocks together in the order of the list; those that it does not name go. The same list
    /// again is answered the same: the client may not have heard.
    pub(super) fn assemble(&self, list: Vec<String>, spool: &Spool) -> Result<Spooled, Refusal> {
        let mut state = self.state();
        if let Some(whole) = state.whole.as_ref().filter(|whole| whole.list == list) {
            return Ok(whole.spooled.clone());
        }
        if list.len() > MOST_BLOCKS {
            return Err(too_large());
        }
        if let Some(missing) = list.iter().find(|id| !state.blocks.contains_key(*id)) {
            return Err(Refusal::invalid(format!("the block `{missing}` was never sent")));
        }
        let mut piece = spool.file()?;
        let mut hasher = Hasher::new(piece.writer()?);
        for id in &list {
            let block = &state.blocks[id];
            pour(block.path(), &mut hasher)?;
            if hasher.size > MOST_BYTES {
                return Err(too_large());
            }
        }
        let (size, hash) = hasher.finish()?;
        piece.size = size;
        state.forget_blocks();
        Ok(state.keep(piece, hash, list))
    }

    /// All bytes have come at once.
    pub(super) fn put(&self, piece: Piece) -> Result<Spooled, Refusal> {
        let hash = hash_of(piece.path())?;
        let mut state = self.state();
        state.forget_blocks();
        Ok(state.keep(piece, hash, Vec::new()))
    }

    /// Where bytes of the upload are to be written to, from one of them on.
    pub(super) fn writer_at(&self, from: u64, spool: &Spool) -> Result<BufWriter<File>, Refusal> {
        if from > MOST_BYTES {
            return Err(too_large());
        }
        let mut state = self.state();
        if state.open.is_none() {
            state.open = Some((spool.file()?, Ranges::default()));
        }
        let (whole, _) = state.open.as_ref().expect("it was made if it was not there");
        let mut to = whole.writer()?;
        to.seek(SeekFrom::Start(from))?;
        Ok(to)
    }

    /// These bytes have all come.
    pub(super) fn wrote(&self, from: u64, to: u64) -> Result<(), Refusal> {
        let mut state = self.state();
        let Some((_, ranges)) = state.open.as_mut() else { return Ok(()) };
        ranges.add(from, to);
        if to > MOST_BYTES || ranges.0.len() > MOST_BLOCKS { Err(too_large()) } else { Ok(()) }
    }

    /// All places were written to, up to this size.
    pub(super) fn close(&self, size: u64) -> Result<Spooled, Refusal> {
        let mut state = self.state();
        if let Some(whole) = state.whole.as_ref().filter(|whole| whole.spooled.size == size) {
            return Ok(whole.spooled.clone());
        }
        let is_all = state.open.as_ref().is_some_and(|(_, ranges)| ranges.0 == [(0, size)]);
        let Some((mut piece, _)) = state.open.take_if(|_| is_all) else {
            return Err(Refusal::invalid(format!("not all of the {size} bytes were sent")));
        };
        piece.size = size;
        let hash = hash_of(piece.path())?;
        Ok(state.keep(piece, hash, Vec::new()))
    }
}

impl State {
    fn forget_blocks(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
    }

    fn keep(&mut self, piece: Piece, hash: String, list: Vec<String>) -> Spooled {
        let spooled = Spooled { path: piece.path.clone(), size: piece.size, hash };
        self.whole = Some(Whole { _piece: piece, spooled: spooled.clone(), list });
        spooled
    }
}

/// Parts of a file that were written, in order and apart from each other.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn add(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from, to);
        self.0.retain(|(other_from, other_to)| {
            let apart = *other_to < from || to < *other_from;
            if !apart {
                from = from.min(*other_from);
                to = to.max(*other_to);
            }
            apart
        });
        let at = self.0.partition_point(|(other, _)| *other < from);
        self.0.insert(at, (from, to));
    }
}

/// Writes, and hashes what it writes.
struct Hasher<W: Write> {
    to: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hasher<W> {
    fn new(to: W) -> Self {
        Self { to, hash: Sha256::new(), size: 0 }
    }

    fn finish(mut self) -> io::Result<(u64, String)> {
        self.to.flush()?;
        Ok((self.size, hex(&self.hash.finalize())))
    }
}

impl<W: Write> Write for Hasher<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// SHA-256 of a file.
pub(super) fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = Hasher::new(io::sink());
    pour(path, &mut hasher)?;
    Ok(hasher.finish()?.1)
}

/// Copies a file in large steps.
fn pour(path: &Path, to: &mut impl Write) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn too_large() -> Refusal {
    let most = MOST_BYTES >> 30;
    Refusal::new(Reason::TooLarge, format!("an upload may have {most} GiB in {MOST_BLOCKS} blocks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together_in_any_order() {
        let check = |added: &[(u64, u64)], expect: &[(u64, u64)]| {
            let mut ranges = Ranges::default();
            for (from, to) in added {
                ranges.add(*from, *to);
            }
            assert_eq!(ranges.0, expect, "{added:?}");
        };
        check(&[(0, 4), (4, 9)], &[(0, 9)]);
        check(&[(4, 9), (0, 4)], &[(0, 9)]);
        check(&[(6, 9), (0, 2), (2, 6)], &[(0, 9)]);
        check(&[(6, 9), (0, 2)], &[(0, 2), (6, 9)]);
        check(&[(0, 9), (2, 3)], &[(0, 9)]);
        check(&[(2, 3), (5, 6), (0, 9)], &[(0, 9)]);
    }

    #[test]
    fn an_upload_has_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool")).unwrap();
        let upload = Upload::default();
        let piece = |size: u64| {
            let mut piece = spool.file().unwrap();
            piece.size = size;
            piece
        };
        upload.add_block("a".to_owned(), piece(MOST_BYTES - 1)).unwrap();
        upload.add_block("a".to_owned(), piece(MOST_BYTES)).unwrap();
        let refused = upload.add_block("b".to_owned(), piece(1)).unwrap_err();
        assert_eq!(refused.reason, Reason::TooLarge);
        assert!(upload.writer_at(MOST_BYTES + 1, &spool).is_err());
        let list = vec!["a".to_owned(); MOST_BLOCKS + 1];
        assert_eq!(upload.assemble(list, &spool).unwrap_err().reason, Reason::TooLarge);
        assert_eq!(fs::read_dir(directory.path().join("spool")).unwrap().count(), 1, "`a` alone");
    }
}
