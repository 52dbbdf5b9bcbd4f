//! What jobs leave behind and find again, over HTTP; and what no job gets of another.

use std::sync::Arc;

use kiln_core::plan::Plan;
use kiln_core::queue::Class;
use kiln_core::value::{Object, Value as Any};
use kiln_proto::job::Job;
use kiln_server::service::context::Context;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_store::runs::NewRun;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::api::people::{As, Reply, person, reply};
use crate::blobs::{hash, noise, put};
use crate::runner::{LINUX, Reporter, Runner, completion, good};
use crate::support::{Place, Server};

/// How a run came about.
pub(crate) struct Of {
    pub(crate) event: &'static str,
    pub(crate) reference: &'static str,
    pub(crate) trust: &'static str,
    /// The branch that a pull request goes to.
    pub(crate) base: &'static str,
}

pub(crate) const PUSH: Of =
    Of { event: "push", reference: "refs/heads/main", trust: "trusted", base: "" };
pub(crate) const FORK: Of =
    Of { event: "pull_request", reference: "refs/pull/7/merge", trust: "untrusted", base: "main" };

/// A run of this workflow.
pub(crate) async fn run(server: &Server, place: &Place, of: &Of, workflow: &str) {
    run_plan(server, place, of, kiln_testkit::runs::plan(workflow)).await;
}

pub(crate) async fn run_plan(server: &Server, place: &Place, of: &Of, plan: Arc<Plan>) {
    let text = |text: &str| Any::from(text);
    let github: Object = [
        ("event_name", text(of.event)),
        ("ref", text(of.reference)),
        ("base_ref", text(of.base)),
        ("sha", text("abc")),
    ]
    .into_iter()
    .collect();
    let new = NewRun {
        org: place.org,
        repo: place.repo,
        workflow: place.workflow,
        root: None,
        event: of.event.to_owned(),
        actor: "octocat".to_owned(),
        trust: of.trust.to_owned(),
        reference: of.reference.to_owned(),
        head_sha: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        head_branch: None,
        title: "a run".to_owned(),
        plan,
        context: Context { github, ..Context::default() }.write(),
        class: Class::Normal,
        priority: 0,
        once: Vec::new(),
    };
    server.app.runs.create(new).await.unwrap();
}

pub(crate) const ONE_JOB: &str =
    "on: push\njobs:\n  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// A job that a runner has, and what it asks for.
pub(crate) struct Worker<'s> {
    pub(crate) server: &'s Server,
    pub(crate) job: Job,
    reporter: Reporter<'s>,
}

impl<'s> Worker<'s> {
    pub(crate) async fn start(runner: &Runner<'s>, place: &Place, of: &Of) -> Self {
        run(runner.server, place, of, ONE_JOB).await;
        Self::next(runner).await
    }

    pub(crate) async fn next(runner: &Runner<'s>) -> Self {
        let nonce = format!("{:x}", std::ptr::from_ref(runner).addr())
            + &kiln_server::clock::now().0.to_string();
        let job = runner.claim(&nonce, 5).await.unwrap();
        let server = runner.server;
        let reporter = Reporter::new(server, &job);
        Self { server, job, reporter }
    }

    pub(crate) fn ask(&self, method: Method, rest: &str) -> RequestBuilder {
        self.reporter.ask(method, rest)
    }

    pub(crate) async fn post(&self, rest: &str, body: Value) -> Reply {
        reply(self.ask(Method::POST, rest).json(&body)).await
    }

    /// Sends bytes as a runner does.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Value {
        let url = self.server.url("/api/blobs/uploads");
        let wish = json!({ "hash": hash(bytes), "size": bytes.len() });
        let ask = |url: String, body: Value| {
            self.server.client.post(url).bearer_auth(&self.job.token).json(&body)
        };
        let upload = reply(ask(url, wish)).await.expect(201);
        if upload["stored"] != true {
            let to = upload["pieces"][0]["url"].as_str().unwrap();
            assert!(put(self.server, to, bytes).await.is_success());
            let done = format!("/api/blobs/uploads/{}/complete", upload["id"]);
            reply(ask(self.server.url(&done), json!({}))).await.expect(200);
        }
        json!({ "hash": hash(bytes), "size": bytes.len() })
    }

    pub(crate) async fn save(&self, key: &str, bytes: &[u8]) -> Value {
        let new = json!({ "key": key, "version": "v1" });
        let reserved = self.post("caches", new).await.expect(201);
        let sent = self.send(bytes).await;
        self.post(&format!("caches/{}/complete", reserved["id"]), sent).await.expect(200)
    }

    /// The key of the cache that is found.
    pub(crate) async fn find(&self, key: &str, restore: &[&str]) -> Option<String> {
        let asked = json!({ "key": key, "restore_keys": restore, "version": "v1" });
        let found = self.post("caches/find", asked).await.expect(200);
        found["cache"]["key"].as_str().map(str::to_owned)
    }

    pub(crate) async fn upload(&self, new: Value, bytes: &[u8]) -> Value {
        let reserved = self.post("artifacts", new).await.expect(201);
        let sent = self.send(bytes).await;
        self.post(&format!("artifacts/{}/complete", reserved["id"]), sent).await.expect(200)
    }

    pub(crate) async fn listed(&self, query: &str) -> Vec<String> {
        let found = reply(self.ask(Method::GET, &format!("artifacts{query}"))).await.expect(200);
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        found["artifacts"].as_array().unwrap().iter().map(name).collect()
    }

    pub(crate) async fn end(&self) {
        let answer = self.reporter.completing(&completion("success")).send().await.unwrap();
        good::<Value>(answer).await;
    }
}

pub(crate) async fn builders<'s>(server: &'s Server, place: &Place) -> Runner<'s> {
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (mut asked, private) = crate::runner::registration(&key, "one", LINUX);
    asked.capabilities.max_parallel = 50;
    Runner::of(server, &asked, private).await
}

on_both! {
    /// R8
    a_cache_is_saved_once_and_found_by_key_and_by_beginnings
}

async fn a_cache_is_saved_once_and_found_by_key_and_by_beginnings(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(job.find("deps-1", &["deps-"]).await, None);
    let bytes = noise(1, 100_000);
    let saved = job.save("deps-1", &bytes).await;
    assert_eq!((&saved["hash"], &saved["size"]), (&json!(hash(&bytes)), &json!(100_000)));
    assert_eq!(saved["ref"], "refs/heads/main");
    let again = job.post("caches", json!({ "key": "deps-1", "version": "v1" })).await;
    assert!(again.problem(409).contains("exists already"));
    // Another version is another cache; while it is written nobody finds it.
    let other = job.post("caches", json!({ "key": "deps-1", "version": "v2" })).await.expect(201);
    let repeated = job.post("caches", json!({ "key": "deps-1", "version": "v2" })).await;
    assert_eq!(repeated.expect(201), other, "whoever did not hear the answer asks again");
    let asked = json!({ "key": "deps-1", "version": "v2" });
    assert_eq!(job.post("caches/find", asked).await.expect(200)["cache"], Value::Null);
    let path = format!("caches/{}/complete", other["id"]);
    let never = json!({ "hash": hash(b"never sent"), "size": 10 });
    assert!(job.post(&path, never).await.problem(409).contains("have not arrived"));
    let wrong = json!({ "hash": hash(&bytes), "size": 9 });
    assert!(job.post(&path, wrong).await.problem(422).contains("`size`"));
    let right = json!({ "hash": format!("sha256:{}", hash(&bytes)), "size": 100_000 });
    job.post(&path, right.clone()).await.expect(200);
    job.post(&path, right).await.expect(200);
    job.post(&path, json!({ "hash": hash(b""), "size": 0 })).await.expect(409);

    job.save("deps-2", b"two").await;
    let topic = Of { reference: "refs/heads/topic", ..PUSH };
    let topic = Worker::start(&runner, &place, &topic).await;
    let found = async |key: &str, restore: &[&str]| topic.find(key, restore).await;
    assert_eq!(found("deps-1", &[]).await.as_deref(), Some("deps-1"));
    assert_eq!(found("deps", &[]).await.as_deref(), Some("deps-2"));
    assert_eq!(found("none", &["deps-1", "deps-"]).await.as_deref(), Some("deps-1"));
    topic.save("deps-3", b"three").await;
    assert_eq!(found("deps-1", &["deps-3"]).await.as_deref(), Some("deps-3"), "its own ref first");
    // Siblings do not see each other, and nobody sees what a branch wrote but the branch.
    let sibling = Of { reference: "refs/heads/other", ..PUSH };
    let sibling = Worker::start(&runner, &place, &sibling).await;
    assert_eq!(sibling.find("deps-3", &["deps-"]).await.as_deref(), Some("deps-2"));
    assert_eq!(job.find("deps-3", &[]).await, None);
    // A pull request reads what its base wrote, and writes for itself.
    let release = Of { reference: "refs/heads/release", ..PUSH };
    Worker::start(&runner, &place, &release).await.save("deps-r", b"r").await;
    let pull = Of { base: "release", trust: "trusted", ..FORK };
    let pull = Worker::start(&runner, &place, &pull).await;
    assert_eq!(pull.find("deps-r", &[]).await.as_deref(), Some("deps-r"));
    let own = pull.save("deps-p", b"p").await;
    assert_eq!(own["ref"], "refs/pull/7/merge");
    let hits = topic.post("caches/find", json!({ "key": "deps-1", "version": "v1" })).await;
    assert!(hits.expect(200)["cache"]["hits"].as_i64().unwrap() > 0);
}

on_both! { keys_of_caches_are_checked }

async fn keys_of_caches_are_checked(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let long = "x".repeat(513);
    for key in ["", "a,b", "a\nb", "a\0b", &long] {
        let new = json!({ "key": key, "version": "v1" });
        assert!(!job.post("caches", new).await.problem(422).is_empty(), "{key:?}");
    }
    job.post("caches", json!({ "key": "x".repeat(512), "version": "v" })).await.expect(201);
    let many: Vec<String> = (0..11).map(|n| format!("k{n}")).collect();
    let asked = json!({ "key": "k", "restore_keys": many, "version": "v" });
    job.post("caches/find", asked).await.expect(422);
    job.post("caches/find", json!({ "key": "k", "version": "v", "ref": "x" })).await.expect(422);
    let quota = server.app.config.content.quota;
    let reserved = job.post("caches", json!({ "key": "big", "version": "v" })).await.expect(201);
    let big = json!({ "hash": hash(b"x"), "size": quota + 1 });
    let problem = job.post(&format!("caches/{}/complete", reserved["id"]), big).await.problem(422);
    assert!(problem.contains("may have 10000000000 bytes"), "{problem}");
}

on_both! {
    /// G8: the path of `TanStack`. A fork's pull request writes a cache under the very key that a trusted run restores.
    what_an_untrusted_run_wrote_is_never_restored_by_a_trusted_one
}

async fn what_an_untrusted_run_wrote_is_never_restored_by_a_trusted_one(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    // Even if it ran on the default branch, by an event that lets it write there.
    let here = Of { trust: "untrusted", ..PUSH };
    for of in [&FORK, &here] {
        let evil = Worker::start(&runner, &place, of).await;
        evil.save("pnpm-lock-1", b"evil").await;
        assert_eq!(evil.find("pnpm-lock-1", &[]).await.as_deref(), Some("pnpm-lock-1"));
    }
    let pull = Of { trust: "trusted", ..FORK };
    for of in [&PUSH, &pull] {
        let trusted = Worker::start(&runner, &place, of).await;
        assert_eq!(trusted.find("pnpm-lock-1", &["pnpm-", "p"]).await, None);
    }
    // It does not even keep a trusted run from writing its own.
    let trusted = Worker::start(&runner, &place, &PUSH).await;
    trusted.save("pnpm-lock-1", b"good").await;
    let asked = json!({ "key": "pnpm-lock-1", "version": "v1" });
    let found = trusted.post("caches/find", asked).await.expect(200);
    assert_eq!(found["cache"]["hash"], hash(b"good"));
    // What a trusted run wrote may be read by all, who do not make it younger.
    let fork = Worker::start(&runner, &place, &Of { reference: "refs/pull/8/merge", ..FORK }).await;
    let asked = json!({ "key": "pnpm-lock", "version": "v1" });
    let found = fork.post("caches/find", asked).await.expect(200);
    assert_eq!(found["cache"]["ref"], "refs/heads/main");
}

on_both! {
    /// G8
    events_of_little_trust_may_only_read_the_caches_of_a_branch
}

async fn events_of_little_trust_may_only_read_the_caches_of_a_branch(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    Worker::start(&runner, &place, &PUSH).await.save("k", b"k").await;
    for event in ["pull_request_target", "issue_comment", "workflow_run"] {
        let low = Worker::start(&runner, &place, &Of { event, ..PUSH }).await;
        assert_eq!(low.find("k", &[]).await.as_deref(), Some("k"), "{event}");
        assert!(low.job.reads_caches_only, "its actions hear of it");
        let denied = low.post("caches", json!({ "key": "x", "version": "v1" })).await.problem(403);
        assert!(denied.starts_with("cache write denied:"), "{denied}");
    }
    for event in ["schedule", "workflow_dispatch", "repository_dispatch"] {
        let high = Worker::start(&runner, &place, &Of { event, ..PUSH }).await;
        high.post("caches", json!({ "key": event, "version": "v1" })).await.expect(201);
        assert!(!high.job.reads_caches_only);
    }
    // What nobody but its own pull request reads may be written.
    let own = Of { trust: "trusted", ..FORK };
    let own = Worker::start(&runner, &place, &own).await;
    own.post("caches", json!({ "key": "x", "version": "v1" })).await.expect(201);
}

on_both! {
    /// R9
    artifacts_are_of_the_run_and_have_one_name_each
}

async fn artifacts_are_of_the_run_and_have_one_name_each(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let two = "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: 'true'}]}\n  \
               b: {runs-on: linux, steps: [{run: 'true'}]}\n";
    run(&server, &place, &PUSH, two).await;
    let (a, b) = (Worker::next(&runner).await, Worker::next(&runner).await);
    let bytes = noise(2, 70_000);
    let dist = a.upload(json!({ "name": "dist" }), &bytes).await;
    assert_eq!(dist["content_type"], "application/zip");
    assert_eq!((&dist["trust"], &dist["keep"]), (&json!("trusted"), &json!(false)));
    assert_eq!((&dist["run_id"], &dist["job_id"]), (&json!(a.job.run_id), &json!(a.job.job_id)));
    assert!(dist["expires_at"].is_string());
    assert_eq!(b.listed("").await, ["dist"]);
    assert!(b.post("artifacts", json!({ "name": "dist" })).await.problem(409).contains("dist"));
    // One that is only reserved is not seen, and cannot be completed by another job. Whoever did not hear the
    // answer asks again.
    let reserved = a.post("artifacts", json!({ "name": "wip" })).await.expect(201);
    assert_eq!(a.post("artifacts", json!({ "name": "wip" })).await.expect(201), reserved);
    b.post("artifacts", json!({ "name": "wip" })).await.expect(409);
    let sent = b.send(b"other").await;
    let complete = format!("artifacts/{}/complete", reserved["id"]);
    b.post(&complete, sent.clone()).await.expect(404);
    assert_eq!(b.listed("").await, ["dist"]);
    a.post(&complete, sent.clone()).await.expect(200);
    a.post(&complete, sent).await.expect(200);
    let plain = json!({ "name": "log.txt", "content_type": "text/plain", "overwrite": true });
    b.upload(plain.clone(), b"one").await;
    b.upload(plain, b"two").await;
    assert_eq!(a.listed("").await, ["dist", "wip", "log.txt"]);
    assert_eq!(a.listed("?name=wip").await, ["wip"]);
    assert_eq!(a.listed(&format!("?id={}", dist["id"])).await, ["dist"]);
    assert_eq!(a.listed("?name=none").await, [""; 0]);
    let gone = b.ask(Method::DELETE, &format!("artifacts/{}", dist["id"]));
    assert_eq!(gone.send().await.unwrap().status(), 204);
    assert_eq!(a.listed("").await, ["wip", "log.txt"]);
    a.upload(json!({ "name": "dist" }), &bytes).await;
    for wrong in [
        json!({ "name": "" }),
        json!({ "name": "a/b" }),
        json!({ "name": ".." }),
        json!({ "name": "x".repeat(300) }),
        json!({ "name": "x", "expires_at": "2001-01-01T00:00:00Z" }),
        json!({ "name": "x", "expires_at": "soon" }),
        json!({ "name": "x", "content_type": "a\nb" }),
        json!({ "name": "x", "run": 1 }),
    ] {
        assert!(!a.post("artifacts", wrong.clone()).await.problem(422).is_empty(), "{wrong}");
    }
}

on_both! { an_artifact_ends_when_asked_but_not_later_than_the_server_allows }

async fn an_artifact_ends_when_asked_but_not_later_than_the_server_allows(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let far = job.upload(json!({ "name": "a", "expires_at": "2999-01-01T00:00:00Z" }), b"a").await;
    let usual = job.upload(json!({ "name": "b" }), b"b").await;
    let day = |one: &Value| one["expires_at"].as_str().unwrap()[..10].to_owned();
    assert_eq!(day(&far), day(&usual));
    let soon = crate::support::from_now(std::time::Duration::from_hours(1)).rfc3339();
    let short = job.upload(json!({ "name": "c", "expires_at": soon }), b"c").await;
    assert_eq!(short["expires_at"], soon);
    let over = async |tx: &mut Tx<'_>| {
        let sql = "UPDATE artifacts SET expires_at = 1 WHERE name = 'c'";
        tx.execute(sql, &[]).await
    };
    server.app.store.write(over).await.unwrap();
    assert_eq!(job.listed("").await, ["a", "b"]);
}

on_both! {
    /// R9
    an_artifact_is_replaced_when_the_new_one_is_complete
}

async fn an_artifact_is_replaced_when_the_new_one_is_complete(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    job.upload(json!({ "name": "dist" }), b"one").await;
    let found = async || {
        let all = reply(job.ask(Method::GET, "artifacts")).await.expect(200);
        let hash = |one: &Value| one["hash"].as_str().unwrap().to_owned();
        all["artifacts"].as_array().unwrap().iter().map(hash).collect::<Vec<_>>()
    };
    let new = json!({ "name": "dist", "overwrite": true });
    let reserved = job.post("artifacts", new.clone()).await.expect(201);
    assert_eq!(job.post("artifacts", new).await.expect(201), reserved);
    assert_eq!(found().await, [hash(b"one")], "there is always one");
    let path = format!("artifacts/{}/complete", reserved["id"]);
    // Bytes that never came complete nothing, and take nobody's place.
    let never = json!({ "hash": hash(b"never sent"), "size": 10 });
    job.post(&path, never).await.problem(409);
    assert_eq!(found().await, [hash(b"one")]);
    let sent = job.send(b"two").await;
    let made = job.post(&path, sent.clone()).await.expect(200);
    assert_eq!(
        (&made["name"], job.post(&path, sent).await.expect(200)),
        (&json!("dist"), made.clone())
    );
    assert_eq!(found().await, [hash(b"two")]);
    // Nor does one that its job never completed.
    let again = json!({ "name": "dist", "overwrite": true });
    job.post("artifacts", again).await.expect(201);
    job.end().await;
    let person = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let path = format!("/repos/acme/app/actions/runs/{}/artifacts", job.job.run_id);
    let left = person.get(&path).await.expect(200);
    let digests: Vec<&Value> =
        left["artifacts"].as_array().unwrap().iter().map(|one| &one["digest"]).collect();
    assert_eq!(digests, [&json!(format!("sha256:{}", hash(b"two")))]);
}

on_both! {
    /// C3
    an_upload_of_a_job_lasts_as_long_as_the_job_and_all_of_them_are_bounded
}

async fn an_upload_of_a_job_lasts_as_long_as_the_job_and_all_of_them_are_bounded(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let ask = |path: &str, body: Value| {
        let request = server.client.post(server.url(path)).bearer_auth(&job.job.token);
        reply(request.json(&body))
    };
    let bytes = noise(4, 70_000);
    let wish = json!({ "hash": hash(&bytes), "size": bytes.len() });
    let upload = ask("/api/blobs/uploads", wish).await.expect(201);
    let late = async |tx: &mut Tx<'_>| tx.execute("UPDATE uploads SET expires_at = 1", &[]).await;
    server.app.store.write(late).await.unwrap();
    let id = upload["id"].as_i64().unwrap();
    let fresh = ask(&format!("/api/blobs/uploads/{id}/renew"), json!({})).await.expect(200);
    assert_eq!(fresh["id"], id);
    server.app.store.write(late).await.unwrap();
    assert_eq!(put(&server, fresh["pieces"][0]["url"].as_str().unwrap(), &bytes).await, 204);
    ask(&format!("/api/blobs/uploads/{id}/complete"), json!({})).await.expect(200);
    ask(&format!("/api/blobs/uploads/{id}/complete"), json!({})).await.expect(404);
    ask(&format!("/api/blobs/uploads/{id}/renew"), json!({})).await.expect(404);
    // What is begun and never sent is bounded.
    let large = |seed: u8| json!({ "hash": hash(&[seed]), "size": 16_u64 << 30 });
    for seed in 0..4 {
        ask("/api/blobs/uploads", large(seed)).await.expect(201);
    }
    let why = ask("/api/blobs/uploads", large(9)).await.problem(422);
    assert!(why.contains("limits.open_uploads"), "{why}");
}

pub(crate) fn steps_token(job: &Worker<'_>) -> String {
    let github: Value = serde_json::from_str(job.job.contexts.github.get()).unwrap();
    github["token"].as_str().unwrap().to_owned()
}

on_both! {
    /// R9 G8
    steps_see_artifacts_of_their_run_and_of_others_that_they_may_rely_on
}

async fn steps_see_artifacts_of_their_run_and_of_others_that_they_may_rely_on(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let evil = Worker::start(&runner, &place, &FORK).await;
    let evil_made = evil.upload(json!({ "name": "evil" }), b"evil").await;
    let good = Worker::start(&runner, &place, &PUSH).await;
    let good_made = good.upload(json!({ "name": "good" }), b"good").await;
    let ask = async |job: &Worker<'_>, method: Method, rest: &str| {
        let url = server.url(&format!("/repos/acme/app/actions{rest}"));
        reply(server.client.request(method, url).bearer_auth(steps_token(job))).await
    };
    let names = async |job: &Worker<'_>, rest: &str| {
        let all = ask(job, Method::GET, rest).await.expect(200);
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        all["artifacts"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let with =
        |permissions: &str| ONE_JOB.replace("jobs:", &format!("permissions: {permissions}\njobs:"));
    let (evil_id, good_id) = (&evil_made["id"], &good_made["id"]);
    let of_evil = format!("/runs/{}/artifacts", evil.job.run_id);
    // A trusted run sees those of trusted runs.
    run(&server, &place, &PUSH, &with("{actions: read}")).await;
    let reads = Worker::next(&runner).await;
    reads.upload(json!({ "name": "own" }), b"own").await;
    assert_eq!(names(&reads, "/artifacts").await, ["own", "good"]);
    assert_eq!(names(&reads, &of_evil).await, [""; 0]);
    ask(&reads, Method::GET, &format!("/artifacts/{evil_id}")).await.expect(404);
    ask(&reads, Method::GET, &format!("/artifacts/{evil_id}/zip")).await.expect(404);
    ask(&reads, Method::GET, &format!("/artifacts/{good_id}")).await.expect(200);
    ask(&reads, Method::DELETE, &format!("/artifacts/{good_id}")).await.expect(403);
    // One of a stranger sees both, and removes none, whatever it says.
    run(&server, &place, &FORK, &with("{actions: write}")).await;
    let fork = Worker::next(&runner).await;
    assert_eq!(names(&fork, "/artifacts").await, ["own", "good", "evil"]);
    ask(&fork, Method::DELETE, &format!("/artifacts/{good_id}")).await.expect(403);
    // Without the right, a job sees those of its run.
    run(&server, &place, &PUSH, &with("{contents: read}")).await;
    let blind = Worker::next(&runner).await;
    let mine = blind.upload(json!({ "name": "mine" }), b"mine").await;
    assert_eq!(names(&blind, "/artifacts").await, ["mine"]);
    assert_eq!(names(&blind, &format!("/runs/{}/artifacts", good.job.run_id)).await, [""; 0]);
    ask(&blind, Method::GET, &format!("/artifacts/{}", mine["id"])).await.expect(200);
    ask(&blind, Method::GET, &format!("/artifacts/{good_id}")).await.expect(404);
    // With `actions: write` it removes what it sees.
    run(&server, &place, &PUSH, &with("{actions: write}")).await;
    let writes = Worker::next(&runner).await;
    assert_eq!(ask(&writes, Method::DELETE, &format!("/artifacts/{good_id}")).await.status, 204);
    ask(&writes, Method::DELETE, &format!("/artifacts/{evil_id}")).await.expect(404);
    assert_eq!(names(&writes, "/artifacts").await, ["mine", "own"]);
}
