//! Lanes are closed when they are empty, and only then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_store::Store;
use kiln_store::claims;
use kiln_testkit::queue::Depth;
use kiln_testkit::runs::Site;

use super::{asking, claim, number};

const OPEN: &str = "SELECT count(*) FROM lanes WHERE active = 1";

/// S2
async fn an_empty_lane_is_closed_and_a_job_opens_it_again(store: Store) {
    let site = Site::new(store).await;
    let run = || site.run("  a: {runs-on: linux, steps: [{run: x}]}");
    run().await;
    assert_eq!(claims::tidy_lanes(site.store()).await.unwrap(), 0, "it begins with its first job");
    let first = site.claim(1, 1).await;
    assert_eq!(number(site.store(), OPEN, vec![]).await, 1);
    assert_eq!(claims::tidy_lanes(site.store()).await.unwrap(), 1);
    assert_eq!(number(site.store(), OPEN, vec![]).await, 0);
    assert!(site.claim(1, 1).await.is_empty());
    run().await;
    let second = site.claim(1, 1).await;
    assert_eq!(second.len(), 1);
    // Given back, it is older than the lane's floor may be by then.
    run().await;
    claims::tidy_lanes(site.store()).await.unwrap();
    for claimed in first.iter().chain(&second) {
        site.say(claimed, 1, kiln_store::runs::Word::Returned).await;
    }
    assert_eq!(site.claim(2, 9).await.len(), 3);
}
on_both!(an_empty_lane_is_closed_and_a_job_opens_it_again);

async fn a_lane_begins_where_its_first_job_is(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 1, 1).await;
    depth.fill(&store, 20).await;
    claims::tidy_lanes(&store).await.unwrap();
    let floor = "SELECT floor FROM lanes";
    assert_eq!(number(&store, floor, vec![]).await, 1000);
    assert_eq!(claim(&store, asking(1, &[depth.queue], 7, "n")).await.len(), 7);
    assert_eq!(claims::tidy_lanes(&store).await.unwrap(), 1);
    assert_eq!(number(&store, floor, vec![]).await, 1007);
}
on_both!(a_lane_begins_where_its_first_job_is);

/// S2, S3
async fn no_job_is_lost_while_lanes_close_under_those_who_come_and_go(store: Store) {
    const RUNS: usize = 40;
    let site = Arc::new(Site::new(store).await);
    let done = Arc::new(AtomicBool::new(false));
    let tidier = tokio::spawn({
        let (site, done) = (site.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                claims::tidy_lanes(site.store()).await.unwrap();
            }
        }
    });
    let creators: Vec<_> = (0..4)
        .map(|_| {
            let site = site.clone();
            tokio::spawn(async move {
                for _ in 0..RUNS / 4 {
                    site.run(
                        "  a: {runs-on: linux, strategy: {matrix: {n: [1, 2]}}, steps: [{run: x}]}",
                    )
                    .await;
                }
            })
        })
        .collect();
    let claimers: Vec<_> = (1..=4)
        .map(|runner| {
            let (site, done) = (site.clone(), done.clone());
            tokio::spawn(async move {
                let mut got = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    got.extend(site.claim(runner, 2).await.iter().map(|claimed| claimed.job));
                }
                got
            })
        })
        .collect();
    for creator in creators {
        creator.await.unwrap();
    }
    let leased = async || number(site.store(), "SELECT count(*) FROM leases", vec![]).await;
    let all = i64::try_from(2 * RUNS).unwrap();
    let wait = async {
        while leased().await < all {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(1), wait).await;
    done.store(true, Ordering::Relaxed);
    tidier.await.unwrap();
    let mut claimed = Vec::new();
    for claimer in claimers {
        claimed.extend(claimer.await.unwrap());
    }
    let hidden = "SELECT count(*) FROM queue AS q JOIN lanes AS l ON l.id = q.lane_id
                  WHERE l.active = 0 OR q.key < l.floor";
    assert_eq!(number(site.store(), hidden, vec![]).await, 0);
    assert!(waited.is_ok(), "only {} of {all} jobs were claimed", claimed.len());
    assert_eq!(claimed.len(), 2 * RUNS);
    assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), 2 * RUNS, "each once");
}
on_both!(no_job_is_lost_while_lanes_close_under_those_who_come_and_go);
