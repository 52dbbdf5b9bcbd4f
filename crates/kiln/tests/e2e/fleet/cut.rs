//! The network between a runner and its server is cut: both ways, one way, for a moment, for too long.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use super::World;
use super::load::{Load, SHORT_LEASE, Storm, close};
use super::private::{Cut, Link, NEAR, Private, inside};
use super::world::{Program, Server, job};

/// Only here a server listens elsewhere than on loopback: nothing but the other end of the cable can see it.
fn server(world: &World) -> Server {
    world.server_at("server", &format!("{NEAR}:0"))
}

/// A runner on the other side.
fn far_runner(world: &World, link: &Link, server: &Server, labels: &[&str], jobs: &str) -> Program {
    let launcher = link.launcher();
    world.launch_by(&launcher.each_ref().map(String::as_str));
    let runner = world.runner_with(server, "far", labels, &["--jobs", jobs]);
    world.launch_by(&[]);
    runner
}

/// Cuts come and go while jobs run. A lease lasts longer than any of them.
fn cuts(world: &World, link: &Link) {
    let mut storm = Storm::new(4, 6);
    let server = server(world);
    let runner = far_runner(world, link, &server, &["linux"], "2");
    let mut load = Load::new(world, &server, 5);
    load.trigger(&server, storm.runs);
    for at in 0..storm.faults {
        storm.pause(700);
        let cut = [Cut::Both, Cut::FromNear, Cut::FromFar][at % 3];
        link.cut(cut);
        storm.pause(1_500);
        link.mend(cut);
    }
    assert_eq!(load.audit(&server), 1, "no lease was over");
    close(world, vec![server], vec![runner]);
}

/// C11 S6
#[test]
fn a_cut_network_loses_nothing_and_doubles_nothing_on_sqlite() {
    let test = "fleet::cut::a_cut_network_loses_nothing_and_doubles_nothing_on_sqlite";
    inside(test, Private::Network, || {
        let link = Link::new();
        cuts(&World::new(super::Kind::Sqlite), &link);
    });
}

/// C11 S6
#[test]
fn a_cut_network_loses_nothing_and_doubles_nothing_on_postgres() {
    let test = "fleet::cut::a_cut_network_loses_nothing_and_doubles_nothing_on_postgres";
    inside(test, Private::Network, || {
        let link = Link::new();
        cuts(&World::with_cluster(), &link);
    });
}

/// The job is given to another while its runner cannot be heard, which goes on and then comes back.
fn a_stale_runner(world: &World, link: &Link, cut: Cut) {
    world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
    let server = server(world);
    // One job at a time: else it could have asked for another before the cut, and be given this one again.
    let far = far_runner(world, link, &server, &["linux", "far"], "1");
    let place = world.place.path().display().to_string();
    world.repository(
        &server,
        "app",
        &format!(
            "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          echo try >> {place}/tries
          try=$(wc -l < {place}/tries)
          echo try $try begins
          test $try = 2 || until test -f {place}/go; do sleep 0.1; done
          echo try $try ends
          echo ended > {place}/ended$try
"
        ),
    );
    world.repository(
        &server,
        "far",
        "
on: push
jobs:
  a:
    runs-on: [linux, far]
    steps: [{ run: echo here I am }]
",
    );
    let run = world.trigger(&server, "app");
    world.file(&server, "tries");
    link.cut(cut);
    let near = world.runner(&server, "near", &["linux"]);
    let ended = world.ended(&server, run);
    assert_eq!(ended["conclusion"], "success", "{ended:#}");
    assert_eq!(job(&ended, "a")["attempt"], 2, "{ended:#}");
    // The first one ends, too, and only then its runner can say so.
    fs::write(world.place.path().join("go"), "").expect("the place is ours");
    world.file(&server, "ended1");
    sleep(Duration::from_millis(500));
    link.mend(cut);
    // It knows by now that it is too late, and is as good as any other.
    let after = world.trigger(&server, "far");
    let after = world.ended(&server, after);
    assert_eq!(job(&after, "a")["runner"], "far", "{after:#}");
    let again = world.run(&server, run);
    assert_eq!(job(&again, "a")["runner"], "near", "{again:#}");
    assert_eq!(job(&again, "a")["attempt"], 2, "{again:#}");
    let log = world.log(&server, job(&again, "a"));
    assert!(log.contains("try 2 ends") && !log.contains("try 1"), "{log}");
    assert_eq!(world.file(&server, "tries"), "try\ntry\n");
    close(world, vec![server], vec![near, far]);
}

/// The same for each kind of cut, on both databases.
macro_rules! too_long {
    ($($sqlite:ident $postgres:ident $cut:expr;)*) => {$(
        /// S6 S7
        #[test]
        fn $sqlite() {
            inside(concat!("fleet::cut::", stringify!($sqlite)), Private::Network, || {
                let link = Link::new();
                a_stale_runner(&World::new(super::Kind::Sqlite), &link, $cut);
            });
        }

        /// S6 S7
        #[test]
        fn $postgres() {
            inside(concat!("fleet::cut::", stringify!($postgres)), Private::Network, || {
                let link = Link::new();
                a_stale_runner(&World::with_cluster(), &link, $cut);
            });
        }
    )*};
}

too_long! {
    what_a_runner_says_that_was_cut_off_for_too_long_is_refused_on_sqlite
        what_a_runner_says_that_was_cut_off_for_too_long_is_refused_on_postgres Cut::Both;
    what_a_runner_says_that_heard_nothing_for_too_long_is_refused_on_sqlite
        what_a_runner_says_that_heard_nothing_for_too_long_is_refused_on_postgres Cut::FromNear;
    what_a_runner_says_that_was_not_heard_for_too_long_is_refused_on_sqlite
        what_a_runner_says_that_was_not_heard_for_too_long_is_refused_on_postgres Cut::FromFar;
}
