//! Everything goes from any database into any other. (H3)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_store::{Copied, Phase, Progress, Refusal, Store, StoreError, Tx, copy, prepare};
use kiln_testkit::database::Database;

use crate::filled::{Held, fill, number, run, tallies};

async fn full(database: &Database) -> Store {
    let store = database.open();
    let newest = store.status().await.unwrap().newest;
    fill(&store, newest).await;
    store
}

async fn copied(source: &Store, target: &Store) -> Result<Copied, StoreError> {
    prepare(target).await?;
    copy(source, target, &mut |_| ()).await
}

async fn all_of_it_arrives(source: &Database, target: &Database) {
    let (source, target) = (full(source).await, target.open());
    let tables = source.tables().await.unwrap();
    let before = tallies(&source, &tables).await;
    let report = copied(&source, &target).await.unwrap();
    assert_eq!(report.tables, tables.len());
    assert_eq!(report.rows, before.values().map(|tally| tally.rows).sum::<u64>());
    // The tables are read as the target has them, too: both catalogues must say the same.
    for side in [&source, &target] {
        assert_eq!(tallies(side, &target.tables().await.unwrap()).await, before);
    }
    let status = target.status().await.unwrap();
    assert_eq!(status.version, status.newest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_sqlite_to_sqlite() {
    all_of_it_arrives(&Database::sqlite(), &Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_sqlite_to_postgres() {
    all_of_it_arrives(&Database::sqlite(), &Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_postgres_to_sqlite() {
    all_of_it_arrives(&Database::postgres().await, &Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_postgres_to_postgres() {
    all_of_it_arrives(&Database::postgres().await, &Database::postgres().await).await;
}

/// One thread is what the command line has.
#[tokio::test]
async fn one_thread_is_enough() {
    all_of_it_arrives(&Database::sqlite(), &Database::sqlite()).await;
    all_of_it_arrives(&Database::sqlite(), &Database::postgres().await).await;
}

#[tokio::test]
async fn both_databases_have_the_same_tables() {
    let (sqlite, postgres) = (Held::sqlite(), Held::postgres().await);
    sqlite.migrate().await.unwrap();
    postgres.migrate().await.unwrap();
    let (mut tables, mut others) =
        (sqlite.tables().await.unwrap(), postgres.tables().await.unwrap());
    for (side, key) in [(&mut tables, &["id"][..]), (&mut others, &["txid", "id"])] {
        let events = side.iter_mut().find(|table| table.name == "events").unwrap();
        assert_eq!(std::mem::take(&mut events.key), key);
    }
    for (side, key) in [(&mut tables, &["id"][..]), (&mut others, &["run_id", "attempt", "number"])]
    {
        let jobs = side.iter_mut().find(|table| table.name == "jobs").unwrap();
        assert_eq!(std::mem::take(&mut jobs.key), key);
    }
    assert_eq!(tables, others);
    assert!(tables.len() > 40, "{}", tables.len());
}

/// What gives a table its next id, for each that has such.
const ADD: &[(&str, &str, i64)] = &[
    (
        "organizations",
        "INSERT INTO organizations (name, created_at, updated_at) VALUES ('n', 0, 0) RETURNING id",
        9_007_199_254_740_994,
    ),
    ("users", "INSERT INTO users (name, created_at) VALUES ('n', 0) RETURNING id", 501),
    (
        "runs",
        "INSERT INTO runs (org_id, repo_id, workflow_id, run_number, event, actor, trust, ref, head_sha, title, status, created_at) VALUES (1, 1, 1, 1, '', '', '', '', '', '', '', 0) RETURNING id",
        2_000_000,
    ),
    (
        "events",
        "INSERT INTO events (run_id, org_id, repo_id, attempt, kind, at) VALUES (1, 1, 1, 1, '', 0) RETURNING id",
        10,
    ),
    (
        "audit",
        "INSERT INTO audit (at, actor_kind, actor, action, subject_kind) VALUES (0, '', '', '', '') RETURNING id",
        3,
    ),
];

/// Users were given ids up to 500; those with the highest are gone.
async fn ids_go_on_where_they_stopped(database: Database) {
    let there = full(&database).await;
    run(&there, "INSERT INTO users (id, name, created_at) VALUES (500, 'gone', 0)").await;
    if matches!(database.options, kiln_store::Options::Postgres { .. }) {
        let work = async |tx: &mut Tx<'_>| {
            tx.rows("SELECT setval(pg_get_serial_sequence('users', 'id'), 500)", &[]).await
        };
        there.write(work).await.unwrap();
    }
    run(&there, "DELETE FROM users WHERE id = 500").await;
    for target in [Database::sqlite(), Database::postgres().await] {
        let target = target.open();
        copied(&there, &target).await.unwrap();
        for (table, add, expected) in ADD {
            let work = async move |tx: &mut Tx<'_>| tx.one("row", *add, &[]).await?.get::<i64>(0);
            assert_eq!(target.write(work).await.unwrap(), *expected, "{table}");
        }
    }
}
with_database!(ids_go_on_where_they_stopped);

#[tokio::test]
async fn runs_find_their_partition_however_high_their_ids() {
    let (source, target) = (Held::sqlite().full().await, Held::postgres().await);
    // The highest run whose jobs still have ids: 2^43 - 1.
    for add in [
        "INSERT INTO timers (run_id, attempt, number, at) VALUES (8796093022207, 1, 0, 0)",
        "INSERT INTO steps (run_id, attempt, job, claim, number, name, status) VALUES (8796093022207, 1, 0, 0, 0, '', '')",
        "INSERT INTO events (run_id, org_id, repo_id, attempt, kind, at) VALUES (70000000, 1, 1, 1, '', 0)",
    ] {
        run(&source, add).await;
    }
    copied(&source, &target).await.unwrap();
    assert_eq!(number(&target, "SELECT count(*) FROM steps WHERE run_id = 8796093022207").await, 1);
    assert_eq!(number(&target, "SELECT count(*) FROM events WHERE run_id = 70000000").await, 1);
}

/// The numbers of transactions mean nothing elsewhere; ids say in which order things happened in a run.
#[tokio::test]
async fn events_keep_their_ids() {
    let source = Held::postgres().await.full().await;
    run(
        &source,
        "INSERT INTO events (run_id, id, txid, org_id, repo_id, attempt, kind, at) VALUES
            (1, 20, 300, 1, 1, 1, 'first', 0), (1, 21, 100, 1, 1, 1, 'second', 0), (1, 22, 200, 1, 1, 1, 'third', 0)",
    )
    .await;
    for target in [Database::sqlite(), Database::postgres().await] {
        let target = target.open();
        copied(&source, &target).await.unwrap();
        let read = async |tx: &mut Tx<'_>| {
            let rows = tx.rows("SELECT kind, id, txid FROM events ORDER BY id", &[]).await?;
            rows.iter()
                .map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .collect::<Result<Vec<(String, i64, i64)>, StoreError>>()
        };
        let events = target.read(read).await.unwrap();
        let kinds: Vec<&str> = events.iter().map(|event| event.0.as_str()).collect();
        assert_eq!(kinds, ["run_created", "job_queued", "job_ended", "first", "second", "third"]);
        assert!(events.iter().all(|event| event.2 == 0), "{events:?}");
        assert_eq!(events.iter().map(|event| event.1).collect::<Vec<_>>(), [1, 2, 9, 20, 21, 22]);
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, expected: &str) {
    match answer {
        Err(StoreError::Refused(Refusal::Conflict(text))) if text.contains(expected) => {}
        other => panic!("expected a refusal with `{expected}`, found {other:?}"),
    }
}

async fn a_target_that_holds_anything_is_refused(database: Database) {
    let (source, target) = (Held::sqlite().full().await, database.open());
    target.migrate().await.unwrap();
    run(&target, "INSERT INTO users (name, created_at) VALUES ('somebody', 0)").await;
    assert_refused(copied(&source, &target).await, "table `users` has rows");
    assert_refused(copy(&source, &target, &mut |_| ()).await, "table `users` has rows");
    assert_eq!(number(&target, "SELECT count(*) FROM organizations").await, 0);
    target.status().await.unwrap();
}
with_database!(a_target_that_holds_anything_is_refused);

async fn tables_of_others_are_left_alone(store: Store) {
    run(&store, "CREATE TABLE invoices (id BIGINT PRIMARY KEY)").await;
    assert_refused(prepare(&store).await, "tables that are not Kiln's");
    assert_eq!(store.status().await.unwrap().version, 0);
}
on_both!(tables_of_others_are_left_alone);

async fn databases_of_two_schemas_are_not_mixed(store: Store) {
    let source = Held::sqlite();
    fill(&source, 1).await;
    store.migrate().await.unwrap();
    assert_refused(copy(&source, &store, &mut |_| ()).await, "the source has schema 1");
}
on_both!(databases_of_two_schemas_are_not_mixed);

/// A trigger changes or drops a row on its way in, which only reading it back can show.
#[tokio::test]
async fn a_row_that_did_not_arrive_as_it_was_sent_is_found() {
    for (trigger, expected) in [
        (
            "CREATE TRIGGER bad AFTER INSERT ON teams BEGIN UPDATE teams SET created_at = 99; END",
            "the copy of table `teams` has the same number of rows, but not the same rows",
        ),
        (
            "CREATE TRIGGER bad AFTER INSERT ON users WHEN NEW.id = 2 BEGIN DELETE FROM users WHERE id = 1; END",
            "the copy of table `users` has 1 rows instead of 2",
        ),
    ] {
        let (source, target) = (Held::sqlite().full().await, Held::sqlite());
        run(&source, "DELETE FROM members").await;
        run(&source, "DELETE FROM api_tokens").await;
        run(&source, "DELETE FROM one_time_keys").await;
        run(&source, "DELETE FROM team_members").await;
        prepare(&target).await.unwrap();
        run(&target, trigger).await;
        let failed = copy(&source, &target, &mut |_| ()).await.unwrap_err().to_string();
        assert!(failed.contains(expected), "{failed}");
        assert_refused(target.status().await, "was cut off");
        assert_refused(target.migrate().await, "was cut off");
    }
}

/// PostgreSQL has no text with a zero byte in it; the table is named, and the copy stays incomplete.
#[tokio::test]
async fn what_the_target_cannot_hold_is_an_error_that_names_the_table() {
    let (source, target) = (Held::sqlite().full().await, Held::postgres().await);
    run(&source, "UPDATE variables SET value = 'a' || char(0) || 'b' WHERE id = 1").await;
    let failed = copied(&source, &target).await.unwrap_err().to_string();
    assert!(failed.contains("table `variables`"), "{failed}");
    assert_refused(target.status().await, "was cut off");
    assert_refused(copied(&source, &target).await, "was cut off");
}

/// Two commands that were started with the same target must not mix their rows.
async fn of_two_copies_into_one_database_one_is_refused(database: Database) {
    let source = Held::sqlite().full().await;
    let (one, other) = (database.open(), database.open());
    prepare(&one).await.unwrap();
    let (mut quiet, mut silent) = (|_: Progress<'_>| (), |_: Progress<'_>| ());
    let answers = tokio::join!(copy(&source, &one, &mut quiet), copy(&source, &other, &mut silent));
    let (done, refused) = match answers {
        (Ok(done), refused) | (refused, Ok(done)) => (done, refused),
        other => panic!("{other:?}"),
    };
    assert!(refused.is_err(), "{refused:?}");
    let tables = source.tables().await.unwrap();
    assert_eq!(done.tables, tables.len());
    assert_eq!(tallies(&one, &tables).await, tallies(&source, &tables).await);
}
with_database!(of_two_copies_into_one_database_one_is_refused);

/// More than one page along keys of numbers, texts, bytes and several columns.
async fn every_kind_of_key_is_read_in_pages(database: Database) {
    let source = database.open();
    fill(&source, source.status().await.unwrap().newest).await;
    let work = async |tx: &mut Tx<'_>| {
        for number in 0..300_i64 {
            let hash: Vec<u8> = number.wrapping_mul(7_919).to_le_bytes().to_vec();
            let add = "INSERT INTO documents (hash, body, created_at) VALUES ($1, 'x', 0)";
            tx.execute(add, &[hash.into()]).await?;
            let case = if number % 2 == 0 { "Ä" } else { "a" };
            let key = format!("{case}-{}-🔥", number % 150);
            let add = "INSERT INTO object_tags (object_id, org_id, tag) VALUES ($1, 1, $2)";
            let object = if number < 150 { 1 } else { 9_007_199_254_740_993_i64 };
            tx.execute(add, &[object.into(), (&key).into()]).await?;
            let add = "INSERT INTO trigger_keys (repo_id, key, run_id, at) VALUES (1, $1, 1, 0)";
            tx.execute(add, &[format!("{key}{number}").into()]).await?;
            let add = "INSERT INTO queue (lane_id, key, job_id, attempt, number) VALUES ($1, $2, $3, 1, 0)";
            tx.execute(add, &[(number % 3).into(), (number % 5 - 2).into(), number.into()]).await?;
        }
        Ok(())
    };
    source.write(work).await.unwrap();
    let tables = source.tables().await.unwrap();
    let before = tallies(&source, &tables).await;
    assert_eq!(before["documents"].rows, 302);
    for target in [Held::sqlite(), Held::postgres().await] {
        copied(&source, &target).await.unwrap();
        assert_eq!(tallies(&target, &tables).await, before);
    }
}
with_database!(every_kind_of_key_is_read_in_pages);

/// Many pages, while others write to the source: the copy is one moment.
async fn a_copy_is_one_moment_of_its_source(database: Database) {
    let source = full(&database).await;
    run(&source, MANY).await;
    let target = Held::sqlite();
    prepare(&target).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(add_pairs(source.clone(), Arc::clone(&stop)));
    let mut seen = Vec::new();
    let mut watch = |progress: Progress<'_>| {
        if progress.table == "outbox" {
            seen.push((progress.phase, progress.done, progress.total));
        }
    };
    let report = copy(&source, &target, &mut watch).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0);
    assert!(report.rows > 20_000);
    let both = "SELECT (SELECT count(*) FROM usage_deltas WHERE org_id = 9) - (SELECT count(*) FROM audit WHERE at = -1)";
    assert_eq!(number(&target, both).await, 0);
    assert_eq!(seen.first(), Some(&(Phase::Copying, 0, 20_002)));
    assert_eq!(seen.last(), Some(&(Phase::Checking, 20_002, 20_002)));
    assert!(seen.len() > 6, "{seen:?}");
}
with_database!(a_copy_is_one_moment_of_its_source);

/// Each commit adds a row to two tables, of which a later and an earlier one are copied.
async fn add_pairs(store: Store, stop: Arc<AtomicBool>) -> i64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let id = 1_000 + count;
        let work = async move |tx: &mut Tx<'_>| {
            let usage = "INSERT INTO usage_deltas (id, org_id, repo_id, seconds, ended, took, at) VALUES ($1, 9, 9, 0, 0, 0, 0)";
            tx.execute(usage, &[id.into()]).await?;
            let audit = "INSERT INTO audit (id, at, actor_kind, actor, action, subject_kind) VALUES ($1, -1, '', '', '', '')";
            tx.execute(audit, &[id.into()]).await
        };
        store.write(work).await.unwrap();
    }
    count
}

const MANY: &str = "
    INSERT INTO outbox (id, kind, payload, due_at, created_at)
    WITH RECURSIVE numbers (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20099)
    SELECT n, 'k', 'a text of some length', n, n FROM numbers";
