//! Runs and jobs as people see them, and what they do with them.

use kiln_core::run::Conclusion;
use kiln_store::runs::Word;
use serde_json::json;

use super::people::{As, CI, commit, empty, person, site};
use crate::support::Server;

const THREE: &str = "name: Three
on: [push, workflow_dispatch]
jobs:
  first:
    runs-on: linux
    outputs: {x: y}
    steps: [{run: make}]
  second:
    needs: first
    strategy: {matrix: {os: [a, b]}}
    runs-on: linux
    steps: [{run: make}]
  never:
    if: false
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// S20
    a_run_shows_its_jobs_and_why_they_wait
}

async fn a_run_shows_its_jobs_and_why_they_wait(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", THREE)]);
    let run = ada.trigger(&place, empty()).await;
    let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
    let row = |seen: &serde_json::Value, at: usize| {
        let job = &seen["jobs"][at];
        let text = |key: &str| job[key].as_str().unwrap_or("-").to_owned();
        (text("name"), text("status"), text("conclusion"), text("reason"))
    };
    let of = |name: &str, status: &str, conclusion: &str, reason: &str| {
        (name.to_owned(), status.to_owned(), conclusion.to_owned(), reason.to_owned())
    };
    assert_eq!(row(&seen, 0), of("first", "queued", "-", "no runner is there"));
    assert_eq!(row(&seen, 1), of("second", "pending", "-", "waits for `first`"));
    let never = row(&seen, 2);
    assert_eq!((never.1.as_str(), never.2.as_str()), ("completed", "skipped"));
    assert!(seen["jobs"][2]["id"].is_null());
    assert_eq!(seen["status"], "queued");
    let site = site(&server, &place);
    let claimed = site.claim(1, 1).await.remove(0);
    let seen = ada.get(&format!("/api/jobs/{}", claimed.job)).await.expect(200);
    assert_eq!(seen["status"], "in_progress");
    assert_eq!(seen["reason"], "a runner prepares it");
    assert_eq!(seen["attempt"], 1);
    site.finish(&claimed, 1, Conclusion::Success).await;
    let slug = kiln_core::id::RunId(run).slug();
    let seen = ada.get(&format!("/api/runs/{slug}")).await.expect(200);
    assert_eq!(row(&seen, 1).0, "second (a)");
    assert_eq!(row(&seen, 2).0, "second (b)");
    assert_eq!(row(&seen, 0).2, "success");
    assert_eq!(seen["status"], "in_progress");
    for gone in ["/api/runs/999999", "/api/runs/x", "/api/runs/-1", "/api/jobs/1", "/api/jobs/j-x"]
    {
        ada.get(gone).await.expect(404);
    }
    ada.get(&format!("/api/runs/{run}?attempt=2")).await.expect(404);
    ada.get(&format!("/api/runs/{run}?attempt=-2")).await.expect(422);
    ada.get(&format!("/api/runs/{run}?attempt=99999999999")).await.expect(422);
}

on_both! {
    /// S21
    a_run_is_cancelled_and_run_again
}

async fn a_run_is_cancelled_and_run_again(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", THREE)]);
    let run = ada.trigger(&place, empty()).await;
    let path = |rest: &str| format!("/api/runs/{run}{rest}");
    ada.post(&path("/rerun"), empty()).await.expect(409);
    let why = json!({ "reason": "not needed" });
    let cancelled = ada.post(&path("/cancel"), why).await.expect(202);
    assert_eq!(cancelled["conclusion"], "cancelled");
    let seen = ada.get(&path("")).await.expect(200);
    assert_eq!(seen["cancelled_by"], "adam");
    assert_eq!(seen["cancel_reason"], "not needed");
    ada.post(&path("/cancel"), empty()).await.expect(409);
    ada.post(&path("/force-cancel"), empty()).await.expect(409);
    let again = ada.post(&path("/rerun"), empty()).await.expect(201);
    assert_eq!(again["attempt"], 2);
    let site = site(&server, &place);
    let claimed = site.claim(1, 1).await.remove(0);
    site.finish(&claimed, 1, Conclusion::Success).await;
    for conclusion in [Conclusion::Success, Conclusion::Failure] {
        let claimed = site.claim(1, 1).await.remove(0);
        site.finish(&claimed, 1, conclusion).await;
    }
    let seen = ada.get(&path("")).await.expect(200);
    assert_eq!((seen["attempt"].as_i64(), &seen["conclusion"]), (Some(2), &json!("failure")));
    let earlier = ada.get(&path("?attempt=1")).await.expect(200);
    assert_eq!(
        (earlier["attempt"].as_i64(), &earlier["conclusion"]),
        (Some(1), &json!("cancelled"))
    );
    assert_eq!(
        ada.post(&path("/rerun"), json!({ "failed": true })).await.expect(201)["attempt"],
        3
    );
    let claimed = site.claim(1, 5).await;
    assert_eq!(claimed.len(), 1, "only what failed runs again");
    let forced = json!({ "reason": "enough" });
    ada.post(&path("/force-cancel"), forced).await.expect(202);
    site.say(
        &claimed[0],
        1,
        Word::Finished { conclusion: Conclusion::Cancelled, outputs: Vec::new() },
    )
    .await;
    // A job of an earlier attempt is known by its name: in the next one it had another number.
    let jobs = ada.get(&path("?attempt=2")).await.expect(200)["jobs"].clone();
    let failed = jobs.as_array().unwrap().iter().find(|job| job["conclusion"] == "failure");
    let failed = failed.unwrap()["slug"].as_str().unwrap().to_owned();
    let again = ada.post(&path("/rerun"), json!({ "job": failed })).await.expect(201);
    assert_eq!(again["attempt"], 4);
    let claimed = site.claim(1, 5).await;
    assert_eq!(claimed.len(), 1, "only that leg runs again");
    site.finish(&claimed[0], 1, Conclusion::Success).await;
    let none = json!({ "job": "no such job" });
    ada.post(&path("/rerun"), none).await.expect(404);
    ada.post(&path("/rerun"), json!({ "job": "j-1" })).await.expect(404);
    ada.post(&path("/rerun"), json!({ "job": "first", "failed": true })).await.expect(422);
    assert_eq!(
        ada.post(&path("/rerun"), json!({ "job": "first" })).await.expect(201)["attempt"],
        5
    );
    let audit = ada.get("/api/audit?owner=acme").await.expect(200);
    let actions: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions.iter().filter(|action| **action == "run.again").count(), 4, "{actions:?}");
    assert_eq!(actions.iter().filter(|action| **action == "run.cancel").count(), 2, "{actions:?}");
    let made = audit["items"].as_array().unwrap().iter().find(|row| row["action"] == "run.create");
    let made = made.unwrap_or_else(|| panic!("{actions:?}"));
    assert_eq!((&made["subject"], &made["actor"]), (&json!(run), &json!("adam")));
    assert_eq!(made["detail"]["event"], "push");
    assert_eq!(audit["items"][0]["actor"], "adam");
    assert_eq!(audit["items"][0]["actor_kind"], "token");
}

on_both! { lists_come_in_pieces_and_by_filter }

async fn lists_come_in_pieces_and_by_filter(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("other", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    for place in [&place, &other] {
        commit(&server, place, &[("ci.yml", CI)]);
    }
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(ada.trigger(&place, json!({ "workflow": "ci.yml" })).await);
    }
    ada.trigger(&other, empty()).await;
    let ids = async |query: &str| {
        let found = ada.get(&format!("/api/runs{query}")).await.expect(200);
        let ids: Vec<i64> = found["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["id"].as_i64().unwrap())
            .collect();
        (ids, found["next"].as_str().map(str::to_owned))
    };
    let (first, next) = ids("?repo=acme/app&limit=3").await;
    assert_eq!(first, [made[4], made[3], made[2]]);
    let (rest, end) = ids(&format!("?repo=acme/app&limit=3&after={}", next.unwrap())).await;
    assert_eq!((rest, end), (vec![made[1], made[0]], None));
    assert_eq!(ids("").await.0.len(), 6);
    assert_eq!(ids("?event=push").await.0.len(), 1);
    for name in ["ci.yml", ".github%2Fworkflows%2Fci.yml", "CI"] {
        assert_eq!(ids(&format!("?workflow={name}")).await.0.len(), 6, "{name}");
        assert_eq!(
            ids(&format!("?repo=acme/app&workflow={name}&limit=2")).await.0,
            made[3..5].iter().rev().copied().collect::<Vec<_>>()
        );
    }
    assert_eq!(ids("?workflow=none.yml").await, (Vec::new(), None));
    assert_eq!(ids("?actor=adam&branch=main&status=queued").await.0.len(), 6);
    ada.post(&format!("/api/runs/{}/cancel", made[0]), empty()).await.expect(202);
    assert_eq!(ids("?conclusion=cancelled").await.0, [made[0]]);
    for bad in ["?status=done", "?conclusion=good", "?after=x", "?limit=-1", "?after=-5"] {
        ada.get(&format!("/api/runs{bad}")).await.expect(422);
    }
    ada.get("/api/runs?repo=none/none").await.expect(404);
}
