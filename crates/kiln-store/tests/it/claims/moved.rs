//! A run that gets another priority moves in the queue.

use kiln_core::id::RunId;
use kiln_core::run::Conclusion;
use kiln_store::directory::audit;
use kiln_store::inspect::inspect;
use kiln_store::runs::FIRST;
use kiln_store::{Page, Refusal, Scope, Store, StoreError, Tx};
use kiln_testkit::runs::{SYSTEM, Site, add_repository, somebody};

const TWO: &str = "
  a: {runs-on: linux, strategy: {matrix: {n: [1, 2]}}, steps: [{run: x}]}
  b: {needs: a, runs-on: [linux, big], steps: [{run: x}]}
";

async fn move_to(site: &Site, run: RunId, priority: i64) -> i64 {
    site.runs.prioritize(Scope::Org(site.org), &somebody(), run, priority).await.unwrap()
}

/// Of which runs the next jobs are.
async fn next(site: &Site, want: u32) -> Vec<RunId> {
    let claimed = site.claim(1, want).await;
    for one in &claimed {
        site.finish(one, 1, Conclusion::Success).await;
    }
    claimed.iter().map(|claimed| claimed.run).collect()
}

#[track_caller]
fn refused(answer: Result<i64, StoreError>) -> String {
    match answer {
        Err(StoreError::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

/// S8 PEERS 5.11
async fn a_run_moves_in_the_queue_and_what_comes_later_follows(store: Store) {
    let site = Site::new(store.clone()).await;
    let one = "  a: {runs-on: linux, steps: [{run: x}]}";
    let (first, second, third) = (site.run(one).await, site.run(TWO).await, site.run(one).await);
    assert_eq!(move_to(&site, second, FIRST).await, 0);
    assert_eq!(move_to(&site, second, FIRST).await, FIRST, "it is there already");
    assert_eq!(inspect(&store).await.unwrap().findings, []);
    // What waited goes first, in its order; so does what came into the queue afterwards.
    assert_eq!(next(&site, 1).await, [second]);
    assert_eq!(next(&site, 1).await, [second]);
    assert_eq!(next(&site, 1).await, [second]);
    assert_eq!(inspect(&store).await.unwrap().findings, []);
    // The last one is put first, and back in line again.
    assert_eq!(move_to(&site, third, 7).await, 0);
    assert_eq!(move_to(&site, third, 0).await, 7);
    assert_eq!(next(&site, 2).await, [first, third]);
    assert_eq!(inspect(&store).await.unwrap().findings, []);
}
on_both!(a_run_moves_in_the_queue_and_what_comes_later_follows);

async fn only_what_is_under_way_and_ones_own_can_be_moved(store: Store) {
    let site = Site::new(store.clone()).await;
    let (other, ..) = add_repository(&store, "other", "app").await;
    let run = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let ask =
        async |scope, run, priority| site.runs.prioritize(scope, &somebody(), run, priority).await;
    let nothing = Refusal::NotFound("run").to_string();
    assert_eq!(refused(ask(Scope::Org(other), run, 1).await), nothing);
    assert_eq!(refused(ask(SYSTEM, RunId(9_999), 1).await), nothing);
    for wrong in [-1, FIRST + 1] {
        let said = refused(ask(SYSTEM, run, wrong).await);
        assert!(said.contains("priority"), "{said}");
    }
    move_to(&site, run, 3).await;
    assert_eq!(next(&site, 1).await, [run]);
    let said = refused(ask(SYSTEM, run, 5).await);
    assert!(said.contains("ended already"), "{said}");
    let org = site.org;
    let log = async move |tx: &mut Tx<'_>| audit::list(tx, SYSTEM, org, Page::first(9)).await;
    let log = store.read(log).await.unwrap();
    let moves: Vec<_> = log.iter().filter(|entry| entry.action == "run.prioritize").collect();
    assert_eq!(moves.len(), 1, "{log:?}");
    assert_eq!(moves[0].detail.as_deref(), Some(r#"{"priority":3,"before":0}"#));
}
on_both!(only_what_is_under_way_and_ones_own_can_be_moved);
