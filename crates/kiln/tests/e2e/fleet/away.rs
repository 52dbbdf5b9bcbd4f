//! A server that is away for longer than a lease lasts, while a job runs to its end.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::load::{SHORT_LEASE, assert_lines, close, figure, is_long};
use super::world::job;
use super::{Kind, World, on_both};

/// How long the job and the absence last: 100 s and 120 s with the lease that everybody has, or a
/// twelfth of all.
fn times(world: &World) -> (u32, Duration) {
    if is_long() {
        return (1_000, Duration::from_mins(2));
    }
    world.set("KILN_FAULT_LEASE", SHORT_LEASE.to_string());
    (80, Duration::from_secs(10))
}

/// How soon a job is gone that somebody does not want any more: not later than if its server had been there.
const BOUND: Duration = Duration::from_secs(25);

on_both! {
    /// S14, PEERS 3
    fn a_job_is_cancelled_at_once_by_a_server_that_was_away(world) {
        let (_, absence) = times(&world);
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        world.repository(&server, "app", &format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          echo $$ > {place}/begun
          while true; do date +%s%N > {place}/beat; sleep 0.1; done
      - if: always()
        run: echo cleaned > {place}/cleaned
"));
        let run = world.trigger(&server, "app");
        let pid = world.file(&server, "begun");
        let listen = server.listen();
        server.program.kill();
        sleep(absence);
        let server = world.server_at("server", &listen);
        let asked = Instant::now();
        let path = format!("/api/runs/{run}/cancel");
        let (status, answer) = world.post(&server, &path, &serde_json::json!({}));
        assert_eq!(status, 202, "{answer}");
        let ended = world.ended(&server, run);
        figure(&format!("cancelled {:.1?} after it was asked for", asked.elapsed()));
        assert!(asked.elapsed() < BOUND, "it took {:?}", asked.elapsed());
        assert_eq!(ended["conclusion"], "cancelled", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 1, "its lease waited for it");
        assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "the step is gone");
        assert_eq!(world.file(&server, "cleaned"), "cleaned\n");
        close(&world, vec![server], vec![runner]);
    }

    /// C11 S6
    fn a_job_outlives_a_server_that_is_away_for_two_leases(world) {
        let (lines, absence) = times(&world);
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.path().display().to_string();
        world.repository(&server, "app", &format!("
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          echo begun >> {place}/begun
          for i in $(seq 1 {lines}); do echo line $i; sleep 0.1; done
          echo ended > {place}/ended
"));
        let run = world.trigger(&server, "app");
        world.file(&server, "begun");
        let listen = server.listen();
        let gone = Instant::now();
        server.program.kill();
        sleep(absence);
        let ended = std::fs::read_to_string(world.place.path().join("ended"));
        assert!(ended.is_ok(), "the job ended while nobody could hear it");
        let server = world.server_at("server", &listen);
        let ended = world.ended(&server, run);
        figure(&format!("away for {absence:?}, all told {:.1?} after it went", gone.elapsed()));
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 1, "its lease waited for it");
        assert_lines(&world.log(&server, job(&ended, "a")), lines);
        assert_eq!(world.file(&server, "begun"), "begun\n", "it ran once");
        close(&world, vec![server], vec![runner]);
    }
}
