//! Workers, as document E describes them.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::plan::JobKind;
use kiln_core::run::LegState;
use kiln_proto::worker::{Poll, Registered, Unregistered};
use kiln_store::Tx;
use kiln_store::runs;
use reqwest::RequestBuilder;
use serde_json::json;

use crate::runner::{good, refused};
use crate::support::{SYSTEM, Server};

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

on_both!(
    /// S1
    a_worker_registers_polls_and_leaves
);

async fn a_worker_registers_polls_and_leaves(server: Server) {
    let place = server.repository("acme", "app").await;
    server.run(&place, JOB).await;
    let (_, key) = server.pool(None, "apps").await;
    let register = |body: serde_json::Value| {
        server
            .client
            .post(server.url("/api/workers/register"))
            .header("x-api-key", &key)
            .json(&body)
    };
    let body = json!({ "name": "Ada's Mac (2)", "capabilities": { "platforms": ["ios"], "maxConcurrentBuilds": 2 } });
    let worker: Registered = good(register(body.clone()).send().await.unwrap()).await;
    assert_eq!(worker.status, "registered");
    // The same name again is another worker.
    let twin: Registered = good(register(body.clone()).send().await.unwrap()).await;
    assert_ne!(twin.id, worker.id);
    let bare: Registered = good(register(json!({})).send().await.unwrap()).await;
    assert_ne!(bare.id, worker.id);

    let poll = |token: &str| -> RequestBuilder {
        let url = server.url("/api/workers/poll");
        server.client.get(url).header("x-api-key", &key).header("x-worker-token", token)
    };
    // There is work, but none that is a build of an app.
    let answer: Poll = good(poll(&worker.access_token).send().await.unwrap()).await;
    assert_eq!((answer.job, answer.queue_size), (None, 0));
    good::<Poll>(poll(&answer.access_token).send().await.unwrap()).await;
    good::<Poll>(poll(&worker.access_token).send().await.unwrap()).await;
    refused(poll("made-up"), 401).await;
    refused(server.client.get(server.url("/api/workers/poll")).header("x-api-key", &key), 400)
        .await;

    let mut back = body.clone();
    back["id"] = worker.id.clone().into();
    back["credential"] = worker.credential.clone().unwrap().into();
    let again: Registered = good(register(back).send().await.unwrap()).await;
    assert_eq!((again.id.as_str(), again.status.as_str()), (worker.id.as_str(), "re-registered"));
    // The id alone proves nothing: it makes another worker.
    let mut claimed = body.clone();
    claimed["id"] = worker.id.clone().into();
    let other: Registered = good(register(claimed).send().await.unwrap()).await;
    assert_ne!(other.id, worker.id);

    let leave = |token: &str| {
        server.client.post(server.url("/api/workers/unregister")).header("x-worker-token", token)
    };
    let left: Unregistered = good(leave(&again.access_token).send().await.unwrap()).await;
    assert_eq!((left.success, left.builds_reassigned), (true, 0));
    refused(poll(&again.access_token), 404).await;
    refused(leave(&again.access_token), 404).await;
    refused(leave("made-up"), 401).await;
}

on_both!(
    /// A build that nobody could fetch stays where it is.
    a_worker_is_given_no_build_whose_source_has_no_address
);

async fn a_worker_is_given_no_build_whose_source_has_no_address(server: Server) {
    let place = server.repository("acme", "app").await;
    let mut plan = kiln_testkit::runs::plan(
        "on: push\njobs:\n  build: {runs-on: {group: apps}, steps: [{run: 'true'}]}\n",
    );
    let JobKind::Steps(job) = &mut Arc::make_mut(&mut plan).workflows[0].jobs[0].kind else {
        panic!("it has steps");
    };
    job.requires.system = Some("ios".to_owned());
    job.requires.features = vec!["app-build".to_owned()];
    let run = server.run_plan(&place, plan).await;
    let (_, key) = server.pool(None, "apps").await;
    let body = json!({ "name": "mac", "capabilities": { "platforms": ["ios"] } });
    let register = server.client.post(server.url("/api/workers/register"));
    let register = register.header("x-api-key", &key).json(&body);
    let worker: Registered = good(register.send().await.unwrap()).await;
    // A server hears of new queues a moment after they were made.
    let counted = async {
        loop {
            let poll = server.client.get(server.url("/api/workers/poll")).header("x-api-key", &key);
            let poll = poll.header("x-worker-token", &worker.access_token);
            let answer: Poll = good(poll.send().await.unwrap()).await;
            assert_eq!(answer.job, None, "nobody could fetch it");
            if answer.queue_size == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.expect("it is counted");
    let look = async move |tx: &mut Tx<'_>| runs::view(tx, SYSTEM, run, None).await;
    let job = server.app.store.read(look).await.unwrap().jobs.remove(0);
    assert_eq!((job.state, job.claim), (LegState::Queued, 0), "nobody took it");
}

on_both!(a_worker_without_a_good_key_is_refused);

async fn a_worker_without_a_good_key_is_refused(server: Server) {
    let (_, key) = server.pool(None, "apps").await;
    let post = || server.client.post(server.url("/api/workers/register"));
    refused(post().json(&json!({})), 403).await;
    refused(post().header("x-api-key", "krk_made-up").json(&json!({})), 403).await;
    // Without a key nobody learns what a body should be.
    refused(post().body("{"), 403).await;
    refused(post().header("x-api-key", &key).body("{"), 422).await;
    let odd = json!({ "capabilities": { "platforms": [""] } });
    let refused = refused(post().header("x-api-key", &key).json(&odd), 422).await;
    assert!(refused.message.contains("capabilities.platforms"), "{refused:?}");
}
