//! Every earlier schema, filled, becomes the newest one and loses nothing. (H3)

use kiln_store::{Refusal, Store, StoreError, Tx};
use kiln_testkit::database::Database;

use crate::filled::{Held, fill, number, rows_of, run, tallies};

async fn newest(store: &Store) -> i64 {
    store.status().await.unwrap().newest
}

#[tokio::test]
async fn every_schema_has_rows_to_be_tested_with() {
    let database = Database::sqlite();
    let store = database.open();
    for version in 1..=newest(&store).await {
        assert!(
            rows_of(version).is_some(),
            "schema {version} has no rows: write tests/schemas/{version:04}.sql"
        );
        fill(&store, version).await;
        let all = store.tables().await.unwrap();
        for (table, tally) in tallies(&store, &all).await {
            assert!(tally.rows > 0, "tests/schemas/{version:04}.sql has no row for `{table}`");
        }
    }
}

/// H3
async fn a_filled_database_of_each_schema_is_upgraded(database: Database) {
    let steps = newest(&database.open()).await;
    for version in 1..steps {
        let database = Database::like(&database).await;
        let store = database.open();
        fill(&store, version).await;
        let tables = store.tables().await.unwrap();
        let before = tallies(&store, &tables).await;

        assert_eq!(store.migrate().await.unwrap().version, steps);
        assert_eq!(tallies(&store, &tables).await, before, "from {version}");
        let all = store.tables().await.unwrap();
        assert!(tables.iter().all(|table| all.iter().any(|known| known.name == table.name)));

        let applied = number(&store, APPLIED).await;
        store.migrate().await.unwrap();
        assert_eq!((store.tables().await.unwrap(), number(&store, APPLIED).await), (all, applied));
        assert_eq!(tallies(&store, &tables).await, before, "again from {version}");
    }
}
with_database!(a_filled_database_of_each_schema_is_upgraded);

const APPLIED: &str = "SELECT count(*) FROM schema_steps";

/// What a new database gets and what an old one becomes are the same tables.
async fn an_old_database_becomes_what_a_new_one_is(database: Database) {
    let (old, new) = (database.open(), Held::like(&database).await);
    fill(&old, 1).await;
    old.migrate().await.unwrap();
    new.migrate().await.unwrap();
    assert_eq!(old.tables().await.unwrap(), new.tables().await.unwrap());
}
with_database!(an_old_database_becomes_what_a_new_one_is);

#[track_caller]
fn assert_conflict<T: std::fmt::Debug>(answer: Result<T, StoreError>, expected: &str) {
    match answer {
        Err(StoreError::Refused(Refusal::Conflict(text))) if text.contains(expected) => {}
        other => panic!("expected a refusal with `{expected}`, found {other:?}"),
    }
}

async fn a_step_that_was_applied_in_another_form_is_refused(store: Store) {
    fill(&store, 1).await;
    run(&store, "UPDATE schema_steps SET checksum = 'another'").await;
    assert_conflict(store.migrate().await, "was applied in another form");
    assert_eq!(store.status().await.unwrap().version, 1);
}
on_both!(a_step_that_was_applied_in_another_form_is_refused);

async fn a_database_of_a_newer_kiln_is_refused(store: Store) {
    fill(&store, 1).await;
    run(
        &store,
        "INSERT INTO schema_steps (version, name, checksum, applied_at) VALUES (99, '', '', 0)",
    )
    .await;
    assert_conflict(store.migrate().await, "the database has schema 99");
    assert_conflict(store.status().await, "use the newer Kiln that wrote it");
    // Not even the steps that this Kiln knows were applied.
    assert_eq!(number(&store, APPLIED).await, 2);
    assert_eq!(store.describe().await.unwrap().version, 99);
}
on_both!(a_database_of_a_newer_kiln_is_refused);

/// Two processes, each with connections of its own.
async fn two_servers_upgrade_at_once(database: Database) {
    let (one, other) = (database.open(), database.open());
    fill(&one, 1).await;
    let tables = one.tables().await.unwrap();
    let before = tallies(&one, &tables).await;
    let (first, second) = (one.clone(), other.clone());
    let first = tokio::spawn(async move { first.migrate().await });
    let second = tokio::spawn(async move { second.migrate().await });
    for status in [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()] {
        assert_eq!(status.version, status.newest);
    }
    assert_eq!(tallies(&other, &tables).await, before);
}
with_database!(two_servers_upgrade_at_once);

/// The last table of the step is in the way, so that all statements before it had been run.
async fn a_step_that_fails_in_the_middle_leaves_nothing(store: Store) {
    fill(&store, 1).await;
    run(&store, "CREATE TABLE caches (id BIGINT PRIMARY KEY)").await;
    let tables = store.tables().await.unwrap();
    let before = tallies(&store, &tables).await;
    let failed = store.migrate().await.unwrap_err();
    assert!(failed.to_string().contains("caches"), "{failed}");
    assert_eq!(store.status().await.unwrap().version, 1);
    assert_eq!(store.tables().await.unwrap(), tables);
    assert_eq!(tallies(&store, &tables).await, before);

    run(&store, "DROP TABLE caches").await;
    let status = store.migrate().await.unwrap();
    assert_eq!(status.version, status.newest);
}
on_both!(a_step_that_fails_in_the_middle_leaves_nothing);

async fn an_upgraded_database_gives_new_ids(store: Store) {
    fill(&store, 1).await;
    store.migrate().await.unwrap();
    let work = async |tx: &mut Tx<'_>| {
        let add = "INSERT INTO blobs (hash, size, created_at) VALUES ($1, 0, 0) RETURNING id";
        tx.one("blob", add, &[vec![1_u8].into()]).await?.get::<i64>(0)
    };
    assert_eq!(store.write(work).await.unwrap(), 1);
}
on_both!(an_upgraded_database_gives_new_ids);
