//! A place in a log from which whole lines are read, each with its number.

use std::io;

use bytes::Bytes;
use kiln_proto::log::Line;

use crate::app::Shared;
use crate::logs::index::Block;
use crate::logs::split::{self, Lines, bare};
use crate::logs::{LogId, Logs};

/// How much is read at once.
pub(super) const PIECE: usize = 256 << 10;

/// Whole lines that follow each other.
#[derive(Debug)]
pub(super) struct Piece {
    /// The number of the first line.
    pub(super) first: u64,
    pub(super) bytes: Bytes,
}

impl Piece {
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
    /// Where the next read begins.
    offset: u64,
    /// The number of the next line.
    line: u64,
    /// What was read of a line that is not whole.
    rest: Vec<u8>,
    /// The last read had all that there was.
    at_end: bool,
}

impl Cursor {
    /// At the beginning of a line.
    pub(super) fn at(app: Shared, log: LogId, (offset, line): (u64, u64)) -> Self {
        Self { app, log, offset, line, rest: Vec::new(), at_end: false }
    }

    /// The next whole lines; none if there are none now.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let read = self.app.logs.read(self.log, self.offset, PIECE).await;
            let read = read.map_err(io::Error::other)?;
            self.at_end = read.len() < PIECE;
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

    fn take(&mut self, read: &Bytes) -> Option<Piece> {
        if self.rest.is_empty() && split::whole(read) == read.len() {
            return Some(self.piece(read.clone()));
        }
        self.rest.extend_from_slice(read);
        let whole = split::whole(&self.rest);
        let rest = self.rest.split_off(whole);
        let bytes = std::mem::replace(&mut self.rest, rest);
        (whole > 0).then(|| self.piece(bytes.into()))
    }

    fn piece(&mut self, bytes: Bytes) -> Piece {
        let first = self.line;
        self.line += Lines(&bytes).count() as u64;
        Piece { first, bytes }
    }

    /// A last line without a break, once nothing more can come.
    pub(super) fn last(&mut self) -> Option<Piece> {
        let bytes = Bytes::from(std::mem::take(&mut self.rest));
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
