//! The pieces of a log that grows, known by their names.

use crate::logs::LogId;

/// The name of a piece: where it begins and ends, in the order of names.
pub(super) fn name(folder: &str, from: u64, to: u64) -> String {
    format!("{folder}/{from:020}-{to:020}")
}

/// The log whose piece has this name.
pub(super) fn log_of(name: &str) -> Option<LogId> {
    LogId::parse(name.strip_prefix("live/")?.split_once('/')?.0)
}

/// Where the pieces of a log begin and end, of names in their order.
pub(super) fn ranges<'n>(
    names: impl Iterator<Item = &'n str>,
    folder: &str,
) -> impl Iterator<Item = (u64, u64)> {
    names.filter_map(move |name| {
        let range = name.strip_prefix(folder)?.strip_prefix('/')?.split_once('-')?;
        Some((range.0.parse().ok()?, range.1.parse().ok()?))
    })
}

/// A part of a piece: the piece, and which of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) piece: (u64, u64),
    /// As the log counts them.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Pieces without a gap from the beginning on. Some may overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chunks(Vec<(u64, u64)>);

impl Chunks {
    /// Those of some pieces that make up the log.
    pub(super) fn of(pieces: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut chunks = Self::default();
        for (from, to) in pieces {
            chunks.add(from, to);
        }
        chunks
    }

    /// Takes a piece if it goes on where the others end, or before that. Says whether there is no gap before it.
    pub(super) fn add(&mut self, from: u64, to: u64) -> bool {
        let fits = from <= self.length();
        if fits && to > self.length() {
            self.0.push((from, to));
        }
        fits
    }

    pub(super) fn length(&self) -> u64 {
        self.last().map_or(0, |(_, to)| to)
    }

    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.0.last().copied()
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    /// What has to be read for some bytes; nothing behind the end.
    pub(super) fn parts(&self, from: u64, limit: usize) -> Vec<Part> {
        let end = from.saturating_add(limit as u64).min(self.length());
        let mut parts = Vec::new();
        let mut at = from;
        for piece in &self.0[self.0.partition_point(|(_, to)| *to <= from)..] {
            if at >= end {
                break;
            }
            let to = piece.1.min(end);
            parts.push(Part { piece: *piece, from: at, to });
            at = to;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_in_order_and_nothing_behind_a_gap_counts() {
        let folder = "live/3.1";
        let names = [(0, 5), (0, 7), (3, 6), (5, 9), (12, 15)].map(|(a, b)| name(folder, a, b));
        let pieces = || ranges(names.iter().map(String::as_str), folder);
        let mut chunks = Chunks::of(pieces());
        assert_eq!(chunks, Chunks(vec![(0, 5), (0, 7), (5, 9)]));
        assert_eq!((chunks.length(), chunks.last()), (9, Some((5, 9))));
        let part = |piece, from, to| Part { piece, from, to };
        assert_eq!(chunks.parts(0, 3), [part((0, 5), 0, 3)]);
        let all = [part((0, 5), 1, 5), part((0, 7), 5, 7), part((5, 9), 7, 9)];
        assert_eq!(chunks.parts(1, usize::MAX), all);
        assert_eq!(chunks.parts(4, 2), [part((0, 5), 4, 5), part((0, 7), 5, 6)]);
        assert_eq!((chunks.parts(9, 1), chunks.parts(0, 0)), (Vec::new(), Vec::new()));
        // One that begins before the last, found late, and one behind a gap.
        assert!(chunks.add(3, 12) && !chunks.add(13, 14));
        assert_eq!(chunks.parts(8, 9), [part((5, 9), 8, 9), part((3, 12), 9, 12)]);
        assert_eq!(log_of(&names[0]).map(LogId::name).as_deref(), Some("3.1"));
        for wrong in ["live/3.1", "runs/3.1/x", "live/x/0-1", "live/3.1x/0-1"] {
            assert_eq!(log_of(wrong), None, "{wrong}");
        }
    }
}
