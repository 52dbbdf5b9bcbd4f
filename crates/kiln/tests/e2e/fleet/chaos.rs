//! Servers and runners killed at random moments while jobs run. Jobs leave marks outside of Kiln, and what
//! ran is compared with what Kiln says.
//!
//! `scripts/chaos` makes it as long as one likes: `KILN_CHAOS` has the seed, the number of runs and the
//! number of deaths.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use kiln_testkit::dice::Dice;
use serde_json::Value;

use super::world::{Program, Server};
use super::{Kind, World, on_both};

/// The legs of each run, which one more job needs.
const LEGS: usize = 5;
const RUNNERS: usize = 3;
/// After so many losses a job fails; no leg is so unlucky that it must be tried more often.
const MOST_CLAIMS: u64 = 4;

/// How bad it gets.
struct Storm {
    dice: Dice,
    runs: usize,
    deaths: usize,
}

impl Storm {
    /// The short form, unless somebody asked for more.
    #[expect(clippy::disallowed_methods, reason = "the script says by it how long the test is")]
    fn new() -> Self {
        let asked = std::env::var("KILN_CHAOS").unwrap_or_default();
        let mut numbers = asked.split_whitespace().map(|word| {
            word.parse::<u64>().unwrap_or_else(|_| panic!("KILN_CHAOS: `{word}` is no number"))
        });
        let mut next = |usual: u64| numbers.next().unwrap_or(usual);
        let (seed, runs, deaths) = (next(1), next(8), next(8));
        let count = |number: u64| usize::try_from(number).expect("it is small");
        Self { dice: Dice::new(seed), runs: count(runs), deaths: count(deaths) }
    }

    fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.dice.below(most)));
    }
}

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
                let port = format!("127.0.0.1:{}", server.port());
                server.program.kill();
                storm.pause(500);
                Self { server: world.server_at("server", &port), runners }
            }
        }
    }
}

fn workflow(marks: &str) -> String {
    let legs: Vec<String> = (0..LEGS).map(|leg| leg.to_string()).collect();
    format!(
        "
on: push
jobs:
  leg:
    runs-on: linux
    strategy:
      fail-fast: false
      matrix:
        leg: [{}]
    steps:
      - run: |
          echo \"$GITHUB_RUN_ID ${{{{ matrix.leg }}}}\" >> {marks}
          sleep 0.2
          echo done
  last:
    needs: leg
    runs-on: linux
    steps:
      - run: echo \"$GITHUB_RUN_ID last\" >> {marks}
",
        legs.join(", ")
    )
}

/// The marks of one run, in the order in which they were made.
fn marks_of(marks: &str, run: i64) -> Vec<&str> {
    let own = format!("{run} ");
    marks.lines().filter_map(|line| line.strip_prefix(own.as_str())).collect()
}

/// A job that was claimed n times ran at least once and at most n times; it ran when all it needs had.
fn audit(run: &Value, marks: &[&str]) {
    assert_eq!(run["conclusion"], "success", "{run:#}");
    let jobs = run["jobs"].as_array().expect("a run has jobs");
    assert_eq!(jobs.len(), LEGS + 1, "{run:#}");
    for job in jobs {
        let shown = job["name"].as_str().expect("a job has a name");
        let mark = shown.strip_prefix("leg (").map_or(shown, |rest| rest.trim_end_matches(')'));
        let ran = marks.iter().filter(|made| **made == mark).count() as u64;
        let claims = job["attempt"].as_u64().expect("claims are counted");
        assert!(claims <= MOST_CLAIMS, "{job:#}");
        assert!((1..=claims).contains(&ran), "`{shown}` ran {ran} times in {claims} claims");
    }
    let first_of_last = marks.iter().position(|mark| *mark == "last").expect("it was counted");
    let late = &marks[first_of_last..];
    assert!(late.iter().all(|mark| *mark == "last"), "a leg ran after what needs it: {marks:?}");
}

on_both! {
    /// S6 S7 S10
    fn whoever_dies_every_job_is_done_and_none_twice(world) {
        let mut storm = Storm::new();
        let mut alive = Alive::new(&world);
        let marks = world.place.path().join("marks");
        world.repository(&alive.server, "app", &workflow(&marks.display().to_string()));
        let runs: Vec<i64> =
            (0..storm.runs).map(|_| world.trigger(&alive.server, "app")).collect();
        for _ in 0..storm.deaths {
            storm.pause(700);
            alive = alive.strike(&world, &mut storm);
        }
        let ended: Vec<Value> =
            runs.iter().map(|run| world.ended(&alive.server, *run)).collect();
        let marks = fs::read_to_string(marks).expect("jobs leave marks");
        for (run, shown) in runs.iter().zip(&ended) {
            audit(shown, &marks_of(&marks, *run));
        }
        for (_, runner) in alive.runners {
            assert_eq!(runner.stop(), 0, "nothing is left to be told");
        }
        alive.server.program.stop();
        world.check_database();
    }
}
