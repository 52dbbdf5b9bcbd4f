//! Which of two organizations is served first, by the policy that a server was started with.

use serde_json::{Value, json};

use super::world::{Server, commit};
use super::{Kind, World, on_both};

/// A job of a class that is in a hurry, and one that is not as much.
fn workflow(rest: &str) -> String {
    format!(
        "on: push\njobs:\n  a:\n    runs-on: linux\n    {rest}\n    steps: [{{ run: sleep 1 }}]\n"
    )
}

/// A repository `<owner>/app`.
fn repository(world: &World, server: &Server, owner: &str, text: &str) {
    let place = world.place.below(&format!("repositories/{owner}"));
    place.file(".github/workflows/ci.yml", text);
    place.git(&["init", "-q", "-b", "main"]);
    place.git(&["add", "-A"]);
    commit(&place);
    let source = place.path().to_string_lossy().into_owned();
    let new = json!({ "owner": owner, "name": "app", "source": source });
    let (status, made) = world.post(server, "/api/repos", &new);
    assert_eq!(status, 201, "{made}");
}

fn trigger(world: &World, server: &Server, owner: &str) -> i64 {
    let wish = json!({ "event": "workflow_dispatch" });
    let wish = if owner == "busy" { wish } else { json!({}) };
    let path = format!("/api/repos/{owner}/app/trigger");
    let (status, made) = world.post(server, &path, &wish);
    assert_eq!(status, 201, "{made}");
    made["runs"][0]["id"].as_i64().unwrap_or_else(|| panic!("no run: {made}"))
}

fn began(run: &Value) -> &str {
    run["jobs"][0]["started_at"].as_str().expect("it ran")
}

/// Whose job goes first: that of `busy`, which is urgent, or that of `idle`, which has used nothing yet.
fn first(world: &World, policy: &str) -> &'static str {
    let settings = [format!("scheduling={policy}"), "allow_shared_host=true".to_owned()];
    let server = world.server_with("server", &["--set", &settings[0], "--set", &settings[1]]);
    let urgent = workflow("environment: production").replace("on: push", "on: workflow_dispatch");
    repository(world, &server, "busy", &urgent);
    repository(world, &server, "idle", &workflow("timeout-minutes: 5"));
    let made = world.kiln(&server, &["runners", "key", "--shared"]);
    let line = format!("{} --jobs 1 --label linux", made.code(0).out.trim_end());
    let _runner = world.typed(&line);
    let before = trigger(world, &server, "busy");
    world.ended(&server, before);
    // Both are there before either is handed out.
    let (status, _) =
        world.send(&server, "PUT", "/api/pause", Some(&json!({ "reason": "a test" })));
    assert_eq!(status, 204);
    let runs = [trigger(world, &server, "busy"), trigger(world, &server, "idle")];
    assert_eq!(world.send(&server, "DELETE", "/api/pause", None).0, 204);
    let [busy, idle] = runs.map(|run| world.ended(&server, run));
    if began(&busy) < began(&idle) { "busy" } else { "idle" }
}

on_both! {
    /// S8: the score goes by class, whoever has used how much.
    fn by_score_what_is_urgent_goes_first(world) {
        assert_eq!(first(&world, "score"), "busy");
    }

    /// S8
    fn by_fair_shares_who_has_used_less_goes_first(world) {
        assert_eq!(first(&world, "fair"), "idle");
    }
}
