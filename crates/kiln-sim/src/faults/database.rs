//! The database: transactions one after the other, answered when they are on the disk.
//!
//! What was done lies in memory first. A flush takes all that is there by then to the disk, and only then
//! the answers go out; a crash before takes back what was not flushed. Reads wait for the flush, too, so
//! that nobody hears of what may still be undone.

use std::rc::Rc;

use kiln_core::time::Timestamp;

use super::bug::Bug;
use super::kiln::{Done, Rows, Rules, Signal, Tx, Work};
use super::workload::Workload;

/// The database's clock starts here, so that it can go back.
const EPOCH: u64 = 1_000_000_000;
/// For how long a leader may be silent.
pub(super) const SILENCE: u64 = 6_000;

/// An answer that waits for the disk.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) server: usize,
    pub(super) ticket: u64,
    pub(super) done: Vec<Done>,
    pub(super) signals: Vec<Signal>,
}

#[derive(Debug)]
pub(super) struct Database {
    pub(super) up: bool,
    /// Counts starts.
    pub(super) life: u32,
    pub(super) rows: Rows,
    durable: Rows,
    waiting: Vec<Waiting>,
    flushing: Option<(Rows, Vec<Waiting>)>,
    rules: Rules,
    /// How much its clock is ahead, or behind.
    pub(super) ahead: i64,
    /// Who leads, and when it was heard last.
    leader: Option<(usize, u64)>,
}

impl Database {
    pub(super) fn new(rules: Rules, workload: &Workload) -> Self {
        let mut rows = Rows::default();
        for (org, limit) in &workload.limits {
            rows.loads.entry(*org).or_default().limit = Some(*limit);
        }
        rows.fleet = workload.fleet.iter().map(|spec| Rc::clone(&spec.capabilities)).collect();
        Self {
            up: true,
            life: 0,
            durable: rows.clone(),
            rows,
            waiting: Vec::new(),
            flushing: None,
            rules,
            ahead: 0,
            leader: None,
        }
    }

    /// What it takes for the time.
    pub(super) fn clock(&self, now: u64) -> Timestamp {
        Timestamp((EPOCH + now).saturating_add_signed(self.ahead))
    }

    /// Does a part of a transaction in memory. Adds the hints that are due when all of it is on the disk.
    pub(super) fn perform(&mut self, now: u64, work: &Work, signals: &mut Vec<Signal>) -> Done {
        let now = self.clock(now);
        let signals_before = std::mem::take(signals);
        let mut tx = Tx { rows: &mut self.rows, now, rules: self.rules, signals: signals_before };
        let done = tx.perform(work);
        *signals = tx.signals;
        done
    }

    /// Keeps an answer until the disk has what it says. Returns what must go out at once, which is nothing unless a
    /// bug is planted.
    pub(super) fn answer_later(&mut self, waiting: Waiting) -> Option<Waiting> {
        if self.rules.has(Bug::AnswerBeforeCommit) {
            return Some(waiting);
        }
        self.waiting.push(waiting);
        None
    }

    /// Begins to flush, unless that is under way. Returns whether it did.
    pub(super) fn flush(&mut self) -> bool {
        let stale = self.rules.has(Bug::AnswerBeforeCommit);
        if self.flushing.is_some() || (self.waiting.is_empty() && !stale) {
            return false;
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.flushing = Some((self.rows.clone(), waiting));
        true
    }

    /// The flush is through.
    pub(super) fn flushed(&mut self) -> Vec<Waiting> {
        let Some((rows, answers)) = self.flushing.take() else { return Vec::new() };
        self.durable = rows;
        answers
    }

    /// Whether something waits for the next flush.
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn crash(&mut self) {
        self.up = false;
        self.life += 1;
        self.waiting.clear();
        self.flushing = None;
        self.leader = None;
        self.rows = self.durable.clone();
    }

    /// Whether this server leads from now on, or still does.
    pub(super) fn leads(&mut self, now: u64, server: usize) -> bool {
        let free = self
            .leader
            .is_none_or(|(leader, heard)| leader == server || now.saturating_sub(heard) > SILENCE);
        if free {
            self.leader = Some((server, now));
        }
        free
    }
}
