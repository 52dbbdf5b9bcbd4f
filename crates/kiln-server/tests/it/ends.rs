//! What is known of a job at its end: how it ended, how often it was tried, where it deployed to.

use kiln_core::id::JobId;
use kiln_core::run::{Conclusion, RunState};
use kiln_proto::job::Job;
use kiln_proto::report::{Allowed, Complete, Completed, Deployment, Heard, What};
use kiln_store::runs::{Happened, JobNews, Word};
use serde_json::{Value, json};

use crate::api::people::{As, Person, person};
use crate::runner::{LINUX, Reporter, Runner, completion, good, state};
use crate::support::{SYSTEM, Server, somebody};

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// What the reaper does when a lease has run out.
async fn lose(server: &Server, job: &Job, reason: &str) {
    let word = Word::Lost { reason: reason.to_owned() };
    let (job, claim) = (JobId(job.job_id), Some(job.attempt));
    let news = JobNews { job, claim, runner: None, word, heard: None };
    server.app.traffic.happened(Happened::Job(news)).await.unwrap();
}

async fn job_of(who: &Person<'_>, job: &Job) -> Value {
    who.get(&format!("/api/jobs/{}", job.job_id)).await.expect(200)
}

on_both!(
    /// S6: the answer is what counts, not what is said too late.
    a_late_end_is_answered_with_how_the_job_ended
);

async fn a_late_end_is_answered_with_how_the_job_ended(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;

    let run = server.run(&place, JOB).await;
    let job = runner.claim("a", 2).await.unwrap();
    server.app.runs.cancel(SYSTEM, &somebody(), run, "now", true).await.unwrap();
    for said in ["success", "success", "failure"] {
        let late = Reporter::new(&server, &job).completing(&completion(said)).send();
        let done: Completed = good(late.await.unwrap()).await;
        assert_eq!(done.conclusion, "cancelled", "{said}");
    }
    assert_eq!(state(&server, run).await, RunState::Done(Conclusion::Cancelled));

    let run = server.run(&place, JOB).await;
    let mut lost = None;
    for nonce in ["b", "c", "d", "e"] {
        let job = runner.claim(nonce, 2).await.unwrap();
        lose(&server, &job, "its machine is gone").await;
        lost = Some(job);
    }
    assert_eq!(state(&server, run).await, RunState::Done(Conclusion::Failure));
    for _ in 0..2 {
        let late = Reporter::new(&server, lost.as_ref().unwrap());
        let done: Completed =
            good(late.completing(&completion("success")).send().await.unwrap()).await;
        assert_eq!(done.conclusion, "failure", "it was lost once too often");
    }
    assert_eq!(state(&server, run).await, RunState::Done(Conclusion::Failure));
}

on_both!(
    /// S7: why a job was tried again, who had it, and when.
    the_claims_before_the_last_are_shown_with_their_reason
);

async fn the_claims_before_the_last_are_shown_with_their_reason(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let first = Runner::new(&server, &key, "first", LINUX).await;
    let second = Runner::new(&server, &key, "second", LINUX).await;
    let run = server.run(&place, JOB).await;
    let root = person(&server, "root", As::administrator()).await;

    let job = first.claim("a", 20).await.unwrap();
    let started = What::Started { preparing_ms: Some(0) };
    let said = Reporter::new(&server, &job).telling(1, vec![started]);
    good::<Heard>(said.send().await.unwrap()).await;
    let shown = job_of(&root, &job).await;
    assert!(shown["prepared_at"].is_string() && shown["claims"] == json!([]), "{shown:#}");
    assert_eq!(shown["prepared_at"], shown["claimed_at"], "it took no time");
    lose(&server, &job, "its machine is gone").await;
    let job = second.claim("a", 2).await.unwrap();
    let back = Reporter::new(&server, &job).returning().send().await.unwrap();
    assert_eq!(back.status(), 204);
    let job = second.claim("b", 2).await.unwrap();
    // However long the runner says that it took, it was not longer than until now.
    let started = What::Started { preparing_ms: Some(u64::from(u32::MAX)) };
    let reporter = Reporter::new(&server, &job);
    let said = reporter.telling(1, vec![started, What::Uploading]);
    good::<Heard>(said.send().await.unwrap()).await;

    let shown = job_of(&root, &job).await;
    assert_eq!(
        (&shown["attempt"], &shown["reason"]),
        (&json!(3), &json!("its results are being stored"))
    );
    assert_eq!(shown["prepared_at"], shown["started_at"]);
    let claims = shown["claims"].as_array().unwrap();
    let told: Vec<_> =
        claims.iter().map(|one| (&one["attempt"], &one["runner"], &one["outcome"])).collect();
    assert_eq!(
        told,
        [
            (&json!(1), &json!("first"), &json!("lost")),
            (&json!(2), &json!("second"), &json!("returned")),
        ]
    );
    assert_eq!(claims[0]["reason"], "its machine is gone");
    assert!(claims[0]["prepared_at"].is_string() && claims[1]["started_at"].is_null());
    let seen = root.get(&format!("/api/runs/{run}")).await.expect(200);
    assert_eq!(seen["jobs"][0]["claims"], shown["claims"]);
}

on_both!(
    /// G5: where a job deployed to is kept, and shown to GitHub's clients, too.
    deployments_are_kept_and_listed
);

async fn deployments_are_kept_and_listed(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let root = person(&server, "root", As::administrator()).await;
    let deploy = async |nonce: &str, said: Complete| {
        server.run(&place, JOB).await;
        let job = runner.claim(nonce, 2).await.unwrap();
        let reporter = Reporter::new(&server, &job);
        good::<Completed>(reporter.completing(&said).send().await.unwrap()).await;
        job
    };
    let to = |environment: &str, url: Option<&str>| {
        let (environment, url) = (environment.to_owned(), url.map(str::to_owned));
        Some(Deployment { environment, url })
    };
    let allowed = Allowed { memory_mb: Some(512), cpu_millis: Some(100), ..Allowed::default() };
    let said = Complete {
        deployment: to("production", Some("https://app.example.com")),
        allowed: Some(allowed.clone()),
        ..completion("success")
    };
    let first = deploy("a", said).await;
    let odd = Complete { deployment: to("staging", Some("a\u{0}b")), ..completion("failure") };
    let second = deploy("b", odd).await;
    let none = deploy("c", completion("success")).await;

    let shown = job_of(&root, &first).await;
    let expect = json!({ "environment": "production", "url": "https://app.example.com" });
    assert_eq!(shown["deployment"], expect);
    assert_eq!(shown["allowed"], serde_json::to_value(allowed).unwrap());
    assert_eq!(job_of(&root, &second).await["deployment"], json!({ "environment": "staging" }));
    assert!(job_of(&root, &none).await["deployment"].is_null());

    let list = async |query: &str| {
        let path = format!("/repos/acme/app/deployments{query}");
        let found = root.get(&path).await.expect(200);
        let name = |one: &Value| one["environment"].as_str().unwrap().to_owned();
        found.as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, ["staging", "production"]);
    assert_eq!(list("?environment=production").await, ["production"]);
    assert_eq!(list("?per_page=1&page=2").await, ["production"]);
    assert_eq!(list("?ref=main").await.len(), 2);
    assert_eq!(list("?ref=other").await, [""; 0]);
    let path = format!("/repos/acme/app/deployments/{}", first.job_id);
    let one = root.get(&path).await.expect(200);
    assert_eq!((&one["production_environment"], &one["task"]), (&json!(true), &json!("deploy")));
    let statuses = root.get(&format!("{path}/statuses")).await.expect(200);
    assert_eq!(statuses[0]["state"], "success");
    assert_eq!(statuses[0]["environment_url"], "https://app.example.com");
    let failed = format!("/repos/acme/app/deployments/{}/statuses", second.job_id);
    assert_eq!(root.get(&failed).await.expect(200)[0]["state"], "failure");
    for gone in [none.job_id.to_string(), "1".to_owned(), "x".to_owned()] {
        root.get(&format!("/repos/acme/app/deployments/{gone}")).await.expect(404);
    }
}
