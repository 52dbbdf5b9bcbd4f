//! What comes of a log for one reader, piece by piece, in the form that was asked for.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use kiln_proto::log::{LONGEST_LINE, Line};

use super::cursor::{self, Cursor, PIECE, Piece};
use super::select::Selection;
use super::shape::Form;
use crate::app::Shared;
use crate::logs::LogId;
use crate::logs::index::{Block, Index};

/// Never more than a piece is held: a reader that is slow costs nobody but itself.
pub(super) enum Feed {
    Bytes(ByBytes),
    Lines(Box<ByLines>),
}

impl Feed {
    pub(super) fn bytes(
        app: Shared,
        log: LogId,
        from: u64,
        limit: Option<u64>,
        form: Form,
    ) -> Self {
        let end = limit.map_or(u64::MAX, |limit| from.saturating_add(limit));
        Self::Bytes(ByBytes { app, log, at: from, end, lines: Shaper { form, rest: Vec::new() } })
    }

    pub(super) async fn lines(
        app: Shared,
        log: LogId,
        mut selection: Selection,
        form: Form,
        index: &Index,
    ) -> io::Result<Self> {
        selection.settle(&*app.logs, log, index).await?;
        let blocks = index.blocks.iter().filter(|block| selection.may_be_in(block));
        let blocks = blocks.copied().collect();
        let left = selection.count.unwrap_or(u64::MAX);
        let cursor = Cursor::at(Shared::clone(&app), log, PIECE, index.end());
        Ok(Self::Lines(Box::new(ByLines { app, log, selection, form, blocks, cursor, left })))
    }

    /// What there is next; none if there is nothing now.
    pub(super) async fn more(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Bytes(feed) => feed.more().await,
            Self::Lines(feed) => feed.more().await,
        }
    }

    /// What is left when nothing more can come.
    pub(super) fn last(&mut self) -> Option<Bytes> {
        match self {
            Self::Bytes(feed) => feed.lines.rest(),
            Self::Lines(feed) => {
                let piece = feed.cursor.last()?;
                Some(feed.shaped(&piece)).filter(|shown| !shown.is_empty())
            }
        }
    }

    /// Whether all that was asked for was given.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Bytes(feed) => feed.at >= feed.end,
            Self::Lines(feed) => feed.left == 0,
        }
    }
}

/// From one byte to another.
pub(super) struct ByBytes {
    app: Shared,
    log: LogId,
    at: u64,
    /// Nothing from here on is wanted.
    end: u64,
    lines: Shaper,
}

impl ByBytes {
    async fn more(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(None);
            }
            let piece = self.app.logs.read(self.log, self.at, PIECE.min(left)).await;
            let piece = piece.map_err(io::Error::other)?;
            if piece.is_empty() {
                return Ok(None);
            }
            self.at += piece.len() as u64;
            if let Some(shown) = self.lines.take(&piece) {
                return Ok(Some(shown));
            }
        }
    }
}

/// Lines that were chosen.
pub(super) struct ByLines {
    app: Shared,
    log: LogId,
    selection: Selection,
    form: Form,
    /// What can have such lines of what was there at the beginning.
    blocks: VecDeque<Block>,
    cursor: Cursor,
    left: u64,
}

impl ByLines {
    async fn more(&mut self) -> io::Result<Option<Bytes>> {
        while self.left > 0 {
            let piece = match self.blocks.pop_front() {
                Some(block) => cursor::block(&*self.app.logs, self.log, &block).await?,
                None => match self.cursor.next().await? {
                    Some(piece) => piece,
                    None => return Ok(None),
                },
            };
            let shown = self.shaped(&piece);
            if !shown.is_empty() {
                return Ok(Some(shown));
            }
        }
        Ok(None)
    }

    fn shaped(&mut self, piece: &Piece) -> Bytes {
        let mut shown = Vec::new();
        for (number, line) in piece.lines() {
            if self.left > 0 && self.selection.wants(number, &line) {
                self.form.add(number, &line, &mut shown);
                self.left -= 1;
            }
        }
        shown.into()
    }
}

/// Cuts bytes into lines, and gives them the wanted form.
struct Shaper {
    form: Form,
    rest: Vec<u8>,
}

impl Shaper {
    fn take(&mut self, piece: &Bytes) -> Option<Bytes> {
        if self.form == Form::Raw {
            return Some(piece.clone());
        }
        self.rest.extend_from_slice(piece);
        let end = match memchr::memrchr(b'\n', &self.rest) {
            Some(end) => end + 1,
            None if self.rest.len() > LONGEST_LINE => self.rest.len(),
            None => return None,
        };
        let rest = self.rest.split_off(end);
        let whole = std::mem::replace(&mut self.rest, rest);
        Some(self.shaped(&whole))
    }

    /// What is left at the end, without a line break.
    fn rest(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| self.shaped(&rest))
    }

    fn shaped(&self, whole: &[u8]) -> Bytes {
        let mut shown = Vec::with_capacity(whole.len());
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            self.form.add(0, &Line::parse(crate::logs::split::bare(line)), &mut shown);
        }
        shown.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: Form, pieces: &[&str], expect: &str) {
        let mut lines = Shaper { form, rest: Vec::new() };
        let mut shown = Vec::new();
        for piece in pieces {
            let bytes = Bytes::copy_from_slice(piece.as_bytes());
            shown.extend(lines.take(&bytes).unwrap_or_default());
        }
        shown.extend(lines.rest().unwrap_or_default());
        assert_eq!(String::from_utf8_lossy(&shown), expect);
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        check(Form::Text, &["1 0 a\n2 0 b", "c\n3 ", "1 d\n"], "a\nbc\nd\n");
        check(Form::Text, &["1 0 a"], "a\n");
        check(Form::Raw, &["1 0 a\n2", " 0 b"], "1 0 a\n2 0 b");
        check(Form::Timed, &["1000 0 a\n"], "1970-01-01T00:00:01.000Z a\n");
        check(Form::Text, &[], "");
    }
}
