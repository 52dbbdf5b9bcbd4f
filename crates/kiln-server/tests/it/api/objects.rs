//! Objects and their tags: made, found, tagged, owned and removed. (C4, C5)

use kiln_store::directory::members::Role;
use serde_json::{Value, json};

use super::people::{As, Person, person};
use crate::content::{PUSH, Worker, builders};
use crate::support::Server;

async fn make(who: &Person<'_>, kind: &str, tags: &[&str]) -> Value {
    let new = json!({ "owner": "acme", "type": kind, "tags": tags });
    who.post("/api/objects", new).await.expect(201)
}

/// The slugs of what is found.
async fn found(who: &Person<'_>, query: &str) -> Vec<String> {
    let page = who.get(&format!("/api/objects?owner=acme&{query}")).await.expect(200);
    let slug = |one: &Value| one["slug"].as_str().unwrap().to_owned();
    page["items"].as_array().unwrap().iter().map(slug).collect()
}

fn slug(object: &Value) -> String {
    object["slug"].as_str().unwrap().to_owned()
}

on_both! {
    /// C4
    objects_are_found_by_type_and_all_of_their_tags
}

async fn objects_are_found_by_type_and_all_of_their_tags(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let sent = job.send(b"a report").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let new = json!({ "owner": "acme", "type": "report", "hash": sent["hash"], "tags": ["run:1", "os:linux"] });
    let report = ada.post("/api/objects", new).await.expect(201);
    assert_eq!((&report["hash"], &report["size"]), (&sent["hash"], &json!(8)));
    assert_eq!(report["tags"], json!(["os:linux", "run:1"]));
    let other = make(&ada, "report", &["run:2", "os:linux"]).await;
    let snapshot = make(&ada, "snapshot", &["run:1"]).await;
    assert_eq!(found(&ada, "tags=run:1").await, [slug(&snapshot), slug(&report)]);
    assert_eq!(found(&ada, "tags=run:1,os:linux").await, [slug(&report)]);
    assert_eq!(found(&ada, "type=report&tags=os:linux").await, [slug(&other), slug(&report)]);
    assert_eq!(found(&ada, "type=snapshot").await, [slug(&snapshot)]);
    assert_eq!(found(&ada, "tags=run").await, [""; 0]);
    let first = ada.get("/api/objects?owner=acme&type=report&limit=1").await.expect(200);
    assert_eq!(first["items"][0]["slug"], other["slug"]);
    let rest = format!("type=report&limit=1&after={}", first["next"].as_str().unwrap());
    assert_eq!(found(&ada, &rest).await, [slug(&report)]);
    let path = format!("/api/objects/{}", slug(&report));
    assert_eq!(ada.get(&path).await.expect(200), report);
    for (wrong, status) in [
        (json!({ "owner": "acme", "type": "artifact" }), 422),
        (json!({ "owner": "acme", "type": "" }), 422),
        (json!({ "owner": "acme", "type": "a", "tags": ["a,b"] }), 422),
        (json!({ "owner": "acme", "type": "a", "tags": ["a\nb"] }), 422),
        (json!({ "owner": "acme", "type": "a", "hash": "12" }), 422),
        (json!({ "owner": "acme", "type": "a", "hash": "0".repeat(64) }), 404),
        (json!({ "owner": "acme", "type": "a", "expires_at": "2001-01-01T00:00:00Z" }), 422),
        (json!({ "owner": "acme", "type": "a", "manifest": "m-zz" }), 404),
        (json!({ "owner": "nobody", "type": "a" }), 404),
    ] {
        ada.post("/api/objects", wrong).await.expect(status);
    }
    // Who may only read changes nothing; others do not even see that it is there.
    let eve = person(&server, "eve", As::member(place.org, Role::Viewer)).await;
    assert_eq!(eve.get(&path).await.expect(200), report);
    eve.delete(&path).await.expect(403);
    eve.put(&format!("{path}/tags"), json!({ "add": ["x"] })).await.expect(403);
    let elsewhere = server.repository("other", "app").await;
    let mallory = person(&server, "mallory", As::member(elsewhere.org, Role::Admin)).await;
    mallory.get(&path).await.expect(404);
    mallory.delete(&path).await.expect(404);
    mallory.get("/api/objects?owner=acme").await.expect(404);
    mallory.get("/api/tags?owner=acme").await.expect(404);
    ada.delete(&path).await.expect(204);
    ada.get(&path).await.expect(404);
}

on_both! {
    /// C4: a tag can be the name of one object at a time.
    tags_are_given_taken_away_and_moved
}

async fn tags_are_given_taken_away_and_moved(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let one = make(&ada, "image", &["release:latest", "wip"]).await;
    let two = make(&ada, "image", &["release:latest"]).await;
    let path = |object: &Value| format!("/api/objects/{}/tags", slug(object));
    let changed = ada
        .put(&path(&one), json!({ "add": ["tested", "tested"], "remove": ["wip", "never there"] }))
        .await
        .expect(200);
    assert_eq!(changed["tags"], json!(["release:latest", "tested"]));
    let moved = ada.put(&path(&two), json!({ "add": ["release:latest"], "move": true })).await;
    assert_eq!(moved.expect(200)["tags"], json!(["release:latest"]));
    assert_eq!(found(&ada, "tags=release:latest").await, [slug(&two)]);
    // Of two who move a tag at once, one has it.
    let wish = || json!({ "add": ["release:latest"], "move": true });
    let (first, second) = (path(&one), path(&two));
    for _ in 0..5 {
        let (a, b) = tokio::join!(ada.put(&first, wish()), ada.put(&second, wish()));
        a.expect(200);
        b.expect(200);
        assert_eq!(found(&ada, "tags=release:latest").await.len(), 1);
    }
    let tags = ada.get("/api/tags?owner=acme").await.expect(200);
    assert_eq!(
        tags["items"],
        json!([{ "tag": "release:latest", "objects": 1 }, { "tag": "tested", "objects": 1 }])
    );
    let some = ada.get("/api/tags?owner=acme&prefix=release:").await.expect(200);
    assert_eq!(some["items"][0]["tag"], "release:latest");
    let first = ada.get("/api/tags?owner=acme&limit=1").await.expect(200);
    let next = format!("/api/tags?owner=acme&limit=1&after={}", first["next"].as_str().unwrap());
    assert_eq!(ada.get(&next).await.expect(200)["items"][0]["tag"], "tested");
    let many: Vec<String> = (0..101).map(|at| format!("t{at}")).collect();
    ada.put(&path(&one), json!({ "add": many })).await.expect(422);
    let (some, more) = many.split_at(60);
    ada.put(&path(&one), json!({ "add": some })).await.expect(200);
    assert!(ada.put(&path(&one), json!({ "add": more })).await.problem(422).contains("too many"));
}

on_both! {
    /// C5
    an_object_has_an_owner_from_the_beginning_and_goes_with_it
}

async fn an_object_has_an_owner_from_the_beginning_and_goes_with_it(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let draft = ada.post("/api/manifests", json!({ "owner": "acme" })).await.expect(201);
    let new = json!({ "owner": "acme", "type": "snapshot", "manifest": draft["slug"] });
    let object = ada.post("/api/objects", new.clone()).await.expect(201);
    let manifest = format!("/api/manifests/{}", draft["slug"].as_str().unwrap());
    let owned = ada.get(&manifest).await.expect(200);
    let expected = json!([{ "type": "object", "id": object["id"], "cleanup_priority": 60 }]);
    assert_eq!(owned["resources"], expected);
    let path = format!("/api/objects/{}", slug(&object));
    assert!(ada.delete(&path).await.problem(409).contains("owns the object"));
    // A draft may give it up, a sealed one not.
    let resource = format!("{manifest}/resources/object/{}", object["id"]);
    assert_eq!(ada.delete(&resource).await.expect(200)["resources"], json!([]));
    ada.delete(&resource).await.expect(404);
    ada.delete(&format!("{manifest}/resources/instance/1")).await.expect(422);
    ada.delete(&path).await.expect(204);
    ada.post("/api/objects", new.clone()).await.expect(201);
    ada.post(&format!("{manifest}/seal"), json!({})).await.expect(200);
    ada.post("/api/objects", new).await.expect(409);
    assert_eq!(found(&ada, "type=snapshot").await.len(), 1, "what was refused left nothing");
}

on_both! { an_object_of_an_artifact_stays_with_it }

async fn an_object_of_an_artifact_stays_with_it(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    job.upload(json!({ "name": "dist" }), b"dist").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let objects = found(&ada, "type=artifact").await;
    let gone = ada.delete(&format!("/api/objects/{}", objects[0])).await;
    assert!(gone.problem(409).contains("an artifact or a cache needs the object"));
}
