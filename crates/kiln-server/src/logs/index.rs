//! Where the lines of a log are: a table of blocks, each a few hundred KiB of whole lines.
//!
//! A line, a step or a time is found by the table and one block. The table can always be made again from
//! the log itself.

use std::io;

use kiln_proto::log::Line;

use super::split::{Lines, bare};

/// A block is closed at the first end of a line from here on.
pub const BLOCK: u64 = 256 << 10;
/// The bytes of a block in a table.
pub const ENTRY: usize = 56;
/// What there is of a line before its text, at most.
const HEAD: usize = 64;

/// A part of a log that is read as a whole. It has whole lines only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// Where it begins and ends, in bytes of the log.
    pub start: u64,
    pub end: u64,
    /// The number of its first line, from 1, and how many there are.
    pub line: u64,
    pub lines: u64,
    /// The earliest and the latest time of its lines; clocks go back now and then.
    pub earliest: u64,
    pub latest: u64,
    /// The smallest and the largest step of its lines, as the log counts them.
    pub first_step: u32,
    pub last_step: u32,
}

impl Block {
    fn empty(start: u64, line: u64) -> Self {
        let (earliest, first_step) = (u64::MAX, u32::MAX);
        Self { start, end: start, line, earliest, first_step, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The number of the first line behind it.
    pub fn next_line(&self) -> u64 {
        self.line + self.lines
    }

    fn add(&mut self, length: u64, line: &Line<'_>) {
        self.end += length;
        self.lines += 1;
        self.earliest = self.earliest.min(line.at);
        self.latest = self.latest.max(line.at);
        self.first_step = self.first_step.min(line.step);
        self.last_step = self.last_step.max(line.step);
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        let Self { start, end, line, lines, earliest, latest, first_step, last_step } = *self;
        for number in [start, end, line, lines, earliest, latest] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        for number in [first_step, last_step] {
            to.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub fn read(bytes: &[u8; ENTRY]) -> Self {
        let long = |at: usize| {
            u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes were taken"))
        };
        let short = |at: usize| {
            u32::from_le_bytes(bytes[48 + at * 4..][..4].try_into().expect("four were taken"))
        };
        Self {
            start: long(0),
            end: long(1),
            line: long(2),
            lines: long(3),
            earliest: long(4),
            latest: long(5),
            first_step: short(0),
            last_step: short(1),
        }
    }

    /// Whether it can be what follows another block, or the first one.
    pub fn follows(&self, before: Option<&Self>) -> bool {
        let (start, line) = before.map_or((0, 1), |before| (before.end, before.next_line()));
        self.start == start && self.line == line && self.end > start && self.lines > 0
    }
}

/// All blocks of a log up to some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    pub blocks: Vec<Block>,
    /// Bytes of the log, also those of a last line that is not whole.
    pub length: u64,
}

impl Index {
    /// Where whole lines end, and the number of the line that would come next.
    pub fn end(&self) -> (u64, u64) {
        self.blocks.last().map_or((0, 1), |last| (last.end, last.next_line()))
    }

    /// How many whole lines there are.
    pub fn lines(&self) -> u64 {
        self.end().1 - 1
    }

    /// The block of a byte; none behind whole lines.
    pub fn at(&self, offset: u64) -> Option<&Block> {
        let place = self.blocks.partition_point(|block| block.end <= offset);
        self.blocks.get(place)
    }
}

/// Makes the index of a log that grows.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    /// Blocks that will not change any more, from some block on.
    closed: Vec<Block>,
    open: Option<Block>,
    /// The beginning of a line that is not whole, and how many bytes there are of it.
    head: Vec<u8>,
    partial: u64,
}

impl Builder {
    /// Goes on behind blocks that are known.
    pub fn after(blocks: Vec<Block>) -> Self {
        let open = blocks.last().map(|last| Block::empty(last.end, last.next_line()));
        Self { closed: blocks, open, ..Self::default() }
    }

    /// How many bytes were added, with those of the blocks from before.
    pub fn length(&self) -> u64 {
        self.open.map_or(0, |open| open.end) + self.partial
    }

    /// Takes what comes next.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.partial > 0 {
            rest = self.finish_partial(bytes);
        }
        let mut lines = Lines(rest);
        for line in lines.by_ref() {
            self.line(line.len() as u64, &Line::parse(bare(line)));
        }
        self.keep_partial(lines.0);
    }

    /// The end of the line that was begun, if it is there; what comes behind it.
    fn finish_partial<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = kiln_proto::log::LONGEST_LINE as u64 - self.partial;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let window = &bytes[..bytes.len().min(room)];
        let end = match memchr::memchr(b'\n', window) {
            Some(at) => at + 1,
            None if window.len() == room => room,
            None => {
                self.keep_partial(bytes);
                return &[];
            }
        };
        let (own, rest) = bytes.split_at(end);
        self.keep_partial(bare(own));
        let had_break = own.ends_with(b"\n");
        let length = self.partial + u64::from(had_break);
        let head = std::mem::take(&mut self.head);
        self.partial = 0;
        self.line(length, &Line::parse(&head));
        rest
    }

    fn keep_partial(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.partial += bytes.len() as u64;
    }

    fn line(&mut self, length: u64, line: &Line<'_>) {
        let open = self.open.get_or_insert_with(|| Block::empty(0, 1));
        open.add(length, line);
        if open.end - open.start >= BLOCK {
            let next = Block::empty(open.end, open.next_line());
            self.closed.push(std::mem::replace(open, next));
        }
    }

    /// Blocks that were closed since the last call.
    pub fn take_closed(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.closed)
    }

    /// The index as of now, when blocks that were closed have not been taken.
    pub fn snapshot(&self, over: bool) -> Index {
        self.clone().finish(over)
    }

    /// All blocks, the open one too. With `over` a last line without a break is a line as well.
    pub fn finish(mut self, over: bool) -> Index {
        let length = self.length();
        if over && self.partial > 0 {
            let head = std::mem::take(&mut self.head);
            let partial = std::mem::take(&mut self.partial);
            self.line(partial, &Line::parse(&head));
        }
        let mut blocks = self.closed;
        blocks.extend(self.open.filter(|open| !open.is_empty()));
        Index { blocks, length }
    }
}

/// How much is looked at at a time. Most logs are small, and each thread that looks keeps room for it.
pub(super) const SCANNED: usize = 32 << 10;

/// The index of bytes that are read piece by piece, from where the known blocks end.
pub fn scan(
    known: Vec<Block>,
    over: bool,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Index> {
    let mut builder = Builder::after(known);
    let mut buffer = vec![0; SCANNED];
    loop {
        match read(builder.length(), &mut buffer)? {
            0 => return Ok(builder.finish(over)),
            count => builder.add(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(at: u64, step: u32, text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Line { at, step, text }.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_block_leads_back_to_itself_and_knows_what_it_follows() {
        let mut builder = Builder::default();
        for number in 0..20_000_u32 {
            builder.add(&line(u64::from(number), number / 5_000, &[b'x'; 50]));
        }
        builder.add(b"12345 7 not who");
        let index = builder.finish(false);
        assert!(index.blocks.len() > 3, "{}", index.blocks.len());
        let mut before = None;
        for block in &index.blocks {
            let mut bytes = Vec::new();
            block.write(&mut bytes);
            assert_eq!(Block::read(&bytes.try_into().unwrap()), *block);
            assert!(block.follows(before) && block.first_step <= block.last_step);
            before = Some(block);
        }
        assert!(!index.blocks[0].follows(Some(&index.blocks[1])));
        assert_eq!(index.lines(), 20_000);
        assert_eq!(index.length, index.end().0 + 15);
        assert_eq!(index.at(0), Some(&index.blocks[0]));
        assert_eq!(index.at(index.blocks[0].end), Some(&index.blocks[1]));
        assert_eq!(index.at(index.end().0), None);
    }

    proptest! {
        /// However the bytes come, the index is the same.
        #[test]
        fn pieces_make_no_difference(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'1'), Just(b' '), any::<u8>()], 0..2_000),
            cuts in proptest::collection::vec(0..2_000_usize, 0..20),
            over in any::<bool>(),
        ) {
            let mut whole = Builder::default();
            whole.add(&bytes);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut pieces = Builder::default();
            for pair in cuts.windows(2) {
                pieces.add(&bytes[pair[0]..pair[1]]);
                prop_assert_eq!(pieces.length(), pair[1] as u64);
            }
            prop_assert_eq!(whole.finish(over), pieces.finish(over));
        }
    }

    #[test]
    fn a_line_without_end_does_not_make_a_block_without_end() {
        let mut builder = Builder::default();
        for _ in 0..50 {
            builder.add(&vec![0; 100_000]);
        }
        let index = builder.finish(true);
        assert_eq!(index.length, 5_000_000);
        let longest = index.blocks.iter().map(|block| block.end - block.start).max().unwrap();
        assert_eq!(longest, kiln_proto::log::LONGEST_LINE as u64);
        assert_eq!(index.lines(), 5);
    }
}
