//! A database that somebody holds, or that nobody may write to: the server says so, and goes on when that is over.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use super::World;
use super::load::{assert_lines, close};
use super::private::{Disk, Private, inside};
use super::world::{PATIENCE, Server, job};

/// Another program that has begun to write to the file and does not end, as a backup or a person may.
struct Holder(Child);

const HOLD: &str = "
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
held.execute('BEGIN IMMEDIATE')
print('held', flush=True)
sys.stdin.read()
";

impl Holder {
    fn of(file: &Path) -> Self {
        let python = std::env::var_os("KILN_TEST_PYTHON").expect("scripts/test names a Python");
        let mut child = Command::new(python)
            .args(["-c", HOLD])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/test names a Python");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut line).expect("it is a pipe");
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server answers to whoever wants to change something.
fn refused(world: &World, server: &Server) -> (u16, String) {
    let new = json!({ "pool": "default", "owner": "acme" });
    let path = "/api/registration-keys";
    let told = world.once(server, server.token(), "POST", path, Some(&new), None);
    let (status, problem) = told.expect("a server without its database answers");
    (status, problem["detail"].to_string())
}

/// PEERS 10
#[test]
fn a_file_that_somebody_locks_is_said_and_nothing_is_lost() {
    let world = World::in_one_place();
    let server = world.server("server");
    let runner = world.runner(&server, "one", &["linux"]);
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
          echo begun >> {place}/begun
          for i in $(seq 1 40); do echo line $i; sleep 0.1; done
          echo ended > {place}/ended
"
        ),
    );
    let run = world.trigger(&server, "app");
    world.file(&server, "begun");
    let holder = Holder::of(&world.place.path().join("server/kiln.db"));
    let asked = Instant::now();
    let (status, said) = refused(&world, &server);
    assert_eq!(status, 503, "{said}");
    assert!(said.contains("the database") && said.contains("try again"), "{said}");
    assert!(asked.elapsed() < PATIENCE / 2, "nobody waits for ever: {:?}", asked.elapsed());
    // What is there can be looked at, and the job goes on to its end.
    assert_eq!(world.run(&server, run)["status"], "in_progress");
    world.file(&server, "ended");
    drop(holder);
    let ended = world.ended(&server, run);
    assert_eq!(ended["conclusion"], "success", "{ended:#}");
    assert_eq!(job(&ended, "a")["attempt"], 1, "{ended:#}");
    assert_lines(&world.log(&server, job(&ended, "a")), 40);
    assert_eq!(refused(&world, &server).0, 201, "it goes on");
    close(&world, vec![server], vec![runner]);
}

/// PEERS 10
#[test]
fn a_store_that_nobody_may_write_to_is_named_and_works_when_somebody_may() {
    let test = "fleet::held::a_store_that_nobody_may_write_to_is_named_and_works_when_somebody_may";
    inside(test, Private::Disks, || {
        let world = World::in_one_place();
        let disk = Disk::new(world.place.path().join("server"), 64);
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let listen = server.listen();
        runner.stop();
        server.program.stop();
        disk.forbid_writing();
        let data = world.place.path().join("server").to_string_lossy().into_owned();
        let output = world.place.command("", &["server", "--data", &data, "--listen", &listen]);
        let output = { output }.output().expect("the binary was built for this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "it does not pretend to serve: {said}");
        let said = said.to_lowercase();
        assert!(said.contains("read-only") && said.contains(&data.to_lowercase()), "{said}");
        disk.allow_writing();
        let server = world.server_at("server", &listen);
        let runner = world.runner_again(&server, "one");
        world.repository(
            &server,
            "app",
            "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: echo line 1}]}\n",
        );
        let run = world.trigger(&server, "app");
        assert_eq!(world.ended(&server, run)["conclusion"], "success");
        close(&world, vec![server], vec![runner]);
    });
}
