//! PostgreSQL is away for a while: callers hear so, and nothing hangs.

use std::time::{Duration, Instant};

use kiln_store::{Options, Store, StoreError, Tx};
use kiln_testkit::cluster::Cluster;
use kiln_testkit::load::open_site;

/// How long a caller may wait for the news that the database is away.
const PATIENCE: Duration = Duration::from_secs(5);

async fn look(store: &Store) -> Result<i64, StoreError> {
    let count = async |tx: &mut Tx<'_>| {
        tx.one("count", "SELECT count(*) FROM runs", &[]).await?.get::<i64>(0)
    };
    store.read(count).await
}

/// H3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_hear_that_the_database_is_away_and_work_when_it_is_back() {
    let mut cluster = Cluster::new().await;
    let options = Options::Postgres { url: cluster.url(), connections: 2 };
    let site = open_site(Store::open(&options).unwrap()).await;
    cluster.kill();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        let asked = tokio::time::timeout(PATIENCE, look(site.store())).await;
        let error = asked.expect("nobody hangs").unwrap_err();
        assert!(matches!(error, StoreError::Transient(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("the database could not do it now: "), "{text}");
        assert!(text.contains("connect"), "it does not say why: {text}");
    }
    cluster.start().await;
    assert_eq!(look(site.store()).await.unwrap(), 0);
    site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    assert_eq!(look(site.store()).await.unwrap(), 1);
}
