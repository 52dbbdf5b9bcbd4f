//! The load under which things go wrong: runs whose jobs leave marks outside of Kiln, and a comparison of
//! those with what Kiln says.
//!
//! `scripts/chaos` makes it as long as one likes: `KILN_CHAOS` has the seed, the number of runs and the
//! number of faults.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kiln_testkit::dice::Dice;
use serde_json::Value;

use super::World;
use super::world::{Program, Server};

/// After so many losses a job fails; no leg is so unlucky that it must be tried more often.
const MOST_CLAIMS: u64 = 4;
/// The lines that each leg says.
const LINES: u32 = 10;
/// Leases of tests that wait until one is over, in milliseconds. A runner is heard four times meanwhile.
pub(super) const SHORT_LEASE: u64 = 5_000;

/// Whether somebody asked for the long form, in which times are what they are.
#[expect(clippy::disallowed_methods, reason = "the script says by it how long the test is")]
pub(super) fn is_long() -> bool {
    std::env::var_os("KILN_CHAOS").is_some()
}

/// How bad it gets.
pub(super) struct Storm {
    pub(super) dice: Dice,
    pub(super) runs: usize,
    pub(super) faults: usize,
}

impl Storm {
    /// The short form, unless somebody asked for more.
    #[expect(clippy::disallowed_methods, reason = "the script says by it how long the test is")]
    pub(super) fn new(runs: u64, faults: u64) -> Self {
        let asked = std::env::var("KILN_CHAOS").unwrap_or_default();
        let mut numbers = asked.split_whitespace().map(|word| {
            word.parse::<u64>().unwrap_or_else(|_| panic!("KILN_CHAOS: `{word}` is no number"))
        });
        let mut next = |usual: u64| numbers.next().unwrap_or(usual);
        let (seed, runs, faults) = (next(1), next(runs), next(faults));
        let count = |number: u64| usize::try_from(number).expect("it is small");
        Self { dice: Dice::new(seed), runs: count(runs), faults: count(faults) }
    }

    pub(super) fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.dice.below(most)));
    }
}

/// Runs that were asked for.
pub(super) struct Load<'w> {
    world: &'w World,
    legs: usize,
    runs: Vec<i64>,
    begun: Instant,
}

impl<'w> Load<'w> {
    /// A repository whose runs have so many legs, which last a while, and a job that needs them all.
    pub(super) fn new(world: &'w World, server: &Server, legs: usize) -> Self {
        let marks = world.place.path().join("marks").display().to_string();
        world.repository(server, "app", &workflow(&marks, legs));
        Self { world, legs, runs: Vec::new(), begun: Instant::now() }
    }

    pub(super) fn trigger(&mut self, server: &Server, runs: usize) {
        for _ in 0..runs {
            self.runs.push(self.world.trigger(server, "app"));
        }
    }

    fn marks(&self) -> PathBuf {
        self.world.place.path().join("marks")
    }

    /// Waits for the ends of all runs and compares what ran with what Kiln says. Returns the most claims
    /// that a job had.
    pub(super) fn audit(&self, server: &Server) -> u64 {
        let ended: Vec<Value> =
            self.runs.iter().map(|run| self.world.ended(server, *run)).collect();
        let marks = fs::read_to_string(self.marks()).expect("jobs leave marks");
        let mut most = 0;
        for (run, shown) in self.runs.iter().zip(&ended) {
            most = most.max(self.audit_run(server, shown, &marks_of(&marks, *run)));
        }
        let (jobs, took) = (self.runs.len() * (self.legs + 1), self.begun.elapsed());
        let ran = marks.lines().count();
        figure(&format!("{jobs} jobs in {took:.1?}, {ran} marks, {most} claims at most"));
        most
    }

    /// A job that was claimed n times ran at least once and at most n times; it ran when all it needs had;
    /// its log has each line once, in order.
    fn audit_run(&self, server: &Server, run: &Value, marks: &[&str]) -> u64 {
        assert_eq!(run["conclusion"], "success", "{run:#}");
        let jobs = run["jobs"].as_array().expect("a run has jobs");
        assert_eq!(jobs.len(), self.legs + 1, "{run:#}");
        let mut most = 0;
        for job in jobs {
            let shown = job["name"].as_str().expect("a job has a name");
            let mark = shown.strip_prefix("leg (").map_or(shown, |rest| rest.trim_end_matches(')'));
            let ran = marks.iter().filter(|made| **made == mark).count() as u64;
            let claims = job["attempt"].as_u64().expect("claims are counted");
            assert!(claims <= MOST_CLAIMS, "{job:#}");
            assert!((1..=claims).contains(&ran), "`{shown}` ran {ran} times in {claims} claims");
            most = most.max(claims);
            if mark != "last" {
                assert_lines(&self.world.log(server, job), LINES);
            }
        }
        let first_of_last = marks.iter().position(|mark| *mark == "last").expect("it was counted");
        let late = &marks[first_of_last..];
        assert!(
            late.iter().all(|mark| *mark == "last"),
            "a leg ran after what needs it: {marks:?}"
        );
        most
    }
}

/// `line 1`, `line 2`, … are in a log, each once, in order, and no others.
#[track_caller]
pub(super) fn assert_lines(log: &str, count: u32) {
    let numbers: Vec<u32> =
        log.lines().filter_map(|line| line.strip_prefix("line ")?.parse().ok()).collect();
    assert_eq!(numbers, (1..=count).collect::<Vec<u32>>(), "no line lost, none twice: {log}");
}

fn workflow(marks: &str, legs: usize) -> String {
    let legs: Vec<String> = (0..legs).map(|leg| leg.to_string()).collect();
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
          for i in $(seq 1 {LINES}); do echo line $i; sleep 0.02; done
  last:
    needs: leg
    runs-on: linux
    steps:
      - run: echo \"$GITHUB_RUN_ID last\" >> {marks}
",
        legs.join(", ")
    )
}

/// A line for whoever runs the long form and wants to know how it was.
#[expect(clippy::print_stdout, reason = "a test that passes has no other way to say something")]
pub(super) fn figure(text: &str) {
    println!("{text}");
}

/// The marks of one run, in the order in which they were made.
fn marks_of(marks: &str, run: i64) -> Vec<&str> {
    let own = format!("{run} ");
    marks.lines().filter_map(|line| line.strip_prefix(own.as_str())).collect()
}

/// All runners go, and none has anything left to tell; then the auditor reads the database.
pub(super) fn close(world: &World, servers: Vec<Server>, runners: Vec<Program>) {
    for runner in runners {
        assert_eq!(runner.stop(), 0, "nothing is left to be told");
    }
    for server in servers {
        server.program.stop();
    }
    world.check_database();
}
