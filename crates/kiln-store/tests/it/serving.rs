//! One process serves a file; and leases are given time after a start.

use kiln_core::time::Timestamp;
use kiln_store::Store;
use kiln_testkit::database::Database;
use kiln_testkit::runs::Site;

use crate::world::{refusal, write};

#[tokio::test]
async fn a_file_that_is_served_is_not_served_twice() {
    let database = Database::sqlite();
    let (one, other) = (database.open(), database.open());
    let serving = one.lock_for_serving().unwrap();
    let refused = refusal(other.lock_for_serving()).to_string();
    assert!(refused.contains("another Kiln serves") && refused.contains("PostgreSQL"), "{refused}");
    assert!(one.lock_for_serving().is_err(), "nor by the same process");
    drop(serving);
    other.lock_for_serving().unwrap();
}

#[tokio::test]
async fn postgres_has_as_many_servers_as_one_likes() {
    let database = Database::postgres().await;
    let (one, other) = (database.open(), database.open());
    let _serving = one.lock_for_serving().unwrap();
    other.lock_for_serving().unwrap();
}

/// S11
async fn nothing_is_reaped_before_runners_could_be_heard(store: Store) {
    let site = Site::new(store.clone()).await;
    site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    assert_eq!(site.claim(7, 1).await.len(), 1);
    let now = write!(store, |tx| async {
        tx.execute("UPDATE leases SET expires_at = 1", &[]).await?;
        Ok(tx.now())
    });
    let later = Timestamp(now.unwrap().0 + 60_000);
    assert_eq!(site.runs.reap_from(later).await.unwrap().taken, 0);
    assert_eq!(site.runs.reap_from(Timestamp(1)).await.unwrap().taken, 1);
}
on_both!(nothing_is_reaped_before_runners_could_be_heard);
