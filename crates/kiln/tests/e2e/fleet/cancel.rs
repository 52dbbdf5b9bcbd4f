//! Cancel in every state, within its bound. (S14)

use std::time::{Duration, Instant};

use serde_json::json;

use super::load::SHORT_LEASE;
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

/// Holds a runner between its claim and its start, cancels, and lets it go before it can have heard of it.
fn cancelled_while_claimed(world: &World, script: &str) -> serde_json::Value {
    let server = world.server("server");
    let hold = world.place.path().join("hold");
    std::fs::write(&hold, "").expect("the place is the test's");
    world.set("KILN_FAULT_HOLD", format!("runner.claimed:{}", hold.display()));
    let _runner = world.runner(&server, "one", &["linux"]);
    world.repository(&server, "app", &steps(world, script));
    let run = world.trigger(&server, "app");
    world.until(&server, "it is claimed", |world| {
        (job(&world.run(&server, run), "a")["attempt"] == 1).then_some(())
    });
    world.post(&server, &format!("/api/runs/{run}/cancel"), &json!({ "reason": "enough" }));
    let start = Instant::now();
    std::fs::remove_file(&hold).expect("it was there");
    let ended = world.ended(&server, run);
    assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
    assert_eq!(ended["conclusion"], "cancelled", "{ended:#}");
    ended
}

on_both! {
    fn a_queued_job_never_starts(world) {
        let server = world.server("server");
        world.repository(&server, "app", &steps(&world, "true"));
        let run = world.trigger(&server, "app");
        let ended = cancelled(&world, &server, run, "cancel");
        assert_eq!(job(&ended, "a")["attempt"], 0, "nobody had it");
    }

    fn a_claimed_job_ends_before_its_first_step(world) {
        let server = world.server("server");
        // The runner has the job, and does not begin as long as the file is there.
        let hold = world.place.path().join("hold");
        let said = world.place.path().join("said");
        std::fs::write(&hold, "").expect("the place is the test's");
        world.set("KILN_FAULT_HOLD", format!("runner.claimed:{}", hold.display()));
        let into_a_file = format!("exec \"$0\" \"$@\" 2>>'{}'", said.display());
        world.launch_by(&["sh", "-c", &into_a_file]);
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &steps(&world, "echo begun > PLACE/begun"));
        let run = world.trigger(&server, "app");
        world.until(&server, "it is claimed", |world| {
            let run = world.run(&server, run);
            let job = job(&run, "a");
            (job["attempt"] == 1 && job["started_at"].is_null()).then_some(())
        });
        let (status, answer) =
            world.post(&server, &format!("/api/runs/{run}/cancel"), &json!({ "reason": "enough" }));
        assert_eq!((status, &answer["already"]), (202, &serde_json::Value::Null), "{answer}");
        let (status, answer) = world.post(&server, &format!("/api/runs/{run}/cancel"), &json!({}));
        let already = answer["already"].as_str().unwrap_or_default();
        assert!(status == 202 && already.contains("a forced cancel ends them now"), "{answer}");
        world.until(&server, "the runner hears of it", |_| {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            said.contains("told by the server").then_some(())
        });
        let start = Instant::now();
        std::fs::remove_file(&hold).expect("it was there");
        let ended = world.ended(&server, run);
        assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
        assert_eq!(ended["conclusion"], "cancelled", "{ended:#}");
        assert_eq!(ended["cancel_reason"], "enough", "the first one counts");
        assert!(!world.place.path().join("begun").exists(), "its first step ran");
    }

    /// The cancel comes when the runner has the job and no heartbeat was sent yet.
    fn a_claimed_job_that_begins_before_it_hears_of_the_cancel_ends_at_once(world) {
        cancelled_while_claimed(&world, "sleep 600");
    }

    /// Its end and the answer to its start meet on the way: what was accepted first counts.
    fn a_claimed_job_that_is_done_before_it_hears_of_the_cancel_is_cancelled(world) {
        let ended = cancelled_while_claimed(&world, "true");
        assert_eq!(job(&ended, "a")["started_at"], serde_json::Value::Null, "{ended:#}");
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

    fn a_cancel_ends_a_step_that_always_runs_while_it_does(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        let workflow = format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: 'false'
      - if: always()
        run: echo $$ > {place}/pid; sleep 600
      - if: always()
        run: echo cleaned > {place}/cleaned
");
        world.repository(&server, "app", &workflow);
        let run = world.trigger(&server, "app");
        let pid = world.file(&server, "pid");
        let start = Instant::now();
        world.post(&server, &format!("/api/runs/{run}/cancel"), &json!({ "reason": "enough" }));
        let ended = world.ended(&server, run);
        assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
        assert!(!lives(&pid), "the step is still there");
        assert_eq!(job(&ended, "a")["steps"][1]["conclusion"], "cancelled", "{ended:#}");
        assert_eq!(world.file(&server, "cleaned"), "cleaned\n");
    }

    /// actions/runner#1846
    fn a_step_that_always_runs_and_hangs_has_a_bound(world) {
        world.set("KILN_LIMITS_CLEAN_UP", "2s");
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        let workflow = format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: echo $$ > {place}/pid; sleep 600
      - if: always()
        run: echo $$ > {place}/hangs; sleep 600
      - if: always()
        run: echo cleaned > {place}/cleaned
");
        world.repository(&server, "app", &workflow);
        let run = world.trigger(&server, "app");
        let pid = world.file(&server, "pid");
        let ended = cancelled(&world, &server, run, "cancel");
        let hangs = world.file(&server, "hangs");
        assert!(!lives(&pid) && !lives(&hangs), "something outlived the job");
        let log = world.log(&server, job(&ended, "a"));
        assert!(log.contains("the job was cancelled 2 s ago: what still ran was ended"), "{log}");
        assert!(!world.place.path().join("cleaned").exists(), "its time is over");
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

    fn a_job_whose_runner_died_is_cancelled_with_its_lease(world) {
        world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &steps(&world, "echo $$ > PLACE/pid\nsleep 600"));
        let run = world.trigger(&server, "app");
        world.file(&server, "pid");
        runner.kill();
        let ended = cancelled(&world, &server, run, "cancel");
        assert_eq!(job(&ended, "a")["attempt"], 1, "nobody tries what is not wanted");
    }

    fn a_job_whose_runner_is_gone_is_cancelled_at_once_by_force(world) {
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
