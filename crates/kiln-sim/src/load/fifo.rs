//! First in, first out: the baseline.

use std::collections::{BTreeSet, VecDeque};

use super::fleet::Fleet;
use super::jobs::Load;
use super::simulate::{Asking, Chooser};

/// Lines of organizations; of all heads that a runner may take, the one that came first is next.
#[derive(Debug)]
pub(super) struct Fifo<'l> {
    load: &'l Load,
    fleet: &'l Fleet,
    /// The jobs of each cell.
    lines: Vec<VecDeque<u32>>,
    /// For each kind the first job of each line, with its cell. Jobs are numbered as they come.
    heads: Vec<BTreeSet<(u32, u32)>>,
}

impl<'l> Fifo<'l> {
    pub(super) fn new(load: &'l Load, fleet: &'l Fleet) -> Self {
        let lines = vec![VecDeque::new(); load.cells.len()];
        Self { load, fleet, lines, heads: vec![BTreeSet::new(); load.kinds.len()] }
    }

    /// The first job for the pool of an organization that may have another one.
    fn first(&self, pool: usize, running: &[u32]) -> Option<(u32, u32)> {
        let has_room = |&&(_, cell): &&(u32, u32)| {
            let organization = self.load.cells[cell as usize].organization as usize;
            let limit = self.load.organizations[organization].limit;
            limit.is_none_or(|limit| running[organization] < limit)
        };
        let kinds = self.fleet.serves(pool).iter();
        kinds.filter_map(|&kind| self.heads[kind as usize].iter().find(has_room)).min().copied()
    }
}

impl Chooser for Fifo<'_> {
    fn submit(&mut self, job: u32) {
        let lane = self.load.lane(job);
        let line = &mut self.lines[lane.cell as usize];
        if line.is_empty() {
            self.heads[lane.kind as usize].insert((job, lane.cell));
        }
        line.push_back(job);
    }

    fn ended(&mut self, _job: u32, _now: i64) {}

    fn choose(
        &mut self,
        _now: i64,
        asking: &[Asking],
        running: &mut [u32],
        chosen: &mut Vec<(u32, u32)>,
    ) {
        // As with the real policies, who can do the least is asked first.
        let mut order = asking.to_vec();
        order.sort_by_key(|asking| self.fleet.serves(asking.pool as usize).len());
        for asking in order {
            for _ in 0..asking.want {
                let Some(head) = self.first(asking.pool as usize, running) else { break };
                let (job, cell) = head;
                let heads = &mut self.heads[self.load.cells[cell as usize].kind as usize];
                heads.remove(&head);
                let line = &mut self.lines[cell as usize];
                line.pop_front();
                heads.extend(line.front().map(|&next| (next, cell)));
                running[self.load.cells[cell as usize].organization as usize] += 1;
                chosen.push((asking.pool, job));
            }
        }
    }
}
