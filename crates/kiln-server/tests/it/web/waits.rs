//! What waits for a concurrency group, and why, on pages and for programs.

use kiln_core::run::Conclusion;
use kiln_store::directory::members::Role;
use serde_json::json;

use super::browser::Browser;
use crate::api::people::{As, commit, person, site};
use crate::support::Server;

const GATED: &str = "name: Deploy
on: [push, workflow_dispatch]
concurrency: production
jobs:
  ship:
    runs-on: linux
    steps: [{run: make}]
";

/// Two runs at once are fine, one job of them is not.
const INSIDE: &str = "name: Publish
on: [push, workflow_dispatch]
jobs:
  upload:
    name: Upload it
    concurrency: registry
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// S16 O1
    what_a_group_holds_is_shown_with_its_reason
}

async fn what_a_group_holds_is_shown_with_its_reason(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", GATED), ("publish.yml", INSIDE)]);
    let start = async |file: &str| ada.trigger(&place, json!({ "workflow": file })).await;
    let (first, second) = (start("ci.yml").await, start("ci.yml").await);
    let (third, fourth) = (start("publish.yml").await, start("publish.yml").await);
    let browser = Browser::of(&ada).await;
    let reason = "The run waits for the concurrency group `production`.";
    let queue = browser.get("/queue").await.expect(200);
    queue.has(&[
        "Held by concurrency groups",
        reason,
        "Waits for the concurrency group `registry`.",
        ">Upload it<",
        &format!("It is held by <a href=\"/acme/app/actions/runs/{first}\">Deploy #1</a>."),
        &format!("/acme/app/actions/runs/{third}\">Publish #1</a>."),
        &format!("/acme/app/actions/runs/{second}\" data-open"),
        &format!("/acme/app/actions/runs/{fourth}/job/"),
    ]);
    browser.get("/").await.expect(200).has(&[reason, ">Upload it<"]);
    let runs = browser.get("/runs").await.expect(200);
    assert_eq!(runs.text.matches(reason).count(), 1, "{}", runs.text);
    browser.get("/runs?status=pending").await.expect(200).has(&[reason]);
    let held = ada.get("/api/v1/queue/held").await.expect(200);
    let items = held["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{held:#}");
    assert_eq!((&items[0]["run_id"], &items[0]["job_id"]), (&json!(second), &json!(null)));
    assert_eq!(items[0]["reason"], "the run waits for the concurrency group `production`");
    assert_eq!(items[0]["holder"], json!({ "run_id": first, "workflow": "Deploy", "number": 1 }));
    assert_eq!((&items[1]["name"], &items[1]["group"]), (&json!("Upload it"), &json!("registry")));
    let page = ada.get("/api/queue/held?limit=1").await.expect(200);
    assert_eq!(page["items"], json!([items[0]]));
    let next = page["next"].as_str().unwrap();
    let page = ada.get(&format!("/api/queue/held?limit=1&after={next}")).await.expect(200);
    assert_eq!((&page["items"], &page["next"]), (&json!([items[1]]), &json!(null)));
    ada.get("/api/queue/held?after=x.y").await.expect(422);
    for (filter, found) in
        [("repo=acme/app".to_owned(), 2), (format!("run={second}"), 1), (format!("run={first}"), 0)]
    {
        let page = ada.get(&format!("/api/queue/held?{filter}")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), found, "{filter}");
    }
    // The run itself says it, wherever it is shown.
    let why = json!("the run waits for the concurrency group `production`");
    assert_eq!(ada.get(&format!("/api/runs/{second}")).await.expect(200)["reason"], why);
    assert_eq!(ada.get(&format!("/api/runs/{first}")).await.expect(200)["reason"], json!(null));
    assert_eq!(ada.get("/api/runs?status=pending").await.expect(200)["items"][0]["reason"], why);
    // Nothing of others.
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    assert_eq!(eve.get("/api/queue/held").await.expect(200)["items"], json!([]));
    eve.get(&format!("/api/queue/held?run={second}")).await.expect(404);
    eve.get("/api/queue/held?repo=acme/app").await.expect(404);
    Browser::of(&eve).await.get("/queue").await.expect(200).lacks(&["production", "registry"]);
    // When the first ones are over, nobody is held any more.
    let site = site(&server, &place);
    for claimed in site.claim(1, 9).await {
        site.finish(&claimed, 1, Conclusion::Success).await;
    }
    browser.get("/queue").await.expect(200).lacks(&["Held by concurrency groups"]);
}

const PLAIN: &str = "on: [push, workflow_dispatch]
jobs:
  build:
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// S16
    a_queue_is_read_piece_by_piece
}

async fn a_queue_is_read_piece_by_piece(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", PLAIN)]);
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(ada.trigger(&place, json!({ "workflow": "ci.yml" })).await);
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = ada.get(&format!("/api/queue?limit=2{after}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|job| job["run_id"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, runs);
    for wrong in ["x", "1.2.3", "1.0.5.7.x", "1.0.5.7.-9", "1.0.5.7.1.2.3.4.5.6.7.8.9", "-1.0.5.7"]
    {
        ada.get(&format!("/api/queue?after={wrong}")).await.expect(422);
    }
    let browser = Browser::of(&ada).await;
    browser.get("/queue").await.expect(200).has(&["5 jobs wait."]).lacks(&["rel=\"next\""]);
    let page = ada.get("/api/queue?limit=4").await.expect(200);
    let last = browser.get(&format!("/queue?after={}", page["next"].as_str().unwrap())).await;
    let address = |run: i64| format!("/acme/app/actions/runs/{run}/job/");
    last.expect(200)
        .has(&[&address(runs[4]), "First in line"])
        .lacks(&[&address(runs[0]), &address(runs[3])]);
}

on_both! {
    /// O1
    long_lists_have_a_filter_and_pages
}

async fn long_lists_have_a_filter_and_pages(server: Server) {
    let ada = person(&server, "adam", As::administrator()).await;
    for number in 0..103 {
        server.repository("acme", &format!("app-{number}")).await;
    }
    let browser = Browser::of(&ada).await;
    let first = browser.get("/repositories").await.expect(200);
    let first =
        first.has(&[">acme/app-0<", ">acme/app-99<", "rel=\"next\""]).lacks(&["acme/app-100"]);
    let next = first.text.split("/repositories?after=").nth(1).unwrap().split('"').next().unwrap();
    let second = browser.get(&format!("/repositories?after={next}")).await.expect(200);
    second.has(&["acme/app-100", "acme/app-102", "rel=\"first\""]).lacks(&["acme/app-99<"]);
    let few = browser.get("/repositories?q=APP-10").await.expect(200);
    few.has(&["acme/app-10<", "acme/app-102<"]).lacks(&["acme/app-11<", "rel=\"next\""]);
    browser.get("/repositories?q=nothing").await.expect(200).has(&["No repository fits"]);
    browser.get("/repositories?after=x").await.expect(422);
    browser.get("/runners?q=nothing").await.expect(200).has(&["No runner fits"]);
}

on_both! {
    /// S8 O1
    a_run_is_put_first_and_back_in_line
}

async fn a_run_is_put_first_and_back_in_line(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::member(place.org, Role::Admin)).await;
    commit(&server, &place, &[("ci.yml", PLAIN)]);
    let start = async || ada.trigger(&place, json!({ "workflow": "ci.yml" })).await;
    let (first, second) = (start().await, start().await);
    let order = async || {
        let queue = ada.get("/api/queue").await.expect(200);
        let runs = queue["items"].as_array().unwrap().iter().map(|job| job["run_id"].as_i64());
        runs.collect::<Option<Vec<i64>>>().unwrap()
    };
    assert_eq!(order().await, [first, second]);
    let browser = Browser::of(&ada).await;
    let here = format!("/acme/app/actions/runs/{second}");
    browser.get("/queue").await.expect(200).has(&[&format!("{here}/first"), ">First<"]);
    assert_eq!(browser.press(&format!("{here}/first"), &[]).await.location(), "/queue");
    assert_eq!(order().await, [second, first]);
    browser.get("/queue").await.expect(200).has(&[&format!("{here}/usual"), ">Back in line<"]);
    let path = format!("/api/runs/{second}/priority");
    let moved = ada.post(&path, json!({ "priority": 0 })).await.expect(200);
    assert_eq!((&moved["priority"], &moved["before"]), (&json!(0), &json!(100)));
    assert_eq!(order().await, [first, second]);
    for wrong in [json!({ "priority": 101 }), json!({ "priority": -1 }), json!({})] {
        ada.post(&path, wrong).await.expect(422);
    }
    // Going before others takes an administrator; back in line, whoever may cancel. Strangers see nothing.
    let dev = person(&server, "dev", As::member(place.org, Role::Developer)).await;
    dev.post(&path, json!({ "priority": 1 })).await.expect(403);
    dev.post(&path, json!({ "priority": 0 })).await.expect(200);
    Browser::of(&dev).await.get("/queue").await.expect(200).lacks(&[">First<"]);
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    eve.post(&path, json!({ "priority": 0 })).await.expect(404);
    let site = site(&server, &place);
    for claimed in site.claim(1, 9).await {
        site.finish(&claimed, 1, Conclusion::Success).await;
    }
    ada.post(&path, json!({ "priority": 1 })).await.expect(409);
}
