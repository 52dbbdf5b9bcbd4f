//! Runners and servers that die in the middle of a job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_core::time::Timestamp;
use serde_json::json;

use super::load::{SHORT_LEASE, assert_lines};
use super::world::job;
use super::{Kind, World, on_both};

on_both! {
    /// C11 S6
    fn a_server_restarted_in_the_middle_of_a_job_loses_nothing(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        world.repository(&server, "app", &format!("
on: push
jobs:
  a:
    runs-on: linux
    outputs:
      sum: ${{{{ steps.count.outputs.sum }}}}
    steps:
      - id: count
        run: |
          for i in $(seq 1 200); do
            echo line $i
            test $i = 20 && echo begun > {place}/begun
            sleep 0.02
          done
          echo sum=200 >> $GITHUB_OUTPUT
  b:
    needs: a
    runs-on: linux
    steps: [{{ run: 'test ${{{{ needs.a.outputs.sum }}}} = 200' }}]
"));
        let run = world.trigger(&server, "app");
        world.file(&server, "begun");
        let listen = server.listen();
        server.program.kill();
        let server = world.server_at("server", &listen);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 1, "the same runner went on with it");
        let log = world.log(&server, job(&ended, "a"));
        assert_lines(&log, 200);
    }

    /// S6 S7
    fn the_job_of_a_killed_runner_is_done_by_another(world) {
        world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        let server = world.server("server");
        let first = world.runner(&server, "first", &["linux"]);
        world.repository_of_two_tries(&server, "app", "true");
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        let _second = world.runner(&server, "second", &["linux"]);
        let killed = SystemTime::now();
        first.kill();
        // Nobody says that the job is lost: its lease runs out.
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let job = job(&ended, "a");
        assert_eq!((&job["attempt"], &job["runner"]), (&json!(2), &json!("second")), "{job:#}");
        let claimed = Timestamp::parse_rfc3339(job["claimed_at"].as_str().expect("it was claimed"));
        let killed = killed.duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis();
        let after = u128::from(claimed.expect("it is a time").0).saturating_sub(killed);
        assert!(after <= u128::from(SHORT_LEASE) + 5_000, "a lease and 5 s: {after} ms");
    }

    /// S6 S7
    fn a_runner_that_is_killed_in_a_checkout_costs_time_and_nothing_else(world) {
        world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        let server = world.server("server");
        let path = std::env::var("PATH").expect("there is one");
        let place = world.place.path().display().to_string();
        // The git of the first runner stops where the checkout begins to write, until the test has ended it.
        world.place.file("bin/git", format!("#!/bin/sh
PATH='{path}'
case \"$*\" in *'remote add origin'*)
  echo in >> {place}/checkout
  for i in $(seq 600); do test -d {place} || exit 1; sleep 0.1; done;;
esac
exec git \"$@\"
"));
        let git = world.place.path().join("bin/git");
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("it is ours");
        world.set("PATH", format!("{place}/bin:{path}"));
        let first = world.runner(&server, "first", &["linux"]);
        world.unset("PATH");
        world.repository(&server, "app", &format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
      - run: test -f .github/workflows/ci.yml && echo ran >> {place}/marks
"));
        let run = world.trigger(&server, "app");
        world.file(&server, "checkout");
        let _second = world.runner(&server, "second", &["linux"]);
        first.kill();
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let job = job(&ended, "a");
        assert_eq!((&job["attempt"], &job["runner"]), (&json!(2), &json!("second")), "{job:#}");
        assert_eq!(world.file(&server, "marks"), "ran\n", "it was done once");
    }

    /// S6 S7
    fn the_job_of_a_runner_that_comes_back_is_tried_again(world) {
        let server = world.server("server");
        let first = world.runner(&server, "first", &["linux"]);
        world.repository_of_two_tries(&server, "app", "true");
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        first.kill();
        // The runner that comes back says that its job is lost; a lease need not run out.
        let _again = world.runner_again(&server, "first");
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 2);
    }

    /// S12
    fn a_runner_that_is_told_to_go_finishes_first(world) {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        world.repository(&server, "app", &format!("
on: push
jobs:
  a:
    runs-on: linux
    steps: [{{ run: 'echo begun > {place}/begun; sleep 1; echo done' }}]
"));
        let run = world.trigger(&server, "app");
        world.file(&server, "begun");
        assert_eq!(runner.stop(), 0);
        let ended = world.run(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
    }
}
