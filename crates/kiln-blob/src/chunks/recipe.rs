//! The list of an archive's chunks: lines of fixed length, then the names of the packs, then an end of
//! fixed length. Any line can be found without reading the others.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Located;
use super::split::LARGEST;
use crate::backend::{Backend, Span};
use crate::content::collect;
use crate::{BlobError, Digest, Name};

/// The digest, where it begins in the archive, the number of the pack, the place in it, how much it takes
/// there, how long it is.
pub(super) const LINE: u64 = 32 + 8 + 4 + 4 + 4 + 4;
/// The number of lines, of packs, the bytes of their names, the size of the archive, and the mark.
const END: usize = 8 + 4 + 4 + 8 + 8;
const MARK: &[u8; 8] = b"kilnrcp1";
/// The end of a recipe that is read first.
const TAIL: u64 = 16 << 10;
/// More packs than this no recipe has.
const MOST_NAMES: u64 = 64 << 20;
/// Lines that are sent at a time.
const PAGE: usize = 64 << 10;

/// One chunk of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) digest: Digest,
    pub(super) start: u64,
    pub(super) pack: u32,
    pub(super) offset: u32,
    pub(super) stored: u32,
    pub(super) size: u32,
}

impl Line {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.digest.0);
        to.extend(self.start.to_le_bytes());
        for number in [self.pack, self.offset, self.stored, self.size] {
            to.extend(number.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (digest, rest) = bytes.split_first_chunk::<32>()?;
        let (start, rest) = rest.split_first_chunk::<8>()?;
        let (numbers, []) = rest.as_chunks::<4>() else { return None };
        let [pack, offset, stored, size] = numbers else { return None };
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let line = Self {
            digest: Digest(*digest),
            start: u64::from_le_bytes(*start),
            pack: number(pack),
            offset: number(offset),
            stored: number(stored),
            size: number(size),
        };
        (line.stored <= line.size && line.size as usize <= LARGEST).then_some(line)
    }

    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.size.into())
    }
}

type Piece = Result<Bytes, BlobError>;

/// Sends a recipe to whoever stores it.
#[derive(Debug)]
pub(super) struct RecipeWriter {
    to: mpsc::Sender<Piece>,
    page: Vec<u8>,
    lines: u64,
    size: u64,
    packs: Vec<Name>,
    numbers: HashMap<Name, u32>,
}

impl RecipeWriter {
    pub(super) fn new(to: mpsc::Sender<Piece>) -> Self {
        let (page, packs, numbers) = (Vec::new(), Vec::new(), HashMap::new());
        Self { to, page, lines: 0, size: 0, packs, numbers }
    }

    pub(super) async fn line(&mut self, digest: Digest, place: &Located) -> Result<(), BlobError> {
        let pack = match self.numbers.get(&place.pack) {
            Some(pack) => *pack,
            None => {
                let number = u32::try_from(self.packs.len()).expect("packs are far fewer");
                self.packs.push(place.pack.clone());
                self.numbers.insert(place.pack.clone(), number);
                number
            }
        };
        let Located { offset, stored, size, .. } = *place;
        let line = Line { digest, start: self.size, pack, offset, stored, size };
        line.write(&mut self.page);
        self.lines += 1;
        self.size += u64::from(size);
        if self.page.len() >= PAGE { self.send().await } else { Ok(()) }
    }

    /// A pack is kept under another name than it was to have.
    pub(super) fn rename(&mut self, from: &Name, to: Name) {
        if let Some(number) = self.numbers.remove(from) {
            self.packs[number as usize] = to.clone();
            self.numbers.insert(to, number);
        }
    }

    async fn send(&mut self) -> Result<(), BlobError> {
        let page = std::mem::take(&mut self.page);
        let gone = |_| BlobError::Cut("the recipe could not be written".to_owned());
        self.to.send(Ok(page.into())).await.map_err(gone)
    }

    /// The names of all packs.
    pub(super) async fn end(mut self) -> Result<Vec<Name>, BlobError> {
        let mut names = Vec::new();
        for pack in &self.packs {
            names.extend(pack.as_str().as_bytes());
            names.push(b'\n');
        }
        let small = |length: usize| u32::try_from(length).expect("names of packs are short");
        self.page.extend(&names);
        self.page.extend(self.lines.to_le_bytes());
        self.page.extend(small(self.packs.len()).to_le_bytes());
        self.page.extend(small(names.len()).to_le_bytes());
        self.page.extend(self.size.to_le_bytes());
        self.page.extend(MARK);
        self.send().await?;
        Ok(self.packs)
    }

    /// Whoever stores the recipe keeps nothing of it.
    pub(super) async fn fail(self, error: &BlobError) {
        let _ = self.to.send(Err(BlobError::Cut(error.to_string()))).await;
    }
}

/// A recipe, without its lines.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub(super) name: Name,
    pub(super) lines: u64,
    pub size: u64,
    pub packs: Vec<Name>,
}

impl Recipe {
    pub async fn open(backend: &dyn Backend, name: &Name) -> Result<Self, BlobError> {
        let mut want = TAIL;
        loop {
            let found = backend.get(name, Span::Last(want)).await?;
            let stored = found.size;
            let tail = collect(found.content, usize::try_from(want).unwrap_or(usize::MAX)).await?;
            match Self::read(name, &tail, stored).map_err(|why| BlobError::damaged(name, why))? {
                Ok(recipe) => return Ok(recipe),
                Err(more) => want = more,
            }
        }
    }

    /// From the end of a recipe; or how much of the end is needed.
    fn read(name: &Name, tail: &[u8], stored: u64) -> Result<Result<Self, u64>, &'static str> {
        const SHORT: &str = "it is too short for a recipe";
        let from = tail.len().checked_sub(END).ok_or(SHORT)?;
        let (lines, rest) = tail[from..].split_first_chunk::<8>().ok_or(SHORT)?;
        let (packs, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
        let (names, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
        let (size, mark) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
        if mark != MARK {
            return Err("it does not end like a recipe");
        }
        let (lines, names) = (u64::from_le_bytes(*lines), u64::from(u32::from_le_bytes(*names)));
        let whole = lines.checked_mul(LINE).and_then(|bytes| bytes.checked_add(names + END as u64));
        if whole != Some(stored) || names > MOST_NAMES {
            return Err("its size does not fit the number of its lines");
        }
        let wanted = names + END as u64;
        if wanted > tail.len() as u64 {
            return Ok(Err(wanted));
        }
        let length = usize::try_from(names).map_err(|_| SHORT)?;
        let text = std::str::from_utf8(&tail[from - length..from]).map_err(|_| SHORT)?;
        let packs_listed: Result<Vec<Name>, _> = text.lines().map(Name::new).collect();
        let packs_listed = packs_listed.map_err(|_| "the name of a pack cannot be read")?;
        if packs_listed.len() != u32::from_le_bytes(*packs) as usize {
            return Err("it lists more or fewer packs than it says");
        }
        let size = u64::from_le_bytes(*size);
        Ok(Ok(Self { name: name.clone(), lines, size, packs: packs_listed }))
    }

    /// Some of its lines.
    pub(super) async fn page(
        &self,
        backend: &dyn Backend,
        from: u64,
        count: u64,
    ) -> Result<Vec<Line>, BlobError> {
        let to = from.saturating_add(count).min(self.lines);
        let found = backend.get(&self.name, Span::Between(from * LINE, to * LINE)).await?;
        let most = usize::try_from((to - from) * LINE).unwrap_or(usize::MAX);
        let bytes = collect(found.content, most).await?;
        let lines = bytes.chunks(usize::try_from(LINE).expect("a line is short")).map(Line::read);
        let lines: Option<Vec<Line>> = lines.collect();
        let fits = |lines: &Vec<Line>| {
            lines.iter().all(|line| (line.pack as usize) < self.packs.len())
                && lines.windows(2).all(|two| two[0].end() == two[1].start)
                && lines.len() as u64 == to - from
        };
        let broken = || BlobError::damaged(&self.name, "its lines do not follow each other");
        lines.filter(fits).ok_or_else(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was() {
        let line = Line {
            digest: Digest::of(b"x"),
            start: 1 << 40,
            pack: 3,
            offset: 9,
            stored: 10,
            size: 20,
        };
        let mut bytes = Vec::new();
        line.write(&mut bytes);
        assert_eq!((bytes.len() as u64, Line::read(&bytes)), (LINE, Some(line)));
        assert_eq!(Line::read(&bytes[1..]), None);
        // One that says it is larger than any chunk is none.
        let mut bytes = Vec::new();
        Line { size: u32::MAX, ..line }.write(&mut bytes);
        assert_eq!(Line::read(&bytes), None);
    }

    #[test]
    fn a_broken_end_is_refused() {
        let name = Name::new("recipes/a").unwrap();
        for tail in [&b""[..], &[0; END], &[255; END], &[0; 500]] {
            assert!(!matches!(Recipe::read(&name, tail, tail.len() as u64), Ok(Ok(_))));
        }
    }
}
