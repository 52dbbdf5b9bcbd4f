//! Deaths at named points of the code: each point, at several of its passings.

use kiln_fault::Point;

use super::load::{Load, SHORT_LEASE, Storm, close, is_long};
use super::world::{Program, Server};
use super::{Kind, World, on_both};

/// A fleet of one server and one runner, which die one after the other.
struct Fleet<'w> {
    world: &'w World,
    server: Server,
    runner: Program,
    load: Load<'w>,
    runs: usize,
}

impl<'w> Fleet<'w> {
    fn new(world: &'w World) -> Self {
        let server = world.server("server");
        let runner = world.runner_with(&server, "one", &["linux"], &["--jobs", "2"]);
        let load = Load::new(world, &server, 2);
        Self { world, server, runner, load, runs: Storm::new(2, 0).runs }
    }

    /// The one of the two dies at the point, and comes back without the fault.
    fn dies_at(mut self, point: Point, passing: u64) -> Self {
        let fault = format!("{}:{passing}", point.name());
        let runs = self.runs.max(runs_until(point, passing));
        if is_of_runner(point) {
            self.runner.kill();
            self.world.set("KILN_FAULT", &*fault);
            let doomed = self.world.runner_again(&self.server, "one");
            self.world.unset("KILN_FAULT");
            self.load.trigger(&self.server, runs);
            doomed.died(&fault);
            self.runner = self.world.runner_again(&self.server, "one");
        } else {
            self.load.trigger(&self.server, runs);
            let listen = self.server.listen();
            self.server.program.kill();
            self.world.set("KILN_FAULT", &*fault);
            let doomed = self.world.server_program("server", &["--listen", &listen]);
            self.world.unset("KILN_FAULT");
            doomed.died(&fault);
            self.server = self.world.server_at("server", &listen);
        }
        self
    }
}

fn is_of_runner(point: Point) -> bool {
    point.name().starts_with("runner.")
}

/// How many runs there must be for a point to be passed so often: each has three jobs, which are claimed, tell of
/// themselves and end, and costs some commits.
fn runs_until(point: Point, passing: u64) -> usize {
    let each = if point.name().starts_with("store.") { 5 } else { 2 };
    usize::try_from(2 + passing / each).expect("it is small")
}

/// At which passings a point is deadly: in the long form the seed says, early ones and such under a load that has
/// been there for a while.
fn deadly(program: &str, short: &[u64], storm: &mut Storm) -> Vec<u64> {
    if !is_long() {
        return short.to_vec();
    }
    let most = if program == "store." { 400 } else { 60 };
    let early = (0..3).map(|_| 1 + storm.dice.below(8)).collect::<Vec<_>>();
    let late = (0..3).map(|_| 1 + storm.dice.below(most)).collect::<Vec<_>>();
    [early, late].concat()
}

/// Goes through the points of one program, whose names begin so.
fn check(world: &World, program: &str, short: &[u64]) {
    let passings = deadly(program, short, &mut Storm::new(2, 0));
    let mut fleet = Fleet::new(world);
    let points = Point::ALL.into_iter().filter(|point| point.name().starts_with(program));
    let mut most = 0;
    for point in points {
        for passing in &passings {
            fleet = fleet.dies_at(point, *passing);
            most = fleet.load.audit(&fleet.server);
        }
    }
    assert!(most > 0, "there are points of `{program}`");
    if program != "runner." {
        assert_eq!(most, 1, "a server that dies costs no job");
    }
    close(world, vec![fleet.server], vec![fleet.runner]);
}

on_both! {
    /// S6
    fn a_server_dies_before_and_after_a_commit_and_nothing_is_lost_or_doubled(world) {
        check(&world, "store.", &[3, 8, 14]);
    }

    /// S6
    fn a_server_dies_before_it_answers_and_the_question_is_asked_again(world) {
        check(&world, "server.", &[1, 2]);
    }

    /// S6 S7
    fn a_runner_dies_between_two_words_and_says_them_afterwards(world) {
        // What a runner was given and never wrote down comes back when its lease is over.
        world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        check(&world, "runner.", &[2]);
    }
}
