//! Manifests: what lives and goes away together.

use kiln_store::Tx;
use kiln_store::directory::members::Role;
use serde_json::{Value, json};

use reqwest::Method;

use super::people::{As, Reply, person, reply};
use crate::content::{FORK, ONE_JOB, Of, PUSH, Worker, builders, run, steps_token};
use crate::support::{Place, Server};

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
    let all = listed["items"].as_array().unwrap();
    assert_eq!(all.iter().filter(|one| one["own"] == false).count(), 2);
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

/// What the steps of a job ask, with the token that they see.
async fn ask(job: &Worker<'_>, method: Method, path: &str, body: Value) -> Reply {
    let request = job.server.client.request(method, job.server.url(path));
    reply(request.bearer_auth(steps_token(job)).json(&body)).await
}

async fn post(job: &Worker<'_>, path: &str, body: Value) -> Reply {
    ask(job, Method::POST, path, body).await
}

async fn with_rights<'s>(
    runner: &crate::runner::Runner<'s>,
    place: &Place,
    of: &Of,
    permissions: &str,
) -> Worker<'s> {
    let workflow = ONE_JOB.replace("jobs:", &format!("permissions: {permissions}\njobs:"));
    run(runner.server, place, of, &workflow).await;
    Worker::next(runner).await
}

on_both! {
    /// C5: a run hands what it made to another by sealing its manifest, and the other claims it.
    a_job_keeps_manifests_for_its_run_and_claims_from_others_of_its_repository
}

async fn a_job_keeps_manifests_for_its_run_and_claims_from_others_of_its_repository(
    server: Server,
) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let build = with_rights(&runner, &place, &PUSH, "{actions: write}").await;
    let dist = build.upload(json!({ "name": "dist" }), b"dist").await;
    let new = json!({ "owner": "acme", "retention": 3_600 });
    let made = post(&build, "/api/manifests", new).await.expect(201);
    assert_eq!(made["run_id"], build.job.run_id, "it is for the job's own run");
    let path = |one: &Value, rest: &str| {
        format!("/api/manifests/{}/{rest}", one["slug"].as_str().unwrap())
    };
    let artifact = json!({ "type": "artifact", "id": dist["id"] });
    post(&build, &path(&made, "resources"), artifact.clone()).await.expect(200);
    // An object of its own, in its draft, with tags.
    let image = json!({
        "owner": "acme", "type": "image", "tags": ["os:linux"], "manifest": made["slug"],
    });
    let image = post(&build, "/api/objects", image).await.expect(201);
    let tags = format!("/api/objects/{}/tags", image["slug"].as_str().unwrap());
    let tagged = ask(&build, Method::PUT, &tags, json!({ "add": ["tested"] })).await.expect(200);
    assert_eq!(tagged["tags"], json!(["os:linux", "tested"]));
    let moved = json!({ "add": ["tested"], "move": true });
    ask(&build, Method::PUT, &tags, moved).await.expect(403);
    let loose = json!({ "owner": "acme", "type": "image" });
    post(&build, "/api/objects", loose).await.expect(403);
    let left = path(&made, &format!("resources/object/{}", image["id"]));
    ask(&build, Method::DELETE, &left, json!({})).await.expect(403);
    // What its run left by itself is what it says it is: no job changes that.
    let all = ask(&build, Method::GET, "/api/manifests?owner=acme", json!({})).await.expect(200);
    let own = all["items"].as_array().unwrap().iter().find(|one| one["own"] == true).unwrap();
    let at = format!("/api/manifests/{}", own["slug"].as_str().unwrap());
    let kept = ask(&build, Method::GET, &at, json!({})).await.expect(200);
    assert_eq!(kept["resources"][0]["type"], "object");
    let kept = format!("/api/objects/{}", kept["resources"][0]["id"]);
    ask(&build, Method::GET, &kept, json!({})).await.expect(200);
    let forged = json!({ "add": ["run_id:1"] });
    ask(&build, Method::PUT, &format!("{kept}/tags"), forged).await.expect(404);
    let inside = json!({ "owner": "acme", "type": "image", "manifest": own["slug"] });
    post(&build, "/api/objects", inside).await.expect(409);
    // It may not keep things longer than artifacts, nor for others.
    for (wrong, status) in [
        (json!({ "owner": "acme", "for_ever": true }), 403),
        (json!({ "owner": "acme", "retention": 100 * 365 * 86_400_u64 }), 422),
        (json!({ "owner": "acme", "run": "1000000" }), 404),
        (json!({ "owner": "other" }), 404),
    ] {
        post(&build, "/api/manifests", wrong).await.expect(status);
    }
    // Another run sees it, and takes from it once it is sealed.
    let deploy = with_rights(&runner, &place, &PUSH, "{actions: write}").await;
    let theirs = post(&deploy, "/api/manifests", json!({ "owner": "acme" })).await.expect(201);
    let wish = json!({ "from": made["slug"], "type": "artifact", "id": dist["id"] });
    post(&deploy, &path(&theirs, "claim"), wish.clone()).await.expect(404);
    for (rest, body) in [("seal", json!({})), ("resources", artifact.clone())] {
        post(&deploy, &path(&made, rest), body).await.expect(404);
    }
    ask(&deploy, Method::PUT, &tags, json!({ "add": ["mine"] })).await.expect(404);
    post(&build, &path(&made, "seal"), json!({})).await.expect(200);
    let seen = ask(&deploy, Method::GET, "/api/manifests?owner=acme", json!({})).await.expect(200);
    let others = seen["items"].as_array().unwrap().iter().filter(|one| one["own"] == false);
    assert_eq!(others.count(), 2);
    let claimed = post(&deploy, &path(&theirs, "claim"), wish).await.expect(200);
    assert_eq!(claimed["resources"][0]["id"], dist["id"]);
    let wish = json!({ "from": made["slug"], "type": "object", "id": image["id"] });
    let claimed = post(&deploy, &path(&theirs, "claim"), wish).await.expect(200);
    assert_eq!(claimed["resources"].as_array().unwrap().len(), 2);
    ask(&deploy, Method::PUT, &tags, json!({ "add": ["live"] })).await.expect(200);
    deploy.end().await;
    ask(&deploy, Method::GET, "/api/manifests?owner=acme", json!({})).await.expect(401);
}

on_both! {
    /// C5 G8: strangers, other repositories and jobs without the right get nothing.
    manifests_are_closed_to_jobs_that_may_not
}

async fn manifests_are_closed_to_jobs_that_may_not(server: Server) {
    let place = server.repository("acme", "app").await;
    let beside = server.repository("acme", "beside").await;
    let runner = builders(&server, &place).await;
    let build = with_rights(&runner, &place, &PUSH, "{actions: write}").await;
    let dist = build.upload(json!({ "name": "dist" }), b"dist").await;
    let made = post(&build, "/api/manifests", json!({ "owner": "acme" })).await.expect(201);
    let of = format!("/api/manifests/{}", made["slug"].as_str().unwrap());
    let artifact = json!({ "type": "artifact", "id": dist["id"] });
    post(&build, &format!("{of}/resources"), artifact.clone()).await.expect(200);
    post(&build, &format!("{of}/seal"), json!({})).await.expect(200);
    let wish = json!({ "from": made["slug"], "type": "artifact", "id": dist["id"] });

    // Code from elsewhere looks, and changes nothing, whatever its workflow says.
    let fork = with_rights(&runner, &place, &FORK, "{actions: write}").await;
    ask(&fork, Method::GET, &of, json!({})).await.expect(200);
    post(&fork, "/api/manifests", json!({ "owner": "acme" })).await.expect(403);
    // Without the right, there is nothing to be done.
    let reads = with_rights(&runner, &place, &PUSH, "{actions: read}").await;
    post(&reads, "/api/manifests", json!({ "owner": "acme" })).await.expect(403);
    let blind = with_rights(&runner, &place, &PUSH, "{contents: read}").await;
    ask(&blind, Method::GET, &of, json!({})).await.expect(403);
    // Another repository of the organization does not know of it.
    let other = with_rights(&runner, &beside, &PUSH, "{actions: write}").await;
    ask(&other, Method::GET, &of, json!({})).await.expect(404);
    let list = ask(&other, Method::GET, "/api/manifests?owner=acme", json!({})).await.expect(200);
    assert_eq!(list["items"], json!([]));
    let theirs = post(&other, "/api/manifests", json!({ "owner": "acme" })).await.expect(201);
    let theirs = format!("/api/manifests/{}", theirs["slug"].as_str().unwrap());
    post(&other, &format!("{theirs}/claim"), wish).await.expect(404);
    let loose = build.upload(json!({ "name": "loose" }), b"loose").await;
    let loose = json!({ "type": "artifact", "id": loose["id"] });
    post(&other, &format!("{theirs}/resources"), loose).await.expect(404);
    // Nor does a trusted run keep what a stranger's run made.
    let evil = fork.upload(json!({ "name": "evil" }), b"evil").await;
    let again = post(&build, "/api/manifests", json!({ "owner": "acme" })).await.expect(201);
    let again = format!("/api/manifests/{}/resources", again["slug"].as_str().unwrap());
    let evil = json!({ "type": "artifact", "id": evil["id"] });
    post(&build, &again, evil).await.expect(404);
    // What a manifest owns is not removed by others.
    let gone = build.ask(Method::DELETE, &format!("artifacts/{}", dist["id"]));
    assert!(reply(gone).await.problem(409).contains("it goes with that"));
    for listing in ["/api/objects?owner=acme", "/api/tags?owner=acme"] {
        ask(&build, Method::GET, listing, json!({})).await.expect(403);
    }
}

on_both! {
    /// C5, R9: `keep` is somebody's word, and wins over the end of a manifest.
    an_artifact_that_somebody_keeps_outlives_its_manifest
}

async fn an_artifact_that_somebody_keeps_outlives_its_manifest(server: Server) {
    use kiln_core::id::ManifestId;
    use kiln_store::content::manifests;
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let (kept, other) = (
        job.upload(json!({ "name": "kept" }), b"kept").await,
        job.upload(json!({ "name": "other" }), b"other").await,
    );
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let new = json!({ "owner": "acme", "retention": 0 });
    let made = ada.post("/api/manifests", new).await.expect(201);
    let path = format!("/api/manifests/{}", made["slug"].as_str().unwrap());
    for one in [&kept, &other] {
        let artifact = json!({ "type": "artifact", "id": one["id"] });
        ada.post(&format!("{path}/resources"), artifact).await.expect(200);
    }
    ada.put(&format!("/api/artifacts/{}/keep", kept["id"]), json!({ "keep": true }))
        .await
        .expect(200);
    ada.post(&format!("{path}/seal"), json!({})).await.expect(200);
    let id = ManifestId(made["id"].as_i64().unwrap());
    let org = place.org;
    let clean = async move |tx: &mut Tx<'_>| {
        for one in manifests::resources(tx, crate::support::SYSTEM, id).await? {
            kiln_server::service::manifests::clean_up(tx, org, id, &one).await?;
        }
        Ok(())
    };
    server.app.store.write(clean).await.unwrap();
    assert_eq!(job.listed("").await, ["kept"]);
    assert_eq!(ada.get(&path).await.expect(200)["state"], "EXPIRED");
    ada.delete(&format!("/api/artifacts/{}", kept["id"])).await.expect(204);
}

on_both! {
    /// C4 C5
    what_a_run_leaves_belongs_to_a_manifest_of_its_own
}

async fn what_a_run_leaves_belongs_to_a_manifest_of_its_own(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let own = async |run: i64| {
        let all = ada.get("/api/manifests?owner=acme").await.expect(200);
        let of_run = |one: &&Value| one["run_id"] == run && one["own"] == true;
        let found = all["items"].as_array().unwrap().iter().find(of_run).cloned();
        let Some(found) = found else { return Value::Null };
        ada.get(&format!("/api/manifests/{}", found["id"])).await.expect(200)
    };
    let job = Worker::start(&runner, &place, &PUSH).await;
    let run = job.job.run_id;
    assert_eq!(own(run).await, Value::Null, "a run that leaves nothing has none");
    let dist = job.upload(json!({ "name": "dist" }), b"dist").await;
    job.upload(json!({ "name": "logs" }), b"logs").await;
    let manifest = own(run).await;
    assert_eq!((&manifest["state"], &manifest["expires_at"]), (&json!("DRAFT"), &Value::Null));
    assert_eq!(manifest["resources"].as_array().unwrap().len(), 2);
    let path = format!("/api/objects?owner=acme&type=artifact&tags=run_id:{run},name:dist");
    let found = ada.get(&path).await.expect(200);
    let object = &found["items"][0];
    assert_eq!((found["items"].as_array().unwrap().len(), &object["size"]), (1, &json!(4)));
    let number = job.job.job_id;
    assert_eq!(
        object["tags"],
        json!([format!("job_id:{number}"), "name:dist", format!("run_id:{run}")])
    );
    // It changes with the run alone.
    let at = format!("/api/manifests/{}", manifest["id"]);
    let resource = json!({ "type": "artifact", "id": dist["id"] });
    for (path, body) in [("resources", resource), ("seal", json!({}))] {
        let said = ada.post(&format!("{at}/{path}"), body).await.problem(409);
        assert!(said.contains("what its run leaves"), "{said}");
    }
    ada.delete(&format!("{at}/resources/object/{}", object["id"])).await.expect(409);
    ada.delete(&format!("/api/objects/{}", object["id"])).await.expect(409);
    // An artifact can be removed all the same, and its object with it.
    ada.delete(&format!("/api/artifacts/{}", dist["id"])).await.expect(204);
    assert_eq!(own(run).await["resources"].as_array().unwrap().len(), 1);
    ada.get(&format!("/api/objects/{}", object["id"])).await.expect(404);
    // What code that is not trusted leaves, a job that is does not see.
    let stranger = Worker::start(&runner, &place, &FORK).await;
    stranger.upload(json!({ "name": "poison" }), b"poison").await;
    let theirs = own(stranger.job.run_id).await;
    let trusted = Worker::start(&runner, &place, &PUSH).await;
    let token = steps_token(&trusted);
    let ask = |path: String| server.client.get(server.url(&path)).bearer_auth(token.clone());
    let ours = reply(ask(at)).await;
    ours.expect(200);
    reply(ask(format!("/api/manifests/{}", theirs["id"]))).await.expect(404);
    let object = &theirs["resources"][0]["id"];
    reply(ask(format!("/api/objects/{object}"))).await.expect(404);
}
