//! What the token of a job opens: what is its own, and nothing else of what the server serves. The list of
//! routes is the published one, so that a new one is asked, too.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::access::{OPEN, fill};
use crate::api::openapi::routes;
use crate::api::people::{Reply, reply};
use crate::api::steps::ANYBODY;
use crate::blobs::{hash, noise};
use crate::content::{ONE_JOB, PUSH, Worker, builders, run, steps_token};
use crate::runner::Runner;
use crate::support::{Place, Server};

/// A job at work, and what is its own, by the names that paths have for it.
struct Own<'s> {
    place: Place,
    worker: Worker<'s>,
    runner: i64,
    /// Reserved, and complete.
    caches: [i64; 2],
    artifacts: [i64; 2],
    upload: i64,
    /// Of bytes that were sent.
    hash: String,
    manifest: String,
    object: String,
}

fn id(made: &Value) -> i64 {
    made["id"].as_i64().unwrap()
}

impl<'s> Own<'s> {
    async fn new(server: &'s Server, place: Place, runner: &Runner<'s>) -> Self {
        let workflow = ONE_JOB.replace("jobs:", "permissions: {actions: write}\njobs:");
        run(server, &place, &PUSH, &workflow).await;
        let worker = Worker::next(runner).await;
        let key = json!({ "key": "wip", "version": "v1" });
        let reserved = worker.post("caches", key).await.expect(201);
        let saved = worker.save("k", place.name.as_bytes()).await;
        let begun = worker.post("artifacts", json!({ "name": "wip" })).await.expect(201);
        let made = worker.upload(json!({ "name": "dist" }), place.name.as_bytes()).await;
        let bytes = noise(9, 70_000);
        let bytes = [bytes.as_slice(), place.name.as_bytes()].concat();
        let wish = json!({ "hash": hash(&bytes), "size": bytes.len() });
        let url = server.url("/api/blobs/uploads");
        let upload = server.client.post(url).bearer_auth(&worker.job.token).json(&wish);
        let upload = reply(upload).await.expect(201);
        let steps = steps_token(&worker);
        let post = async |path: &str, body: Value| {
            let request = server.client.post(server.url(path)).bearer_auth(&steps);
            reply(request.json(&body)).await.expect(201)
        };
        let owner = place.name.split('/').next().unwrap();
        let manifest = post("/api/manifests", json!({ "owner": owner })).await;
        let new = json!({ "owner": owner, "type": "image", "manifest": manifest["slug"] });
        let object = post("/api/objects", new).await;
        let text = |one: &Value| one["slug"].as_str().unwrap().to_owned();
        Self {
            runner: runner.id,
            caches: [id(&reserved), id(&saved)],
            artifacts: [id(&begun), id(&made)],
            upload: id(&upload),
            hash: hash(place.name.as_bytes()),
            manifest: text(&manifest),
            object: text(&object),
            worker,
            place,
        }
    }

    fn owner(&self) -> &str {
        self.place.name.split('/').next().unwrap()
    }

    /// A path about this job and what is its own.
    fn path(&self, path: &str, which: usize) -> String {
        let (owner, repo) = self.place.name.split_once('/').unwrap();
        let is_git = path.starts_with("/{owner}/{repo}/");
        let filled = fill(path, &|name| match (name, path) {
            ("owner" | "org", _) => owner.to_owned(),
            ("repo", _) if is_git => format!("{repo}.git"),
            ("repo", _) => repo.to_owned(),
            ("id", path) if path.starts_with("/actions/jobs/") => {
                self.worker.job.job_id.to_string()
            }
            ("attempt", _) => self.worker.job.attempt.to_string(),
            ("id", path) if path.contains("/uploads/") => self.upload.to_string(),
            ("id", path) if path.contains("/runners/") => self.runner.to_string(),
            ("id", path) if path.contains("/resources/") => self.artifacts[which].to_string(),
            ("type", _) => "artifact".to_owned(),
            ("cache" | "cache_id", _) => self.caches[which].to_string(),
            ("artifact" | "artifact_id", _) => self.artifacts[which].to_string(),
            ("run" | "run_id", _) => self.worker.job.run_id.to_string(),
            ("job" | "job_id", _) => self.worker.job.job_id.to_string(),
            ("hash", _) => self.hash.clone(),
            ("manifest_id", _) => self.manifest.clone(),
            ("object_id", _) => self.object.clone(),
            _ => "1".to_owned(),
        });
        match path {
            "/{owner}/{repo}/info/refs" => filled + "?service=git-upload-pack",
            "/actions/jobs/{id}/attempts/{attempt}/log" => filled + "?from=0",
            "/api/manifests" | "/api/objects" | "/api/tags" => format!("{filled}?owner={owner}"),
            _ => filled,
        }
    }

    /// A body that a route would take.
    fn body(&self, path: &str) -> Value {
        let own = json!({ "hash": self.hash, "size": self.place.name.len() });
        match path.rsplit('/').next().unwrap() {
            "find" | "caches" => json!({ "key": "k", "version": "v1" }),
            "chunks" => json!({ "hashes": [self.hash] }),
            "packs" => json!({ "hash": self.hash }),
            "tree" => json!({ "hash": self.hash, "size": self.place.name.len(), "packs": [] }),
            "complete" if path.contains("/uploads/") => json!({}),
            "complete" if path.ends_with("/attempts/{attempt}/complete") => {
                json!({ "conclusion": "success" })
            }
            "complete" => own,
            "artifacts" => json!({ "name": "x" }),
            "events" => json!({ "events": [] }),
            "result" => json!({ "fingerprint": "0".repeat(64) }),
            "exists" => json!({ "owner": self.owner(), "hashes": [self.hash] }),
            "uploads" => json!({ "owner": self.owner(), "hash": hash(b"new"), "size": 3 }),
            "manifests" => json!({ "owner": self.owner() }),
            "objects" => json!({ "owner": self.owner(), "type": "x", "manifest": self.manifest }),
            "tags" => json!({ "add": ["x"] }),
            "resources" => json!({ "type": "artifact", "id": self.artifacts[1] }),
            "claim" if path.starts_with("/api/manifests/") => {
                json!({ "from": self.manifest, "type": "artifact", "id": self.artifacts[1] })
            }
            _ => json!({}),
        }
    }
}

/// The two tokens of a job: the runner's, and the one that its steps see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Job,
    Steps,
}

async fn ask(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let method: Method = method.parse().unwrap();
    let has_body = method != Method::GET && method != Method::DELETE;
    let request = server.client.request(method, server.url(path)).bearer_auth(token);
    reply(if has_body { request.json(body) } else { request }).await
}

/// What is answered about a job of another repository of the same organization, and about one of another
/// organization. Nothing where the route is open to whoever asks.
type Said = (Option<u16>, Option<u16>);

const fn both(status: u16) -> Said {
    (Some(status), Some(status))
}

/// Which routes a rule is about, what the token of a job hears there, and what that of its steps does.
struct Rule {
    fits: fn(&str, &str) -> bool,
    job: Said,
    steps: Said,
}

/// The first that fits decides.
const RULES: [Rule; 12] = [
    // What a runner says of its job: steps are nobody there.
    Rule { fits: |_, path| path.starts_with("/actions/jobs/"), job: both(404), steps: both(401) },
    // What runners say of themselves.
    Rule { fits: |_, path| is_of_runners(path), job: both(401), steps: both(401) },
    // Code: a job reads its own.
    Rule { fits: |_, path| path.starts_with("/{owner}/{repo}/"), job: both(404), steps: both(404) },
    // What is being sent is whose who sends it. Bytes are for jobs, and not for what they start.
    Rule {
        fits: |_, path| path.starts_with("/api/blobs/uploads/{id}/"),
        job: both(404),
        steps: both(403),
    },
    // Bytes are the organization's, for whoever knows their SHA-256.
    Rule {
        fits: |_, path| path.starts_with("/api/blobs/"),
        job: (None, Some(404)),
        steps: both(403),
    },
    // All of an organization is for people to list.
    Rule {
        fits: |method, path| method == "GET" && ["/api/objects", "/api/tags"].contains(&path),
        job: both(403),
        steps: both(403),
    },
    // What of its own organization a job would list, or make, is of its own repository.
    Rule {
        fits: |_, path| path == "/api/manifests",
        job: (None, Some(404)),
        steps: (None, Some(404)),
    },
    Rule {
        fits: |_, path| path.starts_with("/api/manifests/") || path.starts_with("/api/objects"),
        job: both(404),
        steps: both(404),
    },
    // From here on nobody is known by the token of a job.
    Rule { fits: |_, path| ANYBODY.contains(&path), job: both(401), steps: (None, None) },
    // Steps are known, and other repositories do not exist for them, nor do other organizations.
    Rule { fits: |_, path| path.contains("/{repo}"), job: both(401), steps: both(404) },
    Rule {
        fits: |_, path| path.contains("/{owner}") || path.contains("/{org}"),
        job: both(401),
        steps: (Some(403), Some(404)),
    },
    // All else is for people, whatever it names: whether that exists is not even looked at.
    Rule { fits: |_, _| true, job: both(401), steps: both(403) },
];

fn is_of_runners(path: &str) -> bool {
    let theirs = ["/actions/runners/", "/api/workers/"];
    path == "/api/runners/{id}/unregister" || theirs.iter().any(|start| path.starts_with(start))
}

/// What a token of a job hears about what is another's; nothing where it may ask.
fn refusal(token: Token, method: &str, path: &str, same_org: bool) -> Option<u16> {
    let rule = RULES.iter().find(|rule| (rule.fits)(method, path));
    let rule = rule.expect("the last one fits everything");
    let (near, far) = if token == Token::Job { rule.job } else { rule.steps };
    if same_org { near } else { far }
}

/// Whether it is for those who have not said who they are: with a signature, a key, or at all.
fn is_open(path: &str) -> bool {
    let keys = ["/api/runners/register", "/api/workers/register"];
    OPEN.contains(&path) || keys.contains(&path)
}

on_both! {
    /// S24, PEERS 17: the token of job A gets 404 on everything of job B, and nothing once its job is over.
    a_token_is_for_its_job_alone_and_dies_with_it
}

async fn a_token_is_for_its_job_alone_and_dies_with_it(server: Server) {
    let app = server.repository("acme", "app").await;
    let beside = server.repository("acme", "beside").await;
    let rival = server.repository("rival", "app").await;
    let (runner, other) = (builders(&server, &app).await, builders(&server, &rival).await);
    let own = Own::new(&server, app, &runner).await;
    let near = Own::new(&server, beside, &runner).await;
    let far = Own::new(&server, rival, &other).await;
    let steps = steps_token(&own.worker);
    let mut asked = 0;
    for (method, path) in routes().iter().filter(|(_, path)| !is_open(path)) {
        for (victim, same_org) in [(&near, true), (&far, false)] {
            let (filled, body) = (victim.path(path, 1), victim.body(path));
            for token in [Token::Job, Token::Steps] {
                let Some(expected) = refusal(token, method, path, same_org) else { continue };
                let text = if token == Token::Job { &own.worker.job.token } else { &steps };
                let answer = ask(&server, text, method, &filled, &body).await;
                let about = format!("{method} {filled} with {token:?}: {:?}", answer.body);
                assert_eq!(answer.status.as_u16(), expected, "{about}");
            }
            if path.starts_with("/actions/") {
                for token in ["", "kjt_made-up", "kgt_made-up"] {
                    let answer = ask(&server, token, method, &filled, &body).await;
                    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {filled}");
                }
            }
        }
        asked += 1;
    }
    assert!(asked > 100, "only {asked} routes were asked");
    with_own_address(&server, &own, &[&near, &far]).await;
    runners_keep_to_themselves(&server, &own, &far, &runner).await;
    // Nothing of it happened: what they had, they have, and they can go on.
    for victim in [&near, &far] {
        assert_eq!(victim.worker.listed("").await, ["dist"]);
        assert_eq!(victim.worker.find("k", &[]).await.as_deref(), Some("k"));
        let sent = victim.worker.send(b"of the victim").await;
        let complete = format!("caches/{}/complete", victim.caches[0]);
        victim.worker.post(&complete, sent.clone()).await.expect(200);
        let complete = format!("artifacts/{}/complete", victim.artifacts[0]);
        victim.worker.post(&complete, sent).await.expect(200);
        let renew = format!("/api/blobs/uploads/{}/renew", victim.upload);
        ask(&server, &victim.worker.job.token, "POST", &renew, &json!({})).await.expect(200);
    }
    assert_eq!(own.worker.listed("").await, ["dist"]);
    over_is_over(&server, &near).await;
}

/// At one's own address, with what is somebody else's.
async fn with_own_address(server: &Server, own: &Own<'_>, others: &[&Own<'_>]) {
    let mut asked = 0;
    for (method, path) in routes() {
        let names_things = ["{cache}", "{artifact}"].iter().any(|name| path.contains(name));
        if !path.starts_with("/actions/jobs/") || !names_things {
            continue;
        }
        let (head, rest) = path.split_at("/actions/jobs/{id}/attempts/{attempt}".len());
        for victim in others {
            for which in [0, 1] {
                let filled = own.path(head, 0) + &victim.path(rest, which);
                let token = &own.worker.job.token;
                let answer = ask(server, token, &method, &filled, &own.body(&path)).await;
                assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {filled}");
            }
        }
        asked += 1;
    }
    assert!(asked >= 4, "only {asked} routes name something of a job");
    let keys = own.worker.find("of nobody", &["wip", "k"]).await;
    assert_eq!(keys.as_deref(), Some("k"), "its own");
}

/// A runner says nothing for another one, nor does a job for its runner.
async fn runners_keep_to_themselves(
    server: &Server,
    own: &Own<'_>,
    far: &Own<'_>,
    runner: &Runner<'_>,
) {
    let mut asked = 0;
    for (method, path) in routes() {
        let is_of_runner =
            path.starts_with("/actions/runners/{id}/") || path == "/api/runners/{id}/unregister";
        if is_of_runner {
            let (theirs, body) = (far.path(&path, 1), far.body(&path));
            ask(server, &runner.token, &method, &theirs, &body).await.expect(404);
            let (ours, token) = (own.path(&path, 1), &own.worker.job.token);
            ask(server, token, &method, &ours, &body).await.expect(401);
            asked += 1;
        }
    }
    assert_eq!(asked, 4);
}

async fn over_is_over(server: &Server, near: &Own<'_>) {
    near.worker.end().await;
    let (job, steps) = (&near.worker.job.token, steps_token(&near.worker));
    // A last word that did not hear its answer is said again, until it is heard.
    let last_words = ["log", "events", "complete", "return"];
    for (method, path) in routes().iter().filter(|(_, path)| !is_open(path)) {
        let is_last_word = last_words
            .iter()
            .any(|word| *path == format!("/actions/jobs/{{id}}/attempts/{{attempt}}/{word}"));
        for (token, is_job) in [(job, true), (&steps, false)] {
            if is_last_word && is_job {
                continue;
            }
            let answer = ask(server, token, method, &near.path(path, 1), &near.body(path)).await;
            assert_eq!(
                answer.status,
                StatusCode::UNAUTHORIZED,
                "{method} {path} {:?}",
                answer.body
            );
        }
    }
    for word in ["log?from=0", "events", "return"] {
        let path = format!(
            "/actions/jobs/{}/attempts/{}/{word}",
            near.worker.job.job_id, near.worker.job.attempt
        );
        let method = if word.starts_with("log") { "PUT" } else { "POST" };
        let said = json!({ "events": [{ "sequence": 1, "at": 1, "type": "started" }] });
        let body = if word == "events" { said } else { json!({}) };
        let status = ask(server, job, method, &path, &body).await.status;
        assert!(status == 409 || status == 422, "{word}: {status}");
    }
}
