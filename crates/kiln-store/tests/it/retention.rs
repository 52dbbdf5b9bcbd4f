//! Retention: what is old goes with all that belongs to it, and nothing else goes.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::retention::{self, Caretaker, Keep, Place, What};
use kiln_store::{Sql, Store, StoreError, Tx, Value};
use kiln_testkit::database::Database;

/// What belongs to a run, with the columns that must have a value, and those that are its key.
const CHILDREN: [&str; 8] = [
    "INSERT INTO run_attempts (run_id, attempt, org_id, repo_id, plan, context, actor, trust, class, \
     state, created_at) SELECT $1, 1, 1, 1, plan, plan, 'a', 'b', 'normal', 'done', 0 FROM \
     (SELECT hash AS plan FROM documents LIMIT 1) AS one",
    "INSERT INTO timers (run_id, attempt, number, at) VALUES ($1, 1, 0, 0)",
    "INSERT INTO steps (run_id, attempt, job, claim, number, name, status) VALUES ($1, 1, 0, 1, 0, 'a', 'b')",
    "INSERT INTO job_claims (run_id, attempt, number, claim, runner_id, outcome, ended_at) \
     VALUES ($1, 1, 0, 1, 1, 'lost', 0)",
    "INSERT INTO events (run_id, org_id, repo_id, attempt, kind, at) VALUES ($1, 1, 1, 1, 'run_created', 500)",
    "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, state, claim, \
     retries, losses, cancelling, tolerated) VALUES ($1, 1, 0, CAST($1 AS BIGINT) * 1048576, 0, 0, 1, 'a', 'b', 0, 0, 0, 0, 0)",
    "INSERT INTO run_nodes (run_id, attempt, number, scope, job, origin_attempt, state, needs_remaining, \
     above_failed, above_cancelled, above_skipped, leg_count, open_legs, succeeded, failed, cancelled, \
     timed_out, skipped, fail_fast, tripped) VALUES ($1, 1, 0, 0, 0, 1, 'done', 0, 0, 0, 0, 1, 0, 1, 0, \
     0, 0, 0, 0, 0)",
    "INSERT INTO run_scopes (run_id, attempt, number, workflow, inputs, first_node, open, succeeded, \
     failed, cancelled, timed_out, skipped, stopped) VALUES ($1, 1, 0, 0, '{}', 0, 0, 1, 0, 0, 0, 0, 0)",
];

const COUNTS: [&str; 8] = [
    "SELECT count(*) FROM runs",
    "SELECT count(*) FROM run_attempts",
    "SELECT count(*) FROM timers",
    "SELECT count(*) FROM steps",
    "SELECT count(*) FROM job_claims",
    "SELECT count(*) FROM events",
    "SELECT count(*) FROM jobs",
    "SELECT count(*) FROM run_nodes",
];

async fn execute(store: &Store, sql: &'static str, values: &[Value]) -> u64 {
    let (sql, values) = (Sql::from(sql), values.to_vec());
    store.write(async move |tx: &mut Tx<'_>| tx.execute(sql, &values).await).await.unwrap()
}

async fn numbers(store: &Store, sql: &'static str) -> Vec<i64> {
    let sql = Sql::from(sql);
    let question = async move |tx: &mut Tx<'_>| {
        let rows = tx.rows(sql, &[]).await?;
        rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, StoreError>>()
    };
    store.read(question).await.unwrap()
}

/// A run with one of everything; without an end it is still open.
async fn add_run(store: &Store, id: i64, ended: Option<i64>) {
    const RUN: &str = "INSERT INTO runs (id, org_id, repo_id, workflow_id, run_number, event, actor, trust, ref, \
        head_sha, title, status, conclusion, created_at, ended_at) \
        VALUES ($1, 1, 1, 1, 1, 'push', 'a', 'b', 'c', 'd', 'e', 'f', $2, 0, $3)";
    let conclusion = ended.map(|_| "success".to_owned());
    let work = async move |tx: &mut Tx<'_>| {
        tx.execute(RUN, &[id.into(), conclusion.clone().into(), ended.into()]).await?;
        for child in CHILDREN {
            tx.execute(child, &[id.into()]).await?;
        }
        Ok(())
    };
    store.write(work).await.unwrap();
}

async fn add_document(store: &Store, hash: u8, created_at: i64) {
    let sql = "INSERT INTO documents (hash, body, created_at) VALUES ($1, '{}', $2)";
    execute(store, sql, &[vec![hash; 32].into(), created_at.into()]).await;
}

async fn prepared(store: &Store) {
    store.migrate().await.unwrap();
    add_document(store, 1, 0).await;
}

async fn prune(store: &Store, what: What, before: u64, limit: u32) -> u64 {
    retention::prune(store, what, Timestamp(before), limit).await.unwrap()
}

/// A whole round through the documents in pieces of this size; how many went, and how many pieces it took.
async fn prune_documents(store: &Store, before: u64, limit: u32) -> (u64, u32) {
    let (mut deleted, mut pieces, mut place) = (0, 0, Some(Place::default()));
    while let Some(from) = place {
        let piece = retention::prune_documents(store, Timestamp(before), from, limit).await;
        let (count, next) = piece.unwrap();
        (deleted, pieces, place) = (deleted + count, pieces + 1, next);
    }
    (deleted, pieces)
}

async fn a_run_goes_with_all_that_belongs_to_it(store: Store) {
    prepared(&store).await;
    for (id, ended) in [(1, Some(100)), (2, Some(900)), (3, None), (4, Some(200)), (5, Some(300))] {
        add_run(&store, id, ended).await;
    }
    let artifact = "INSERT INTO artifacts (org_id, repo_id, run_id, attempt, name, size, content_type, \
        trust, created_at) VALUES (1, 1, 5, 1, 'a', 1, 'b', 'c', 0)";
    execute(&store, artifact, &[]).await;
    assert_eq!(prune(&store, What::Runs, 500, 100).await, 2 * 9);
    assert_eq!(prune(&store, What::Runs, 500, 100).await, 0);
    assert_eq!(numbers(&store, "SELECT id FROM runs ORDER BY id").await, [2, 3, 5]);
    for count in COUNTS {
        assert_eq!(numbers(&store, count).await, [3], "{count}");
    }
    execute(&store, "DELETE FROM artifacts", &[]).await;
    assert_eq!(prune(&store, What::Runs, 500, 100).await, 9, "its artifacts were all that kept it");
}
on_both!(a_run_goes_with_all_that_belongs_to_it);

async fn a_big_run_goes_in_small_pieces(store: Store) {
    prepared(&store).await;
    for id in 1..=3 {
        add_run(&store, id, Some(100)).await;
    }
    let mut deleted = Vec::new();
    loop {
        match prune(&store, What::Runs, 500, 5).await {
            0 => break,
            count => deleted.push(count),
        }
        let attempts = numbers(&store, "SELECT count(*) FROM run_attempts").await[0];
        assert_eq!(attempts, 0, "nobody can run again what is half gone");
    }
    assert_eq!(deleted.iter().sum::<u64>(), 27);
    // The runs themselves come on top of the last piece.
    assert!(deleted.iter().all(|count| *count <= 5 + 3), "{deleted:?}");
    for count in COUNTS {
        assert_eq!(numbers(&store, count).await, [0], "{count}");
    }
}
on_both!(a_big_run_goes_in_small_pieces);

async fn old_rows_go_and_new_ones_stay(store: Store) {
    store.migrate().await.unwrap();
    let tables = [
        (
            What::Audit,
            "INSERT INTO audit (at, actor_kind, actor, action, subject_kind) VALUES ($1, 'a', 'b', 'c', 'd')",
            "SELECT at FROM audit",
        ),
        (
            What::WebhookDeliveries,
            "INSERT INTO webhook_deliveries (received_at, delivery, forge, event, payload, status) \
             SELECT at, 'delivery' || at, 'a', 'b', hash, 'c' FROM documents, \
             (SELECT CAST($1 AS BIGINT) AS at) AS one",
            "SELECT received_at FROM webhook_deliveries",
        ),
        (
            What::TriggerKeys,
            "INSERT INTO trigger_keys (at, key, run_id, repo_id) SELECT at, 'key' || at, 1, 1 FROM \
             (SELECT CAST($1 AS BIGINT) AS at) AS one",
            "SELECT at FROM trigger_keys",
        ),
        (
            What::UsageDeltas,
            "INSERT INTO usage_deltas (at, org_id, repo_id, seconds, ended, took) VALUES ($1, 1, 1, 1, 1, 1)",
            "SELECT at FROM usage_deltas",
        ),
        (
            What::Events,
            "INSERT INTO events (at, run_id, org_id, repo_id, attempt, kind) VALUES ($1, 1, 1, 1, 1, 'run_created')",
            "SELECT at FROM events",
        ),
    ];
    add_document(&store, 1, 0).await;
    for (what, insert, ages) in tables {
        for at in [100, 200, 300, 400, 500] {
            execute(&store, insert, &[at.into()]).await;
        }
        assert_eq!(prune(&store, what, 50, 10).await, 0, "{what:?}");
        assert_eq!(prune(&store, what, 400, 2).await, 2, "{what:?}");
        assert_eq!(prune(&store, what, 400, 2).await, 1, "{what:?}");
        assert_eq!(prune(&store, what, 400, 2).await, 0, "{what:?}");
        assert_eq!(numbers(&store, ages).await, [400, 500], "{what:?}");
    }
}
on_both!(old_rows_go_and_new_ones_stay);

/// A document stays while a run refers to it, and for a day in any case.
async fn a_document_goes_a_day_after_nobody_needs_it(store: Store) {
    prepared(&store).await;
    add_run(&store, 1, Some(100)).await;
    let now = store.read(async |tx: &mut Tx<'_>| Ok(tx.now())).await.unwrap();
    let hours = |hours: u64| i64::try_from(now.0 - hours * 3_600_000).unwrap();
    add_document(&store, 2, hours(25)).await;
    add_document(&store, 3, hours(23)).await;
    assert_eq!(prune_documents(&store, now.0, 10).await, (1, 1));
    assert_eq!(
        numbers(&store, "SELECT created_at FROM documents ORDER BY 1").await,
        [0, hours(23)]
    );
    prune(&store, What::Runs, 500, 100).await;
    assert_eq!(prune_documents(&store, now.0, 10).await, (1, 1));
    assert_eq!(numbers(&store, "SELECT created_at FROM documents").await, [hours(23)]);
}
on_both!(a_document_goes_a_day_after_nobody_needs_it);

/// Each piece goes on where the last one ended, also past what stays.
async fn documents_are_gone_through_once(store: Store) {
    prepared(&store).await;
    add_run(&store, 1, Some(100)).await;
    for hash in 2..=21 {
        add_document(&store, hash, 0).await;
    }
    let last =
        "UPDATE run_attempts SET context = (SELECT hash FROM documents ORDER BY hash DESC LIMIT 1)";
    execute(&store, last, &[]).await;
    // 21 documents, 4 at a time: five full pieces and the last.
    assert_eq!(prune_documents(&store, 50, 4).await, (19, 6));
    assert_eq!(prune_documents(&store, 50, 4).await, (0, 1), "the plan and the context stay");
    assert_eq!(numbers(&store, "SELECT count(*) FROM documents").await, [2]);
}
on_both!(documents_are_gone_through_once);

const QUEUE: &str = "INSERT INTO queues (id, hash, requirements, paused, created_at, used_at) \
    SELECT $1, hash, '{}', NULL, 0, $2 FROM (SELECT hash FROM documents ORDER BY hash \
    LIMIT 1 OFFSET $1) AS one";
const LANE: &str = "INSERT INTO lanes (id, queue_id, priority, org_id, repo_id, class, floor, active) \
    VALUES ($1, $1, 0, 1, 1, 'normal', 0, $2)";

/// H3
async fn a_queue_that_nobody_uses_goes_with_its_lanes(store: Store) {
    prepared(&store).await;
    for hash in 2..=6 {
        add_document(&store, hash, 0).await;
    }
    // Old and empty; used lately; with a lane that is open; with a job.
    for (id, used, active) in [(1, 100, 0), (2, 900, 0), (3, 100, 1), (4, 100, 0), (5, 100, 0)] {
        execute(&store, QUEUE, &[id.into(), used.into()]).await;
        execute(&store, LANE, &[id.into(), active.into()]).await;
    }
    let job = "INSERT INTO queue (lane_id, key, job_id, attempt, number) VALUES (4, 1, 1, 1, 0)";
    execute(&store, job, &[]).await;
    assert_eq!(prune(&store, What::Queues, 500, 1).await, 1);
    assert_eq!(prune(&store, What::Queues, 500, 9).await, 1);
    assert_eq!(prune(&store, What::Queues, 500, 9).await, 0);
    assert_eq!(numbers(&store, "SELECT id FROM queues ORDER BY id").await, [2, 3, 4]);
    assert_eq!(numbers(&store, "SELECT id FROM lanes ORDER BY id").await, [2, 3, 4]);
}
on_both!(a_queue_that_nobody_uses_goes_with_its_lanes);

const RUNNER: &str = "INSERT INTO runners (id, pool_id, name, capabilities, os, architecture, \
        version, protocol, credential, registered_at, last_seen_at, unregistered_at) \
        SELECT $1, 1, 'r', '{}', 'a', 'b', 'c', 1, hash, 0, 0, $2 FROM documents";
const KEY: &str = "INSERT INTO registration_keys (id, pool_id, hash, created_by, created_at, \
        expires_at) SELECT $1, 1, hash, 'a', 0, $2 FROM documents ORDER BY hash LIMIT 1 OFFSET $1";
const TASK: &str = "INSERT INTO outbox (id, kind, payload, due_at, created_at, parked_at) \
        VALUES ($1, 'notify', '{}', 0, 0, $2)";

/// H3
async fn machines_and_tasks_that_are_done_for_go(store: Store) {
    prepared(&store).await;
    execute(&store, "INSERT INTO pools (id, name, created_at) VALUES (1, 'p', 0)", &[]).await;
    for (id, gone) in [(1, Some(100)), (2, Some(900)), (3, None), (4, Some(100))] {
        execute(&store, RUNNER, &[id.into(), gone.into()]).await;
    }
    let lease = "INSERT INTO leases (job_id, run_id, attempt, number, claim, runner_id, nonce, claimed_at, \
        expires_at, acknowledged, counted, org_id, repo_id, estimate) \
        VALUES (1, 1, 1, 0, 1, 4, 'n', 0, 0, 1, 0, 1, 1, 1)";
    execute(&store, lease, &[]).await;
    assert_eq!(prune(&store, What::Runners, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT id FROM runners ORDER BY id").await, [2, 3, 4]);

    add_document(&store, 2, 0).await;
    for (id, expires) in [(0, 100), (1, 900)] {
        execute(&store, KEY, &[id.into(), expires.into()]).await;
    }
    assert_eq!(prune(&store, What::RegistrationKeys, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT id FROM registration_keys").await, [1]);

    for (id, parked) in [(1, Some(100)), (2, Some(900)), (3, None)] {
        execute(&store, TASK, &[id.into(), parked.into()]).await;
    }
    assert_eq!(prune(&store, What::ParkedTasks, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT id FROM outbox ORDER BY id").await, [2, 3]);
}
on_both!(machines_and_tasks_that_are_done_for_go);

const TOKEN: &str = "INSERT INTO api_tokens (id, user_id, name, hash, scopes, created_at, expires_at, \
        revoked_at) SELECT $1, 1, 't', hash, '[]', 0, $2, $3 FROM documents ORDER BY hash LIMIT 1 OFFSET $1";
const ONE_TIME: &str = "INSERT INTO one_time_keys (hash, user_id, purpose, created_at, expires_at) \
        SELECT hash, 1, 'login', $1, $2 FROM documents ORDER BY hash LIMIT 1 OFFSET $1";

/// H3
async fn tokens_and_keys_that_are_good_no_more_go(store: Store) {
    prepared(&store).await;
    execute(&store, "INSERT INTO users (id, name, created_at) VALUES (1, 'u', 0)", &[]).await;
    for number in 2..5 {
        add_document(&store, number, 0).await;
    }
    let tokens =
        [(0, Some(100), None), (1, None, Some(100)), (2, Some(900), Some(900)), (3, None, None)];
    for (id, expires, revoked) in tokens {
        execute(&store, TOKEN, &[id.into(), expires.into(), revoked.into()]).await;
    }
    assert_eq!(prune(&store, What::ApiTokens, 500, 1).await, 1);
    assert_eq!(prune(&store, What::ApiTokens, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT id FROM api_tokens ORDER BY id").await, [2, 3]);

    for (id, expires) in [(0, 100), (1, 900)] {
        execute(&store, ONE_TIME, &[id.into(), expires.into()]).await;
    }
    assert_eq!(prune(&store, What::OneTimeKeys, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT created_at FROM one_time_keys").await, [1]);

    let end = "INSERT INTO runner_ends (id, runner_id, org_id, repo_id, failed, at) \
        VALUES (1, 1, 1, 1, 0, 100), (2, 1, 1, 1, 0, 900)";
    execute(&store, end, &[]).await;
    assert_eq!(prune(&store, What::RunnerEnds, 500, 9).await, 1);
    assert_eq!(numbers(&store, "SELECT id FROM runner_ends").await, [2]);
}
on_both!(tokens_and_keys_that_are_good_no_more_go);

/// H3
async fn use_is_forgotten_with_those_who_used(store: Store) {
    prepared(&store).await;
    let org = "INSERT INTO organizations (id, name, created_at, updated_at) VALUES (1, 'a', 0, 0)";
    execute(&store, org, &[]).await;
    let repo = "INSERT INTO repositories (id, org_id, name, created_at, updated_at) VALUES (7, 1, 'r', 0, 0)";
    execute(&store, repo, &[]).await;
    let usage = "INSERT INTO usage (org_id, repo_id, consumed, hour) \
        VALUES (1, 0, 1, 1), (1, 7, 1, 1), (1, 8, 1, 1), (1, 9, 1, 50), (2, 0, 1, 1)";
    execute(&store, usage, &[]).await;
    assert_eq!(prune(&store, What::Usage, 10 * 3_600_000, 1).await, 1);
    assert_eq!(prune(&store, What::Usage, 10 * 3_600_000, 9).await, 1);
    assert_eq!(prune(&store, What::Usage, 10 * 3_600_000, 9).await, 0);
    let left = numbers(&store, "SELECT org_id * 10 + repo_id FROM usage ORDER BY 1").await;
    assert_eq!(left, [10, 17, 19]);
}
on_both!(use_is_forgotten_with_those_who_used);

/// H3
async fn one_round_tends_to_everything(store: Store) {
    prepared(&store).await;
    add_run(&store, 1, Some(100)).await;
    add_run(&store, 2, None).await;
    let audit = "INSERT INTO audit (at, actor_kind, actor, action, subject_kind) \
        VALUES (1, 'a', 'b', 'c', 'd')";
    execute(&store, audit, &[]).await;
    add_document(&store, 9, 0).await;
    let mut caretaker = Caretaker::new(Keep::default());
    let tended = caretaker.tend(&store).await.unwrap();
    // The run with its 8 children, the event of the other, the entry and the document.
    assert_eq!((tended.rows, tended.partitions, tended.more), (9 + 1 + 1 + 1, 0, false));
    assert_eq!(numbers(&store, "SELECT id FROM runs").await, [2]);
    assert_eq!(caretaker.tend(&store).await.unwrap().rows, 0);
}
on_both!(one_round_tends_to_everything);

/// Those who write while rows are pruned lose nothing.
async fn what_comes_meanwhile_survives(store: Store) {
    prepared(&store).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for id in 0..60 {
                add_run(&store, 2 * id + 1, Some(100)).await;
                add_run(&store, 2 * id + 2, Some(900)).await;
            }
        })
    };
    let pruner = {
        let store = store.clone();
        tokio::spawn(async move {
            while !writer.is_finished() {
                prune(&store, What::Runs, 500, 10).await;
                prune(&store, What::Events, 400, 10).await;
                prune(&store, What::Audit, 400, 10).await;
                prune_documents(&store, 0, 10).await;
                retention::drop_partitions(&store, Timestamp(500)).await.unwrap();
            }
        })
    };
    pruner.await.unwrap();
    while prune(&store, What::Runs, 500, 50).await > 0 {}
    let kept = (1..=60).map(|id| 2 * id).collect::<Vec<i64>>();
    assert_eq!(numbers(&store, "SELECT id FROM runs ORDER BY id").await, kept);
    for sql in [
        "SELECT run_id FROM jobs ORDER BY 1",
        "SELECT run_id FROM events ORDER BY 1",
        "SELECT run_id FROM run_attempts ORDER BY 1",
    ] {
        assert_eq!(numbers(&store, sql).await, kept, "{sql}");
    }
}
on_both!(what_comes_meanwhile_survives);

async fn sequence(store: &Store, value: i64) {
    let sql = "INSERT INTO trigger_keys (repo_id, key, run_id, at) \
               SELECT 1, 'x', setval('run_ids', $1), 0 ON CONFLICT DO NOTHING";
    execute(store, sql, &[value.into()]).await;
}

async fn partitions(store: &Store) -> Vec<i64> {
    let sql = "SELECT substr(relname, 6)::bigint FROM pg_inherits \
        JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'jobs'::regclass ORDER BY 1";
    numbers(store, sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_goes_when_no_run_in_it_is_kept() {
    let database = Database::postgres().await;
    let store = database.open();
    prepared(&store).await;
    assert_eq!(partitions(&store).await, [0, 1, 2]);
    sequence(&store, 2_500_000).await;
    retention::make_room(&store).await.unwrap();
    assert_eq!(
        partitions(&store).await,
        [0, 1, 2, 3, 4],
        "the next ones are there before their runs"
    );
    for (id, ended) in
        [(5, Some(100)), (1_000_000, Some(100)), (1_999_999, None), (2_000_000, Some(100))]
    {
        add_run(&store, id, ended).await;
    }
    let drop = async || retention::drop_partitions(&store, Timestamp(500)).await.unwrap();
    assert_eq!(drop().await, 1);
    assert_eq!(partitions(&store).await, [1, 2, 3, 4]);
    assert_eq!(drop().await, 0, "an open run keeps its partition; the current one stays anyway");
    let runs = numbers(&store, "SELECT id FROM runs ORDER BY id").await;
    assert_eq!(runs, [1_000_000, 1_999_999, 2_000_000]);
    execute(
        &store,
        "UPDATE runs SET conclusion = 'success', ended_at = 200 WHERE id = 1999999",
        &[],
    )
    .await;
    assert_eq!(drop().await, 1);
    for count in COUNTS {
        let rest = if count.ends_with("timers") { 4 } else { 1 };
        assert_eq!(numbers(&store, count).await, [rest], "{count}");
    }
    retention::make_room(&store).await.unwrap();
    assert_eq!(partitions(&store).await, [2, 3, 4]);
    add_run(&store, 2_000_001, None).await;
}

/// A transaction that is still at work in an old partition is waited for, or the partition stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_in_use_stays() {
    let database = Database::postgres().await;
    let store = database.open();
    prepared(&store).await;
    sequence(&store, 1_500_000).await;
    add_run(&store, 5, Some(100)).await;
    let (wrote, has_written) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((wrote, wait)));
    let again = tokio::spawn({
        let store = store.clone();
        async move {
            let work = async move |tx: &mut Tx<'_>| {
                tx.execute("UPDATE runs SET conclusion = NULL WHERE id = 5", &[]).await?;
                let (wrote, wait) = once.lock().unwrap().take().unwrap();
                wrote.send(()).unwrap();
                let _ = wait.await;
                Ok(())
            };
            store.write(work).await.unwrap();
        }
    });
    has_written.await.unwrap();
    let dropping = retention::drop_partitions(&store, Timestamp(500));
    let release = async {
        tokio::time::timeout(Duration::from_millis(500), std::future::pending::<()>())
            .await
            .unwrap_err();
        go.send(()).unwrap();
    };
    let (dropped, ()) = tokio::join!(dropping, release);
    again.await.unwrap();
    assert_eq!(dropped.unwrap(), 0);
    assert_eq!(numbers(&store, "SELECT count(*) FROM run_attempts").await, [1]);
    assert_eq!(partitions(&store).await[0], 0);
}

#[tokio::test]
async fn the_embedded_database_has_no_partitions() {
    let database = Database::sqlite();
    let store = database.open();
    prepared(&store).await;
    retention::make_room(&store).await.unwrap();
    assert_eq!(retention::drop_partitions(&store, Timestamp(500)).await.unwrap(), 0);
}

/// A backup reads for long. Meanwhile room is made, and nobody waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_is_made_beside_a_long_reader() {
    let database = Database::postgres().await;
    let store = database.open();
    prepared(&store).await;
    let (reads, is_reading) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((reads, wait)));
    let reader = tokio::spawn({
        let store = store.clone();
        async move {
            let read = async move |tx: &mut Tx<'_>| {
                let count = "SELECT count(*) FROM runs, run_attempts, jobs, events, steps";
                tx.one("count", count, &[]).await?;
                let (reads, wait) = once.lock().unwrap().take().unwrap();
                reads.send(()).unwrap();
                let _ = wait.await;
                Ok(())
            };
            store.read(read).await.unwrap();
        }
    });
    is_reading.await.unwrap();
    sequence(&store, 1_999_999).await;
    let writer = async {
        for id in 1..=20 {
            add_run(&store, id, Some(100)).await;
        }
    };
    let both = async { tokio::join!(retention::make_room(&store), writer) };
    let (made, ()) = tokio::time::timeout(Duration::from_secs(5), both).await.expect("no waiting");
    made.unwrap();
    assert_eq!(partitions(&store).await, [0, 1, 2, 3]);
    go.send(()).unwrap();
    reader.await.unwrap();
    // Where the database itself was at work on a table meanwhile, its part comes the next time.
    retention::make_room(&store).await.unwrap();
    add_run(&store, 3_999_999, None).await;
    let detached = "SELECT count(*) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid \
        WHERE c.relname IN ('runs_3', 'jobs_3', 'events_3', 'run_attempts_3') AND NOT EXISTS \
        (SELECT 1 FROM pg_inherits WHERE inhrelid = i.indexrelid)";
    assert_eq!(numbers(&store, detached).await, [0], "each index is a part of the whole's");
}

/// Partitions that exist cost no lock: even somebody who has everything locked is not waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_that_is_there_costs_nothing() {
    let database = Database::postgres().await;
    let store = database.open();
    prepared(&store).await;
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let once = std::sync::Mutex::new(Some((locked, wait)));
    let holder = tokio::spawn({
        let store = store.clone();
        async move {
            let hold = async move |tx: &mut Tx<'_>| {
                tx.execute("LOCK TABLE runs, jobs, events IN ACCESS EXCLUSIVE MODE", &[]).await?;
                let (locked, wait) = once.lock().unwrap().take().unwrap();
                locked.send(()).unwrap();
                let _ = wait.await;
                Ok(())
            };
            store.write(hold).await.unwrap();
        }
    });
    is_locked.await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(5), retention::make_room(&store)).await;
    nothing.expect("no waiting").unwrap();
    sequence(&store, 1_000_000).await;
    // What cannot be made now is given up after a few short tries.
    let given_up =
        tokio::time::timeout(Duration::from_secs(10), retention::make_room(&store)).await;
    assert!(given_up.expect("it ends").unwrap_err().is_transient());
    go.send(()).unwrap();
    holder.await.unwrap();
    retention::make_room(&store).await.unwrap();
    assert_eq!(partitions(&store).await, [0, 1, 2, 3]);
}
