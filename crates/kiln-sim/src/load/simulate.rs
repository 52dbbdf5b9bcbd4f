//! The simulation: jobs come, wait, run and end, in virtual time.
//!
//! What happens at the same moment is taken together: first jobs end, then jobs come, then idle runners
//! ask, all at once, as a server gathers them. Only pools for which something changed ask, so an event
//! costs the same however many runners there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fairness::{Held, Meter, Part};
use super::fifo::Fifo;
use super::fleet::Fleet;
use super::jobs::Load;
use super::policy::Policy;
use super::real::Real;

/// Idle runners of a pool that ask for jobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) pool: u32,
    pub(super) want: u32,
}

/// Who gets which of the jobs that wait.
pub(super) trait Chooser {
    fn submit(&mut self, job: u32);

    fn ended(&mut self, job: u32, now: i64);

    /// Adds pools and their jobs, which wait no more. `running` counts the jobs of each organization, what
    /// is chosen at once.
    fn choose(
        &mut self,
        now: i64,
        asking: &[Asking],
        running: &mut [u32],
        chosen: &mut Vec<(u32, u32)>,
    );
}

/// What became of each job, in the order of the load.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// When it began, in milliseconds.
    pub started: Vec<i64>,
    /// Whose runner it got: the place in [`Fleet::pools`].
    pub pools: Vec<u32>,
    /// How often jobs were handed out.
    pub choices: usize,
    pub(super) parts: Vec<Part>,
}

/// Lets a policy hand out all jobs. `progress` hears now and then how many have begun.
///
/// # Panics
///
/// When the fleet was made for another load.
pub fn simulate(
    load: &Load,
    fleet: &Fleet,
    policy: Policy,
    progress: &mut dyn FnMut(usize),
) -> Outcome {
    match policy {
        Policy::Real(policy) => world(load, fleet, Real::new(load, fleet, policy), progress),
        Policy::Fifo => world(load, fleet, Fifo::new(load, fleet), progress),
    }
}

fn world<C: Chooser>(
    load: &Load,
    fleet: &Fleet,
    chooser: C,
    progress: &mut dyn FnMut(usize),
) -> Outcome {
    let mut world = World::new(load, fleet, chooser);
    while let Some(at) = world.next() {
        world.meter.pass(at, &world.held, &world.running);
        world.end_jobs(at);
        world.submit_jobs(at);
        world.hand_out(at);
        progress(world.begun);
    }
    assert_eq!(world.begun, load.jobs.len(), "a fleet can do every job of its load");
    Outcome {
        started: world.started,
        pools: world.pools,
        choices: world.choices,
        parts: world.meter.parts(),
    }
}

struct World<'l, C> {
    load: &'l Load,
    fleet: &'l Fleet,
    chooser: C,
    meter: Meter<'l>,
    /// How many jobs have come.
    come: usize,
    /// Jobs that run, by when they end.
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    /// Idle runners of each pool.
    idle: Vec<u32>,
    /// Waiting jobs of each kind.
    waiting: Vec<u32>,
    held: Vec<Held>,
    /// Running jobs of each organization.
    running: Vec<u32>,
    /// Pools that may find a job since the last choice; each stands here once.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    /// Whether an end may make room for jobs of any kind.
    limited: bool,
    chosen: Vec<(u32, u32)>,
    started: Vec<i64>,
    pools: Vec<u32>,
    begun: usize,
    choices: usize,
}

impl<'l, C: Chooser> World<'l, C> {
    fn new(load: &'l Load, fleet: &'l Fleet, chooser: C) -> Self {
        let idle: Vec<u32> = fleet.pools().iter().map(super::Pool::count).collect();
        Self {
            load,
            fleet,
            chooser,
            meter: Meter::new(load, fleet.runners()),
            come: 0,
            ends: BinaryHeap::new(),
            waiting: vec![0; load.kinds.len()],
            held: vec![Held::default(); load.cells.len()],
            running: vec![0; load.organizations.len()],
            touched: Vec::new(),
            is_touched: vec![false; idle.len()],
            limited: load.organizations.iter().any(|organization| organization.limit.is_some()),
            idle,
            chosen: Vec::new(),
            started: vec![0; load.jobs.len()],
            pools: vec![0; load.jobs.len()],
            begun: 0,
            choices: 0,
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<i64> {
        let comes = self.load.jobs.get(self.come).map(|job| job.submitted);
        let ends = self.ends.peek().map(|Reverse((at, _))| *at);
        comes.into_iter().chain(ends).min()
    }

    fn end_jobs(&mut self, now: i64) {
        while let Some(&Reverse((at, job))) = self.ends.peek()
            && at <= now
        {
            self.ends.pop();
            let (lane, pool) = (self.load.lane(job), self.pools[job as usize]);
            self.held[lane.cell as usize].running -= 1;
            self.running[lane.organization as usize] -= 1;
            self.idle[pool as usize] += 1;
            self.touch(pool);
            self.chooser.ended(job, now);
        }
    }

    fn submit_jobs(&mut self, now: i64) {
        let fleet = self.fleet;
        while let Some(job) = self.load.jobs.get(self.come)
            && job.submitted <= now
        {
            let lane = &self.load.lanes[job.lane as usize];
            self.held[lane.cell as usize].waiting += 1;
            self.waiting[lane.kind as usize] += 1;
            self.chooser.submit(super::numbers::number(self.come));
            self.come += 1;
            for &pool in fleet.served_by(lane.kind) {
                self.touch(pool);
            }
        }
    }

    fn touch(&mut self, pool: u32) {
        if !self.is_touched[pool as usize] {
            self.is_touched[pool as usize] = true;
            self.touched.push(pool);
        }
    }

    fn hand_out(&mut self, now: i64) {
        if self.limited {
            let all = 0..super::numbers::number(self.idle.len());
            all.for_each(|pool| self.touch(pool));
        }
        let asking = self.asking();
        if asking.is_empty() {
            return;
        }
        self.choices += 1;
        let mut chosen = std::mem::take(&mut self.chosen);
        self.chooser.choose(now, &asking, &mut self.running, &mut chosen);
        for (pool, job) in chosen.drain(..) {
            self.begin(pool, job, now);
        }
        self.chosen = chosen;
    }

    /// Pools with idle runners for which jobs wait, in their order.
    fn asking(&mut self) -> Vec<Asking> {
        self.touched.sort_unstable();
        let mut asking = Vec::new();
        for pool in self.touched.drain(..) {
            self.is_touched[pool as usize] = false;
            let kinds = self.fleet.serves(pool as usize).iter();
            let waiting = kinds.map(|&kind| self.waiting[kind as usize]).sum::<u32>();
            let want = self.idle[pool as usize].min(waiting);
            if want > 0 {
                asking.push(Asking { pool, want });
            }
        }
        asking
    }

    fn begin(&mut self, pool: u32, job: u32, now: i64) {
        let lane = self.load.lane(job);
        let held = &mut self.held[lane.cell as usize];
        held.waiting -= 1;
        held.running += 1;
        self.waiting[lane.kind as usize] -= 1;
        self.idle[pool as usize] -= 1;
        self.started[job as usize] = now;
        self.pools[job as usize] = pool;
        self.begun += 1;
        let millis = self.load.jobs[job as usize].millis;
        self.ends.push(Reverse((now + i64::from(millis), job)));
    }
}
