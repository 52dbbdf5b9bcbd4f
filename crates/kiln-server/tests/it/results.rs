//! Results of jobs that are used again, over HTTP; and those that never are. (P13)

use kiln_core::id::JobId;
use kiln_proto::report::Complete;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::{As, Person, person, reply};
use crate::content::{Of, PUSH, Worker, builders};
use crate::runner::{Reporter, Runner, completion, good};
use crate::support::{Place, Server};

const FORK: Of =
    Of { event: "pull_request", reference: "refs/pull/7/merge", trust: "untrusted", base: "main" };

fn fingerprint(of: char) -> Value {
    json!({ "fingerprint": of.to_string().repeat(64) })
}

/// Asks for a result; the job that stands for this one, or why none does.
async fn ask(job: &Worker<'_>, of: char) -> Result<Value, String> {
    let found = job.post("result", fingerprint(of)).await.expect(200);
    match &found["reused"] {
        Value::Null => Err(found["reason"].as_str().unwrap().to_owned()),
        reused => Ok(reused.clone()),
    }
}

async fn end(server: &Server, job: &Worker<'_>, conclusion: &str) {
    let outputs = [("version".to_owned(), "1.2".to_owned())].into_iter().collect();
    let said = Complete { outputs, ..completion(conclusion) };
    let told = Reporter::new(server, &job.job).completing(&said).send().await.unwrap();
    good::<Value>(told).await;
}

/// A job that was green with this fingerprint and left an artifact.
async fn green<'s>(runner: &Runner<'s>, place: &Place, of: char) -> (Worker<'s>, Value) {
    let job = Worker::start(runner, place, &PUSH).await;
    assert_eq!(ask(&job, of).await.unwrap_err(), "no earlier job had this fingerprint");
    let dist = job.upload(json!({ "name": "dist" }), b"the same bytes").await;
    end(runner.server, &job, "success").await;
    (job, dist)
}

/// A question with two parts; the whole is of both.
fn of_parts(files: char, actions: char) -> Value {
    let part =
        |name: &str, of: char| json!({ "name": name, "fingerprint": of.to_string().repeat(16) });
    let whole = format!("{files}{actions}").repeat(32);
    json!({ "fingerprint": whole, "parts": [part("the files", files), part("the actions", actions)] })
}

on_both! { a_job_that_runs_after_all_says_what_changed }

async fn a_job_that_runs_after_all_says_what_changed(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let why = async |question: Value, of: &Of| {
        let job = Worker::start(&runner, &place, of).await;
        let found = job.post("result", question).await.expect(200);
        end(&server, &job, "success").await;
        found["reason"].as_str().unwrap().to_owned()
    };
    let none = "no earlier job had this fingerprint";
    assert_eq!(why(of_parts('a', 'a'), &PUSH).await, none);
    let files = format!("{none}; changed since run #1: the files");
    assert_eq!(why(of_parts('b', 'a'), &PUSH).await, files);
    let both = format!("{none}; changed since run #2: the files and the actions");
    assert_eq!(why(of_parts('c', 'c'), &PUSH).await, both);
    // What others wrote is not told to those who may not read it, and what is not known is not guessed.
    assert_eq!(why(of_parts('d', 'd'), &FORK).await, none);
    assert_eq!(why(fingerprint('e'), &PUSH).await, none);
    assert_eq!(why(of_parts('f', 'f'), &PUSH).await, none);
    let job = Worker::start(&runner, &place, &PUSH).await;
    let part = |name: &str, fingerprint: &str| json!({ "name": name, "fingerprint": fingerprint });
    let many: Vec<Value> = (0..17).map(|_| part("x", "0123456789abcdef")).collect();
    for parts in [
        json!(many),
        json!([part("x", "short")]),
        json!([part("x", "0123456789abcdeg")]),
        json!([part("", "0123456789abcdef")]),
        json!([part("a\nb", "0123456789abcdef")]),
        json!([part(&"x".repeat(81), "0123456789abcdef")]),
    ] {
        let wrong = json!({ "fingerprint": "a".repeat(64), "parts": parts });
        assert!(job.post("result", wrong).await.problem(422).contains("`parts`"));
    }
}

async fn developer<'s>(server: &'s Server, place: &Place) -> Person<'s> {
    person(server, "ada", As::member(place.org, Role::Developer)).await
}

on_both! { a_green_result_is_used_again_with_its_outputs_and_artifacts }

async fn a_green_result_is_used_again_with_its_outputs_and_artifacts(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = developer(&server, &place).await;
    let (first, dist) = green(&runner, &place, 'a').await;

    let second = Worker::start(&runner, &place, &PUSH).await;
    let reused = ask(&second, 'a').await.unwrap();
    assert_eq!(reused["job_id"], first.job.job_id);
    assert_eq!((&reused["run_id"], &reused["run_attempt"]), (&json!(first.job.run_id), &json!(1)));
    assert_eq!(reused["outputs"], json!({ "version": "1.2" }));
    assert_eq!(reused["artifacts"], json!(["dist"]));
    // Whoever did not hear the answer asks again, and nothing is there twice.
    assert_eq!(ask(&second, 'a').await.unwrap(), reused);
    assert_eq!(second.listed("").await, ["dist"]);
    end(&server, &second, "success").await;

    let run = ada.get(&format!("/api/runs/{}", second.job.run_id)).await.expect(200);
    let job = &run["jobs"][0];
    assert_eq!(job["conclusion"], "success");
    assert_eq!(job["reused_from"]["job_id"], first.job.job_id);
    let slug = JobId(first.job.job_id).slug();
    assert_eq!(job["reason"], format!("reused from run #1, attempt 1, job {slug}"));
    let first_run = ada.get(&format!("/api/runs/{}", first.job.run_id)).await.expect(200);
    assert_eq!(first_run["jobs"][0]["reused_from"], Value::Null);

    // Each has its own row. When the first goes, the second keeps the bytes, but nobody can have the first's
    // result again; nor is one that was itself used again a result.
    let path = format!("/repos/acme/app/actions/artifacts/{}", dist["id"]);
    ada.delete(&path).await.expect(204);
    let all = ada
        .get(&format!("/repos/acme/app/actions/runs/{}/artifacts", second.job.run_id))
        .await
        .expect(200);
    let copy = &all["artifacts"][0];
    assert_ne!(copy["id"], dist["id"]);
    let bytes = server
        .client
        .get(server.url(&format!("/repos/acme/app/actions/artifacts/{}/zip", copy["id"])));
    let bytes = bytes.bearer_auth(&ada.token).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(&bytes[..], b"the same bytes");
    let third = Worker::start(&runner, &place, &PUSH).await;
    let why = ask(&third, 'a').await.unwrap_err();
    assert_eq!(why, "not all that job `build` of run #1, attempt 1 left is still there");
    // It runs, and counts from then on.
    end(&server, &third, "success").await;
    let fourth = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&fourth, 'a').await.unwrap()["job_id"], third.job.job_id);
    assert_eq!(fourth.listed("").await, [""; 0]);
}

on_both! { only_what_ended_green_counts_and_the_latest_decides }

async fn only_what_ended_green_counts_and_the_latest_decides(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let none = "no earlier job had this fingerprint";
    let open = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&open, 'a').await.unwrap_err(), none);
    // While it runs it is no result; when it was cancelled it says nothing.
    let beside = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&beside, 'a').await.unwrap_err(), none);
    end(&server, &open, "cancelled").await;
    assert_eq!(ask(&beside, 'a').await.unwrap_err(), none);
    assert_eq!(ask(&beside, 'b').await.unwrap_err(), none);
    assert_eq!(ask(&beside, 'a').await.unwrap_err(), none);
    end(&server, &beside, "success").await;
    let other = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&other, 'b').await.unwrap_err(), none, "it asked for `a` last");
    end(&server, &other, "failure").await;
    let after = Worker::start(&runner, &place, &PUSH).await;
    let failed =
        "job `build` of run #3, attempt 1, the latest with this fingerprint, ended with failure";
    assert_eq!(ask(&after, 'b').await.unwrap_err(), failed);
    assert_eq!(ask(&after, 'a').await.unwrap()["job_id"], beside.job.job_id);
    for wrong in ["", "a", &"g".repeat(64), &"a".repeat(66)] {
        let asked = json!({ "fingerprint": wrong });
        assert!(after.post("result", asked).await.problem(422).contains("64 hexadecimals"));
    }
}

on_both! {
    /// G8
    a_result_of_less_trust_or_of_another_repository_is_never_used
}

async fn a_result_of_less_trust_or_of_another_repository_is_never_used(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let none = "no earlier job had this fingerprint";
    let fork = Worker::start(&runner, &place, &FORK).await;
    ask(&fork, 'a').await.unwrap_err();
    fork.upload(json!({ "name": "dist" }), b"evil").await;
    end(&server, &fork, "success").await;
    let trusted = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&trusted, 'a').await.unwrap_err(), none);
    assert_eq!(trusted.listed("").await, [""; 0]);
    end(&server, &trusted, "success").await;
    // Nor the other way round: their artifacts would pass for those of a stranger.
    let again = Worker::start(&runner, &place, &FORK).await;
    assert_eq!(ask(&again, 'a').await.unwrap()["job_id"], fork.job.job_id);

    let place = server.repository("other", "app").await;
    let elsewhere = builders(&server, &place).await;
    let job = Worker::start(&elsewhere, &place, &PUSH).await;
    assert_eq!(ask(&job, 'a').await.unwrap_err(), none);
}

on_both! { a_job_that_somebody_runs_again_runs }

async fn a_job_that_somebody_runs_again_runs(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = developer(&server, &place).await;
    let (first, _) = green(&runner, &place, 'a').await;
    ada.post(&format!("/api/runs/{}/rerun", first.job.run_id), json!({})).await.expect(201);
    let again = Worker::next(&runner).await;
    assert_eq!(ask(&again, 'a').await.unwrap_err(), "somebody asked to run it again");
    end(&server, &again, "success").await;
    let other = Worker::start(&runner, &place, &PUSH).await;
    let reused = ask(&other, 'a').await.unwrap();
    assert_eq!((&reused["job_id"], &reused["run_attempt"]), (&json!(again.job.job_id), &json!(2)));
}

on_both! { an_artifact_that_has_expired_or_whose_name_is_taken_stands_in_the_way }

async fn an_artifact_that_has_expired_or_whose_name_is_taken_stands_in_the_way(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let (first, dist) = green(&runner, &place, 'a').await;
    let two = "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: 'true'}]}\n  \
               b: {runs-on: linux, steps: [{run: 'true'}]}\n";
    crate::content::run(&server, &place, &PUSH, two).await;
    let (a, b) = (Worker::next(&runner).await, Worker::next(&runner).await);
    a.upload(json!({ "name": "dist" }), b"another").await;
    let why = ask(&b, 'a').await.unwrap_err();
    assert_eq!(why, "another job of this run has an artifact `dist` already");
    let left = reply(a.ask(Method::GET, "artifacts")).await.expect(200);
    assert_eq!(left["artifacts"][0]["size"], 7, "{left}");
    // Over, but not removed yet.
    let id = dist["id"].as_i64().unwrap();
    let expire = async move |tx: &mut Tx<'_>| {
        tx.execute("UPDATE artifacts SET expires_at = 1 WHERE id = $1", &[id.into()]).await
    };
    server.app.store.write(expire).await.unwrap();
    let job = Worker::start(&runner, &place, &PUSH).await;
    let why = ask(&job, 'a').await.unwrap_err();
    assert_eq!(why, "the artifact `dist` of job `build` of run #1, attempt 1 has expired");
    assert_eq!(first.job.attempt, 1);
}

on_both! { a_result_that_is_too_old_is_not_used }

async fn a_result_that_is_too_old_is_not_used(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let (first, _) = green(&runner, &place, 'a').await;
    let (job, run) = (first.job.job_id, first.job.run_id);
    let age = async move |tx: &mut Tx<'_>| {
        let sql = "UPDATE jobs SET ended_at = 1000 WHERE run_id = $1 AND id = $2";
        tx.execute(sql, &[run.into(), job.into()]).await
    };
    server.app.store.write(age).await.unwrap();
    let other = Worker::start(&runner, &place, &PUSH).await;
    let why = ask(&other, 'a').await.unwrap_err();
    assert_eq!(why, "the result of job `build` of run #1, attempt 1 is too old");
}

on_both! { what_a_lost_claim_was_given_goes_when_the_job_begins_anew }

/// A runner that had found a result died before it said so: the next one decides anew.
async fn what_a_lost_claim_was_given_goes_when_the_job_begins_anew(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let (first, _) = green(&runner, &place, 'a').await;
    let lost = Worker::start(&runner, &place, &PUSH).await;
    ask(&lost, 'a').await.unwrap();
    assert_eq!(lost.listed("").await, ["dist"]);
    let back = Reporter::new(&server, &lost.job).returning().send().await.unwrap();
    assert!(back.status().is_success(), "{}", back.status());
    let next = Worker::next(&runner).await;
    assert_eq!((next.job.job_id, next.job.attempt), (lost.job.job_id, 2));
    // The words of the lost one are refused.
    lost.post("result", fingerprint('a')).await.expect(401);
    assert_eq!(ask(&next, 'b').await.unwrap_err(), "no earlier job had this fingerprint");
    assert_eq!(next.listed("").await, [""; 0]);
    end(&server, &next, "success").await;
    let ada = developer(&server, &place).await;
    let run = ada.get(&format!("/api/runs/{}", next.job.run_id)).await.expect(200);
    assert_eq!(run["jobs"][0]["reused_from"], Value::Null);
    let other = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(ask(&other, 'a').await.unwrap()["job_id"], first.job.job_id);
    assert_eq!(ask(&other, 'b').await.unwrap()["job_id"], next.job.job_id);
}
