//! Two servers on one PostgreSQL.

use super::world::job;
use super::{Kind, World};

/// H2
#[test]
fn two_servers_share_the_work_and_one_can_die() {
    let world = World::new(Kind::Postgres);
    let one = world.server("one");
    let two = world.server("two").with_token_of(&one);
    let _left = world.runner(&one, "left", &["linux", "left"]);
    let _right = world.runner(&two, "right", &["linux", "right"]);
    world.repository(
        &one,
        "app",
        "
on: push
jobs:
  left:
    runs-on: [linux, left]
    steps: [{ run: 'true' }]
  right:
    needs: left
    runs-on: [linux, right]
    steps: [{ run: 'true' }]
",
    );
    // Triggered on one, seen on both; each job runs at the server that has its runner.
    let run = world.trigger(&one, "app");
    let ended = world.ended(&two, run);
    assert_eq!(ended["conclusion"], "success", "{ended:#}");
    assert_eq!(job(&ended, "right")["runner"], "right");
    // The one dies; the other takes over its duties and goes on.
    one.program.kill();
    let health = world.get(&two, "/ready");
    assert!(!health.is_null());
    world.until(&two, "the other leads", |world| {
        let duties = world.get(&two, "/api/duties");
        let all = duties.as_array().unwrap().clone();
        (!all.is_empty() && all.iter().all(|duty| duty["here"] == true)).then_some(())
    });
}
