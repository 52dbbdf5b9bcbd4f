//! Which lines of a log are wanted.

use std::io;

use kiln_core::time::Timestamp;
use kiln_proto::log::Line;

use super::cursor;
use super::matcher::Matcher;
use crate::logs::index::{Block, Index};
use crate::logs::{LogId, Logs};

/// All conditions hold together; one that is left out holds for every line.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The first line, from 1.
    pub from: u64,
    /// How many lines are given out, at most.
    pub count: Option<u64>,
    /// Steps as the log counts them, from 0.
    pub steps: Vec<u32>,
    pub since: Option<Timestamp>,
    pub matcher: Option<Matcher>,
    /// Only the last of those for which the rest holds.
    pub tail: Option<u64>,
}

impl Selection {
    pub(super) fn wants(&self, number: u64, line: &Line<'_>) -> bool {
        number >= self.from
            && (self.steps.is_empty() || self.steps.contains(&line.step))
            && self.since.is_none_or(|since| line.at >= since.0)
            && self.matcher.as_ref().is_none_or(|matcher| matcher.matches(line.text))
    }

    /// Whether a block can have such lines.
    pub(super) fn may_be_in(&self, block: &Block) -> bool {
        let has = |step: &u32| (block.first_step..=block.last_step).contains(step);
        block.next_line() > self.from
            && (self.steps.is_empty() || self.steps.iter().any(has))
            && self.since.is_none_or(|since| block.latest >= since.0)
    }

    /// Makes a first line of `tail`, as the log is now.
    pub(super) async fn settle(
        &mut self,
        logs: &dyn Logs,
        log: LogId,
        index: &Index,
    ) -> io::Result<()> {
        let Some(tail) = self.tail.take() else { return Ok(()) };
        let next = index.end().1;
        if tail == 0 {
            self.from = self.from.max(next);
            return Ok(());
        }
        if self.steps.is_empty() && self.since.is_none() && self.matcher.is_none() {
            self.from = self.from.max(next.saturating_sub(tail));
            return Ok(());
        }
        let mut found = 0;
        for block in index.blocks.iter().rev().filter(|block| self.may_be_in(block)) {
            let piece = cursor::block(logs, log, block).await?;
            let wanted = piece.lines().filter(|(number, line)| self.wants(*number, line));
            let numbers: Vec<u64> = wanted.map(|(number, _)| number).collect();
            let count = numbers.len() as u64;
            if found + count >= tail {
                let place = usize::try_from(count - (tail - found)).unwrap_or_default();
                self.from = numbers[place];
                return Ok(());
            }
            found += count;
        }
        Ok(())
    }
}
