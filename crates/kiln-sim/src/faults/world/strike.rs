//! Faults as they strike, and their end.

use super::World;
use crate::faults::calamity::Fault;
use crate::faults::message::{Actor, Out};
use crate::faults::workload::CALM;

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        self.note(&format!("FAULT {fault:?}"));
        match fault {
            Fault::Crash(actor) => self.crash(actor),
            Fault::Restart(actor) => self.restart(actor),
            Fault::Freeze(actor, long) => {
                // What it is to do waits until then, so that it must not be later than the calm.
                self.frozen.insert(actor, (self.now + long).min(CALM));
            }
            Fault::Cut(from, to, long) => self.network.cut(from, to, self.now + long),
            Fault::Jump(ahead) => self.database.ahead = ahead,
            Fault::SlowDisk(most, long) => self.slow_disk = Some((most, self.now + long)),
        }
    }

    fn crash(&mut self, actor: Actor) {
        if !self.is_up(actor) {
            return;
        }
        let mut out = Out::new(self.now);
        match actor {
            Actor::Server(number) => self.servers[number].crash(),
            Actor::Runner(number) => self.runners[number].crash(&mut out),
            Actor::Database => {
                self.database.crash();
                self.auditor.recovered(&self.database.rows);
            }
            Actor::People => {}
        }
        self.frozen.remove(&actor);
        self.carry_out(actor, out);
    }

    pub(super) fn restart(&mut self, actor: Actor) {
        if self.is_up(actor) {
            return;
        }
        let mut out = Out::new(self.now);
        match actor {
            Actor::Server(number) => self.servers[number].start(&mut out),
            Actor::Runner(number) => self.runners[number].start(&mut out),
            Actor::Database => self.database.up = true,
            Actor::People => {}
        }
        self.carry_out(actor, out);
    }

    /// Faults cease: from now on everything works, and must come to its end.
    pub(super) fn calm_down(&mut self) {
        self.note("CALM");
        self.network.calm_down();
        self.frozen.clear();
        self.slow_disk = None;
        let servers = (0..self.servers.len()).map(Actor::Server);
        let runners = (0..self.runners.len()).map(Actor::Runner);
        for actor in servers.chain(runners).chain([Actor::Database]).collect::<Vec<_>>() {
            self.restart(actor);
        }
    }
}
