//! Every change that people make leaves a row in the audit log, route by route.

use kiln_core::run::Conclusion;
use kiln_store::Tx;
use kiln_store::outbox::{self, Kind, Message};
use kiln_testkit::database::Database;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::access::{Things, fill, is_for_people, things};
use super::openapi::routes;
use super::people::{As, Person, person, reply};
use crate::support::Server;

/// What a route leaves when it has done something.
enum Leaves {
    /// A row, once it is asked for with this body in such a situation.
    Row(Situation, Body),
    /// Nothing, and why that is right.
    Nothing(&'static str),
}

/// What there must be before.
#[derive(Clone, Copy)]
enum Situation {
    /// Another repository's run is under way, and somebody's things are there.
    Usual,
    /// The run has failed.
    Ended,
    /// Somebody did this first.
    After(&'static str, &'static str, Body),
    /// A task failed too often.
    Parked,
    /// The artifact belongs to the manifest.
    Owned,
    /// It belongs to another one, which was sealed.
    Sealed,
}

#[derive(Clone, Copy)]
enum Body {
    None,
    Json(&'static str),
    /// With the number of the artifact, and of the manifest that owns it.
    Artifact,
    Claim,
    /// A file by a form.
    Form,
}

use Body::{Artifact, Claim, Form, Json};
use Leaves::{Nothing, Row};
use Situation::{After, Ended, Owned, Parked, Sealed, Usual};

const BYTES: &str = "bytes alone are nobody's; what refers to them leaves a row";
const OBJECT: &str = "/api/objects/{object_id}";
const NEW_OBJECT: Body = Json(r#"{"owner": "other", "type": "report", "provider_object_id": "x"}"#);
const REASON: Body = Json(r#"{"reason": "x"}"#);

/// What each route leaves. A route that is not here has been forgotten.
const ROUTES: &[(&str, &str, Leaves)] = &[
    ("DELETE", "/api/artifacts/{artifact_id}", Row(Usual, Body::None)),
    ("PUT", "/api/artifacts/{artifact_id}/keep", Row(Usual, Json(r#"{"keep": true}"#))),
    ("POST", "/api/blobs/exists", Nothing("it is a question")),
    ("POST", "/api/blobs/uploads", Nothing(BYTES)),
    ("POST", "/api/blobs/uploads/{id}/complete", Nothing(BYTES)),
    ("POST", "/api/blobs/uploads/{id}/renew", Nothing(BYTES)),
    ("POST", "/api/identity/keys", Row(Usual, Body::None)),
    ("POST", "/api/manifests", Row(Usual, Json(r#"{"owner": "other"}"#))),
    ("POST", "/api/manifests/{manifest_id}/claim", Row(Sealed, Claim)),
    ("POST", "/api/manifests/{manifest_id}/resources", Row(Usual, Artifact)),
    ("DELETE", "/api/manifests/{manifest_id}/resources/{type}/{id}", Row(Owned, Body::None)),
    ("POST", "/api/manifests/{manifest_id}/seal", Row(Usual, Body::None)),
    ("POST", "/api/objects", Row(Usual, NEW_OBJECT)),
    ("DELETE", OBJECT, Row(After("POST", "/api/objects", NEW_OBJECT), Body::None)),
    ("PUT", "/api/objects/{object_id}/tags", Row(Usual, Json(r#"{"add": ["x"]}"#))),
    ("PATCH", "/api/orgs/{owner}", Row(Usual, Json(r#"{"shares": 7}"#))),
    ("PUT", "/api/pause", Row(Usual, REASON)),
    ("DELETE", "/api/pause", Row(After("PUT", "/api/pause", REASON), Body::None)),
    ("PUT", "/api/queues/{id}/pause", Row(Usual, REASON)),
    (
        "DELETE",
        "/api/queues/{id}/pause",
        Row(After("PUT", "/api/queues/{id}/pause", REASON), Body::None),
    ),
    ("POST", "/api/registration-keys", Row(Usual, Json(r#"{"owner": "other"}"#))),
    ("DELETE", "/api/registration-keys/{id}", Row(Usual, Body::None)),
    (
        "POST",
        "/api/repos",
        Row(
            Usual,
            Json(r#"{"owner": "new", "name": "x", "source": "/x", "default_branch": "main"}"#),
        ),
    ),
    ("DELETE", "/api/repos/{owner}/{repo}", Row(Usual, Body::None)),
    ("PATCH", "/api/repos/{owner}/{repo}", Row(Usual, Json(r#"{"shares": 7}"#))),
    (
        "POST",
        "/api/repos/{owner}/{repo}/enable",
        Row(After("DELETE", "/api/repos/{owner}/{repo}", Body::None), Body::None),
    ),
    ("PUT", "/api/repos/{owner}/{repo}/pause", Row(Usual, REASON)),
    (
        "DELETE",
        "/api/repos/{owner}/{repo}/pause",
        Row(After("PUT", "/api/repos/{owner}/{repo}/pause", REASON), Body::None),
    ),
    ("POST", "/api/repos/{owner}/{repo}/trigger", Row(Usual, Json(r#"{"workflow": "ci.yml"}"#))),
    ("DELETE", "/api/runners/{id}", Row(Usual, Body::None)),
    ("POST", "/api/runners/{id}/drain", Row(Usual, Body::None)),
    ("POST", "/api/runners/{id}/revoke", Row(Usual, Body::None)),
    (
        "POST",
        "/api/runners/{id}/undrain",
        Row(After("POST", "/api/runners/{id}/drain", Body::None), Body::None),
    ),
    ("POST", "/api/runs/{run}/cancel", Row(Usual, Json(r#"{"reason": "x"}"#))),
    ("POST", "/api/runs/{run}/force-cancel", Row(Usual, Json(r#"{"reason": "x"}"#))),
    ("POST", "/api/runs/{run}/priority", Row(Usual, Json(r#"{"priority": 50}"#))),
    ("POST", "/api/runs/{run}/rerun", Row(Ended, Json("{}"))),
    ("POST", "/api/storage/gc", Row(Usual, Json("{}"))),
    ("POST", "/api/tasks/retry", Row(Parked, Json("{}"))),
    ("POST", "/api/tokens", Row(Usual, Json(r#"{"name": "x"}"#))),
    ("DELETE", "/api/tokens/{id}", Row(Usual, Body::None)),
    ("DELETE", "/api/v3/orgs/{org}/actions/runners/{runner_id}", Row(Usual, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}", Row(Usual, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/caches", Row(Usual, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/caches/{cache_id}", Row(Usual, Body::None)),
    ("POST", "/repos/{owner}/{repo}/actions/jobs/{job_id}/rerun", Row(Ended, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/runners/{runner_id}", Row(Usual, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/runs/{run_id}", Row(Ended, Body::None)),
    ("POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", Row(Usual, Form)),
    ("POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel", Row(Usual, Body::None)),
    ("POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/force-cancel", Row(Usual, Body::None)),
    ("DELETE", "/repos/{owner}/{repo}/actions/runs/{run_id}/logs", Row(Ended, Body::None)),
    ("POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun", Row(Ended, Body::None)),
    (
        "POST",
        "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs",
        Row(Ended, Body::None),
    ),
    (
        "PUT",
        "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/disable",
        Row(Usual, Body::None),
    ),
    (
        "POST",
        "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches",
        Row(Usual, Json(r#"{"ref": "main"}"#)),
    ),
    (
        "PUT",
        "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/enable",
        Row(
            After(
                "PUT",
                "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/disable",
                Body::None,
            ),
            Body::None,
        ),
    ),
    (
        "POST",
        "/repos/{owner}/{repo}/dispatches",
        Nothing(
            "the workflow of the test listens to none; what it starts leaves rows as triggers do",
        ),
    ),
];

fn expected(method: &str, path: &str) -> Option<&'static Leaves> {
    let found = ROUTES.iter().find(|(verb, at, _)| (*verb, *at) == (method, path));
    found.map(|(_, _, leaves)| leaves)
}

/// S24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_leaves_a_row() {
    let mut wrong = Vec::new();
    let (mut rows, mut nothing) = (0, 0);
    for (method, path) in routes() {
        if method == "GET" || !is_for_people(&path) {
            continue;
        }
        match expected(&method, &path) {
            None => wrong.push(format!("{method} {path}: what it leaves is not in the table")),
            Some(Nothing(why)) => {
                assert!(!why.is_empty());
                nothing += 1;
            }
            Some(Row(situation, body)) => {
                rows += 1;
                if let Err(why) = leaves_a_row(&method, &path, *situation, *body).await {
                    wrong.push(format!("{method} {path}: {why}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows > 40 && nothing < 10, "{rows} routes leave rows, {nothing} none");
}

async fn leaves_a_row(
    method: &str,
    path: &str,
    situation: Situation,
    body: Body,
) -> Result<(), String> {
    let server = Server::start(Database::sqlite()).await;
    let root = person(&server, "root", As::administrator()).await;
    let things = things(&server, &root).await;
    let world = World { root: &root, things: &things };
    world.prepare(situation).await?;
    let before = newest(&server).await;
    world.ask(method, path, body).await?;
    match newest(&server).await {
        after if after.0 == before.0 => Err("it left no row".to_owned()),
        (_, actor) if actor != "root" => Err(format!("its row is of `{actor}`")),
        _ => Ok(()),
    }
}

/// The newest row of the audit log: its number, and who did it.
async fn newest(server: &Server) -> (i64, String) {
    let look = async |tx: &mut Tx<'_>| {
        let row =
            tx.one("row", "SELECT id, actor FROM audit ORDER BY id DESC LIMIT 1", &[]).await?;
        Ok((row.get(0)?, row.get(1)?))
    };
    server.app.store.read(look).await.unwrap()
}

struct World<'s> {
    root: &'s Person<'s>,
    things: &'s Things,
}

impl World<'_> {
    async fn ask(&self, method: &str, path: &str, body: Body) -> Result<Value, String> {
        let mut filled = fill(path, &|name| self.things.named(name, path));
        if path == OBJECT {
            // The one that was just made; the first belongs to an artifact, and goes with that.
            filled = format!("/api/objects/{}", self.things.object.0 + 1);
        }
        if path.ends_with("/actions/caches") {
            filled.push_str("?key=k");
        }
        let request = self.root.request(method.parse::<Method>().unwrap(), &filled);
        let answer = reply(self.with(request, body)).await;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(format!("{} {}", answer.status, answer.body))
    }

    fn with(&self, request: RequestBuilder, body: Body) -> RequestBuilder {
        let Things { artifact, manifest, .. } = self.things;
        match body {
            Body::None => request,
            Json(text) => request.json(&serde_json::from_str::<Value>(text).unwrap()),
            Artifact => request.json(&json!({ "type": "artifact", "id": artifact.0 })),
            Claim => {
                let from = (manifest.0 + 1).to_string();
                request.json(&json!({ "from": from, "type": "artifact", "id": artifact.0 }))
            }
            Form => {
                let parts = "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nreport\r\n\
                             --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                             \r\nhello\r\n--x--\r\n";
                request.header("content-type", "multipart/form-data; boundary=x").body(parts)
            }
        }
    }

    async fn prepare(&self, situation: Situation) -> Result<(), String> {
        let manifest = "/api/manifests/{manifest_id}";
        match situation {
            Usual => {}
            After(method, path, body) => drop(self.ask(method, path, body).await?),
            Owned => drop(self.ask("POST", &format!("{manifest}/resources"), Artifact).await?),
            Sealed => {
                let made =
                    self.ask("POST", "/api/manifests", Json(r#"{"owner": "other"}"#)).await?;
                let other = format!("/api/manifests/{}", made["id"]);
                self.ask("POST", &format!("{other}/resources"), Artifact).await?;
                self.ask("POST", &format!("{other}/seal"), Body::None).await?;
            }
            Ended => {
                let site = &self.things.site;
                site.finish(&self.things.claimed, 77, Conclusion::Failure).await;
            }
            Parked => {
                let park = async |tx: &mut Tx<'_>| {
                    let task =
                        Message::at_once(Kind::Notify, kiln_core::id::RunId(1), "{}".to_owned());
                    outbox::put(tx, &[task])?;
                    tx.execute("UPDATE outbox SET parked_at = 1000", &[]).await
                };
                self.root.server.app.store.write(park).await.unwrap();
            }
        }
        Ok(())
    }
}
