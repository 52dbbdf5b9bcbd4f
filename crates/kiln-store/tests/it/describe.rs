//! What is said about a database, without reading all of it.

use kiln_store::{Rows, Store, Tx};

const EVENTS: &str = "INSERT INTO events (run_id, org_id, repo_id, attempt, kind, at)
    WITH RECURSIVE counted (number) AS
        (SELECT 1 UNION ALL SELECT number + 1 FROM counted WHERE number < 12000)
    SELECT number, 1, 1, 1, 'run_created', 0 FROM counted";

async fn many_rows_are_estimated_and_few_are_counted(store: Store) {
    store.migrate().await.unwrap();
    let fill = async |tx: &mut Tx<'_>| {
        let user = "INSERT INTO users (name, created_at) VALUES ('mona', 0)";
        tx.execute(user, &[]).await?;
        tx.execute(EVENTS, &[]).await
    };
    assert_eq!(store.write(fill).await.unwrap(), 12_000);
    let rows = async |table: &str| {
        let description = store.describe().await.unwrap();
        description.rows.iter().find(|(name, _)| *name == table).unwrap().1
    };
    assert_eq!(rows("users").await, Rows::Exactly(1));
    assert_eq!(rows("runs").await, Rows::Exactly(0));
    let Rows::About(before) = rows("events").await else { panic!("they are too many to count") };
    assert!(before >= 10_000, "{before}");
    store.write(async |tx: &mut Tx<'_>| tx.execute("ANALYZE", &[]).await).await.unwrap();
    assert_eq!(rows("events").await, Rows::About(12_000));
}
on_both!(many_rows_are_estimated_and_few_are_counted);
