//! What a transaction promises, whichever database keeps it.

use kiln_store::{Refusal, Sql, Store, StoreError, Tx, Value};

async fn with_counter(store: &Store) {
    store.migrate().await.unwrap();
    store.write(async |tx: &mut Tx<'_>| add(tx, "first").await).await.unwrap();
}

async fn add(tx: &mut Tx<'_>, name: &str) -> Result<i64, StoreError> {
    let row = tx
        .one(
            "organization",
            "INSERT INTO organizations (name, created_at, updated_at) VALUES ($1, 0, 0) RETURNING id",
            &[name.into()],
        )
        .await?;
    row.get(0)
}

async fn count(store: &Store) -> i64 {
    let question = async |tx: &mut Tx<'_>| {
        tx.one("count", "SELECT count(*) FROM organizations", &[]).await?.get::<i64>(0)
    };
    store.read(question).await.unwrap()
}

async fn what_is_refused_leaves_nothing(store: Store) {
    with_counter(&store).await;
    let refused: Result<(), StoreError> = store
        .write(async |tx: &mut Tx<'_>| {
            add(tx, "second").await?;
            Err(Refusal::NotFound("organization").into())
        })
        .await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::NotFound("organization")))));
    assert_eq!(count(&store).await, 1);
}
on_both!(what_is_refused_leaves_nothing);

/// PEERS 10
async fn a_database_that_may_only_be_read_says_so_and_is_read(store: Store) {
    with_counter(&store).await;
    let only_reads = Sql::of("PRAGMA query_only = ON", "SET LOCAL transaction_read_only = on");
    let refused = store
        .write(async move |tx: &mut Tx<'_>| {
            tx.execute(only_reads, &[]).await?;
            add(tx, "second").await
        })
        .await;
    let Err(error @ StoreError::ReadOnly(_)) = refused else { panic!("{refused:?}") };
    assert!(error.concerns_all(), "no part of the work would go better");
    assert!(error.to_string().starts_with("the database is read-only: "), "{error}");
    assert_eq!(count(&store).await, 1);
}
on_both!(a_database_that_may_only_be_read_says_so_and_is_read);

async fn a_broken_rule_of_the_schema_is_named_as_such(store: Store) {
    with_counter(&store).await;
    let twice = store.write(async |tx: &mut Tx<'_>| add(tx, "first").await).await;
    assert!(matches!(twice, Err(StoreError::Constraint(_))), "{twice:?}");
    assert_eq!(count(&store).await, 1);
}
on_both!(a_broken_rule_of_the_schema_is_named_as_such);

/// Handlers of requests run on any thread: their futures must be able to travel.
async fn many_writers_at_once_all_count(store: Store) {
    with_counter(&store).await;
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = format!("org-{number}");
                store.write(async move |tx: &mut Tx<'_>| add(tx, &name).await).await
            })
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for task in tasks {
        assert!(ids.insert(task.await.unwrap().unwrap()));
    }
    assert_eq!(count(&store).await, 201);
}
on_both!(many_writers_at_once_all_count);

async fn a_list_is_one_parameter(store: Store) {
    with_counter(&store).await;
    let second = store.write(async |tx: &mut Tx<'_>| add(tx, "second").await).await.unwrap();
    let found = store
        .read(async move |tx: &mut Tx<'_>| {
            let sql = Sql::of(
                "SELECT name FROM organizations WHERE id IN (SELECT value FROM json_each($1))",
                "SELECT name FROM organizations WHERE id = ANY($1)",
            );
            tx.rows(sql, &[Value::from_iter([second, 999])]).await
        })
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get::<String>(0).unwrap(), "second");
}
on_both!(a_list_is_one_parameter);

async fn the_schema_is_applied_once_however_many_try(store: Store) {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for task in tasks {
        let status = task.await.unwrap().unwrap();
        assert_eq!(status.version, status.newest);
    }
}
on_both!(the_schema_is_applied_once_however_many_try);

async fn an_empty_database_has_version_0(store: Store) {
    assert_eq!(store.status().await.unwrap().version, 0);
}
on_both!(an_empty_database_has_version_0);

async fn a_panic_is_told_as_what_it_is(store: Store) {
    with_counter(&store).await;
    let panicked = store
        .write(async |tx: &mut Tx<'_>| -> Result<(), StoreError> {
            add(tx, "lost").await?;
            panic!("no luck")
        })
        .await;
    assert!(matches!(panicked, Err(StoreError::Panicked(text)) if text == "no luck"));
    assert_eq!(count(&store).await, 1);
    store.write(async |tx: &mut Tx<'_>| add(tx, "next").await).await.unwrap();
}
on_both!(a_panic_is_told_as_what_it_is);

mod on_sqlite_only {
    use kiln_store::{StoreError, Tx};
    use kiln_testkit::database::Database;

    use super::{add, count, with_counter};

    /// A panic in one part must not take the writer, nor the parts beside it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_is_the_affair_of_its_caller() {
        let database = Database::sqlite();
        let store = database.open();
        with_counter(&store).await;
        let panicking = store.write(async |tx: &mut Tx<'_>| -> Result<(), StoreError> {
            add(tx, "lost").await?;
            panic!("no luck")
        });
        let beside = store.write(async |tx: &mut Tx<'_>| add(tx, "kept").await);
        let (panicked, kept) = tokio::join!(panicking, beside);
        assert!(matches!(panicked, Err(StoreError::Panicked(text)) if text == "no luck"));
        kept.unwrap();
        assert_eq!(count(&store).await, 2);
    }

    #[tokio::test]
    async fn work_that_waits_for_something_else_is_undone_and_named() {
        let database = Database::sqlite();
        let store = database.open();
        with_counter(&store).await;
        let waited = store
            .write(async |tx: &mut Tx<'_>| {
                add(tx, "lost").await?;
                tokio::task::yield_now().await;
                Ok(())
            })
            .await;
        assert!(matches!(waited, Err(StoreError::Waited)));
        assert_eq!(count(&store).await, 1);
    }

    #[tokio::test]
    async fn a_reader_cannot_write() {
        let database = Database::sqlite();
        let store = database.open();
        with_counter(&store).await;
        let written = store.read(async |tx: &mut Tx<'_>| add(tx, "sneaky").await).await;
        assert!(written.is_err());
        assert_eq!(count(&store).await, 1);
    }
}
