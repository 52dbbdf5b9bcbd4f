//! Manifests: what lives and goes away together.

use kiln_store::Tx;
use kiln_store::directory::members::Role;
use serde_json::{Value, json};

use super::people::{As, person};
use crate::content::{PUSH, Worker, builders};
use crate::support::Server;

on_both! {
    /// C5
    a_manifest_takes_resources_is_sealed_and_others_claim_them
}

async fn a_manifest_takes_resources_is_sealed_and_others_claim_them(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let dist = job.upload(json!({ "name": "dist" }), b"dist").await;
    let deps = job.save("deps", b"deps").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let make = async |new: Value| ada.post("/api/manifests", new).await.expect(201);
    let first = make(json!({ "owner": "acme", "run": job.job.run_id.to_string() })).await;
    assert_eq!((&first["state"], &first["retention"]), (&json!("DRAFT"), &json!(86_400)));
    let second = make(json!({ "owner": "acme", "for_ever": true })).await;
    assert_eq!(second["retention"], Value::Null);
    let path = |one: &Value, rest: &str| {
        format!("/api/manifests/{}/{rest}", one["slug"].as_str().unwrap())
    };
    let artifact = json!({ "type": "artifact", "id": dist["id"] });
    let cache = json!({ "type": "cache", "id": deps["id"] });
    ada.post(&path(&first, "resources"), cache.clone()).await.expect(200);
    let owned = ada.post(&path(&first, "resources"), artifact.clone()).await.expect(200);
    // What goes first stands first.
    let shown: Vec<_> = owned["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["type"].as_str().unwrap(), one["cleanup_priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(shown, [("artifact", 70), ("cache", 65)]);
    // One owner, and only what there is.
    ada.post(&path(&second, "resources"), artifact.clone()).await.expect(409);
    for wrong in [
        json!({ "type": "instance", "id": 1 }),
        json!({ "type": "cache", "id": 1, "cleanup_priority": 101 }),
    ] {
        ada.post(&path(&second, "resources"), wrong).await.expect(422);
    }
    ada.post(&path(&second, "resources"), json!({ "type": "object", "id": 999 })).await.expect(404);
    // A draft is nobody else's, a sealed one takes nothing more.
    let claim = json!({ "from": first["slug"], "type": "artifact", "id": dist["id"] });
    ada.post(&path(&second, "claim"), claim.clone()).await.expect(404);
    let sealed = ada.post(&path(&first, "seal"), json!({})).await.expect(200);
    assert!(sealed["state"] == "SEALED" && sealed["expires_at"].is_string(), "{sealed}");
    ada.post(&path(&first, "seal"), json!({})).await.expect(409);
    ada.post(&path(&first, "resources"), artifact).await.expect(409);
    let claimed = ada.post(&path(&second, "claim"), claim.clone()).await.expect(200);
    assert_eq!(claimed["resources"][0]["id"], dist["id"]);
    ada.post(&path(&second, "claim"), claim).await.expect(404);
    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    viewer.get(&format!("/api/manifests/{}", first["id"])).await.expect(200);
    viewer.post(&path(&second, "seal"), json!({})).await.expect(403);
    viewer.post("/api/manifests", json!({ "owner": "acme" })).await.expect(403);
    let listed = ada.get("/api/manifests?owner=acme").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    ada.get("/api/manifests").await.expect(422);
    ada.post("/api/manifests", json!({ "owner": "acme", "for_ever": true, "retention": 1 }))
        .await
        .expect(422);
    // Its time is over: that is derived from what is written.
    let over = async |tx: &mut Tx<'_>| {
        tx.execute("UPDATE manifests SET expires_at = 1 WHERE expires_at > 0", &[]).await
    };
    server.app.store.write(over).await.unwrap();
    let due = ada.get(&format!("/api/manifests/{}", first["id"])).await.expect(200);
    assert_eq!(due["state"], "DUE");
}
