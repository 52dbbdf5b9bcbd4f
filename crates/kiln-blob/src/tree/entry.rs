//! What is known about each file, on pages, and the list of the pages.

use std::io;
use std::path::PathBuf;

use super::damaged;
use super::pack::LARGEST_CHUNK;
use crate::Digest;

const ROOT_MARK: &[u8; 8] = b"kilntre2";
/// A page ends after an entry whose path hashes to zero in so many, or when it has too many.
const USUAL: u64 = 8;
const MOST: usize = 64;
/// A root with more pages is refused: it would be of more than a hundred million files.
const MOST_PAGES: usize = 4 << 20;

/// A file, a folder or a link below one of the places that were saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of the place.
    pub(super) place: u16,
    /// Below it, with slashes; empty for the place itself.
    pub(super) path: String,
    pub(super) mode: u32,
    /// Nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    Link(String),
    File(Vec<(Digest, u32)>),
}

impl Entry {
    /// Where it lies below its place. Nothing if it would lie elsewhere.
    pub(super) fn below(&self) -> Option<PathBuf> {
        let fine = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        let whole = self.path.is_empty() || self.path.split('/').all(fine);
        whole.then(|| PathBuf::from(&self.path))
    }

    fn ends_page(&self) -> bool {
        // FNV-1a: it must be the same on all machines and for all time.
        let hash = self.path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ (hash >> 29)).is_multiple_of(USUAL)
    }

    fn write(&self, to: &mut Vec<u8>) {
        let kind = match &self.kind {
            Kind::Folder => 0,
            Kind::Link(_) => 1,
            Kind::File(_) => 2,
        };
        to.push(kind);
        to.extend(self.place.to_le_bytes());
        to.extend(self.mode.to_le_bytes());
        to.extend(self.modified.to_le_bytes());
        write_text(to, &self.path);
        match &self.kind {
            Kind::Folder => {}
            Kind::Link(target) => write_text(to, target),
            Kind::File(chunks) => {
                let count = u32::try_from(chunks.len()).expect("files have few chunks");
                to.extend(count.to_le_bytes());
                for (digest, size) in chunks {
                    to.extend(digest.0);
                    to.extend(size.to_le_bytes());
                }
            }
        }
    }
}

fn write_text(to: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).expect("paths are short");
    to.extend(length.to_le_bytes());
    to.extend(text.as_bytes());
}

/// Entries in their order, page by page.
pub(super) fn pages(entries: &[Entry]) -> Vec<Vec<u8>> {
    let (mut pages, mut page, mut count) = (Vec::new(), Vec::new(), 0);
    for entry in entries {
        entry.write(&mut page);
        count += 1;
        let is_long = page.len() >= LARGEST_CHUNK as usize / 2;
        if entry.ends_page() || count >= MOST || is_long {
            pages.push(std::mem::take(&mut page));
            count = 0;
        }
    }
    if !page.is_empty() {
        pages.push(page);
    }
    pages
}

/// Bytes that are taken off from the front.
struct Reader<'r>(&'r [u8]);

impl<'r> Reader<'r> {
    fn bytes(&mut self, count: usize) -> Option<&'r [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    fn entry(&mut self) -> Option<Entry> {
        let [kind] = self.array()?;
        let place = u16::from_le_bytes(self.array()?);
        let mode = self.number()?;
        let modified = i64::from_le_bytes(self.array()?);
        let path = self.text()?;
        let kind = match kind {
            0 => Kind::Folder,
            1 => Kind::Link(self.text()?),
            2 => {
                let count = self.number()? as usize;
                // No more than there can be in what is left.
                let mut chunks = Vec::with_capacity(count.min(self.0.len() / 36));
                for _ in 0..count {
                    chunks.push((Digest(self.array()?), self.number()?));
                }
                Kind::File(chunks)
            }
            _ => return None,
        };
        Some(Entry { place, path, mode, modified, kind })
    }
}

pub(super) fn read_page(page: &[u8]) -> io::Result<Vec<Entry>> {
    let (mut reader, mut entries) = (Reader(page), Vec::new());
    while !reader.0.is_empty() {
        let entry = reader.entry().ok_or_else(|| damaged("a page of a tree cannot be read"))?;
        if entry.below().is_none() {
            return Err(damaged(format!("`{}` lies outside of its tree", entry.path)));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The list of the pages of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// What the places were called that were saved; entries have their numbers.
    pub places: Vec<String>,
    /// The digest and the length of each page, in order.
    pub pages: Vec<(Digest, u32)>,
    /// Files, and their bytes.
    pub files: u64,
    pub bytes: u64,
}

impl Root {
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = ROOT_MARK.to_vec();
        bytes.extend(self.files.to_le_bytes());
        bytes.extend(self.bytes.to_le_bytes());
        let count = u16::try_from(self.places.len()).expect("places have small numbers");
        bytes.extend(count.to_le_bytes());
        for place in &self.places {
            write_text(&mut bytes, place);
        }
        for (digest, size) in &self.pages {
            bytes.extend(digest.0);
            bytes.extend(size.to_le_bytes());
        }
        bytes
    }

    pub fn read(bytes: &[u8]) -> io::Result<Self> {
        let read = || {
            let mut reader = Reader(bytes);
            let mark: [u8; 8] = reader.array()?;
            let files = u64::from_le_bytes(reader.array()?);
            let bytes = u64::from_le_bytes(reader.array()?);
            let places = (0..u16::from_le_bytes(reader.array()?)).map(|_| reader.text());
            let places = places.collect::<Option<Vec<_>>>()?;
            let (lines, []) = reader.0.as_chunks::<36>() else { return None };
            let line = |line: &[u8; 36]| {
                let mut reader = Reader(line);
                let found = (Digest(reader.array()?), reader.number()?);
                (found.1 <= LARGEST_CHUNK).then_some(found)
            };
            let fits = mark == *ROOT_MARK && lines.len() <= MOST_PAGES;
            let pages: Option<Vec<_>> = lines.iter().map(line).collect();
            fits.then_some(Self { places, pages: pages?, files, bytes })
        };
        read().ok_or_else(|| damaged("it is not the root of a tree"))
    }
}
