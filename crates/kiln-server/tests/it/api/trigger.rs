//! What starts runs, and what does not.

use kiln_core::id::RunId;
use kiln_server::service::context::expressions;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::members::Role;
use kiln_store::directory::{variables, workflows};
use kiln_store::{Tx, runs};
use serde_json::json;

use super::people::{As, CI, commit, empty, person, reply, site};
use crate::support::{SYSTEM, Server, somebody};

on_both! {
    /// P10 H1
    a_push_starts_what_listens_and_says_why_the_rest_does_not
}

async fn a_push_starts_what_listens_and_says_why_the_rest_does_not(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let nightly = CI.replace("[push, workflow_dispatch]", "{schedule: [{cron: '0 3 * * *'}]}");
    let tags = CI.replace("[push, workflow_dispatch]", "{push: {tags: ['v*']}}");
    let sha = commit(&server, &place, &[("ci.yml", CI), ("n.yml", &nightly), ("t.yml", &tags)]);
    let path = format!("/api/repos/{}/trigger", place.name);
    let made = ada.post(&path, empty()).await.expect(201);
    assert_eq!(made["runs"].as_array().unwrap().len(), 1, "{made:#}");
    assert_eq!(made["runs"][0]["workflow"], ".github/workflows/ci.yml");
    assert_eq!(made["runs"][0]["existed"], false);
    let skipped = made["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2);
    assert!(skipped[0]["reason"].as_str().unwrap().contains("push"), "{made:#}");
    let run = made["runs"][0]["id"].as_i64().unwrap();
    let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
    assert_eq!(seen["sha"], sha.as_str());
    assert_eq!(seen["ref"], "refs/heads/main");
    assert_eq!(seen["event"], "push");
    assert_eq!(seen["actor"], "adam");
    assert_eq!(seen["title"], format!("Commit {sha}"));
    assert_eq!(seen["jobs"][0]["name"], "build");
    assert_eq!(seen["jobs"][0]["status"], "queued");
    assert_eq!(seen["jobs"][0]["reason"], "no runner is there");
    // A forge that tells it twice means one run.
    let again = ada.post(&path, empty()).await.expect(201);
    assert_eq!(again["runs"][0]["id"], run);
    assert_eq!(again["runs"][0]["existed"], true);
}

on_both! {
    /// P12
    expressions_see_what_happened
}

async fn expressions_see_what_happened(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let org = Holder::Org(place.org);
    let work = async move |tx: &mut Tx<'_>| {
        variables::put(tx, SYSTEM, &somebody(), org, "level", "high").await
    };
    server.app.store.write(work).await.unwrap();
    let text = "name: CI
run-name: 'number ${{ github.run_number }} of ${{ github.repository }} by ${{ github.actor }}'
on: {workflow_dispatch: {inputs: {fast: {type: boolean}, who: {default: you}}}}
jobs:
  build:
    name: '${{ vars.LEVEL }} ${{ inputs.fast && 1 || 2 }} ${{ github.event.inputs.fast }} ${{ inputs.who }}'
    runs-on: linux
    steps: [{run: make}]
";
    let sha = commit(&server, &place, &[("ci.yml", text)]);
    let body = json!({ "workflow": "ci.yml", "inputs": { "fast": true } });
    let run = ada.trigger(&place, body).await;
    let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
    assert_eq!(seen["jobs"][0]["name"], "high 1 true you");
    assert_eq!(seen["title"], "number 1 of acme/app by adam");
    let claimed = site(&server, &place).claim(1, 1).await;
    let known = server.app.runs.assignments(&claimed).await.unwrap().remove(0).unwrap();
    let github = expressions(&known.evaluator).unwrap().github.clone();
    let text = |path: &[&str]| {
        github.path(path).and_then(kiln_core::value::Value::as_str).unwrap_or_default().to_owned()
    };
    assert_eq!(text(&["sha"]), sha);
    assert_eq!(text(&["run_id"]), run.to_string());
    assert_eq!(text(&["ref_name"]), "main");
    assert_eq!(text(&["event_name"]), "workflow_dispatch");
    assert_eq!(text(&["server_url"]), server.app.config.public_url);
    assert_eq!(text(&["workflow_ref"]), "acme/app/.github/workflows/ci.yml@refs/heads/main");
    assert_eq!(text(&["event", "repository", "full_name"]), "acme/app");
    assert_eq!(text(&["event", "sender", "login"]), "adam");
}

on_both! {
    /// P19
    a_broken_file_is_a_failed_run_that_says_why
}

async fn a_broken_file_is_a_failed_run_that_says_why(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let broken = CI.replace("runs-on", "runs-onn");
    commit(&server, &place, &[("ci.yml", &broken)]);
    let run = ada.trigger(&place, empty()).await;
    let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
    assert_eq!(seen["status"], "completed");
    assert_eq!(seen["conclusion"], "startup_failure");
    let note = seen["note"].as_str().unwrap();
    assert!(note.contains(".github/workflows/ci.yml:5:5"), "{note}");
    assert!(note.contains("runs-onn: linux"), "{note}");
    let again = ada.post(&format!("/api/runs/{run}/rerun"), empty()).await;
    assert!(again.problem(409).contains("mend"));
    // In GitHub's shape whoever asks hears it at once.
    let path = format!("/repos/{}/actions/workflows/ci.yml/dispatches", place.name);
    let problem = ada.post(&path, json!({ "ref": "main" })).await.problem(422);
    assert!(problem.contains("runs-onn"), "{problem}");
    // Not even YAML, so nobody knows what it listens to.
    commit(&server, &place, &[("ci.yml", "on: [push\n")]);
    let torn = ada.trigger(&place, empty()).await;
    let seen = ada.get(&format!("/api/runs/{torn}")).await.expect(200);
    assert_eq!(seen["conclusion"], "startup_failure");
}

on_both! {
    /// H2
    the_same_key_makes_no_second_run
}

async fn the_same_key_makes_no_second_run(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    let path = format!("/api/repos/{}/trigger", place.name);
    let ask = async |key: Option<&str>| {
        let mut request = ada.request(reqwest::Method::POST, &path);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let made = reply(request.json(&json!({ "workflow": "ci.yml" }))).await.expect(201);
        (made["runs"][0]["id"].as_i64().unwrap(), made["runs"][0]["existed"].as_bool().unwrap())
    };
    let (first, existed) = ask(Some("a")).await;
    assert!(!existed);
    assert_eq!(ask(Some("a")).await, (first, true));
    assert_ne!(ask(Some("b")).await.0, first);
    // Without a key a dispatch is always meant.
    assert_ne!(ask(None).await.0, ask(None).await.0);
    // A key is for one request: another one is refused, and starts nothing, whatever differs.
    let before = ada.get("/api/runs").await.expect(200);
    for other in [
        json!({ "workflow": "ci.yml", "priority": 1 }),
        json!({ "workflow": "ci.yml", "ref": "main" }),
        json!({ "workflow": "ci.yml", "within": 60 }),
        json!({ "event": "push" }),
        json!({}),
    ] {
        let request = ada.request(reqwest::Method::POST, &path).header("Idempotency-Key", "a");
        let refused = reply(request.json(&other)).await.problem(422);
        assert!(refused.contains("`Idempotency-Key` was used for another request"), "{refused}");
    }
    assert_eq!(ada.get("/api/runs").await.expect(200), before);
    assert_eq!(ask(Some("a")).await, (first, true), "the right request is still answered");
    let long = "x".repeat(256);
    let request = ada.request(reqwest::Method::POST, &path).header("Idempotency-Key", &long);
    reply(request.json(&empty())).await.expect(422);
}

on_both! {
    /// G8: what a fork proposes runs without secrets, whoever starts it.
    a_pull_request_of_a_fork_is_not_trusted
}

async fn a_pull_request_of_a_fork_is_not_trusted(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let pulls = CI.replace("[push, workflow_dispatch]", "[push, pull_request]");
    let trust = async |body: serde_json::Value| {
        // The same event at the same commit would be the same run.
        commit(&server, &place, &[("ci.yml", &pulls), ("what", &body.to_string())]);
        let made = ada.post(&format!("/api/repos/{}/trigger", place.name), body).await.expect(201);
        let run = RunId(made["runs"][0]["id"].as_i64().unwrap());
        let view = async move |tx: &mut Tx<'_>| runs::view(tx, SYSTEM, run, None).await;
        server.app.store.read(view).await.unwrap().trust
    };
    let pull = |from: &str| {
        let head = json!({ "repo": { "full_name": from } });
        let payload = json!({ "action": "opened", "pull_request": { "head": head } });
        json!({ "event": "pull_request", "payload": payload })
    };
    assert_eq!(trust(json!({})).await, "trusted");
    assert_eq!(trust(pull(&place.name)).await, "trusted");
    assert_eq!(trust(pull("mallory/app")).await, "untrusted");
    let unsaid = json!({ "event": "pull_request", "payload": { "action": "opened" } });
    assert_eq!(trust(unsaid).await, "untrusted");
}

on_both! {
    /// P12
    a_commit_is_started_once_within_the_time_that_is_asked_for
}

async fn a_commit_is_started_once_within_the_time_that_is_asked_for(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let with_input =
        CI.replace("[push, workflow_dispatch]", "{workflow_dispatch: {inputs: {level: {}}}}");
    commit(&server, &place, &[("ci.yml", &with_input)]);
    let path = format!("/api/repos/{}/trigger", place.name);
    let ask = async |wish: serde_json::Value, key: Option<&str>| {
        let mut request = ada.request(reqwest::Method::POST, &path);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let made = reply(request.json(&wish)).await.expect(201);
        (made["runs"][0]["id"].as_i64().unwrap(), made["runs"][0]["existed"].as_bool().unwrap())
    };
    let once = json!({ "workflow": "ci.yml", "within": 600 });
    let (first, existed) = ask(once.clone(), None).await;
    assert!(!existed);
    assert_eq!(ask(once.clone(), None).await, (first, true));
    assert_eq!(ask(once.clone(), Some("a")).await, (first, true), "whatever key it is asked with");
    assert_eq!(ask(once.clone(), Some("a")).await, (first, true));
    let (other, existed) =
        ask(json!({ "workflow": "ci.yml", "within": 600, "inputs": { "level": "high" } }), None)
            .await;
    assert!(other != first && !existed, "other inputs are another run");
    assert!(!ask(json!({ "workflow": "ci.yml" }), None).await.1, "without it each is meant");
    commit(&server, &place, &[("ci.yml", &with_input), ("a", "new")]);
    assert!(!ask(once, None).await.1, "another commit is another run");
    for bad in [json!(0), json!(86_401), json!(-1), json!("10m")] {
        ada.post(&path, json!({ "workflow": "ci.yml", "within": bad })).await.expect(422);
    }
}

on_both! { paths_and_commit_messages_decide }

async fn paths_and_commit_messages_decide(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let docs = CI.replace("[push, workflow_dispatch]", "{push: {paths: ['docs/**']}}");
    let files = [("ci.yml", &*docs), ("src/a.rs", "1")];
    let before = commit(&server, &place, &files);
    let after = commit(&server, &place, &[("ci.yml", &*docs), ("src/a.rs", "2")]);
    let path = format!("/api/repos/{}/trigger", place.name);
    let skipped = async |body: serde_json::Value| {
        let made = ada.post(&path, body).await.expect(201);
        assert_eq!(made["runs"], json!([]), "{made:#}");
        made["skipped"][0]["reason"].as_str().unwrap().to_owned()
    };
    let reason = skipped(json!({})).await;
    assert!(reason.contains("docs/**"), "{reason}");
    let last =
        commit(&server, &place, &[("ci.yml", &*docs), ("src/a.rs", "2"), ("docs/a.md", "new")]);
    let known = json!({ "payload": { "before": before, "after": last } });
    assert_eq!(ada.post(&path, known).await.expect(201)["runs"].as_array().unwrap().len(), 1);
    let known = json!({ "sha": after, "payload": { "before": before, "after": after } });
    skipped(known).await;
    let message = json!({ "payload": { "head_commit": { "message": "typo [skip ci]" } } });
    let reason = skipped(message).await;
    assert!(reason.contains("skip ci"), "{reason}");
}

on_both! {
    /// S20
    what_cannot_be_triggered_is_answered_clearly
}

async fn what_cannot_be_triggered_is_answered_clearly(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let inputs =
        "{workflow_dispatch: {inputs: {level: {type: choice, options: [a, b], required: true}}}}";
    let typed = CI.replace("[push, workflow_dispatch]", inputs);
    let push = CI.replace("[push, workflow_dispatch]", "push");
    commit(&server, &place, &[("ci.yml", &typed), ("push.yml", &push)]);
    let path = format!("/api/repos/{}/trigger", place.name);
    let check = async |body: serde_json::Value, status: u16, part: &str| {
        let problem = ada.post(&path, body).await.problem(status);
        assert!(problem.contains(part), "{problem}");
    };
    check(json!({ "event": "pushed" }), 422, "no event `pushed`").await;
    check(json!({ "ref": "nowhere" }), 422, "nowhere").await;
    check(json!({ "ref": "-x" }), 422, "begins with `-`").await;
    check(json!({ "ref": "a\0b" }), 422, "one line").await;
    check(json!({ "sha": "0000000000" }), 422, "0000000000").await;
    // A commit runs under the name of a branch only if it is on it.
    let folder = format!("/in/memory/{}", place.name);
    let topic = server.sources.commit(&folder, "topic", &[(".github/workflows/p.yml", &push)]);
    check(json!({ "sha": topic }), 422, "is not on `main`").await;
    check(json!({ "sha": topic, "ref": "main" }), 422, "is not on `main`").await;
    check(json!({ "ref": topic }), 422, "is not on `main`").await;
    check(json!({ "sha": topic, "ref": topic }), 422, "is not on `main`").await;
    let fine = json!({ "sha": topic, "ref": "topic" });
    let run = &ada.post(&path, fine).await.expect(201)["runs"][0]["id"];
    let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
    assert_eq!((&seen["ref"], &seen["sha"]), (&json!("refs/heads/topic"), &json!(topic)));
    check(json!({ "workflow": "none.yml" }), 404, "no such workflow").await;
    check(json!({ "workflow": "99" }), 404, "no such workflow").await;
    check(json!({ "workflow": "push.yml" }), 422, "workflow_dispatch").await;
    check(json!({ "workflow": "ci.yml" }), 422, "requires the input `level`").await;
    let bad = json!({ "workflow": "ci.yml", "inputs": { "level": "c" } });
    check(bad, 422, "expected one of a, b").await;
    let bad = json!({ "workflow": "ci.yml", "inputs": { "level": "a", "x": 1 } });
    check(bad, 422, "no input `x`").await;
    let bad = json!({ "workflow": "ci.yml", "inputs": { "level": ["a"] } });
    check(bad, 422, "expected a text").await;
    check(json!({ "inputs": { "level": "a" } }), 422, "only `workflow_dispatch`").await;
    check(json!({ "payload": [1] }), 422, "not an object").await;
    check(json!({ "unknown": 1 }), 422, "unknown").await;
    let none = server.repository("acme", "empty").await;
    let problem = ada.post(&format!("/api/repos/{}/trigger", none.name), empty()).await;
    assert!(problem.problem(409).contains("cannot be read"));
    let workflow = place.workflow;
    let work = async move |tx: &mut Tx<'_>| {
        workflows::set_enabled(tx, SYSTEM, &somebody(), workflow, false).await
    };
    server.app.store.write(work).await.unwrap();
    let good = json!({ "workflow": "ci.yml", "inputs": { "level": "a" } });
    check(good, 409, "disabled").await;
    ada.delete(&format!("/api/repos/{}", place.name)).await.expect(200);
    check(json!({}), 409, "disabled").await;
}

on_both! {
    /// S11: priority 100 goes before all others, and only administrators may ask for it.
    a_run_with_priority_goes_first
}

async fn a_run_with_priority_goes_first(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    let ask = |priority: i64| json!({ "workflow": "ci.yml", "priority": priority });
    let usual = root.trigger(&place, ask(0)).await;
    let first = root.trigger(&place, ask(100)).await;
    let second = root.trigger(&place, ask(100)).await;
    // Also while there is no runner: whoever comes is given them in this order.
    let queue = root.get("/api/queue").await.expect(200);
    let number = |job: &serde_json::Value, field: &str| job[field].as_i64().unwrap();
    let waiting: Vec<(i64, i64, i64)> = queue["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (number(job, "run_id"), number(job, "priority"), number(job, "position")))
        .collect();
    assert_eq!(waiting, [(first, 100, 1), (second, 100, 2), (usual, 0, 3)]);
    let claimed = site(&server, &place).claim(1, 1).await.remove(0);
    assert_eq!(claimed.job.run().0, first);
    let path = format!("/api/repos/{}/trigger", place.name);
    for bad in [json!({ "priority": 101 }), json!({ "priority": -1 }), json!({ "priority": "x" })] {
        root.post(&path, bad).await.expect(422);
    }
    let writer = person(&server, "writer", As::member(place.org, Role::Developer)).await;
    writer.post(&path, ask(1)).await.expect(403);
    writer.post(&path, ask(0)).await.expect(201);
}
