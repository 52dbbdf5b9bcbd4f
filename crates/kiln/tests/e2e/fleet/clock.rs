//! The clock of the server and of its database is set while jobs run. The clock of the machine is left
//! alone: a file says by how much the programs of the test are wrong.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use super::load::{Load, SHORT_LEASE, Storm, assert_lines, close};
use super::world::job;
use super::{Kind, World, on_both};

const HOUR: i64 = 3_600_000;

/// Sets the clock wrong by so many milliseconds.
fn set_clock(world: &World, wrong: i64) {
    let (file, beside) = (world.place.path().join("clock"), world.place.path().join("clock.new"));
    fs::write(&beside, wrong.to_string()).expect("the place is ours");
    fs::rename(beside, file).expect("the place is ours");
}

/// All programs of this world look at one clock, and leases are short.
fn with_clock(world: &World) {
    set_clock(world, 0);
    world.set("KILN_FAULT_CLOCK", world.place.path().join("clock").display().to_string());
    world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
}

on_both! {
    /// S4 S6
    fn a_clock_that_jumps_an_hour_takes_no_job_from_a_living_runner(world) {
        with_clock(&world);
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        world.repository(&server, "long", &format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          echo begun >> {place}/begun
          for i in $(seq 1 120); do echo line $i; sleep 0.1; done
"));
        // The reaper has begun to reap when the clock is set.
        sleep(Duration::from_millis(SHORT_LEASE + 2_000));
        let run = world.trigger(&server, "long");
        world.file(&server, "begun");
        set_clock(&world, HOUR);
        // Longer than a pass of the reaper, shorter than a lease.
        sleep(Duration::from_secs(4));
        set_clock(&world, -HOUR);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 1, "nobody took it away");
        assert_lines(&world.log(&server, job(&ended, "a")), 120);
        assert_eq!(world.file(&server, "begun"), "begun\n", "it ran once");
        close(&world, vec![server], vec![runner]);
    }

    /// S4 S6
    fn a_runner_that_died_while_the_clock_was_ahead_gives_its_job_back_when_it_is_right_again(world) {
        with_clock(&world);
        let server = world.server("server");
        let first = world.runner(&server, "first", &["linux"]);
        world.repository_of_two_tries(&server, "app", "true");
        set_clock(&world, HOUR);
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        first.kill();
        set_clock(&world, 0);
        let second = world.runner(&server, "second", &["linux"]);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!((&job(&ended, "a")["attempt"], &job(&ended, "a")["runner"]), (&2.into(), &"second".into()));
        close(&world, vec![server], vec![second]);
    }

    /// S4 S6
    fn whatever_the_clock_does_every_job_is_done_and_none_twice(world) {
        with_clock(&world);
        let mut storm = Storm::new(6, 6);
        let server = world.server("server");
        let more = ["--jobs", "2"];
        let runners = ["one", "two"].map(|name| world.runner_with(&server, name, &["linux"], &more));
        let mut load = Load::new(&world, &server, 5);
        load.trigger(&server, storm.runs);
        for _ in 0..storm.faults {
            storm.pause(1_500);
            let jump = *storm.dice.one_of(&[-HOUR, -60_000, 0, 60_000, HOUR]);
            set_clock(&world, jump);
        }
        set_clock(&world, 0);
        assert_eq!(load.audit(&server), 1, "no runner died, and no job was taken away");
        close(&world, vec![server], runners.into());
    }
}
