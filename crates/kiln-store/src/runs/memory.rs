//! Runs as their rows are, remembered by the one writer of an embedded database.
//!
//! Most of what happens to a run happens soon after something else did. Nobody but the writer changes
//! rows of an embedded database, so what it wrote last is what it would read. The connection forgets
//! everything when a transaction is undone, when another process has written to the file, and when a
//! statement changes these rows that does not go through here.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::run::{Leg, LegNo, RunState};

use super::assignments::RunFacts;
use super::open::Open;
use super::rows::Job;

/// How many rows are remembered. When there are more, the half of the runs goes that was used first.
const MOST: usize = 65_536;
/// How many rows a run may have to be remembered: all that are at hand are looked at with each event.
const MOST_OF_RUN: usize = 64;
/// So many bytes that jobs have said count like one more row.
const BYTES_OF_ROW: usize = 1 << 10;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    runs: HashMap<RunId, Remembered>,
    rows: usize,
    /// Counts how often something was remembered.
    clock: u64,
}

#[derive(Debug)]
struct Remembered {
    at: u64,
    rows: usize,
    open: Box<Open>,
}

/// A run whose rows were just written, and that is worth remembering: what has ended is hardly asked for again.
pub(super) struct Memorable {
    rows: usize,
    open: Box<Open>,
}

impl Memorable {
    pub(super) fn of(mut open: Box<Open>) -> Option<Self> {
        let rows = open.hood.legs.len() + open.hood.nodes.len() + open.hood.scopes.len();
        let rows = rows + said(&open) / BYTES_OF_ROW;
        if rows > MOST_OF_RUN || matches!(open.hood.run.state, RunState::Done(_)) {
            return None;
        }
        open.settle();
        Some(Self { rows, open })
    }
}

/// How many bytes the outputs of its jobs have.
fn said(open: &Open) -> usize {
    let nodes = open.hood.nodes.values().flat_map(|node| &node.outputs);
    let legs = open.hood.legs.values().flat_map(|leg| &leg.outputs);
    nodes.chain(legs).map(|(name, value)| name.len() + value.len()).sum()
}

impl Memory {
    pub(crate) fn forget(&mut self) {
        if !self.runs.is_empty() {
            *self = Self { clock: self.clock, ..Self::default() };
        }
    }

    /// The current attempt of a run, which is then in the hands of the caller alone.
    pub(super) fn take(&mut self, run: RunId) -> Option<Box<Open>> {
        let remembered = self.runs.remove(&run)?;
        self.rows -= remembered.rows;
        Some(remembered.open)
    }

    pub(super) fn keep(&mut self, Memorable { rows, open }: Memorable) {
        self.clock += 1;
        self.rows += rows;
        let before = self.runs.insert(open.id(), Remembered { at: self.clock, rows, open });
        self.rows -= before.map_or(0, |before| before.rows);
        if self.rows > MOST {
            self.forget_half();
        }
    }

    fn forget_half(&mut self) {
        let mut ages: Vec<u64> = self.runs.values().map(|run| run.at).collect();
        let half = ages.len() / 2;
        let (_, middle, _) = ages.select_nth_unstable(half);
        let middle = *middle;
        self.runs.retain(|_, run| run.at > middle);
        self.rows = self.runs.values().map(|run| run.rows).sum();
    }

    /// The given attempt of a run, to be looked at, if it is remembered.
    pub(super) fn recall(&self, run: RunId, attempt: u32) -> Option<&Open> {
        let open = &self.runs.get(&run)?.open;
        Some(&**open).filter(|open| open.hood.run.attempt == attempt)
    }

    /// What else was read about the given attempt of a run.
    pub(super) fn about(&self, run: RunId, attempt: u32) -> Option<Arc<RunFacts>> {
        self.recall(run, attempt)?.about.clone()
    }

    /// Something else was read about a run.
    pub(super) fn learn(&mut self, about: &Arc<RunFacts>) {
        let Some(Remembered { open, .. }) = self.runs.get_mut(&about.id) else { return };
        if open.hood.run.attempt == about.attempt {
            open.about = Some(Arc::clone(about));
        }
    }

    /// A leg of the given attempt, if it is remembered.
    pub(super) fn job(&self, run: RunId, attempt: u32, leg: LegNo) -> Option<(&Leg, &Job)> {
        let open = self.recall(run, attempt)?;
        open.hood.legs.get(&leg).zip(open.jobs.get(&leg))
    }

    /// A leg was claimed and written.
    pub(super) fn claimed(&mut self, run: RunId, attempt: u32, leg: Leg, job: Job) {
        let Some(Remembered { open, .. }) = self.runs.get_mut(&run) else { return };
        if open.hood.run.attempt == attempt && open.hood.legs.contains_key(&leg.number) {
            open.jobs.insert(leg.number, job);
            open.was_claimed(leg);
        }
    }
}
