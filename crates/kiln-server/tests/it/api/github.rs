//! GitHub's interface, as its clients use it.

use kiln_core::run::Conclusion;
use serde_json::{Value, json};

use super::people::{As, CI, commit, empty, person, site};
use crate::support::Server;

on_both! {
    /// H1
    a_dispatch_answers_as_github_does
}

async fn a_dispatch_answers_as_github_does(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    let path = |workflow: &str| format!("/repos/acme/app/actions/workflows/{workflow}/dispatches");
    let answer = ada.post(&path("ci.yml"), json!({ "ref": "main" })).await;
    assert_eq!(answer.status, 204);
    let run: i64 = answer.headers["kiln-run-id"].to_str().unwrap().parse().unwrap();
    let details = json!({ "ref": "refs/heads/main", "return_run_details": true, "inputs": {} });
    let made = ada.post(&path(&place.workflow.to_string()), details).await.expect(200);
    assert_eq!(made["workflow_run_id"], run + 1);
    let base = &server.app.config.public_url;
    assert_eq!(made["run_url"], format!("{base}/api/v3/repos/acme/app/actions/runs/{}", run + 1));
    let seen = ada.get(&format!("/repos/acme/app/actions/runs/{run}")).await.expect(200);
    assert_eq!(seen["event"], "workflow_dispatch");
    ada.post(&path("none.yml"), json!({ "ref": "main" })).await.expect(404);
    ada.post(&path("ci.yml"), json!({ "ref": "none" })).await.expect(422);
    ada.post(&path("ci.yml"), json!({})).await.expect(422);
    ada.post(&path("ci.yml"), json!({ "ref": "main", "inputs": { "x": "1" } })).await.expect(422);
    let problem = ada.post(&path("ci.yml"), json!({ "ref": "none" })).await.expect(422);
    assert_eq!(problem["message"], problem["detail"], "GitHub's clients read `message`");
}

on_both! {
    /// H1
    runs_jobs_and_workflows_have_githubs_shape
}

async fn runs_jobs_and_workflows_have_githubs_shape(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let text =
        format!("{CI}  never:\n    if: false\n    runs-on: linux\n    steps: [{{run: x}}]\n");
    let sha = commit(&server, &place, &[("ci.yml", &text)]);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(ada.trigger(&place, json!({ "workflow": "ci.yml" })).await);
    }
    let claimed = site(&server, &place).claim(1, 1).await.remove(0);
    site(&server, &place).finish(&claimed, 1, Conclusion::Failure).await;
    let first = runs[0];
    let of = |rest: &str| format!("/repos/acme/app/actions{rest}");
    let listed = ada.get(&of("/runs?per_page=2")).await;
    let link = listed.headers["link"].to_str().unwrap().to_owned();
    assert!(link.contains("page=2>; rel=\"next\""), "{link}");
    let listed = listed.expect(200);
    assert_eq!(listed["total_count"], 3);
    assert_eq!(listed["workflow_runs"].as_array().unwrap().len(), 2);
    assert_eq!(listed["workflow_runs"][0]["id"], runs[2]);
    let second = ada.get(&of("/runs?per_page=2&page=2")).await.expect(200);
    assert_eq!(second["workflow_runs"][0]["id"], first);
    assert_eq!(second["workflow_runs"].as_array().unwrap().len(), 1);
    let failed = ada.get(&of("/runs?status=failure")).await.expect(200);
    assert_eq!(
        (&failed["total_count"], &failed["workflow_runs"][0]["id"]),
        (&json!(1), &json!(first))
    );
    let run = ada.get(&of(&format!("/runs/{first}"))).await.expect(200);
    let expected = json!({
        "id": first, "name": "CI", "head_branch": "main", "head_sha": sha,
        "path": ".github/workflows/ci.yml", "display_title": "CI", "run_number": 1,
        "event": "workflow_dispatch", "status": "completed", "conclusion": "failure",
        "workflow_id": place.workflow.0, "run_attempt": 1, "previous_attempt_url": null,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&run[key], value, "{key}");
    }
    assert_eq!(run["actor"]["login"], "adam");
    assert_eq!(run["repository"]["full_name"], "acme/app");
    assert!(run["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(run["created_at"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
    let jobs = ada.get(&of(&format!("/runs/{first}/jobs"))).await.expect(200);
    assert_eq!(jobs["total_count"], 2);
    let job = &jobs["jobs"][0];
    assert_eq!((&job["name"], &job["conclusion"]), (&json!("build"), &json!("failure")));
    assert_eq!(job["labels"], json!(["linux"]));
    assert_eq!(jobs["jobs"][1]["conclusion"], "skipped");
    assert_ne!(jobs["jobs"][1]["id"], job["id"]);
    let one = ada.get(&of(&format!("/jobs/{}", job["id"]))).await.expect(200);
    assert_eq!(&one, job);
    let again = ada.post(&of(&format!("/runs/{first}/rerun-failed-jobs")), empty()).await;
    assert_eq!(again.expect(201), json!({}));
    let run = ada.get(&of(&format!("/runs/{first}"))).await.expect(200);
    assert_eq!(run["run_attempt"], 2);
    let earlier = ada.get(&of(&format!("/runs/{first}/attempts/1"))).await.expect(200);
    assert_eq!((&earlier["run_attempt"], &earlier["conclusion"]), (&json!(1), &json!("failure")));
    let jobs = ada.get(&of(&format!("/runs/{first}/attempts/1/jobs"))).await.expect(200);
    assert_eq!(jobs["jobs"][0]["id"], job["id"]);
    assert_eq!(
        ada.post(&of(&format!("/runs/{first}/cancel")), empty()).await.expect(202),
        json!({})
    );
    ada.post(&of(&format!("/runs/{first}/cancel")), empty()).await.expect(409);
    ada.post(&of(&format!("/runs/{first}/rerun")), empty()).await.expect(201);
    ada.post(&of(&format!("/runs/{first}/force-cancel")), empty()).await.expect(202);
    let jobs = ada.get(&of(&format!("/runs/{first}/jobs"))).await.expect(200);
    let job = jobs["jobs"][0]["id"].as_i64().unwrap();
    ada.post(&of(&format!("/jobs/{job}/rerun")), empty()).await.expect(201);
    let workflows = ada.get(&of("/workflows")).await.expect(200);
    assert_eq!(
        (&workflows["total_count"], &workflows["workflows"][0]["state"]),
        (&json!(1), &json!("active"))
    );
    let by_file = ada.get(&of("/workflows/ci.yml")).await.expect(200);
    assert_eq!(by_file["id"], place.workflow.0);
    let of_workflow = ada.get(&of("/workflows/ci.yml/runs")).await.expect(200);
    assert_eq!(of_workflow["total_count"], 3);
    unhappy(&ada, first).await;
}

async fn unhappy(ada: &super::people::Person<'_>, run: i64) {
    let gone: [Value; 7] = [
        json!("/repos/acme/app/actions/runs/999"),
        json!("/repos/acme/app/actions/runs/x"),
        json!(format!("/repos/acme/none/actions/runs/{run}")),
        json!(format!("/repos/acme/app/actions/runs/{run}/attempts/0")),
        json!(format!("/repos/acme/app/actions/runs/{run}/attempts/99")),
        json!("/repos/acme/app/actions/jobs/99999999999999999999"),
        json!("/repos/acme/app/actions/workflows/none.yml"),
    ];
    for path in gone {
        ada.get(path.as_str().unwrap()).await.expect(404);
    }
    for bad in ["?page=-1", "?per_page=x", "?status=odd", "?page=4294967295"] {
        ada.get(&format!("/repos/acme/app/actions/runs{bad}")).await.expect(422);
    }
}
