//! Nobody sees or does what is not theirs.

use kiln_core::access::Right;
use kiln_core::id::{
    ArtifactId, CacheId, ManifestId, ObjectId, OrgId, RegistrationKeyId, RunId, RunnerId, TokenId,
};
use kiln_server::token::{Kind, Secret};
use kiln_store::Tx;
use kiln_store::claims::Claimed;
use kiln_store::content::artifacts::{self, NewArtifact};
use kiln_store::content::caches::{self, NewCache};
use kiln_store::content::manifests;
use kiln_store::content::objects::{self, NewObject};
use kiln_store::directory::members::Role;
use kiln_store::directory::registration_keys::{self, NewRegistrationKey};
use kiln_store::directory::runners::{self, About, NewRunner};
use kiln_store::directory::tokens::{self, NewToken};
use kiln_store::directory::users;
use kiln_testkit::runs::Site;
use reqwest::Method;
use serde_json::{Value, json};

use super::openapi::routes;
use super::people::{As, CI, Person, commit, empty, person, reply, site};
use crate::support::{Place, SYSTEM, Server, from_now, somebody};

/// What everybody may ask without saying who they are.
pub(crate) const OPEN: [&str; 15] = [
    "/.well-known/openid-configuration",
    "/.well-known/jwks",
    "/health",
    "/ready",
    "/startup",
    "/api/openapi.json",
    "/welcome/{secret}",
    // Their addresses are signed.
    "/api/uploads/{id}",
    "/api/signed/{hash}",
    "/api/signed/artifacts/{artifact_id}/{file}",
    "/api/signed/logs/jobs/{job_id}",
    "/api/signed/logs/runs/{run_id}/{attempt_number}",
    "/api/previews/{artifact_id}/{expires}/{signature}/{file}",
    // They have a key of their own.
    "/{owner}/{repo}/badge.svg",
    "/{owner}/{repo}/actions/workflows/{file}/badge.svg",
];
/// What runners and workers ask; they have tests of their own.
const MACHINES: [&str; 6] = [
    "/actions/",
    "/api/workers/",
    "/api/runners/register",
    "/api/runners/{id}/unregister",
    "/{owner}/{repo}/info/refs",
    "/{owner}/{repo}/git-upload-pack",
];

pub(super) fn is_for_people(path: &str) -> bool {
    !OPEN.contains(&path) && !MACHINES.iter().any(|machine| path.starts_with(machine))
}

/// A path with values for what stands in braces.
pub(crate) fn fill(path: &str, values: &dyn Fn(&str) -> String) -> String {
    let mut parts = path.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        filled.push_str(&values(name));
        filled.push_str(rest);
    }
    filled
}

on_both! {
    /// S24
    every_route_asks_who_one_is
}

async fn every_route_asks_who_one_is(server: Server) {
    let mut asked = 0;
    for (method, path) in routes().iter().filter(|(_, path)| is_for_people(path)) {
        let url = server.url(&fill(path, &|_| "1".to_owned()));
        let request = |token: Option<&str>| {
            let request = server.client.request(method.parse().unwrap(), &url);
            match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            }
        };
        for token in [None, Some("kpat_made-up"), Some("krk_other"), Some("x")] {
            let answer = reply(request(token)).await;
            assert_eq!(answer.status, 401, "{method} {path} with {token:?}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
        asked += 1;
    }
    assert!(asked > 40, "only {asked} routes were asked");
}

/// Things of an organization, by the names that paths have for them.
pub(super) struct Things {
    pub(super) run: i64,
    pub(super) job: i64,
    pub(super) runner: RunnerId,
    pub(super) key: RegistrationKeyId,
    pub(super) token: TokenId,
    pub(super) queue: i64,
    pub(super) artifact: ArtifactId,
    pub(super) cache: CacheId,
    pub(super) manifest: ManifestId,
    pub(super) object: ObjectId,
    /// Whose run it is, and the job of it that a runner has.
    pub(super) site: Site,
    pub(super) claimed: Claimed,
}

impl Things {
    /// What stands for a name in braces of a path.
    pub(super) fn named(&self, name: &str, path: &str) -> String {
        match (name, path) {
            ("owner" | "org", _) => "other".to_owned(),
            ("name" | "environment_name", _) => "X".to_owned(),
            ("runner_id", _) => self.runner.to_string(),
            ("repo", _) => "secret".to_owned(),
            ("run" | "run_id", _) => self.run.to_string(),
            ("job" | "job_id" | "deployment_id", _) => self.job.to_string(),
            ("attempt_number", _) => "1".to_owned(),
            ("workflow_id", _) => "ci.yml".to_owned(),
            ("id", path) if path.contains("/runners/") => self.runner.to_string(),
            ("id", path) if path.contains("/queues/") => self.queue.to_string(),
            ("id", path) if path.contains("/registration-keys/") => self.key.to_string(),
            ("id", path) if path.contains("/tokens/") => self.token.to_string(),
            ("id", path) if path.contains("/uploads/") => "1".to_owned(),
            ("hash", _) => "a".repeat(64),
            ("artifact_id", _) => self.artifact.to_string(),
            ("cache_id", _) => self.cache.to_string(),
            ("manifest_id", _) => self.manifest.to_string(),
            ("object_id", _) => self.object.to_string(),
            ("type", _) => "artifact".to_owned(),
            ("id", path) if path.contains("/resources/") => self.artifact.to_string(),
            (name, path) => panic!("the test has no {name} for {path}"),
        }
    }
}

pub(super) async fn things(server: &Server, admin: &Person<'_>) -> Things {
    let place = server.repository("other", "secret").await;
    commit(server, &place, &[("ci.yml", &CI.replace("linux", "others-only"))]);
    let run = admin.trigger(&place, empty()).await;
    let site = site(server, &place);
    let claimed = site.claim(77, 1).await.remove(0);
    // Waits in the queue that the test knows of.
    admin.trigger(&place, json!({ "workflow": "ci.yml" })).await;
    let queues = admin.get("/api/queues").await.expect(200);
    let (pool, _) = server.pool(Some(place.org), "pool").await;
    let made = server.app.store.write(async move |tx: &mut Tx<'_>| {
        let actor = somebody();
        let about = About {
            capabilities: "{}".to_owned(),
            max_parallel: 1,
            single_use: false,
            os: "linux".to_owned(),
            architecture: "x64".to_owned(),
            version: "1".to_owned(),
            protocol: 1,
            public_key: None,
        };
        let credential = vec![7; 32];
        let new = NewRunner { pool, name: "r".to_owned(), credential, about };
        let runner = runners::register(tx, SYSTEM, &actor, new).await?;
        let expires_at = from_now(std::time::Duration::from_mins(1));
        let new = NewRegistrationKey { pool, hash: vec![8; 32], expires_at, uses: None };
        let key = registration_keys::create(tx, SYSTEM, &actor, new).await?;
        let user = users::by_name(tx, SYSTEM, "root").await?.id;
        let name = "t".to_owned();
        let new = NewToken {
            user,
            org: None,
            name,
            hash: vec![9; 32],
            scopes: Vec::new(),
            expires_at: None,
        };
        let token = tokens::create(tx, SYSTEM, &actor, new).await?;
        Ok((runner, key, token))
    });
    let (runner, key, token) = made.await.unwrap();
    let queue = queues["items"][0]["id"].as_i64().unwrap();
    let (artifact, cache, manifest, object) = content(server, &place, run).await;
    let job = claimed.job.0;
    Things { run, job, runner, key, token, queue, artifact, cache, manifest, object, site, claimed }
}

/// An artifact and a cache, both complete, a manifest, and the object of the first two.
async fn content(
    server: &Server,
    place: &Place,
    run: i64,
) -> (ArtifactId, CacheId, ManifestId, ObjectId) {
    let Place { org, repo, .. } = *place;
    let work = async move |tx: &mut Tx<'_>| {
        let new = NewObject {
            org,
            kind: "artifact".to_owned(),
            blob: None,
            provider_object_id: None,
            expires_at: None,
            tags: Vec::new(),
        };
        let object = objects::create(tx, SYSTEM, new).await?;
        let new = NewArtifact {
            run: RunId(run),
            attempt: 1,
            job: None,
            claim: None,
            name: "dist".to_owned(),
            content_type: "application/zip".to_owned(),
            expires_at: None,
            overwrite: false,
        };
        let artifact = artifacts::create(tx, SYSTEM, &somebody(), new).await?;
        artifacts::finalize(tx, SYSTEM, artifact, object, &[7; 32], 1).await?;
        let new = NewCache {
            repo,
            git_ref: "refs/heads/main".to_owned(),
            trust: "trusted".to_owned(),
            key: "k".to_owned(),
            version: "v".to_owned(),
            by: None,
        };
        let cache = caches::reserve(tx, SYSTEM, new).await?;
        caches::finalize(tx, SYSTEM, cache, object, &[7; 32], 1).await?;
        let manifest = manifests::create(tx, SYSTEM, org, None, None).await?;
        Ok((artifact, cache, manifest, object))
    };
    server.app.store.write(work).await.unwrap()
}

/// A body that each route would take.
pub(super) fn body_for(path: &str) -> Option<Value> {
    if path.ends_with("/pause") {
        Some(json!({ "reason": "x" }))
    } else if path.ends_with("/priority") {
        Some(json!({ "priority": 0 }))
    } else if path.ends_with("/keep") {
        Some(json!({ "keep": true }))
    } else if path.ends_with("/resources") {
        Some(json!({ "type": "object", "id": 1 }))
    } else if path.ends_with("/claim") {
        Some(json!({ "from": "1", "type": "object", "id": 1 }))
    } else if path.ends_with("/tags") {
        Some(json!({ "add": ["x"] }))
    } else if path.ends_with("{repo}/dispatches") {
        Some(json!({ "event_type": "x" }))
    } else if path.ends_with("/dispatches") {
        Some(json!({ "ref": "main" }))
    } else {
        None
    }
}

on_both! {
    /// S24
    what_belongs_to_others_does_not_exist
}

async fn what_belongs_to_others_does_not_exist(server: Server) {
    let own = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    let other = things(&server, &root).await;
    let eve = person(&server, "eve", As::member(own.org, Role::Admin)).await;
    let limited = As { only: Some(own.org), ..As::administrator() };
    let limited = person(&server, "limited", limited).await;
    let mut asked = 0;
    for (method, path) in routes().iter().filter(|(_, path)| is_for_people(path)) {
        if !path.contains('{') {
            continue;
        }
        let filled = fill(path, &|name| other.named(name, path));
        for stranger in [&eve, &limited] {
            let mut request = stranger.request(method.parse().unwrap(), &filled);
            if let Some(body) = body_for(path) {
                request = request.json(&body);
            }
            let problem = reply(request).await.problem(404);
            assert!(problem.starts_with("there is no such "), "{method} {path}: {problem}");
        }
        asked += 1;
    }
    assert!(asked > 30, "only {asked} routes were asked");
    // Nothing of it happened.
    let run = root.get(&format!("/api/runs/{}", other.run)).await.expect(200);
    assert_eq!((run["attempt"].as_i64(), &run["conclusion"]), (Some(1), &Value::Null));
    assert_eq!(root.get("/api/repos/other/secret").await.expect(200)["enabled"], true);
    assert_eq!(root.get("/api/pause").await.expect(200)["queues"], json!([]));
    for stranger in [&eve, &limited] {
        for list in ["/api/runs", "/api/queues", "/api/runners", "/api/events"] {
            assert_eq!(stranger.get(list).await.expect(200)["items"], json!([]), "{list}");
        }
        let repos = stranger.get("/api/repos").await.expect(200);
        assert_eq!(repos["items"].as_array().unwrap().len(), 1);
        for query in ["/api/audit", "/api/events", "/api/registration-keys"] {
            stranger.get(&format!("{query}?owner=other")).await.expect(404);
        }
        stranger.get("/api/runs?repo=other/secret").await.expect(404);
        stranger.post("/api/tokens", json!({ "name": "x", "owner": "other" })).await.expect(404);
        let key = json!({ "owner": "other" });
        stranger.post("/api/registration-keys", key).await.expect(404);
        let repo = json!({ "owner": "other", "name": "x", "source": "https://example.com/a" });
        stranger.post("/api/repos", repo).await.expect(404);
        for all in ["/api/audit", "/api/registration-keys"] {
            stranger.get(all).await.expect(403);
        }
        stranger.put("/api/pause", json!({ "reason": "x" })).await.expect(403);
        let repo = json!({ "owner": "new", "name": "x", "source": "https://example.com/a" });
        stranger.post("/api/repos", repo).await.expect(403);
    }
}

on_both! {
    /// S24
    roles_and_scopes_bound_what_one_may_do
}

async fn roles_and_scopes_bound_what_one_may_do(server: Server) {
    let place = server.repository("acme", "app").await;
    commit(&server, &place, &[("ci.yml", CI)]);
    let with = |role, right| As { scopes: vec![right], ..As::member(OrgId(place.org.0), role) };
    let viewer = person(&server, "viewer", with(Role::Viewer, Right::Admin)).await;
    let reader = person(&server, "reader", with(Role::Admin, Right::Read)).await;
    let writer = person(&server, "writer", with(Role::Developer, Right::Write)).await;
    let trigger = format!("/api/repos/{}/trigger", place.name);
    let problem = viewer.post(&trigger, empty()).await.problem(403);
    assert!(problem.contains("viewers may not"), "{problem}");
    let problem = reader.post(&trigger, empty()).await.problem(403);
    assert!(problem.contains("lacks the scope `write`"), "{problem}");
    let run = writer.trigger(&place, empty()).await;
    for person in [&viewer, &reader, &writer] {
        person.get(&format!("/api/runs/{run}")).await.expect(200);
        person.delete(&format!("/api/repos/{}", place.name)).await.expect(403);
        person.post("/api/registration-keys", json!({ "owner": "acme" })).await.expect(403);
    }
    let problem = reader.post("/api/tokens", json!({ "name": "x", "scopes": ["write"] })).await;
    assert!(problem.problem(403).contains("cannot be given"));
    let made = writer.post("/api/tokens", json!({ "name": "x", "scopes": ["write"] })).await;
    assert!(made.expect(201)["token"].as_str().unwrap().starts_with("kpat_"));
    let me = viewer.get("/api/me").await.expect(200);
    assert_eq!((&me["name"], &me["admin"]), (&json!("viewer"), &json!(false)));
}

on_both! { a_token_that_was_revoked_is_nobodys }

async fn a_token_that_was_revoked_is_nobodys(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let made =
        root.post("/api/tokens", json!({ "name": "mine", "scopes": ["read"] })).await.expect(201);
    let token = made["token"].as_str().unwrap().to_owned();
    let mine = Person { server: &server, token: token.clone() };
    assert_eq!(mine.get("/api/me").await.expect(200)["name"], "root");
    for (user, password) in [("x-access-token", token.as_str()), ("", token.as_str())] {
        let request = server.client.get(server.url("/api/me")).basic_auth(user, Some(password));
        reply(request).await.expect(200);
    }
    let listed = root.get("/api/tokens").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert!(listed["items"][1].get("token").is_none(), "a token is shown once");
    let id = made["id"].as_i64().unwrap();
    root.delete(&format!("/api/tokens/{id}")).await.expect(204);
    mine.get("/api/me").await.expect(401);
    assert_eq!(root.get("/api/tokens").await.expect(200)["items"].as_array().unwrap().len(), 1);
    for bad in [
        json!({ "name": "" }),
        json!({ "name": "a\0b" }),
        json!({ "name": "x", "scopes": ["root"] }),
        json!({ "name": "x", "expires_in": u64::MAX }),
        json!({ "name": "x", "expires_in": -1 }),
        json!({ "name": 7 }),
    ] {
        root.post("/api/tokens", bad).await.expect(422);
    }
    // Somebody whose rights were taken has none, with whatever token.
    let eve = person(&server, "eve", As::administrator()).await;
    let disable = async |tx: &mut Tx<'_>| {
        let user = users::by_name(tx, SYSTEM, "eve").await?.id;
        users::set_disabled(tx, SYSTEM, &somebody(), user, true).await
    };
    server.app.store.write(disable).await.unwrap();
    eve.get("/api/me").await.expect(401);
}

on_both! {
    /// Otherwise a token for an hour would be one for ever.
    a_token_makes_none_that_lives_longer_or_may_do_more
}

async fn a_token_makes_none_that_lives_longer_or_may_do_more(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let new = json!({ "name": "an hour", "scopes": ["write"], "expires_in": 3_600 });
    let made = root.post("/api/tokens", new).await.expect(201);
    let end = made["expires_at"].as_str().unwrap();
    let hour = Person { server: &server, token: made["token"].as_str().unwrap().to_owned() };
    for asked in [json!(null), json!(0), json!(7_200), json!(90 * 24 * 3_600)] {
        let new = json!({ "name": "longer", "scopes": ["read"], "expires_in": asked });
        let made = hour.post("/api/tokens", new).await.expect(201);
        assert_eq!(made["expires_at"], end, "{asked}");
    }
    let new = json!({ "name": "shorter", "expires_in": 60 });
    let shorter = hour.post("/api/tokens", new).await.expect(201);
    assert!(shorter["expires_at"].as_str().unwrap() < end, "{shorter}");
    hour.post("/api/tokens", json!({ "name": "x", "scopes": ["admin"] })).await.expect(403);
    // Whoever has one without an end can make such ones.
    let for_ever =
        root.post("/api/tokens", json!({ "name": "x", "expires_in": 0 })).await.expect(201);
    assert!(for_ever["expires_at"].is_null(), "{for_ever}");
}

on_both! {
    /// S24
    the_one_time_link_works_once
}

/// A link that lets `root` in.
async fn link(server: &Server) -> String {
    use kiln_store::directory::one_time_keys::{self, NewOneTimeKey};
    let secret = Secret::new(Kind::OneTime);
    let hash = secret.hash();
    let work = async move |tx: &mut Tx<'_>| {
        let user = users::by_name(tx, SYSTEM, "root").await?.id;
        let expires_at = from_now(std::time::Duration::from_mins(1));
        let (purpose, hash) = ("welcome".to_owned(), hash.clone());
        one_time_keys::create(
            tx,
            SYSTEM,
            &somebody(),
            NewOneTimeKey { user, purpose, hash, expires_at },
        )
        .await
    };
    server.app.store.write(work).await.unwrap();
    server.url(&format!("/welcome/{}", secret.reveal()))
}

async fn the_one_time_link_works_once(server: Server) {
    let _root = person(&server, "root", As::administrator()).await;
    // A program gets the token alone.
    let url = link(&server).await;
    let request = server.client.request(Method::POST, &url).header("accept", "application/json");
    let answer = reply(request).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert!(!answer.headers.contains_key("set-cookie"), "it is no browser");
    let token = answer.expect(200)["token"].as_str().unwrap().to_owned();
    let program = Person { server: &server, token };
    assert_eq!(program.get("/api/me").await.expect(200)["name"], "root");
    let url = link(&server).await;
    for _ in 0..2 {
        let page = reply(server.client.get(&url)).await;
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(page.expect(200).as_str().unwrap().contains("<button>"));
    }
    let page = reply(server.client.request(Method::POST, &url)).await.expect(200);
    let page = page.as_str().unwrap();
    let token = page.split("<pre>").nth(1).unwrap().split("</pre>").next().unwrap().to_owned();
    let person = Person { server: &server, token };
    assert_eq!(person.get("/api/me").await.expect(200)["admin"], true);
    reply(server.client.request(Method::POST, &url)).await.expect(404);
    let json =
        |url: &str| server.client.request(Method::POST, url).header("accept", "application/json");
    reply(json(&url)).await.expect(404);
    let wrong = server.url("/welcome/kot_guess");
    reply(json(&wrong)).await.expect(404);
    reply(server.client.request(Method::POST, wrong)).await.expect(404);
    reply(server.client.get(server.url("/welcome/x"))).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_authentication_everybody_is_the_administrator() {
    let database = kiln_testkit::database::Database::sqlite();
    let options = crate::support::Options { authentication: false, ..Default::default() };
    let server = Server::with(database, options).await;
    let me = reply(server.client.get(server.url("/api/me"))).await.expect(200);
    assert_eq!((&me["kind"], &me["admin"]), (&json!("person"), &json!(true)));
    let tokens = reply(server.client.get(server.url("/api/tokens"))).await;
    assert!(tokens.problem(404).contains("administrator"), "nobody is there yet");
}
