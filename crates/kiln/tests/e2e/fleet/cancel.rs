//! Cancel in every state, within its bound. (S14)

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{Server, job};
use super::{Kind, World, on_both};

/// A request reaches the runner, the ladder of signals is climbed, the report comes back: far below the
/// lease, which is what a lost cancel would take.
const BOUND: Duration = Duration::from_secs(25);

fn cancelled(world: &World, server: &Server, run: i64, how: &str) -> serde_json::Value {
    let start = Instant::now();
    let (status, answer) =
        world.post(server, &format!("/api/runs/{run}/{how}"), &json!({ "reason": "enough" }));
    assert_eq!(status, 202, "{answer}");
    let ended = world.ended(server, run);
    assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
    assert_eq!(ended["conclusion"], "cancelled", "{ended:#}");
    assert_eq!(ended["cancel_reason"], "enough");
    ended
}

/// Whether a process with this number is alive.
fn lives(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid.trim()).exists()
}

fn steps(world: &World, script: &str) -> String {
    let place = world.place.path().display().to_string();
    let script = script.replace("PLACE", &place).replace('\n', "\n          ");
    format!(
        "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          {script}
      - if: always()
        run: echo cleaned > {place}/cleaned
"
    )
}

on_both! {
    fn a_queued_job_never_starts(world) {
        let server = world.server("server");
        world.repository(&server, "app", &steps(&world, "true"));
        let run = world.trigger(&server, "app");
        let ended = cancelled(&world, &server, run, "cancel");
        assert_eq!(job(&ended, "a")["attempt"], 0, "nobody had it");
    }

    fn a_running_step_ends_and_steps_that_always_run_do(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &steps(&world, "echo $$ > PLACE/pid\nsleep 600"));
        let run = world.trigger(&server, "app");
        let pid = world.file(&server, "pid");
        cancelled(&world, &server, run, "cancel");
        assert!(!lives(&pid), "the step is still there");
        assert_eq!(world.file(&server, "cleaned"), "cleaned\n");
    }

    fn a_step_that_ignores_signals_and_its_daemons_are_gone(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let script = "trap '' INT TERM\nsetsid sh -c 'echo $$ > PLACE/daemon; trap \"\" INT TERM; sleep 600' &\necho $$ > PLACE/pid\nwhile :; do sleep 1; done";
        world.repository(&server, "app", &steps(&world, script));
        let run = world.trigger(&server, "app");
        let (pid, daemon) = (world.file(&server, "pid"), world.file(&server, "daemon"));
        cancelled(&world, &server, run, "cancel");
        assert!(!lives(&pid) && !lives(&daemon), "something outlived the job");
    }

    fn a_forced_cancel_runs_nothing_more(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &steps(&world, "trap '' INT TERM\necho $$ > PLACE/pid\nwhile :; do sleep 1; done"));
        let run = world.trigger(&server, "app");
        let pid = world.file(&server, "pid");
        cancelled(&world, &server, run, "force-cancel");
        world.until(&server, "the step is gone", |_| (!lives(&pid)).then_some(()));
        assert!(!world.place.path().join("cleaned").exists());
    }

    fn a_job_whose_runner_is_gone_is_cancelled_with_its_lease_or_before(world) {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &steps(&world, "echo $$ > PLACE/pid\nsleep 600"));
        let run = world.trigger(&server, "app");
        world.file(&server, "pid");
        runner.kill();
        // Nobody is there to obey: force-cancel ends it on the server's side at once.
        let (status, _) = world.post(&server, &format!("/api/runs/{run}/force-cancel"), &json!({}));
        assert_eq!(status, 202);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "cancelled");
    }
}
