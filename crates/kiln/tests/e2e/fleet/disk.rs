//! Disks that are full: the server's, with its database and logs, and the runner's, with its spool.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::load::{assert_lines, close};
use super::private::{Disk, Private, inside};
use super::world::{Server, job};
use super::{Kind, World};

/// A job that says so many lines, ten in a second, each with a long one behind it, and leaves a mark for
/// each try.
fn talking(world: &World, lines: u32) -> String {
    let place = world.place.path().display();
    format!(
        "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          echo try >> {place}/tries
          for i in $(seq 1 {lines}); do
            echo line $i
            printf '%4000d\\n' $i
            sleep 0.1
          done
          echo ended > {place}/ended
"
    )
}

/// Mints keys until the server refuses. Returns how many were acknowledged, and what it said then.
fn until_refused(world: &World, server: &Server) -> (usize, String) {
    let new = json!({ "pool": "default", "owner": "acme" });
    let most = 5_000;
    for acknowledged in 0..most {
        let path = "/api/registration-keys";
        let told = world.once(server, server.token(), "POST", path, Some(&new), None);
        match told.expect("a server with a full disk answers") {
            (201, _) => {}
            (503, problem) => return (acknowledged, problem["detail"].to_string()),
            (status, problem) => panic!("{status} {problem}"),
        }
    }
    panic!("{most} keys fit on a full disk");
}

fn count_keys(world: &World, server: &Server) -> usize {
    let mut path = "/api/registration-keys?owner=acme&limit=100".to_owned();
    let mut count = 0;
    loop {
        let page = world.get(server, &path);
        count += page["items"].as_array().expect("a page has items").len();
        let Some(next) = page["next"].as_str() else { return count };
        path = format!("/api/registration-keys?owner=acme&limit=100&after={next}");
    }
}

/// S6 S15
#[test]
fn a_full_disk_of_the_server_is_said_and_nothing_acknowledged_is_lost() {
    let test = "fleet::disk::a_full_disk_of_the_server_is_said_and_nothing_acknowledged_is_lost";
    inside(test, Private::Disks, || {
        let world = World::in_one_place();
        let disk = Disk::new(world.place.path().join("server"), 24);
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &talking(&world, 40));
        let keys = count_keys(&world, &server);
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        disk.fill();
        let (acknowledged, said) = until_refused(&world, &server);
        assert!(said.contains("disk") && said.contains("full"), "{said}");
        // What is there can be looked at, and the job goes on to its end.
        assert_eq!(world.run(&server, run)["status"], "in_progress");
        world.file(&server, "ended");
        sleep(Duration::from_secs(1));
        assert_eq!(world.run(&server, run)["status"], "in_progress", "it could not be told");
        disk.free();
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_eq!(job(&ended, "a")["attempt"], 1, "{ended:#}");
        assert_lines(&world.log(&server, job(&ended, "a")), 40);
        assert_eq!(count_keys(&world, &server), keys + acknowledged);
        assert_eq!(world.file(&server, "tries"), "try\n", "it ran once");
        close(&world, vec![server], vec![runner]);
    });
}

/// S6 S15
#[test]
fn a_full_disk_of_postgres_is_said_and_nothing_acknowledged_is_lost() {
    let test = "fleet::disk::a_full_disk_of_postgres_is_said_and_nothing_acknowledged_is_lost";
    inside(test, Private::Disks, || {
        let folder = tempfile::tempdir().expect("the system has a folder for such files");
        let disk = Disk::new(folder.path().join("postgres"), 160);
        let world = World::with_cluster_in(&folder.path().join("postgres"));
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", &talking(&world, 40));
        let keys = count_keys(&world, &server);
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        disk.fill();
        let (acknowledged, said) = until_refused(&world, &server);
        assert!(said.contains("disk") && said.contains("full"), "{said}");
        assert_eq!(world.run(&server, run)["status"], "in_progress");
        world.file(&server, "ended");
        disk.free();
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        assert_lines(&world.log(&server, job(&ended, "a")), 40);
        assert_eq!(count_keys(&world, &server), keys + acknowledged);
        assert_eq!(world.file(&server, "tries"), "try\n", "it ran once");
        close(&world, vec![server], vec![runner]);
    });
}

/// S6 S15
#[test]
fn a_full_disk_of_a_runner_costs_a_try_and_it_goes_on_when_there_is_room() {
    let test = "fleet::disk::a_full_disk_of_a_runner_costs_a_try_and_it_goes_on_when_there_is_room";
    inside(test, Private::Disks, || {
        let world = World::new(Kind::Sqlite);
        let disk = Disk::new(world.place.path().join("runner-one"), 24);
        let server = world.server("server");
        let more = ["--min-disk", "8MB"];
        let runner = world.runner_with(&server, "one", &["linux"], &more);
        world.repository(&server, "app", &talking(&world, 20));
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        disk.fill();
        let said = world.until(&server, "the runner says what is wrong", |world| {
            let runners = world.get(&server, "/api/runners");
            runners["items"][0]["trouble"].as_str().map(str::to_owned)
        });
        assert!(said.contains("disk"), "{said}");
        assert_ne!(world.run(&server, run)["status"], "completed", "half a log is none");
        disk.free();
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let tried = job(&ended, "a")["attempt"].as_u64().expect("claims are counted");
        assert!((2..=3).contains(&tried), "{tried} claims while the disk was full");
        assert_lines(&world.log(&server, job(&ended, "a")), 20);
        close(&world, vec![server], vec![runner]);
    });
}
