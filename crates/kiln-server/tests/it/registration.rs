//! Runners come, come back, and go.

use std::time::Duration;

use kiln_core::id::RunnerId;
use kiln_proto::job::{Form, Job, JobRef};
use kiln_proto::runner::{Register, Registered, Unregistered};
use kiln_proto::version::{OLDEST, PROTOCOL};
use kiln_store::Tx;
use kiln_store::directory::{registration_keys, runners};
use kiln_testkit::database::Database;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::api::people::{As, CI, commit, person};
use crate::runner::{LINUX, Reporter, Runner, good, problem, refused, register, registration};
use crate::support::{Options, SYSTEM, Server, somebody};

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

on_both!(
    /// S1
    a_key_makes_a_runner_and_its_credential_brings_it_back
);

async fn a_key_makes_a_runner_and_its_credential_brings_it_back(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (asked, _) = registration(&key, "one", LINUX);
    let first: Registered = good(register(&server, &asked).await).await;
    assert_eq!((first.status.as_str(), first.protocol, first.lease), ("registered", PROTOCOL, 60));
    let credential = first.credential.clone();
    let back = Register { key: None, id: Some(first.id), credential, ..asked.clone() };
    let again: Registered = good(register(&server, &back).await).await;
    assert_eq!((again.id, again.status.as_str()), (first.id, "re-registered"));
    assert_eq!((again.credential, again.name.as_str()), (None, "one"));
    // A wrong credential, and an id that nobody has, are answered alike.
    for (id, credential) in [(first.id, "krc_wrong"), (999_999, "krc_wrong")] {
        let wrong =
            Register { id: Some(id), credential: Some(credential.to_owned()), ..back.clone() };
        problem(register(&server, &wrong).await, 404).await;
    }
    let same_name = problem(register(&server, &asked).await, 409).await;
    assert!(same_name.message.contains("`one`"), "{same_name:?}");
}

on_both!(
    /// S1
    keys_are_bound_and_expire_and_are_used_up
);

async fn keys_are_bound_and_expire_and_are_used_up(server: Server) {
    let place = server.repository("acme", "app").await;
    let (pool, _) = server.pool(Some(place.org), "builders").await;
    let once = server.key(pool, Some(1), Duration::from_mins(1)).await;
    let (asked, _) = registration(&once, "one", LINUX);
    // What fails for another reason does not use the key up.
    let unnamed = Register { name: String::new(), ..asked.clone() };
    problem(register(&server, &unnamed).await, 422).await;
    good::<Registered>(register(&server, &asked).await).await;
    let (second, _) = registration(&once, "two", LINUX);
    let used_up = problem(register(&server, &second).await, 403).await;
    assert!(used_up.message.contains("used up"), "{used_up:?}");

    let short = server.key(pool, None, Duration::from_millis(1)).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let expired = problem(register(&server, &registration(&short, "x", LINUX).0).await, 403).await;
    assert!(expired.message.contains("expired"), "{expired:?}");

    let revoked = server.key(pool, None, Duration::from_mins(1)).await;
    let revoke = async move |tx: &mut Tx<'_>| {
        let keys = registration_keys::list(tx, SYSTEM, pool, kiln_store::Page::first(100)).await?;
        registration_keys::revoke(tx, SYSTEM, &somebody(), keys.last().unwrap().id).await
    };
    server.app.store.write(revoke).await.unwrap();
    problem(register(&server, &registration(&revoked, "y", LINUX).0).await, 403).await;
    problem(register(&server, &registration("krk_made-up", "z", LINUX).0).await, 403).await;
}

on_both!(
    /// S1
    what_is_missing_or_wrong_is_named
);

async fn what_is_missing_or_wrong_is_named(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (good, _) = registration(&key, "one", LINUX);
    let change = |edit: &dyn Fn(&mut Register)| {
        let mut asked = good.clone();
        edit(&mut asked);
        asked
    };
    let wrong = [
        (change(&|asked| asked.key = None), 422, "key"),
        (change(&|asked| asked.id = Some(1)), 422, "credential"),
        (change(&|asked| asked.credential = Some("krc_x".to_owned())), 422, "id"),
        (change(&|asked| asked.name = " ".into()), 422, "name"),
        (change(&|asked| asked.name = "a\nb".into()), 422, "runner"),
        (change(&|asked| asked.public_key = None), 422, "public_key"),
        (change(&|asked| asked.public_key = Some("AAAA".to_owned())), 422, "public_key"),
        (change(&|asked| asked.capabilities.os = String::new()), 422, "capabilities.os"),
        (change(&|asked| asked.capabilities.labels = vec![String::new()]), 422, "capabilities"),
        (
            change(&|asked| {
                asked.capabilities.labels = (0..65).map(|number| format!("l{number}")).collect();
            }),
            422,
            "capabilities",
        ),
        (change(&|asked| asked.capabilities.backends = vec!["magic".to_owned()]), 422, "backends"),
        (change(&|asked| asked.capabilities.max_parallel = 1_000_000), 422, "parallel"),
        (change(&|asked| asked.version = String::new()), 422, "version"),
        (change(&|asked| asked.protocol = 0), 426, "newer runner"),
    ];
    for (asked, status, word) in wrong {
        let refused = problem(register(&server, &asked).await, status).await;
        assert!(refused.message.contains(word), "{word}: {refused:?}");
    }
    let url = server.url("/api/runners/register");
    for body in ["", "3", "{\"name\": 3}", "{"] {
        refused(server.client.post(&url).body(body), 422).await;
    }
    refused(server.client.post(&url).body("x".repeat(3 << 20)), 413).await;
}

on_both! {
    /// S1
    a_runner_of_another_version_works_with_this_server
}

/// A runner of an older protocol says less and has its secrets sealed as it knows; a newer one says what this server does
/// not know.
async fn a_runner_of_another_version_works_with_this_server(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (full, private) = registration(&key, "one", LINUX);
    let older = json!({
        "key": key, "name": "older", "version": "0.1", "protocol": OLDEST, "public_key": full.public_key,
        "capabilities": { "labels": ["linux"], "os": "linux", "architecture": "x64", "backends": ["host"],
            "max_parallel": 1, "a_new_sense": { "deep": [1, 2] } },
        "a_new_field": "of a later version",
    });
    let url = server.url("/api/runners/register");
    let answer: Registered = good(server.client.post(url).json(&older).send().await.unwrap()).await;
    let runner = format!("/actions/runners/{}", answer.id);
    let ask = |path: String, body: Value| {
        server.client.post(server.url(&path)).bearer_auth(&answer.access_token).json(&body)
    };
    for conclusion in ["success", "failure"] {
        commit(&server, &place, &[("ci.yml", CI)]);
        let run = ada.trigger(&place, json!({})).await;
        let question = json!({ "nonce": conclusion, "wait": 20, "mood": "eager" });
        let job: Job =
            good(ask(format!("{runner}/jobs/claim"), question).send().await.unwrap()).await;
        // It opens its secrets, and tells what it knows to tell.
        assert_eq!(job.secrets.form, Form::Once);
        kiln_server::seal::open_from(&private, job.reference(), &job.secrets).unwrap();
        let beat = json!({ "jobs": [job.reference()], "pulse": 60 });
        good::<Value>(ask(format!("{runner}/heartbeat"), beat).send().await.unwrap()).await;
        let of_job = format!("/actions/jobs/{}/attempts/{}", job.job_id, job.attempt);
        let tell = |what: &str, body: Value| {
            server
                .client
                .post(server.url(&format!("{of_job}/{what}")))
                .bearer_auth(&job.token)
                .json(&body)
        };
        let event = json!({ "sequence": 1, "at": 1, "kind": "started", "warmth": 37 });
        good::<Value>(
            tell("events", json!({ "events": [event], "more": 1 })).send().await.unwrap(),
        )
        .await;
        let end =
            json!({ "conclusion": conclusion, "log_bytes": 0, "sequence": 1, "mood": "done" });
        good::<Value>(tell("complete", end).send().await.unwrap()).await;
        let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
        assert_eq!(seen["conclusion"], conclusion, "{seen:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_pools_refuse_the_host_unless_it_is_used_once_or_allowed() {
    let server = Server::start(Database::sqlite()).await;
    let (_, key) = server.pool(None, "shared").await;
    let on_host = |name| {
        let (mut asked, private) = registration(&key, name, LINUX);
        asked.capabilities.backends = vec!["host".to_owned()];
        (asked, private)
    };
    let (asked, private) = on_host("one");
    let refused = problem(register(&server, &asked).await, 403).await;
    for fix in ["kiln runners key --owner NAME", "--once", "allow_shared_host"] {
        assert!(refused.message.contains(fix), "{fix}: {refused:?}");
    }
    // Saying nothing is no way around it.
    let mut silent = asked.clone();
    silent.capabilities.backends = Vec::new();
    problem(register(&server, &silent).await, 403).await;
    let once = Register { single_use: true, ..asked.clone() };
    let runner = Runner::of(&server, &once, private).await;
    // Nor is coming back as another.
    let back = Register {
        key: None,
        id: Some(runner.id),
        credential: Some(runner.credential.clone()),
        ..asked
    };
    problem(register(&server, &back).await, 403).await;
    let (sandboxed, _) = registration(&key, "two", LINUX);
    good::<Registered>(register(&server, &sandboxed).await).await;

    let allowing = Options { allow_shared_host: true, ..Options::default() };
    let server = Server::with(Database::sqlite(), allowing).await;
    let (_, key) = server.pool(None, "shared").await;
    let (mut asked, _) = registration(&key, "one", LINUX);
    asked.capabilities.backends = vec!["host".to_owned()];
    good::<Registered>(register(&server, &asked).await).await;
}

on_both!(
    /// S12
    a_runner_that_leaves_hands_back_what_it_has
);

async fn a_runner_that_leaves_hands_back_what_it_has(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    server.run(&place, JOB).await;
    let leaving = Runner::new(&server, &key, "one", LINUX).await;
    let claimed = leaving.claim("a", 20).await.unwrap();
    let begun = leaving.claim("b", 20).await.unwrap();
    let reporter = Reporter::new(&server, &begun);
    let started = reporter.telling(1, vec![kiln_proto::report::What::started()]);
    good::<kiln_proto::report::Heard>(started.send().await.unwrap()).await;

    let path = format!("/api/runners/{}/unregister", leaving.id);
    let left: Unregistered = good(leaving.post(&path).send().await.unwrap()).await;
    assert_eq!(left.jobs_returned, 2);
    // It is gone, for its tokens and for its credential.
    refused(leaving.claiming("c", 0), 404).await;
    refused(leaving.post(&path), 404).await;
    let back = Register {
        key: None,
        id: Some(leaving.id),
        credential: Some(leaving.credential.clone()),
        ..registration(&key, "one", LINUX).0
    };
    problem(register(&server, &back).await, 404).await;

    let next = Runner::new(&server, &key, "two", LINUX).await;
    let mut found = Vec::new();
    for nonce in ["a", "b"] {
        found.push(next.claim(nonce, 5).await.unwrap());
    }
    found.sort_by_key(|job| job.job_id);
    let mut had = [claimed.reference(), begun.reference()];
    had.sort();
    for (job, had) in found.iter().zip(had) {
        assert_eq!((job.job_id, job.attempt), (had.job_id, had.attempt + 1));
    }
    // What was handed back without having begun did not cost a try.
    let late = Reporter::new(&server, &begun);
    refused(late.logging(0, "x"), 409).await;
}

on_both!(
    /// S7
    what_a_runner_that_was_started_anew_does_not_know_goes_back_at_once
);

async fn what_a_runner_that_was_started_anew_does_not_know_goes_back_at_once(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    server.run(&place, JOB).await;
    let dead = Runner::new(&server, &key, "one", LINUX).await;
    let kept = dead.claim("a", 20).await.unwrap();
    let forgotten = dead.claim("b", 20).await.unwrap();
    let next = Runner::new(&server, &key, "two", LINUX).await;
    let back = |jobs| Register {
        key: None,
        id: Some(dead.id),
        credential: Some(dead.credential.clone()),
        jobs,
        ..registration(&key, "one", LINUX).0
    };
    // One that only renews its token says nothing of jobs, and keeps them.
    good::<Registered>(register(&server, &back(None)).await).await;
    assert!(next.claim("a", 0).await.is_none());
    good::<Registered>(register(&server, &back(Some(vec![kept.reference()]))).await).await;
    let found = next.claim("b", 5).await.unwrap();
    assert_eq!((found.job_id, found.attempt), (forgotten.job_id, forgotten.attempt + 1));
    assert!(next.claim("c", 0).await.is_none());
    // Another process of an earlier time cannot take it with it.
    let older = JobRef { attempt: kept.attempt + 1, ..kept.reference() };
    good::<Registered>(register(&server, &back(Some(vec![older]))).await).await;
    assert_eq!(next.claim("d", 5).await.unwrap().job_id, kept.job_id);
}

on_both!(
    /// S1
    a_runner_for_a_single_job_gets_one_and_is_gone
);

async fn a_runner_for_a_single_job_gets_one_and_is_gone(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    server.run(&place, JOB).await;
    let (asked, private) = registration(&key, "one", LINUX);
    let asked = Register { single_use: true, ..asked };
    let runner = Runner::of(&server, &asked, private).await;
    let job = runner.claim("a", 20).await.unwrap();
    assert!(runner.claim("b", 0).await.is_none(), "it has had its job");
    assert_eq!(runner.claim("a", 20).await.unwrap().job_id, job.job_id, "but it may ask again");
    let reporter = Reporter::new(&server, &job);
    let done = reporter.completing(&crate::runner::completion("success"));
    assert_eq!(done.send().await.unwrap().status(), 200);
    refused(runner.claiming("c", 0), 404).await;
    let id = RunnerId(runner.id);
    let gone = async move |tx: &mut Tx<'_>| runners::get(tx, SYSTEM, id).await;
    assert!(server.app.store.read(gone).await.is_err());
    // Its last word can still be repeated.
    let done = reporter.completing(&crate::runner::completion("success"));
    assert_eq!(done.send().await.unwrap().status(), 200);
}

/// A body that never ends keeps nobody busy for ever; both registrations come before anybody is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_never_ends_is_given_up() {
    let server = Server::start(Database::sqlite()).await;
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: k\r\nContent-Length: 100\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let both = async { tokio::join!(ask("/api/runners/register"), ask("/api/workers/register")) };
    let answers = tokio::time::timeout(Duration::from_secs(50), both).await.unwrap();
    assert_eq!(answers, ("HTTP/1.1 503".to_owned(), "HTTP/1.1 503".to_owned()));
}
