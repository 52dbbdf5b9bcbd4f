//! The index of a log that grows, in a file beside it.
//!
//! It is not flushed: whatever is missing, torn or wrong after a crash is made again from the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::index::{Block, Builder, ENTRY, SCANNED};

/// An entry and its checksum.
const RECORD: usize = ENTRY + 4;

/// Adds blocks to the end of the file.
pub(super) fn append(path: &Path, blocks: &[Block]) -> io::Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(blocks.len() * RECORD);
    for block in blocks {
        let start = bytes.len();
        block.write(&mut bytes);
        let sum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    open(path)?.write_all(&bytes)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The blocks that hold for a log with this many bytes: up to the first that cannot be right.
pub(super) fn load(path: &Path, length: u64) -> Vec<Block> {
    let mut bytes = Vec::new();
    // A file that cannot be read is as good as none.
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    let mut blocks: Vec<Block> = Vec::new();
    if read.is_err() {
        return blocks;
    }
    for record in bytes.chunks_exact(RECORD) {
        let (entry, sum) = record.split_at(ENTRY);
        let entry: &[u8; ENTRY] = entry.try_into().expect("it was split there");
        let block = Block::read(entry);
        let is_whole = crc32fast::hash(entry).to_le_bytes() == *sum;
        if !is_whole || !block.follows(blocks.last()) || block.end > length {
            break;
        }
        blocks.push(block);
    }
    blocks
}

/// What a writer goes on with: the file has exactly the blocks that hold, and the builder knows the log
/// up to its end.
pub(super) fn resume(path: &Path, log: &File, length: u64) -> io::Result<Builder> {
    use std::os::unix::fs::FileExt as _;

    let known = load(path, length);
    open(path)?.set_len(u64::try_from(known.len() * RECORD).unwrap_or(u64::MAX))?;
    let mut builder = Builder::after(known);
    builder.take_closed();
    let mut buffer = vec![0; SCANNED];
    while builder.length() < length {
        let count = log.read_at(&mut buffer, builder.length())?;
        if count == 0 {
            break;
        }
        builder.add(&buffer[..count]);
    }
    append(path, &builder.take_closed())?;
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::logs::index::BLOCK;

    fn blocks(count: usize) -> Vec<Block> {
        let mut builder = Builder::default();
        let mut closed = Vec::new();
        while closed.len() < count {
            builder.add(&[vec![b'x'; usize::try_from(BLOCK).unwrap()], vec![b'\n']].concat());
            closed.extend(builder.take_closed());
        }
        closed
    }

    /// C11
    #[test]
    fn what_is_torn_or_wrong_ends_what_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.idx");
        let all = blocks(4);
        assert_eq!(load(&path, u64::MAX), []);
        append(&path, &all[..2]).unwrap();
        append(&path, &all[2..]).unwrap();
        assert_eq!(load(&path, u64::MAX), all);
        assert_eq!(load(&path, all[2].end), all[..3]);
        assert_eq!(load(&path, all[2].end - 1), all[..2]);
        let bytes = fs::read(&path).unwrap();
        for cut in [1, RECORD - 1, RECORD, 3 * RECORD + 7] {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(load(&path, u64::MAX), all[..cut / RECORD], "{cut}");
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            fs::write(&path, &changed).unwrap();
            assert_eq!(load(&path, u64::MAX), all[..at / RECORD], "{at}");
        }
        fs::write(&path, [&bytes[..RECORD], &[0; 3 * RECORD]].concat()).unwrap();
        assert_eq!(load(&path, u64::MAX), all[..1]);
    }
}
