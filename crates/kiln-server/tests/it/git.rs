//! Repositories for git.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use kiln_proto::report::What;
use kiln_store::directory::members::Role;
use reqwest::RequestBuilder;

use crate::api::people::{As, person};
use crate::runner::{LINUX, Reporter, Runner, completion, json, refused};
use crate::support::Server;

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";
const REFS: &str = "/acme/app.git/info/refs?service=git-upload-pack";
const FETCH: &str = "/acme/app.git/git-upload-pack";

fn with(request: RequestBuilder, token: &str) -> RequestBuilder {
    request.basic_auth("x-access-token", Some(token))
}

async fn text(request: RequestBuilder) -> (u16, String, String) {
    let answer = request.send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind, answer.text().await.unwrap())
}

on_both!(a_job_reads_its_repository_and_no_other);

async fn a_job_reads_its_repository_and_no_other(server: Server) {
    let place = server.repository("acme", "app").await;
    server.repository("acme", "other").await;
    server.repository("rival", "app").await;
    for name in ["acme/app", "acme/other", "rival/app"] {
        server.sources.commit(&format!("/in/memory/{name}"), "main", &[("a", "b")]);
    }
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let token = job.token.as_str();
    let get = |path: &str| server.client.get(server.url(path));
    let post = |path: &str| server.client.post(server.url(path));

    let (status, kind, body) = text(with(get(REFS), token)).await;
    assert_eq!((status, kind.as_str()), (200, "application/x-git-upload-pack-advertisement"));
    assert_eq!(body, "001e# service=git-upload-pack\n0000/in/memory/acme/app none refs");
    let second = with(get(REFS), token).header("git-protocol", "version=2");
    assert_eq!(text(second).await.2, "/in/memory/acme/app version=2 refs");
    let (status, kind, body) = text(with(post(FETCH), token).body("want abc")).await;
    assert_eq!((status, kind.as_str()), (200, "application/x-git-upload-pack-result"));
    assert_eq!(body, "/in/memory/acme/app none want abc");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"want packed").unwrap();
    let packed = packed.finish().unwrap();
    let asked = with(post(FETCH), token).header("content-encoding", "gzip");
    assert_eq!(text(asked.body(packed)).await.2, "/in/memory/acme/app none want packed");

    for path in ["/acme/other", "/rival/app", "/nobody/nothing"] {
        refused(with(get(&format!("{path}.git/info/refs?service=git-upload-pack")), token), 404)
            .await;
        refused(with(post(&format!("{path}.git/git-upload-pack")), token), 404).await;
    }
    refused(with(get("/acme/app/info/refs?service=git-upload-pack"), token), 404).await;
    refused(with(get("/acme/app.git/info/refs?service=git-receive-pack"), token), 403).await;
    refused(with(get("/acme/app.git/info/refs"), token), 403).await;
    refuse_strangers(&server, token).await;
    let reporter = Reporter::new(&server, &job);
    assert_eq!(reporter.completing(&completion("success")).send().await.unwrap().status(), 200);
    // The token has died with the job.
    refused(with(get(REFS), token), 401).await;
    refused(with(post(FETCH), token), 401).await;
}

on_both!(
    /// What steps see as `github.token` cannot speak for their job.
    the_token_of_steps_reads_the_repository_and_says_nothing
);

async fn the_token_of_steps_reads_the_repository_and_says_nothing(server: Server) {
    let place = server.repository("acme", "app").await;
    for name in ["acme/app", "acme/other"] {
        server.sources.commit(&format!("/in/memory/{name}"), "main", &[("a", "b")]);
    }
    server.repository("acme", "other").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let token = json(&job.contexts.github)["token"].as_str().unwrap().to_owned();
    let get = |path: &str| with(server.client.get(server.url(path)), &token);
    assert_eq!(text(get(REFS)).await.0, 200);
    let fetch = || with(server.client.post(server.url(FETCH)), &token).body("want abc");
    assert_eq!(text(fetch()).await.0, 200);
    refused(get("/acme/other.git/info/refs?service=git-upload-pack"), 404).await;

    let mut step = Reporter::new(&server, &job);
    step.token.clone_from(&token);
    refused(step.logging(0, "x"), 401).await;
    refused(step.telling(1, vec![What::started()]), 401).await;
    refused(step.completing(&completion("success")), 401).await;
    refused(step.returning(), 401).await;
    let runner_paths =
        ["heartbeat", "jobs/claim"].map(|it| format!("/actions/runners/{}/{it}", runner.id));
    let unregister = format!("/api/runners/{}/unregister", runner.id);
    for path in runner_paths.iter().chain([&unregister]) {
        let request = server.client.post(server.url(path)).bearer_auth(&token).body("{}");
        refused(request, 401).await;
    }
    // It is a good token, but not for these.
    for path in ["/api/me", "/api/runs", "/api/v3/user"] {
        refused(server.client.get(server.url(path)).bearer_auth(&token), 403).await;
    }

    let reporter = Reporter::new(&server, &job);
    assert_eq!(reporter.completing(&completion("success")).send().await.unwrap().status(), 200);
    refused(get(REFS), 401).await;
    refused(fetch(), 401).await;
}

async fn refuse_strangers(server: &Server, token: &str) {
    let odd = BASE64.encode("no colon");
    for header in
        ["", "Basic", "Basic !", &format!("Basic {odd}"), "Bearer kjt_made-up", "Digest x"]
    {
        let request = server.client.get(server.url(REFS)).header("authorization", header);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401, "{header}");
        let challenge = answer.headers()["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Basic realm="), "{challenge}");
    }
    let post = || with(server.client.post(server.url(FETCH)), token);
    refused(post().header("content-encoding", "gzip").body("no gzip"), 400).await;
    refused(post().header("content-encoding", "br").body("x"), 400).await;
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..33 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    refused(post().header("content-encoding", "gzip").body(bomb), 413).await;
}

on_both!(a_repository_that_cannot_be_read_is_an_answer);

async fn a_repository_that_cannot_be_read_is_an_answer(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let request = server.client.post(server.url(FETCH)).body("want");
    refused(with(request, &job.token), 503).await;
}

on_both!(people_read_what_they_may_look_at);

async fn people_read_what_they_may_look_at(server: Server) {
    let place = server.repository("acme", "app").await;
    let rival = server.repository("rival", "app").await;
    server.sources.commit("/in/memory/acme/app", "main", &[("a", "b")]);
    let member = person(&server, "ada", As::member(place.org, Role::Viewer)).await;
    let stranger = person(&server, "eve", As::member(rival.org, Role::Admin)).await;
    let refs = || server.client.get(server.url(REFS));
    assert_eq!(text(with(refs(), &member.token)).await.0, 200);
    refused(with(refs(), &stranger.token), 404).await;
    refused(refs(), 401).await;
}
