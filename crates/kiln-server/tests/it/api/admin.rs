//! What administrators do: repositories, pauses, keys, runners.

use kiln_store::directory::members::Role;
use serde_json::{Value, json};

use super::people::{As, CI, commit, empty, person, site};
use crate::support::Server;

on_both! {
    /// S20
    a_repository_is_added_shown_and_disabled
}

async fn a_repository_is_added_shown_and_disabled(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    server.sources.commit("/srv/app", "trunk", &[("a", "b")]);
    let new = json!({ "owner": "acme", "name": "app", "source": "/srv/app" });
    let made = root.post("/api/repos", new.clone()).await.expect(201);
    assert_eq!(made["default_branch"], "trunk");
    assert_eq!((&made["enabled"], &made["paused"]), (&json!(true), &Value::Null));
    root.post("/api/repos", new).await.expect(409);
    let secret =
        json!({ "owner": "acme", "name": "far", "source": "https://me:word@example.com/a" });
    assert_eq!(
        root.post("/api/repos", secret).await.expect(201)["source"],
        "https://example.com/a"
    );
    let check = async |owner: &str, name: &str, source: &str| {
        let new = json!({ "owner": owner, "name": name, "source": source });
        root.post("/api/repos", new).await.problem(422)
    };
    assert!(check("acme", "x", "ext::sh -c id").await.contains("helper of git"));
    assert!(check("acme", "x", "--upload-pack=x").await.contains("option"));
    assert!(check("acme", "x", "/srv/none").await.contains("cannot be read"));
    assert!(check("acme", "a/b", "/srv/app").await.contains("name of a repository"));
    assert!(check("a\0b", "x", "/srv/app").await.contains("name of an organization"));
    assert!(check("", "x", "/srv/app").await.contains("name of an organization"));
    let eve = server.repository("eve", "own").await;
    let eve = person(&server, "eve", As::member(eve.org, Role::Admin)).await;
    let inside = json!({ "owner": "eve", "name": "x", "source": "/etc" });
    eve.post("/api/repos", inside).await.expect(403);
    let inside = json!({ "owner": "eve", "name": "x", "source": "http://169.254.169.254/a" });
    eve.post("/api/repos", inside).await.expect(403);
    assert_eq!(root.delete("/api/repos/acme/app").await.expect(200)["enabled"], false);
    let enabled = root.post("/api/repos/acme/app/enable", empty()).await.expect(200);
    assert_eq!(enabled["enabled"], true);
    let listed = root.get("/api/repos?limit=2").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let next = listed["next"].as_str().unwrap().to_owned();
    let rest = root.get(&format!("/api/repos?limit=2&after={next}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
}

on_both! {
    /// S22
    what_is_paused_waits_and_says_why
}

async fn what_is_paused_waits_and_says_why(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    root.trigger(&place, empty()).await;
    let queues = root.get("/api/queues").await.expect(200);
    let queue = &queues["items"][0];
    assert_eq!(queue["requirements"], "labels linux");
    assert_eq!((queue["waiting"].as_u64(), queue["runners"].as_u64()), (Some(1), Some(0)));
    let queue = format!("/api/queues/{}/pause", queue["id"]);
    let repo = format!("/api/repos/{}/pause", place.name);
    let site = site(&server, &place);
    for what in ["/api/pause", queue.as_str(), repo.as_str()] {
        root.put(what, json!({ "reason": "maintenance" })).await.expect(204);
        assert!(site.claim(1, 1).await.is_empty(), "{what}");
        let paused = root.get("/api/pause").await.expect(200).to_string();
        assert!(paused.contains("root: maintenance"), "{what}: {paused}");
        let findings = root.get("/api/doctor").await.expect(200);
        let mut findings = findings.as_array().unwrap().iter();
        let named = findings.find(|found| found["what"] == "pause").unwrap();
        assert!(named["finding"].as_str().unwrap().contains("maintenance"), "{what}: {named}");
        assert!(named["advice"].as_str().unwrap().contains("kiln resume"), "{what}: {named}");
        root.delete(what).await.expect(204);
        root.put(what, json!({ "reason": "" })).await.expect(422);
        root.put(what, json!({ "reason": "a\nb" })).await.expect(422);
        root.put(what, json!({ "why": "x" })).await.expect(422);
    }
    let paused = root.get("/api/pause").await.expect(200);
    assert_eq!(paused, json!({ "server": null, "queues": [], "repos": [] }));
    assert_eq!(site.claim(1, 1).await.len(), 1);
    root.put("/api/queues/99/pause", json!({ "reason": "x" })).await.expect(404);
    root.put("/api/queues/x/pause", json!({ "reason": "x" })).await.expect(404);
}

on_both! {
    /// S5
    keys_let_runners_in_until_they_are_revoked
}

async fn keys_let_runners_in_until_they_are_revoked(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    server.repository("acme", "app").await;
    let made = root.post("/api/registration-keys", empty()).await.expect(201);
    assert!(made["key"].as_str().unwrap().starts_with("krk_"));
    assert_eq!((&made["pool"], &made["uses_left"]), (&json!("default"), &json!(1)));
    let other = json!({ "pool": "big", "owner": "acme", "uses": 0, "expires_in": 60 });
    let made = root.post("/api/registration-keys", other).await.expect(201);
    assert_eq!((&made["owner"], &made["uses_left"]), (&json!("acme"), &Value::Null));
    let listed = root.get("/api/registration-keys").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "shared ones only: {listed:#}");
    let listed = root.get("/api/registration-keys?owner=acme").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert!(listed["items"][0].get("key").is_none());
    root.delete(&format!("/api/registration-keys/{}", made["id"])).await.expect(204);
    let listed = root.get("/api/registration-keys?owner=acme").await.expect(200);
    assert_eq!(listed["items"][0]["uses_left"], 0);
    root.delete("/api/registration-keys/99").await.expect(404);
    for bad in [
        json!({ "expires_in": 0 }),
        json!({ "expires_in": u64::MAX }),
        json!({ "uses": 1_000_000_000 }),
        json!({ "pool": "a b" }),
        json!({ "pool": "a\0" }),
    ] {
        root.post("/api/registration-keys", bad).await.expect(422);
    }
}
