//! Many chunks in one file, with a list of them at its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use zstd::bulk::Compressor;

use super::{Packed, Spot, damaged};
use crate::Digest;
use crate::chunks::unpack;

/// A pack with this many bytes is complete.
const FULL: usize = 8 << 20;
/// The same for what its chunks are when they are unpacked.
const FULL_UNPACKED: u64 = 64 << 20;
/// What claims to become more than this is no pack: nobody is to unpack for hours.
const LARGEST_UNPACKED: u64 = 2 * FULL_UNPACKED;
/// More than this no pack has.
const LARGEST: usize = 16 << 20;
/// The digest, where it begins, how much it takes there, how long it is.
const LINE: usize = 32 + 4 + 4 + 4;
/// The number of chunks, and the mark.
const END: usize = 4 + 8;
const MARK: &[u8; 8] = b"kilnpck1";
/// What is longer cannot be a chunk.
pub(super) const LARGEST_CHUNK: u32 = 1 << 20;

/// A chunk in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    pub digest: Digest,
    pub offset: u32,
    pub stored: u32,
    pub size: u32,
}

impl Inside {
    pub fn spot(&self, pack: Digest) -> Spot {
        Spot { pack, offset: self.offset, stored: self.stored, size: self.size }
    }
}

/// A pack that is being filled.
pub(super) struct Filling {
    bytes: Vec<u8>,
    inside: Vec<Inside>,
    unpacked: u64,
    compressor: Compressor<'static>,
}

impl Filling {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let compressor = Compressor::new(level)?;
        let bytes = Vec::with_capacity(FULL + (1 << 20));
        Ok(Self { bytes, inside: Vec::new(), unpacked: 0, compressor })
    }

    /// Each chunk is compressed by itself, so that it can be read by itself.
    pub(super) fn add(&mut self, digest: Digest, chunk: &[u8]) -> io::Result<()> {
        let offset = small(self.bytes.len());
        let room = zstd::zstd_safe::compress_bound(chunk.len());
        self.bytes.resize(offset as usize + room, 0);
        let packed =
            self.compressor.compress_to_buffer(chunk, &mut self.bytes[offset as usize..])?;
        self.bytes.truncate(offset as usize + packed);
        if packed >= chunk.len() {
            self.bytes.truncate(offset as usize);
            self.bytes.extend_from_slice(chunk);
        }
        let stored = small(self.bytes.len()) - offset;
        self.inside.push(Inside { digest, offset, stored, size: small(chunk.len()) });
        self.unpacked += chunk.len() as u64;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL || self.unpacked >= FULL_UNPACKED
    }

    /// What is there so far, if there is anything. Goes on with nothing.
    pub(super) fn take(&mut self) -> Option<Packed> {
        if self.inside.is_empty() {
            return None;
        }
        let mut bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(FULL + (1 << 20)));
        let inside = std::mem::take(&mut self.inside);
        self.unpacked = 0;
        for line in &inside {
            bytes.extend(line.digest.0);
            for number in [line.offset, line.stored, line.size] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.extend(small(inside.len()).to_le_bytes());
        bytes.extend(MARK);
        Some(Packed { digest: Digest::of(&bytes), bytes, inside })
    }
}

fn small(length: usize) -> u32 {
    u32::try_from(length).expect("a pack is small")
}

/// What a pack says is in it. Whether it is true, each chunk tells when it is opened.
pub fn read_pack(bytes: &[u8]) -> io::Result<Vec<Inside>> {
    if bytes.len() > LARGEST {
        return Err(damaged("it is too large for a pack"));
    }
    let end = bytes.len().saturating_sub(END);
    let lines = list_length(&bytes[end..]).and_then(|length| end.checked_sub(length));
    let from = lines.ok_or_else(no_pack)?;
    inside(&bytes[from..end], from)
}

/// What is in a pack, each chunk unpacked and compared with its digest: whoever takes packs from strangers
/// must know before anybody relies on them.
pub fn check_pack(pack: &Bytes) -> io::Result<Vec<Inside>> {
    let inside = read_pack(pack)?;
    let unpacked: u64 = inside.iter().map(|line| u64::from(line.size)).sum();
    if unpacked > LARGEST_UNPACKED {
        return Err(damaged("its chunks are too large for a pack"));
    }
    for line in &inside {
        let (from, stored) = (line.offset as usize, line.stored as usize);
        let bytes = pack.slice(from..from + stored);
        unpack(bytes, line.size as usize, line.digest).map_err(damaged)?;
    }
    Ok(inside)
}

/// The same of a file, of which only the end is read.
pub(super) fn read_pack_file(file: &File) -> io::Result<Vec<Inside>> {
    let size = file.metadata()?.len();
    let end = size.checked_sub(END as u64).filter(|_| size <= LARGEST as u64);
    let end = end.ok_or_else(no_pack)?;
    let mut tail = [0; END];
    file.read_exact_at(&mut tail, end)?;
    let length = list_length(&tail).ok_or_else(no_pack)?;
    let from = end.checked_sub(length as u64).ok_or_else(no_pack)?;
    let mut lines = vec![0; length];
    file.read_exact_at(&mut lines, from)?;
    inside(&lines, usize::try_from(from).map_err(|_| no_pack())?)
}

fn no_pack() -> io::Error {
    damaged("it does not end like a pack")
}

/// How long the list is, from what follows it.
fn list_length(end: &[u8]) -> Option<usize> {
    let (count, mark) = end.split_first_chunk::<4>()?;
    let length = (u32::from_le_bytes(*count) as usize).checked_mul(LINE)?;
    (mark == MARK).then_some(length)
}

/// The list of a pack whose chunks end where the list begins.
fn inside(lines: &[u8], end: usize) -> io::Result<Vec<Inside>> {
    let line = |line: &[u8]| {
        let (digest, rest) = line.split_first_chunk::<32>()?;
        let (numbers, []) = rest.as_chunks::<4>() else { return None };
        let [offset, stored, size] = numbers else { return None };
        let [offset, stored, size] = [offset, stored, size].map(|bytes| u32::from_le_bytes(*bytes));
        let fits = offset as usize + stored as usize <= end && stored <= size;
        let found = Inside { digest: Digest(*digest), offset, stored, size };
        (fits && size <= LARGEST_CHUNK).then_some(found)
    };
    let found: Option<Vec<Inside>> = lines.chunks(LINE).map(line).collect();
    found.ok_or_else(|| damaged("a chunk of it lies outside of it"))
}
