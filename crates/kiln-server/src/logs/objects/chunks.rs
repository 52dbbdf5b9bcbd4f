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

/// Pieces without a gap from the beginning on. Some may overlap.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks(Vec<(u64, u64)>);

impl Chunks {
    /// Of names in their order, those that belong to the log.
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n str>, folder: &str) -> Self {
        let mut chunks = Self::default();
        for name in names {
            let piece = || {
                let range = name.strip_prefix(folder)?.strip_prefix('/')?.split_once('-')?;
                Some((range.0.parse().ok()?, range.1.parse().ok()?))
            };
            if let Some((from, to)) = piece() {
                chunks.add(from, to);
            }
        }
        chunks
    }

    /// Takes a piece if it goes on where the others end, or before that.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        if from <= self.length() && to > self.length() {
            self.0.push((from, to));
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.0.last().map_or(0, |(_, to)| *to)
    }

    /// The piece that has a byte.
    pub(super) fn find(&self, at: u64) -> Option<(u64, u64)> {
        let place = self.0.partition_point(|(_, to)| *to <= at);
        self.0.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_in_order_and_nothing_behind_a_gap_counts() {
        let folder = "live/3.1";
        let names = [(0, 5), (0, 7), (3, 6), (5, 9), (12, 15)].map(|(a, b)| name(folder, a, b));
        let chunks = Chunks::of(names.iter().map(String::as_str), folder);
        assert_eq!(chunks, Chunks(vec![(0, 5), (0, 7), (5, 9)]));
        assert_eq!(chunks.length(), 9);
        assert_eq!(chunks.find(0), Some((0, 5)));
        assert_eq!(chunks.find(5), Some((0, 7)));
        assert_eq!(chunks.find(8), Some((5, 9)));
        assert_eq!(chunks.find(9), None);
        assert_eq!(log_of(&names[0]).map(LogId::name).as_deref(), Some("3.1"));
        for wrong in ["live/3.1", "runs/3.1/x", "live/x/0-1", "live/3.1x/0-1"] {
            assert_eq!(log_of(wrong), None, "{wrong}");
        }
    }
}
