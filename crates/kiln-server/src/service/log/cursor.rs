//! A place in a log from which whole lines are read, each with its number.

use std::io;

use bytes::{Buf as _, Bytes};
use kiln_proto::log::Line;

use crate::app::Shared;
use crate::logs::index::Block;
use crate::logs::split::{self, Lines, bare};
use crate::logs::{LogId, Logs};

/// How much is read at once of a log that is given out as a whole.
pub(super) const PIECE: usize = 256 << 10;

/// Whole lines that follow each other.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// The number of the first line.
    pub(super) first: u64,
    pub(super) bytes: Bytes,
}

impl Piece {
    /// Without the lines before one.
    pub(super) fn starting_at(mut self, line: u64) -> Self {
        let skipped = usize::try_from(line.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let (count, length) = Lines(&self.bytes)
            .take(skipped)
            .fold((0, 0), |(count, length), line| (count + 1, length + line.len()));
        self.first += count;
        self.bytes.advance(length);
        self
    }

    /// Takes lines off its front, about so many bytes of them; none when nothing is left.
    pub(super) fn take_front(&mut self, bytes: usize) -> Option<Self> {
        if self.bytes.is_empty() {
            return None;
        }
        let fits = split::whole(&self.bytes[..self.bytes.len().min(bytes)]);
        let cut = match fits {
            _ if self.bytes.len() <= bytes => self.bytes.len(),
            0 => split::line_end(&self.bytes).unwrap_or(self.bytes.len()),
            fits => fits,
        };
        let front = Self { first: self.first, bytes: self.bytes.split_to(cut) };
        self.first += Lines(&front.bytes).count() as u64;
        Some(front)
    }

    /// Its lines, each with its number. One at the very end may have no line break.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, Line<'_>)> {
        let whole = split::whole(&self.bytes);
        let rest = Some(&self.bytes[whole..]).filter(|rest| !rest.is_empty());
        let lines = Lines(&self.bytes[..whole]).chain(rest);
        (self.first..).zip(lines.map(|line| Line::parse(bare(line))))
    }
}

/// Reads a log line by line as far as it has come.
pub(super) struct Cursor {
    app: Shared,
    log: LogId,
    /// How much is read at once.
    at_once: usize,
    /// Where the next read begins.
    offset: u64,
    /// The number of the next line.
    line: u64,
    /// What was read of a line that is not whole.
    rest: Bytes,
    /// The last read had all that there was.
    at_end: bool,
}

/// Where a cursor stands, for others that read the same log.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    offset: u64,
    line: u64,
    rest: Bytes,
    at_end: bool,
}

impl Cursor {
    /// At the beginning of a line.
    pub(super) fn at(app: Shared, log: LogId, at_once: usize, (offset, line): (u64, u64)) -> Self {
        Self { app, log, at_once, offset, line, rest: Bytes::new(), at_end: false }
    }

    /// The next whole lines; none if there are none now.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let read = self.app.logs.read(self.log, self.offset, self.at_once).await;
            let read = read.map_err(io::Error::other)?;
            self.at_end = read.len() < self.at_once;
            if read.is_empty() {
                return Ok(None);
            }
            self.offset += read.len() as u64;
            if let Some(piece) = self.take(&read) {
                return Ok(Some(piece));
            }
        }
    }

    /// Whether nothing was left when it was last read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Where the next read begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn spot(&self) -> Spot {
        let Self { offset, line, ref rest, at_end, .. } = *self;
        Spot { offset, line, rest: rest.clone(), at_end }
    }

    /// Goes where another cursor of the same log came to, when the log was known to have this length.
    pub(super) fn go_to(&mut self, spot: &Spot, length: u64) {
        let Spot { offset, line, ref rest, at_end } = *spot;
        // The other may have been there a while ago: what has been added since is still to be read.
        (self.offset, self.line, self.at_end) = (offset, line, at_end && offset == length);
        self.rest = rest.clone();
    }

    fn take(&mut self, read: &Bytes) -> Option<Piece> {
        let mut bytes = if self.rest.is_empty() {
            read.clone()
        } else {
            Bytes::from([&self.rest[..], read].concat())
        };
        let whole = split::whole(&bytes);
        if whole == 0 {
            self.rest = bytes;
            return None;
        }
        // Half a line must not hold all that was read before it.
        self.rest = Bytes::copy_from_slice(&bytes[whole..]);
        bytes.truncate(whole);
        Some(self.piece(bytes))
    }

    fn piece(&mut self, bytes: Bytes) -> Piece {
        let first = self.line;
        self.line += Lines(&bytes).count() as u64;
        Piece { first, bytes }
    }

    /// A last line without a break, once nothing more can come.
    pub(super) fn last(&mut self) -> Option<Piece> {
        let bytes = std::mem::take(&mut self.rest);
        let first = self.line;
        (!bytes.is_empty()).then_some(Piece { first, bytes })
    }
}

/// A block of a log as a whole.
pub(super) async fn block(logs: &dyn Logs, log: LogId, block: &Block) -> io::Result<Piece> {
    let length = usize::try_from(block.end - block.start).unwrap_or(usize::MAX);
    let mut bytes = logs.read(log, block.start, length).await.map_err(io::Error::other)?;
    while bytes.len() < length {
        let from = block.start + bytes.len() as u64;
        let more = logs.read(log, from, length - bytes.len()).await.map_err(io::Error::other)?;
        if more.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = [bytes, more].concat().into();
    }
    Ok(Piece { first: block.line, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &'static str) -> Piece {
        Piece { first: 10, bytes: Bytes::from_static(text.as_bytes()) }
    }

    #[test]
    fn a_piece_is_cut_where_lines_end() {
        let check = |text: &'static str, most: usize, expect: &[(u64, &str)]| {
            let mut left = piece(text);
            let parts: Vec<Piece> = std::iter::from_fn(|| left.take_front(most)).collect();
            let shown = |it: &Piece| (it.first, String::from_utf8_lossy(&it.bytes).into_owned());
            let parts: Vec<_> = parts.iter().map(shown).collect();
            let expect: Vec<_> =
                expect.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            assert_eq!(parts, expect, "{text:?} by {most}");
        };
        check("", 8, &[]);
        check("a\nb\n", 8, &[(10, "a\nb\n")]);
        check("a\nb\nc\n", 5, &[(10, "a\nb\n"), (12, "c\n")]);
        // A line that is longer than that comes by itself, and what has no break at the end comes last.
        check("a long one\nb\nlast", 4, &[(10, "a long one\n"), (11, "b\n"), (12, "last")]);
    }

    #[test]
    fn a_piece_begins_with_the_line_that_is_wanted() {
        let check = |line: u64, first: u64, text: &str| {
            let cut = piece("a\nb\nc\n").starting_at(line);
            assert_eq!((cut.first, &cut.bytes[..]), (first, text.as_bytes()), "{line}");
        };
        check(1, 10, "a\nb\nc\n");
        check(10, 10, "a\nb\nc\n");
        check(12, 12, "c\n");
        check(99, 13, "");
    }
}
