//! What somebody types who has just installed Kiln, exactly as the pages print it.

use serde_json::json;

use super::world::Server;
use super::{Kind, Program, World, on_both};

const WORKFLOW: &str =
    "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: [{ run: 'true' }]\n";

/// Makes a key with these arguments, and starts a runner with the line that is printed for it.
fn joins(world: &World, server: &Server, arguments: &[&str]) -> Program {
    let made = world.kiln(server, &[&["runners", "key"], arguments].concat());
    let line = made.code(0).out.trim_end();
    assert!(line.starts_with("kiln runner --server http"), "{made:#?}");
    let runner = world.typed(line);
    world.until(server, "the runner is there", |world| {
        let runners = world.get(server, "/api/runners");
        runners["items"].as_array()?.iter().find(|runner| runner["status"] == "idle").cloned()
    });
    runner
}

on_both! {
    /// PEERS 1: `kiln server`, `kiln runners key --owner acme`, the printed line, a green run.
    fn a_fresh_server_gets_its_first_runner_with_the_lines_of_the_manual(world) {
        let server = world.fresh_server("server", &[]);
        let refused = world.kiln(&server, &["runners", "key"]);
        refused.code(2);
        assert!(refused.err.contains("there is no organization yet"), "{refused:#?}");
        assert!(refused.err.contains("kiln runners key --owner NAME"), "{refused:#?}");
        let doctor = world.kiln(&server, &["doctor"]);
        assert!(doctor.out.contains("kiln runners key --owner NAME"), "{doctor:#?}");

        let _runner = joins(&world, &server, &["--owner", "acme"]);
        assert!(world.kiln(&server, &["org", "list"]).code(0).out.contains("acme"));
        world.repository(&server, "app", WORKFLOW);
        let run = world.trigger(&server, "app");
        assert_eq!(world.ended(&server, run)["conclusion"], "success");
    }
}

/// With one organization nothing has to be said; with two, which.
#[test]
fn the_only_organization_need_not_be_named() {
    let world = World::new(Kind::Sqlite);
    let server = world.server("server");
    let _runner = joins(&world, &server, &[]);
    let runners = world.get(&server, "/api/runners");
    assert_eq!(runners["items"][0]["owner"], "acme", "{runners:#}");
    world.kiln(&server, &["runners", "key", "--owner", "other"]).code(0);
    let refused = world.kiln(&server, &["runners", "key"]);
    assert!(refused.code(2).err.contains("there are several organizations"), "{refused:#?}");
}

/// What is printed for a shared pool works as well: it says `--once` where that is needed.
#[test]
fn a_shared_pool_is_joined_by_what_is_printed_for_it() {
    let world = World::new(Kind::Sqlite);
    let server = world.server("server");
    let made = world.kiln(&server, &["runners", "key", "--shared"]);
    assert!(made.code(0).out.trim_end().ends_with(" --once"), "{made:#?}");
    assert!(made.err.contains("allow_shared_host"), "{made:#?}");
    let runner = world.typed(made.out.trim_end());
    world.repository(&server, "app", WORKFLOW);
    let run = world.trigger(&server, "app");
    assert_eq!(world.ended(&server, run)["conclusion"], "success");
    assert_eq!(runner.done(), 0);
    // Without it, the refusal says what would help, and does not blame the key.
    let made = world.kiln(&server, &["runners", "key", "--shared"]);
    let line = made.code(0).out.trim_end().trim_end_matches(" --once").to_owned();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let refused = world.kiln(&server, &[&words[..], &["--data", "elsewhere"]].concat());
    refused.code(2);
    for word in ["kiln runners key --owner NAME", "--once", "allow_shared_host = true"] {
        assert!(refused.err.contains(word), "{word}: {refused:#?}");
    }
    assert!(!refused.err.contains("token create"), "{refused:#?}");
}

/// A bad key is named as such, with the command that makes a good one.
#[test]
fn a_bad_key_is_refused_with_the_command_that_makes_a_good_one() {
    let world = World::new(Kind::Sqlite);
    let server = world.server("server");
    let used = world.key(&server);
    let words = ["runner", "--server", &server.address, "--key"];
    let _first = world.start(&[&words[..], &[&used, "--data", "first", "--name", "one"]].concat());
    world.until(&server, "the key is used up", |world| {
        world.get(&server, "/api/runners")["items"].get(0).map(|_| ())
    });
    for (key, why) in [("krk_made-up", "no such registration key"), (used.as_str(), "used up")] {
        let refused = world
            .kiln(&server, &[&words[..], &[key, "--data", "second", "--name", "two"]].concat());
        assert!(refused.code(2).err.contains(why), "{refused:#?}");
        assert!(refused.err.contains("with `kiln runners key`"), "{refused:#?}");
    }
    let (status, key) =
        world.post(&server, "/api/registration-keys", &json!({ "owner": "acme", "shared": true }));
    assert_eq!(status, 422, "{key}");
}
