//! Runners that leave the fleet for good.

use serde_json::Value;

use super::world::Server;
use super::{Kind, World, on_both};

const WORKFLOW: &str = "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [{ run: 'true' }]\n";

/// The runners that the server knows.
fn known(world: &World, server: &Server) -> Vec<Value> {
    let runners = world.get(server, "/api/runners");
    let runners = runners["items"].as_array().expect("a list").iter();
    runners.filter(|runner| runner["status"] != "forgotten").cloned().collect()
}

on_both! {
    /// S1
    fn a_runner_for_one_job_runs_it_and_leaves(world) {
        let server = world.server("server");
        world.repository(&server, "app", WORKFLOW);
        let once = world.runner_with(&server, "once", &["linux"], &["--once"]);
        let first = world.trigger(&server, "app");
        let second = world.trigger(&server, "app");
        assert_eq!(world.ended(&server, first)["conclusion"], "success");
        assert_eq!(once.done(), 0);
        assert_eq!(known(&world, &server), [] as [Value; 0]);
        let waits = world.run(&server, second);
        assert_eq!(waits["status"], "queued", "nobody is left for it: {waits:#}");
        // What it kept is worth nothing any more.
        let again = world.kiln(&server, &["runner", "--server", &server.address, "--data", "runner-once"]);
        again.code(2);
        let _other = world.runner(&server, "other", &["linux"]);
        assert_eq!(world.ended(&server, second)["conclusion"], "success");
    }

    /// S12
    fn a_stopped_runner_is_taken_out_of_the_fleet(world) {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        assert_eq!(runner.stop(), 0);
        assert_eq!(known(&world, &server).len(), 1, "it stopped, and is still of the fleet");
        let data = world.place.path().join("runner-one").to_string_lossy().into_owned();
        let unregister = ["runner", "unregister", "--data", &data];
        world.kiln(&server, &unregister).code(0);
        assert_eq!(known(&world, &server), [] as [Value; 0]);
        assert!(!world.place.path().join("runner-one/runner.json").exists());
        // There is nothing to take out any more, and it says so.
        let again = world.kiln(&server, &unregister);
        again.code(2);
        assert!(again.err.contains("no registered runner"), "{again:#?}");
        // Its name is free again.
        let _same = world.runner(&server, "one", &["linux"]);
    }
}
