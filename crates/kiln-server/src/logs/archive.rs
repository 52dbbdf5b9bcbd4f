//! A log that is complete, as one object: a zstd frame for each block, then the table of blocks.
//!
//! The table is a frame that zstd skips, so that `zstdcat` shows the whole log. Its end says where it begins:
//!
//! ```text
//! frame … frame │ skipped frame: entry … entry, count (4), version (4), checksum (4), "KilnLogs"
//! ```
//!
//! An entry is that of a [`Block`] and where its frame begins in the object.

use std::io::{self, Write};

use super::index::{Block, ENTRY, Index};

/// How hard zstd tries.
const LEVEL: i32 = 3;
/// The first of the frames that zstd skips.
const SKIPPED: u32 = 0x184D_2A50;
const MAGIC: &[u8; 8] = b"KilnLogs";
const VERSION: u32 = 1;
const FOOTER: usize = 20;
const RECORD: usize = ENTRY + 8;
/// So much of the end has the table of most logs in it.
pub const TAIL: u64 = 64 << 10;

/// What is wrong with an object that should be a log.
fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archived log is damaged: {why}"))
}

/// Writes a log as an object, block by block.
pub struct Packer<W> {
    to: W,
    zstd: zstd::bulk::Compressor<'static>,
    table: Vec<u8>,
    blocks: u32,
    offset: u64,
}

impl<W: Write> Packer<W> {
    pub fn new(to: W) -> io::Result<Self> {
        let mut zstd = zstd::bulk::Compressor::new(LEVEL)?;
        zstd.include_checksum(true)?;
        Ok(Self { to, zstd, table: Vec::new(), blocks: 0, offset: 0 })
    }

    /// Adds the block that follows.
    pub fn add(&mut self, block: &Block, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 != block.end - block.start {
            return Err(damaged("a block is not as long as the index says"));
        }
        let frame = self.zstd.compress(bytes)?;
        self.to.write_all(&frame)?;
        block.write(&mut self.table);
        self.table.extend_from_slice(&self.offset.to_le_bytes());
        self.offset += frame.len() as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Writes the table; without it there is no object.
    pub fn finish(mut self) -> io::Result<W> {
        let table = &mut self.table;
        table.extend_from_slice(&self.blocks.to_le_bytes());
        table.extend_from_slice(&VERSION.to_le_bytes());
        let sum = crc32fast::hash(table);
        table.extend_from_slice(&sum.to_le_bytes());
        table.extend_from_slice(MAGIC);
        let size = u32::try_from(table.len()).map_err(|_| damaged("too many blocks"))?;
        self.to.write_all(&SKIPPED.to_le_bytes())?;
        self.to.write_all(&size.to_le_bytes())?;
        self.to.write_all(table)?;
        Ok(self.to)
    }
}

impl Packer<Vec<u8>> {
    /// What was written since the last call.
    pub fn take_written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.to)
    }
}

impl<W> std::fmt::Debug for Packer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

/// Where everything is in an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    pub index: Index,
    /// Where the frame of each block begins, and where the last one ends.
    frames: Vec<u64>,
}

/// The end of an object, as far as it was read.
#[derive(Debug)]
pub enum Parsed {
    Table(Table),
    /// So many bytes of the end are needed.
    More(u64),
}

impl Table {
    /// Reads the table from the end of an object with `size` bytes.
    pub fn parse(tail: &[u8], size: u64) -> io::Result<Parsed> {
        let footer = tail.len().checked_sub(FOOTER).map(|at| &tail[at..]);
        let footer = footer.ok_or_else(|| damaged("it is too short"))?;
        let number = |at: usize| {
            u32::from_le_bytes(footer[at..][..4].try_into().expect("four bytes were taken"))
        };
        if &footer[12..] != MAGIC || number(4) != VERSION {
            return Err(damaged("it does not end as one"));
        }
        let count = number(0) as usize;
        let length = count.checked_mul(RECORD).and_then(|entries| entries.checked_add(FOOTER));
        let length = length.filter(|length| *length as u64 + 8 <= size);
        let length = length.ok_or_else(|| damaged("its table is longer than it is"))?;
        let Some(start) = tail.len().checked_sub(length) else {
            return Ok(Parsed::More(length as u64));
        };
        let table = &tail[start..];
        if crc32fast::hash(&table[..length - 12]) != number(8) {
            return Err(damaged("its table has another checksum"));
        }
        Self::of(&table[..length - FOOTER], size - length as u64 - 8).map(Parsed::Table)
    }

    fn of(entries: &[u8], end_of_frames: u64) -> io::Result<Self> {
        let mut blocks: Vec<Block> = Vec::with_capacity(entries.len() / RECORD);
        let mut frames = Vec::with_capacity(blocks.capacity() + 1);
        for record in entries.chunks_exact(RECORD) {
            let (entry, offset) = record.split_at(ENTRY);
            let block = Block::read(entry.try_into().expect("it was split there"));
            let offset = u64::from_le_bytes(offset.try_into().expect("eight bytes are left"));
            let goes_on = frames.last().is_none_or(|before| *before < offset);
            if !block.follows(blocks.last()) || !goes_on || offset >= end_of_frames {
                return Err(damaged("its table is out of order"));
            }
            blocks.push(block);
            frames.push(offset);
        }
        frames.push(end_of_frames);
        let length = blocks.last().map_or(0, |last| last.end);
        Ok(Self { index: Index { blocks, length }, frames })
    }

    /// Where the frame of a block lies in the object.
    pub fn frame(&self, at: usize) -> std::ops::Range<u64> {
        self.frames[at]..self.frames[at + 1]
    }

    /// The bytes of a block.
    pub fn unpack(&self, at: usize, frame: &[u8]) -> io::Result<Vec<u8>> {
        let block = &self.index.blocks[at];
        let length = usize::try_from(block.end - block.start).unwrap_or(usize::MAX);
        // A block is bounded by how it is made; an object that says otherwise is none of ours.
        if length > 2 * kiln_proto::log::LONGEST_LINE {
            return Err(damaged("a block is too long"));
        }
        let bytes = zstd::bulk::decompress(frame, length)?;
        if bytes.len() == length { Ok(bytes) } else { Err(damaged("a block is too short")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::index::Builder;

    fn sample(lines: u32) -> (Vec<u8>, Vec<u8>) {
        let mut raw = Vec::new();
        for number in 0..lines {
            let text = format!("line {number}, which is one of many");
            kiln_proto::log::Line { at: number.into(), step: number / 9, text: text.as_bytes() }
                .write(&mut raw);
        }
        let mut builder = Builder::default();
        builder.add(&raw);
        let mut packer = Packer::new(Vec::new()).unwrap();
        for block in &builder.finish(true).blocks {
            let range = usize::try_from(block.start).unwrap()..usize::try_from(block.end).unwrap();
            packer.add(block, &raw[range]).unwrap();
        }
        (raw, packer.finish().unwrap())
    }

    fn table(object: &[u8]) -> io::Result<Table> {
        match Table::parse(object, object.len() as u64)? {
            Parsed::Table(table) => Ok(table),
            Parsed::More(_) => panic!("all of it is there"),
        }
    }

    #[test]
    fn an_object_has_all_blocks_and_zstd_reads_it_as_a_whole() {
        for lines in [0, 1, 40_000] {
            let (raw, object) = sample(lines);
            let table = table(&object).unwrap();
            let mut found = Vec::new();
            for at in 0..table.index.blocks.len() {
                let frame = table.frame(at);
                let frame =
                    usize::try_from(frame.start).unwrap()..usize::try_from(frame.end).unwrap();
                found.extend(table.unpack(at, &object[frame]).unwrap());
            }
            assert_eq!(found, raw);
            assert_eq!(table.index.lines(), u64::from(lines));
            assert_eq!(zstd::decode_all(&object[..]).unwrap(), raw);
        }
    }

    #[test]
    fn a_short_end_says_how_much_is_needed() {
        let (_, object) = sample(40_000);
        let size = object.len() as u64;
        let Parsed::More(needed) = Table::parse(&object[object.len() - 30..], size).unwrap() else {
            panic!("30 bytes are not enough")
        };
        let tail = &object[object.len() - usize::try_from(needed).unwrap()..];
        let Parsed::Table(found) = Table::parse(tail, size).unwrap() else { panic!("it is all") };
        assert_eq!(found, table(&object).unwrap());
    }

    #[test]
    fn what_was_changed_or_cut_is_damaged_and_nothing_worse() {
        let (_, object) = sample(40_000);
        let start = object.len() - 500;
        for at in start..object.len() {
            let mut changed = object.clone();
            changed[at] ^= 1;
            if let Ok(found) = table(&changed) {
                assert_eq!(found, table(&object).unwrap(), "{at}");
            }
            let _ = Table::parse(&object[..at], at as u64);
        }
        let good = table(&object).unwrap();
        assert!(good.unpack(0, &object[1..50]).is_err());
        let _ = Table::parse(&[0xff; 100], 100).unwrap_err();
    }
}
