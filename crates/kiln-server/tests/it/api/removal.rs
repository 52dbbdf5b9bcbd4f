//! GitHub's interface: what is removed, what is told from outside, how long it took.

use kiln_core::run::Conclusion;
use kiln_store::directory::members::Role;
use serde_json::json;

use super::people::{As, CI, Person, commit, empty, person, site};
use crate::support::{Place, Server};

/// A run that has ended, with a log.
async fn ended(server: &Server, place: &Place, ada: &Person<'_>) -> (i64, i64) {
    commit(server, place, &[("ci.yml", CI)]);
    let run = ada.trigger(place, empty()).await;
    let site = site(server, place);
    let claimed = site.claim(1, 1).await.remove(0);
    let mut bytes = Vec::new();
    kiln_proto::log::Line { at: 1, step: 0, text: b"hello" }.write(&mut bytes);
    let log = kiln_server::logs::LogId { job: claimed.job, claim: claimed.claim };
    server.app.logs.append(log, 0, bytes.into()).await.unwrap();
    site.finish(&claimed, 1, Conclusion::Success).await;
    (run, claimed.job.0)
}

on_both! {
    /// H1
    a_run_that_has_ended_is_removed_with_all_it_has
}

async fn a_run_that_has_ended_is_removed_with_all_it_has(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (run, job) = ended(&server, &place, &ada).await;
    let path = format!("/repos/acme/app/actions/runs/{run}");
    let timing = ada.get(&format!("{path}/timing")).await.expect(200);
    assert_eq!(timing["billable"], json!({}));
    assert!(timing["run_duration_ms"].is_u64(), "{timing}");
    assert_eq!(ada.get(&format!("/api/jobs/{job}/log")).await.expect(200), json!("hello\n"));
    // The log alone.
    let vic = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    vic.delete(&format!("{path}/logs")).await.expect(403);
    ada.delete(&format!("{path}/logs")).await.expect(204);
    assert_eq!(ada.get(&format!("/api/jobs/{job}/log")).await.expect(200), json!(""));
    // And all of it. The same push makes a new run then.
    vic.delete(&path).await.expect(403);
    ada.delete(&path).await.expect(204);
    ada.get(&path).await.expect(404);
    ada.delete(&path).await.expect(404);
    ada.get(&format!("/api/jobs/{job}")).await.expect(404);
    assert_eq!(ada.get("/api/runs").await.expect(200)["items"], json!([]));
    let again = ada.trigger(&place, empty()).await;
    assert!(again > run);
    // One that is open stays.
    let open = format!("/repos/acme/app/actions/runs/{again}");
    assert!(ada.delete(&open).await.problem(409).contains("cancel it first"));
    assert!(ada.delete(&format!("{open}/logs")).await.problem(409).contains("still grow"));
    let audit = ada.get("/api/audit?owner=acme").await.expect(200);
    let actions: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["action"].as_str().unwrap())
        .collect();
    assert!(actions.contains(&"run.delete") && actions.contains(&"run.delete_logs"), "{actions:?}");
    let report = kiln_store::inspect::inspect(&server.app.store).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

const TOLD: &str = "name: Told
run-name: told of ${{ github.event.action }} by ${{ github.event.client_payload.by }}
on:
  repository_dispatch:
    types: [deploy]
jobs:
  a:
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// H1
    what_happens_elsewhere_is_told_by_a_dispatch
}

async fn what_happens_elsewhere_is_told_by_a_dispatch(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI), ("told.yml", TOLD)]);
    let path = "/repos/acme/app/dispatches";
    let told = json!({ "event_type": "deploy", "client_payload": { "by": "somebody" } });
    ada.post(path, told.clone()).await.expect(204);
    let runs = ada.get("/api/runs").await.expect(200);
    let items = runs["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{runs:#}");
    assert_eq!(
        (&items[0]["event"], &items[0]["name"]),
        (&json!("repository_dispatch"), &json!("Told"))
    );
    assert_eq!(items[0]["title"], "told of deploy by somebody");
    assert_eq!(items[0]["ref"], "refs/heads/main");
    // Of another type, nothing listens; GitHub says the same.
    ada.post(path, json!({ "event_type": "other" })).await.expect(204);
    assert_eq!(ada.get("/api/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
    let many: serde_json::Map<_, _> = (0..11).map(|n| (n.to_string(), json!(n))).collect();
    for bad in [
        json!({}),
        json!({ "event_type": "" }),
        json!({ "event_type": "x".repeat(101) }),
        json!({ "event_type": "a\nb" }),
        json!({ "event_type": "x", "client_payload": many }),
        json!({ "event_type": "x", "more": 1 }),
    ] {
        ada.post(path, bad).await.expect(422);
    }
    let vic = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    vic.post(path, told).await.expect(403);
}
