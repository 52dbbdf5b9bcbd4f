//! What goes wrong, and when: drawn from the seed before anything happens.

use super::message::Actor;
use super::workload::CALM;
use crate::random::Random;

/// One fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calamity {
    pub(super) at: u64,
    pub(super) what: Fault,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The process dies at once.
    Crash(Actor),
    Restart(Actor),
    /// The process stands still for a while, and then goes on as if nothing had been.
    Freeze(Actor, u64),
    /// Nothing gets from one to the other for a while.
    Cut(Actor, Actor, u64),
    /// The database's clock jumps to so much ahead of the true time, or behind it.
    Jump(i64),
    /// A flush takes up to so long, for a while.
    SlowDisk(u64, u64),
}

/// The faults of a simulation, in no order. All are over when the calm begins.
pub(super) fn draw(random: &mut Random, servers: usize, runners: usize) -> Vec<Calamity> {
    let mut all = Vec::new();
    let count = random.below(18);
    for _ in 0..count {
        let at = random.below(CALM - 5_000);
        one(random, at, servers, runners, &mut all);
    }
    all
}

fn one(random: &mut Random, at: u64, servers: usize, runners: usize, all: &mut Vec<Calamity>) {
    let server = Actor::Server(usize::try_from(random.below(servers as u64)).unwrap_or(0));
    let runner = Actor::Runner(usize::try_from(random.below(runners as u64)).unwrap_or(0));
    let long = 2_000 + random.below(110_000);
    let mut add = |at, what| all.push(Calamity { at, what });
    match random.below(15) {
        0 | 1 => {
            add(at, Fault::Crash(server));
            add(at + random.below(40_000), Fault::Restart(server));
        }
        2..=4 => {
            add(at, Fault::Crash(runner));
            add(at + random.below(100_000), Fault::Restart(runner));
        }
        5 | 6 => {
            add(at, Fault::Crash(Actor::Database));
            add(at + 100 + random.below(20_000), Fault::Restart(Actor::Database));
        }
        7 => add(at, Fault::Freeze(server, long)),
        8 => add(at, Fault::Freeze(runner, long)),
        9 => {
            let from = if random.chance(1, 2) { server } else { Actor::Database };
            let to = if from == server { Actor::Database } else { server };
            add(at, Fault::Cut(from, to, long / 2));
            if random.chance(1, 2) {
                add(at, Fault::Cut(to, from, long / 2));
            }
        }
        10 | 11 => {
            let (inwards, outwards) = (random.chance(2, 3), random.chance(2, 3));
            for server in (0..servers).map(Actor::Server) {
                if outwards || !inwards {
                    add(at, Fault::Cut(runner, server, long));
                }
                if inwards {
                    add(at, Fault::Cut(server, runner, long));
                }
            }
        }
        12 => add(at, Fault::Jump(off(random))),
        13 => {
            // The database moves to another machine: with another clock, and cold.
            let back = at + 100 + random.below(5_000);
            add(at, Fault::Crash(Actor::Database));
            add(back, Fault::Jump(off(random)));
            add(back, Fault::SlowDisk(500 + random.below(9_000), long / 2));
            add(back, Fault::Restart(Actor::Database));
        }
        _ => add(at, Fault::SlowDisk(500 + random.below(9_000), long / 2)),
    }
}

/// Up to three minutes, forwards or backwards.
fn off(random: &mut Random) -> i64 {
    i64::try_from(random.below(360_000)).unwrap_or(0) - 180_000
}
