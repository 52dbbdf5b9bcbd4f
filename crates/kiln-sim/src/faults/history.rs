//! What happened, as lines: the last ones to read, all of them as one hash.

use std::collections::VecDeque;

/// How many lines are kept.
const KEPT: usize = 400;

/// A story whose hash tells two runs of a seed apart if they differ in anything.
#[derive(Debug, Clone)]
pub(super) struct History {
    lines: VecDeque<String>,
    count: u64,
    hash: u64,
}

impl History {
    pub(super) fn new() -> Self {
        Self { lines: VecDeque::with_capacity(KEPT), count: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub(super) fn note(&mut self, at: u64, line: &str) {
        let line = format!("{:>6}.{:03}  {line}", at / 1_000, at % 1_000);
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.count += 1;
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
