//! Servers, runners and PostgreSQL killed at random moments while jobs run.

use std::collections::BTreeMap;

use super::load::{Load, SHORT_LEASE, Storm, close, is_long};
use super::world::{Program, Server};
use super::{Kind, World, on_both};

const LEGS: usize = 5;
const RUNNERS: usize = 3;

/// What is alive.
struct Alive {
    server: Server,
    runners: BTreeMap<usize, Program>,
}

fn name(runner: usize) -> String {
    format!("runner{runner}")
}

impl Alive {
    fn new(world: &World) -> Self {
        // A runner that dies between a claim and its first word has the job until the lease is over.
        if !is_long() {
            world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        }
        let server = world.server("server");
        let runners = (0..RUNNERS)
            .map(|at| {
                let more = ["--jobs", "2"];
                (at, world.runner_with(&server, &name(at), &["linux"], &more))
            })
            .collect();
        Self { server, runners }
    }

    /// One of them dies, and comes back after a while.
    fn strike(self, world: &World, storm: &mut Storm) -> Self {
        let Self { server, mut runners } = self;
        let victim = storm.dice.below(RUNNERS as u64 + 2);
        match usize::try_from(victim).ok().and_then(|at| runners.remove(&at).map(|it| (at, it))) {
            Some((at, runner)) => {
                runner.kill();
                storm.pause(500);
                runners.insert(at, world.runner_again(&server, &name(at)));
                Self { server, runners }
            }
            // A server matters most, and has more places in the draw than any runner.
            None => {
                let listen = server.listen();
                server.program.kill();
                storm.pause(500);
                Self { server: world.server_at("server", &listen), runners }
            }
        }
    }
}

on_both! {
    /// S6 S7 S10
    fn whoever_dies_every_job_is_done_and_none_twice(world) {
        let mut storm = Storm::new(8, 8);
        let mut alive = Alive::new(&world);
        let mut load = Load::new(&world, &alive.server, LEGS);
        load.trigger(&alive.server, storm.runs);
        for _ in 0..storm.faults {
            storm.pause(700);
            alive = alive.strike(&world, &mut storm);
        }
        load.audit(&alive.server);
        close(&world, vec![alive.server], alive.runners.into_values().collect());
    }
}

/// S6 S7 S10
#[test]
fn postgres_may_die_while_a_fleet_works_and_everything_goes_on() {
    let world = World::with_cluster();
    let mut storm = Storm::new(6, 5);
    let mut alive = Alive::new(&world);
    let mut load = Load::new(&world, &alive.server, LEGS);
    load.trigger(&alive.server, storm.runs);
    for at in 0..storm.faults {
        storm.pause(1_500);
        // Mostly the database; now and then somebody else in between.
        if at % 3 == 2 {
            alive = alive.strike(&world, &mut storm);
        } else {
            let pause = storm.dice.below(1_000);
            world.without_database(|| std::thread::sleep(std::time::Duration::from_millis(pause)));
        }
    }
    load.audit(&alive.server);
    close(&world, vec![alive.server], alive.runners.into_values().collect());
}
