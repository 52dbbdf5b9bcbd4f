//! Claims, heartbeats and tokens.

use std::time::Duration;

use kiln_core::id::RunnerId;
use kiln_core::time::Timestamp;
use kiln_proto::runner::{Command, Health, Heartbeat, HeartbeatAnswer, Register, Registered};
use kiln_server::fleet::Rates;
use kiln_server::token::Access;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::{environments, runners, secrets};
use kiln_store::{Signal, Tx};
use kiln_testkit::database::Database;
use tokio::time::Instant;

use crate::runner::{LINUX, Runner, good, json, refused, register, registration};
use crate::support::{Options, SYSTEM, Server, from_now, somebody};

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

on_both!(
    /// S2
    a_job_comes_with_everything_its_runner_needs
);

on_both!(
    /// S15: however often it is asked for.
    the_size_of_the_queue_is_never_old
);

async fn the_size_of_the_queue_is_never_old(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    server.run(&place, JOB).await;
    runner.claim("a", 20).await.unwrap();
    // The same question has the same answer, and the size of now.
    let size = async || {
        let answer = runner.claiming("a", 0).send().await.unwrap();
        answer.headers()["kiln-queue-size"].to_str().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(size().await, 0);
    for expected in 1..=2 {
        server.run(&place, JOB).await;
        let asked = Instant::now();
        while size().await != expected {
            assert!(asked.elapsed() < Duration::from_secs(10), "{expected} wait");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn a_job_comes_with_everything_its_runner_needs(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let run = server
        .run(
            &place,
            "  build:
    runs-on: linux
    timeout-minutes: 7
    environment: prod
    strategy: {matrix: {os: [a]}}
    services: {db: {image: postgres}}
    steps:
      - uses: actions/checkout@v4
      - {name: Build it, run: make}
      - run: |
          echo one
          echo two
  other: {needs: build, runs-on: linux, steps: [{run: 'true'}]}
",
        )
        .await;
    keep_secrets(&server, &place).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    assert_eq!((job.run_id, job.attempt, job.repo.as_str()), (run.0, 1, "acme/app"));
    assert_eq!(
        (job.workflow.as_str(), job.job_name.as_str()),
        (".github/workflows/ci.yml", "build (a)")
    );
    assert_eq!(job.steps, ["Run actions/checkout@v4", "Build it", "Run echo one"]);
    assert_eq!((job.timeout_minutes, job.environment.as_deref()), (7, Some("prod")));
    assert_eq!(job.services, [serde_json::json!({ "name": "db" })]);
    assert_eq!(job.source.clone_url, server.url("/acme/app.git"));
    assert_eq!(job.source.reference, "refs/heads/main");
    let plan = json(&job.plan);
    assert_eq!(plan["workflows"].as_array().unwrap().len(), 1);
    assert_eq!(plan["workflows"][0]["jobs"].as_array().unwrap().len(), 1);
    let github = json(&job.contexts.github);
    let step_token = github["token"].as_str().unwrap().to_owned();
    assert!(step_token.starts_with("kgt_") && job.token.starts_with("kjt_"));
    let expected = [
        ("run_id", run.0.to_string()),
        ("run_number", "1".to_owned()),
        ("run_attempt", "1".to_owned()),
        ("job", "build".to_owned()),
        ("server_url", server.url("")),
        ("api_url", server.url("/api/v3")),
        ("repository", "acme/app".to_owned()),
        ("actor", "octocat".to_owned()),
        ("ref", "refs/heads/main".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(github[name], value, "{name}");
    }
    assert_eq!(json(&job.contexts.matrix)["os"], "a");
    let mut secrets = runner.open(&job).visible;
    secrets.sort();
    let expected =
        [("DEPLOY", "from prod"), ("GITHUB_TOKEN", &*step_token), ("TOKEN", "of the repo")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(secrets, expected);
    let bytes = serde_json::to_string(&job).unwrap();
    assert!(!bytes.contains("of the repo"), "a secret is never sent in plain");
    let seen = format!("{}{}", job.contexts.github.get(), job.plan.get());
    assert!(!seen.contains(&job.token), "steps must not see the token of the job");
}

async fn keep_secrets(server: &Server, place: &crate::support::Place) {
    let (org, repo, vault) = (place.org, place.repo, server.app.vault.clone());
    let work = async move |tx: &mut Tx<'_>| {
        let prod = environments::put(tx, SYSTEM, &somebody(), repo, "prod", "{}").await?;
        let kept = [
            (Holder::Org(org), "TOKEN", "of the organization"),
            (Holder::Repo(repo), "TOKEN", "of the repo"),
            (Holder::Environment(prod), "DEPLOY", "from prod"),
        ];
        for (holder, name, value) in kept {
            let sealed = vault.seal(org, holder, name, value.as_bytes());
            secrets::put(tx, SYSTEM, &somebody(), holder, name, sealed).await?;
        }
        Ok(())
    };
    server.app.store.write(work).await.unwrap();
}

on_both!(
    /// S3
    two_runners_and_one_job
);

async fn two_runners_and_one_job(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let one = Runner::new(&server, &key, "one", LINUX).await;
    let two = Runner::new(&server, &key, "two", LINUX).await;
    let other = Runner::new(&server, &key, "other", &["windows"]).await;
    let began = Instant::now();
    let (first, second, third, run) =
        tokio::join!(one.claim("a", 2), two.claim("a", 2), other.claim("a", 1), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.run(&place, JOB).await
        });
    let got: Vec<_> = [first, second].into_iter().flatten().collect();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].run_id, run.0);
    assert!(third.is_none(), "its labels do not fit");
    assert!(began.elapsed() < Duration::from_secs(10));
}

on_both!(
    /// S2
    a_waiting_runner_gets_a_job_at_once_also_of_a_new_queue
);

async fn a_waiting_runner_gets_a_job_at_once_also_of_a_new_queue(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", &["linux", "gpu"]).await;
    for (nonce, label) in [("a", "linux"), ("b", "gpu")] {
        let waiting = async {
            let job = runner.claim(nonce, 20).await.unwrap();
            (job, Instant::now())
        };
        let queued = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.run(&place, &JOB.replace("linux", label)).await;
            Instant::now()
        };
        let ((_, got), queued) = tokio::join!(waiting, queued);
        // Far below the look at everything, which comes every two seconds.
        assert!(got.saturating_duration_since(queued) < Duration::from_secs(1), "{label}");
    }
}

on_both!(
    /// S5
    repeating_a_question_repeats_its_answer
);

async fn repeating_a_question_repeats_its_answer(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let first = runner.claim("a", 20).await.unwrap();
    let again = runner.claim("a", 20).await.unwrap();
    assert_eq!((first.job_id, first.attempt), (again.job_id, again.attempt));
    assert_eq!(first.token, again.token);
    assert_eq!(runner.open(&first).visible, runner.open(&again).visible);
    let second = runner.claim("b", 20).await.unwrap();
    assert_ne!(first.job_id, second.job_id);
    assert!(runner.claim("c", 0).await.is_none());
}

on_both!(
    /// S5
    tokens_expire_rotate_and_can_be_revoked_at_once
);

async fn tokens_expire_rotate_and_can_be_revoked_at_once(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let mut runner = Runner::new(&server, &key, "one", LINUX).await;
    let other = Runner::new(&server, &key, "two", LINUX).await;
    let first = runner.token.clone();
    let answer = runner.claiming("a", 0).send().await.unwrap();
    let second = answer.headers()["kiln-access-token"].to_str().unwrap().to_owned();
    let third = runner.beat(&[], 0).await.access_token;
    // All that have not expired are good: a lost answer locks nobody out.
    for token in [&first, &second, &third] {
        runner.token.clone_from(token);
        assert!(runner.claim("b", 0).await.is_none());
    }
    // A token opens its own runner's doors, and no others.
    runner.token.clone_from(&other.token);
    refused(runner.claiming("b", 0), 404).await;
    refused(runner.beating(&[], 0), 404).await;
    let id = RunnerId(runner.id);
    let expired = Access { runner: id, epoch: 0, until: Timestamp(1_000) };
    let foreign = kiln_server::token::Signer::new(b"another key");
    let valid = Access { until: from_now(Duration::from_mins(1)), ..expired };
    for token in [server.app.signer.access(expired), foreign.access(valid), "nonsense".to_owned()] {
        runner.token = token;
        refused(runner.claiming("b", 0), 401).await;
        refused(runner.beating(&[], 0), 401).await;
        refused(runner.post(&format!("/api/runners/{}/unregister", runner.id)), 401).await;
    }
    let bare = server.client.post(server.url(&format!("/actions/runners/{}/heartbeat", runner.id)));
    refused(bare, 401).await;

    let mut bus = server.app.bus.listen();
    let revoke =
        async move |tx: &mut Tx<'_>| runners::revoke_tokens(tx, SYSTEM, &somebody(), id).await;
    server.app.store.write(revoke).await.unwrap();
    bus.until(|signal| signal == Signal::Runner(id)).await;
    settle(&server, id).await;
    runner.token = third;
    refused(runner.claiming("b", 0), 401).await;
    // Its credential makes it good again, under the same id.
    let back = Register {
        key: None,
        id: Some(runner.id),
        credential: Some(runner.credential.clone()),
        ..registration(&key, "one", LINUX).0
    };
    let registered: Registered = good(register(&server, &back).await).await;
    runner.token = registered.access_token;
    assert!(runner.claim("b", 0).await.is_none());
}

/// Waits until the fleet has heard of a change of a runner: a moment after the bus.
async fn settle(server: &Server, id: RunnerId) {
    let epoch = async move |tx: &mut Tx<'_>| Ok(runners::get(tx, SYSTEM, id).await?.epoch);
    let epoch = server.app.store.read(epoch).await.unwrap();
    for _ in 0..6_000 {
        if server.app.fleet.member(id).await.unwrap().runner.epoch == epoch {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the fleet has not heard of it");
}

on_both!(
    /// S14
    a_cancel_reaches_the_runner_within_a_second
);

async fn a_cancel_reaches_the_runner_within_a_second(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let run = server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap().reference();
    let beating = async { (runner.beat(&[job], 15).await, Instant::now()) };
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let cancelled = server.app.runs.cancel(SYSTEM, &somebody(), run, "enough", false).await;
        cancelled.unwrap();
        Instant::now()
    };
    let ((answer, heard), asked) = tokio::join!(beating, cancel);
    assert_eq!(answer.commands, [Command::Cancel(job)]);
    assert!(heard.saturating_duration_since(asked) < Duration::from_secs(1));
    // What it was told already does not come again before its time; what is new does.
    let beating = async { (runner.beat(&[job], 1).await, Instant::now()) };
    let began = Instant::now();
    let (answer, heard) = beating.await;
    assert_eq!(answer.commands, [Command::Cancel(job)]);
    assert!(heard - began > Duration::from_millis(900));
    server.app.runs.cancel(SYSTEM, &somebody(), run, "now", true).await.unwrap();
    // A forced end does not wait for the runner.
    let answer = runner.beat(&[job], 15).await;
    assert_eq!(answer.commands, [Command::Abandon(job)]);
}

on_both!(
    /// S6
    what_a_runner_does_not_have_it_is_told_to_abandon
);

async fn what_a_runner_does_not_have_it_is_told_to_abandon(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let one = Runner::new(&server, &key, "one", LINUX).await;
    let two = Runner::new(&server, &key, "two", LINUX).await;
    let job = one.claim("a", 20).await.unwrap().reference();
    assert_eq!(one.beat(&[job], 0).await.commands, []);
    assert_eq!(two.beat(&[job], 0).await.commands, [Command::Abandon(job)]);
    let many = vec![job; 10_001];
    refused(one.beating(&many, 0), 422).await;
}

on_both!(
    /// S12
    a_draining_runner_gets_nothing_and_is_told_so
);

async fn a_draining_runner_gets_nothing_and_is_told_so(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let id = RunnerId(runner.id);
    let drain = |on| {
        let work = async move |tx: &mut Tx<'_>| {
            runners::set_draining(tx, SYSTEM, &somebody(), id, on).await
        };
        server.app.store.write(work)
    };
    let beating = runner.beat(&[], 15);
    let later = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drain(true).await.unwrap();
    };
    let (answer, ()) = tokio::join!(beating, later);
    assert_eq!(answer.commands, [Command::Drain]);
    server.run(&place, JOB).await;
    assert!(runner.claim("a", 0).await.is_none());
    // Who waits already gets a job when it may have one again.
    let later = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drain(false).await.unwrap();
    };
    let (job, ()) = tokio::join!(runner.claim("a", 20), later);
    assert!(job.is_some());
}

on_both!(
    /// S15
    a_runner_with_trouble_gets_nothing
);

async fn a_runner_with_trouble_gets_nothing(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let say = |beat: Heartbeat| {
        runner.post(&format!("/actions/runners/{}/heartbeat", runner.id)).json(&beat)
    };
    let trouble = Some("the disk is full".to_owned());
    let ill = Heartbeat { health: Health { trouble, ..Health::default() }, ..Heartbeat::default() };
    let answer: HeartbeatAnswer = good(say(ill).send().await.unwrap()).await;
    assert_eq!(answer.queue_size, 1);
    assert!(runner.claim("a", 0).await.is_none());
    let id = RunnerId(runner.id);
    let kept = async move |tx: &mut Tx<'_>| runners::get(tx, SYSTEM, id).await;
    let kept = server.app.store.read(kept).await.unwrap();
    assert!(kept.leaving && kept.health.unwrap().contains("disk is full"));
    good::<HeartbeatAnswer>(say(Heartbeat::default()).send().await.unwrap()).await;
    assert!(runner.claim("a", 20).await.is_some());
}

on_both!(claims_are_checked);

async fn claims_are_checked(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    for nonce in ["", &"x".repeat(101), "a\0b"] {
        let refused = refused(runner.claiming(nonce, 0), 422).await;
        assert!(refused.message.contains("nonce"), "{refused:?}");
    }
    let path = format!("/actions/runners/{}/jobs/claim", runner.id);
    refused(runner.post(&path).body("{"), 422).await;
    refused(runner.post("/actions/runners/nobody/jobs/claim"), 404).await;
    refused(runner.post("/actions/runners/999999/jobs/claim").json(&()), 404).await;
    // Whoever is not known learns nothing about what the body should be.
    let stranger = server.client.post(server.url(&path)).body("{");
    refused(stranger, 401).await;
}

on_both!(
    /// A job that cannot be prepared fails by itself, and the next one goes out.
    an_unpreparable_job_is_in_nobodys_way
);

async fn an_unpreparable_job_is_in_nobodys_way(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    // A secret of this repository was sealed with a key that is lost.
    let lost = kiln_server::seal::Vault::new(kiln_server::seal::Key::generate(), Vec::new());
    let (org, repo) = (place.org, place.repo);
    let work = async move |tx: &mut Tx<'_>| {
        let sealed = lost.seal(org, Holder::Repo(repo), "TOKEN", b"x");
        secrets::put(tx, SYSTEM, &somebody(), Holder::Repo(repo), "TOKEN", sealed).await
    };
    server.app.store.write(work).await.unwrap();
    let broken = server.run(&place, JOB).await;
    let other = server.repository("acme", "fine").await;
    let fine = server.run(&other, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 2).await.unwrap();
    assert_eq!(job.run_id, fine.0);
    assert!(runner.claim("b", 0).await.is_none());
    let view = async move |tx: &mut Tx<'_>| kiln_store::runs::view(tx, SYSTEM, broken, None).await;
    let view = server.app.store.read(view).await.unwrap();
    let failed = kiln_core::run::RunState::Done(kiln_core::run::Conclusion::Failure);
    assert_eq!(view.state, failed);
    let log = kiln_server::logs::LogId { job: view.jobs[0].id, claim: 1 };
    let text = server.app.logs.read(log, 0, 1_000).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("is not here; restore it"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_that_ask_too_much_are_held_back() {
    let rates = Rates { polls: 5, uploads: 2 };
    let server = Server::with(Database::sqlite(), Options { rates, ..Options::default() }).await;
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    for _ in 0..4 {
        runner.beat(&[], 0).await;
    }
    let answer = runner.claiming("b", 0).send().await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "12");
    // Uploads are counted by themselves.
    let reporter = crate::runner::Reporter::new(&server, &job);
    for _ in 0..2 {
        assert_eq!(reporter.logging(0, "x").send().await.unwrap().status(), 200);
    }
    refused(reporter.logging(0, "x"), 429).await;
    let other = Runner::new(&server, &key, "two", LINUX).await;
    assert!(other.claim("a", 0).await.is_none());
}

on_both!(
    /// S21
    idle_runners_cause_no_writes
);

async fn idle_runners_cause_no_writes(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let mut runners = Vec::new();
    for number in 0..500 {
        runners.push(Runner::new(&server, &key, &format!("r{number}"), LINUX).await);
    }
    let first = futures_util::future::join_all(runners.iter().map(|runner| runner.claim("a", 0)));
    assert!(first.await.iter().all(Option::is_none));
    let before = changes(&server).await;
    let polls = futures_util::future::join_all(runners.iter().map(|runner| runner.claim("b", 3)));
    assert!(polls.await.iter().all(Option::is_none));
    assert_eq!(changes(&server).await, before);
    // And all of them together take one job, and no runner has it twice.
    let polls = futures_util::future::join_all(runners.iter().map(|runner| runner.claim("c", 3)));
    let queued = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.run(&place, JOB).await
    };
    let (got, _) = tokio::join!(polls, queued);
    assert_eq!(got.iter().flatten().count(), 1);
}

/// All rows of the audit and of signs of life, and how much was ever written, as one text.
async fn changes(server: &Server) -> String {
    let read = async move |tx: &mut Tx<'_>| {
        let sql = "SELECT (SELECT count(*) FROM audit), (SELECT CAST(sum(last_seen_at) AS BIGINT) FROM runners)";
        let row = tx.one("count", sql, &[]).await?;
        Ok(format!("{} {}", row.get::<i64>(0)?, row.get::<i64>(1)?))
    };
    let rows = server.app.store.read(read).await.unwrap();
    format!("{rows} {}", written(server).await)
}

/// What changes with every write to the database, and with nothing else.
async fn written(server: &Server) -> String {
    if let kiln_store::Options::Sqlite { path } = &server.database.options {
        // Its write-ahead log grows with every write, and with nothing else.
        let wal = std::fs::metadata(path.with_extension("db-wal"));
        return wal.map_or(0, |found| found.len()).to_string();
    }
    // Which transaction wrote the newest row of each table, and how many rows there are. Other tests have databases
    // of their own in the same cluster, so its log says nothing.
    let read = async |tx: &mut Tx<'_>| {
        let sql = "SELECT string_agg(relname || (xpath('/row/c/text()', query_to_xml(format('SELECT count(*)
                       || '':'' || coalesce(max(xmin::text::bigint), 0) AS c FROM %I', relname),
                       false, true, '')))[1]::text, ' ' ORDER BY relname)
                   FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
        tx.one("count", sql, &[]).await?.get(0)
    };
    server.app.store.read(read).await.unwrap()
}
