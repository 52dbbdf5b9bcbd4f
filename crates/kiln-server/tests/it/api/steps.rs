//! What the token opens that the steps of a job see as `GITHUB_TOKEN`.

use reqwest::Method;
use serde_json::{Value, json};

use super::access::{body_for, fill, is_for_people};
use super::content::{form, form_with};
use super::openapi::routes;
use super::people::{Person, reply};
use crate::blobs::noise;
use crate::content::{Of, PUSH, Worker, builders, run};
use crate::runner::Runner;
use crate::support::{Place, Server};

const OF: &str = "/repos/acme/app/actions";
const STRANGER: Of =
    Of { event: "pull_request", reference: "refs/pull/7/merge", trust: "untrusted", base: "main" };

/// What steps may ask, as long as it is about their own repository.
const READS: [&str; 22] = [
    "/repos/{owner}/{repo}",
    "/repos/{owner}/{repo}/actions/artifacts",
    "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}",
    "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/download",
    "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/zip",
    "/repos/{owner}/{repo}/actions/cache/usage",
    "/repos/{owner}/{repo}/actions/caches",
    "/repos/{owner}/{repo}/actions/jobs/{job_id}",
    "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs",
    "/repos/{owner}/{repo}/actions/runs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/jobs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/logs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs/{job_id}/logs/live",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/logs",
    "/repos/{owner}/{repo}/actions/workflows",
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}",
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs",
    "/repos/{owner}/{repo}/check-runs/{job_id}/annotations",
];
/// What is about nobody in particular.
pub(crate) const ANYBODY: [&str; 3] = ["/api/v3/", "/api/v3/meta", "/api/v3/rate_limit"];

/// A job with these permissions, and what its steps hold in their hands.
async fn job<'s>(
    runner: &Runner<'s>,
    place: &Place,
    of: &Of,
    permissions: &str,
) -> (Worker<'s>, Person<'s>) {
    let given = if permissions.is_empty() {
        String::new()
    } else {
        format!("    permissions: {permissions}\n")
    };
    let text =
        format!("on: push\njobs:\n  a:\n    runs-on: linux\n{given}    steps: [{{run: 'true'}}]\n");
    run(runner.server, place, of, &text).await;
    let worker = Worker::next(runner).await;
    let secrets = runner.open(&worker.job).visible;
    let token = secrets.into_iter().find(|(name, _)| name == "GITHUB_TOKEN").unwrap().1;
    let steps = Person { server: runner.server, token };
    (worker, steps)
}

on_both! {
    /// S24, R9
    steps_open_what_is_about_their_repository_and_nothing_else
}

async fn steps_open_what_is_about_their_repository_and_nothing_else(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("acme", "other").await;
    let runner = builders(&server, &place).await;
    let (worker, steps) = job(&runner, &place, &PUSH, "").await;
    let (foreign, _) = job(&runner, &other, &PUSH, "").await;
    let dist = worker.upload(json!({ "name": "dist" }), b"dist").await;
    let theirs = foreign.upload(json!({ "name": "dist" }), b"dist").await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let ask =
        async |method: &str, path: &str, repo: &str, (of, artifact): (&Worker<'_>, &Value)| {
            let value = |name: &str| match name {
                "owner" | "org" => "acme".to_owned(),
                "repo" => repo.to_owned(),
                "run" | "run_id" => of.job.run_id.to_string(),
                "job" | "job_id" => of.job.job_id.to_string(),
                "artifact_id" => artifact["id"].to_string(),
                "hash" => "a".repeat(64),
                _ => "1".to_owned(),
            };
            let url = server.url(&fill(path, &value));
            let mut request =
                client.request(method.parse().unwrap(), url).bearer_auth(&steps.token);
            if let Some(body) = body_for(path) {
                request = request.json(&body);
            }
            request.send().await.unwrap().status().as_u16()
        };
    let (mut opened, mut refused) = (0, 0);
    // What a job may do with manifests and objects is asked by `machines.rs`.
    let has_own_rules = |path: &str| {
        ["/api/manifests", "/api/objects", "/api/tags"].iter().any(|own| path.starts_with(own))
    };
    let all = routes();
    let asked = all.iter().filter(|(_, path)| is_for_people(path) && !has_own_rules(path));
    for (method, path) in asked {
        let own = ask(method, path, "app", (&worker, &dist)).await;
        if method == "GET" && (READS.contains(&&**path) || ANYBODY.contains(&&**path)) {
            // Requests are not counted here.
            let is_open = matches!(own, 200 | 302) || path.ends_with("/rate_limit") && own == 404;
            assert!(is_open, "{method} {path}: {own}");
            opened += 1;
        } else {
            assert_eq!(own, 403, "{method} {path}");
            refused += 1;
        }
        if path.contains("{repo}") {
            let strange = ask(method, path, "other", (&foreign, &theirs)).await;
            assert_eq!(strange, 404, "{method} {path} of another");
            // Nor by an address that begins with the own name.
            let through = ask(method, path, "app", (&foreign, &theirs)).await;
            let names_theirs =
                ["{run_id}", "{job_id}", "{artifact_id}"].iter().any(|name| path.contains(name));
            let expected = match own {
                // A list of a foreign run is empty.
                _ if path.ends_with("/runs/{run_id}/artifacts") => own,
                200 | 302 if names_theirs => 404,
                _ => own,
            };
            assert_eq!(through, expected, "{method} {path} through the own name");
        }
    }
    assert!(opened == READS.len() + ANYBODY.len() && refused > 40, "{opened} {refused}");
    let seen = steps.get("/repos/acme/app").await.expect(200);
    assert_eq!(
        (&seen["default_branch"], &seen["permissions"]["push"]),
        (&json!("main"), &json!(false))
    );
    let runs = steps.get("/api/v3/repos/acme/app/actions/runs").await.expect(200);
    assert_eq!(runs["workflow_runs"][0]["id"], worker.job.run_id);
    steps.get("/api/v3/user").await.problem(403);
    worker.end().await;
    for path in ["/repos/acme/app", "/repos/acme/app/actions/runs", "/api/v3/meta", "/api/runs"] {
        steps.get(path).await.problem(401);
    }
}

on_both! {
    /// R8, R9, G8
    steps_change_what_their_permissions_and_their_trust_allow
}

async fn steps_change_what_their_permissions_and_their_trust_allow(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let send = async |who: &Person<'_>, run: i64, name: &str| {
        let path = format!("{OF}/runs/{run}/artifacts");
        let (kind, body) = form(name, b"bytes", "application/zip");
        reply(who.request(Method::POST, &path).header("content-type", kind).body(body)).await
    };
    // Without a word they read; with other words not even that.
    let (usual, reading) = job(&runner, &place, &PUSH, "").await;
    let cache = usual.save("deps", &noise(1, 100)).await;
    let of_cache = format!("{OF}/caches/{}", cache["id"]);
    reading.get(&format!("{OF}/caches")).await.expect(200);
    assert!(reading.delete(&of_cache).await.problem(403).contains("`actions: write`"));
    assert!(send(&reading, usual.job.run_id, "a").await.problem(403).contains("`actions: write`"));
    let (_, little) = job(&runner, &place, &PUSH, "{contents: read}").await;
    for path in
        [format!("{OF}/runs"), format!("{OF}/caches"), format!("{OF}/jobs/{}", usual.job.job_id)]
    {
        assert!(little.get(&path).await.problem(403).contains("`actions: read`"));
    }
    little.get("/repos/acme/app").await.expect(200);
    // Code from elsewhere changes nothing, whatever it says.
    let (strange, stranger) = job(&runner, &place, &STRANGER, "{actions: write}").await;
    assert!(stranger.delete(&of_cache).await.problem(403).contains("from elsewhere"));
    send(&stranger, strange.job.run_id, "a").await.problem(403);
    stranger.get(&format!("{OF}/caches")).await.expect(200);
    // Whoever may, does, in its own run.
    let (writer, writing) = job(&runner, &place, &PUSH, "{actions: write}").await;
    let made = send(&writing, writer.job.run_id, "report").await.expect(201);
    assert_eq!((&made["name"], &made["size_bytes"]), (&json!("report"), &json!(5)));
    // For ever is for people to say.
    let path = format!("{OF}/runs/{}/artifacts", writer.job.run_id);
    let (kind, body) = form_with("kept", b"bytes", &[("keep", "true")]);
    let kept = writing.request(Method::POST, &path).header("content-type", kind).body(body);
    assert!(reply(kept).await.problem(403).contains("for ever"));
    assert_eq!(writer.listed("").await, ["report"]);
    assert!(send(&writing, usual.job.run_id, "report").await.problem(403).contains("own run"));
    writing.delete(&of_cache).await.expect(204);
    assert_eq!(usual.find("deps", &[]).await, None);
    let cancel = format!("{OF}/runs/{}/cancel", usual.job.run_id);
    reply(reading.request(Method::POST, &cancel)).await.problem(403);
    reply(writing.request(Method::POST, &cancel)).await.expect(202);
}
