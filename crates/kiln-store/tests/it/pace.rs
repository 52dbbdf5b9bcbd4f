//! What is known of runners: their health, what they did, how fast they are, and that they are gone.

use kiln_core::id::{PoolId, RunnerId};
use kiln_core::run::{Conclusion, Event, RunState};
use kiln_core::time::Timestamp;
use kiln_store::directory::{audit, pools, runners};
use kiln_store::{Page, Store, claims};
use kiln_testkit::runs::Site;

use crate::world::{SYSTEM, actor, add_lease, new_runner, refusal, world, write};

async fn runner(store: &Store, id: RunnerId) -> runners::Runner {
    write!(store, |tx| runners::get(tx, SYSTEM, id)).unwrap()
}

async fn say(store: &Store, id: RunnerId, health: &'static str, leaving: bool) -> bool {
    write!(store, |tx| runners::set_health(tx, SYSTEM, id, health, leaving)).unwrap()
}

/// S5
async fn health_is_written_when_it_is_news(store: Store) {
    let acme = world(&store, "acme").await;
    let id = acme.runner;
    assert!(say(&store, id, r#"{"load":1}"#, false).await);
    assert!(!say(&store, id, r#"{"load":2}"#, false).await, "half a minute has not passed");
    assert!(say(&store, id, r#"{"load":2}"#, true).await, "that it leaves is known at once");
    let now = runner(&store, id).await;
    assert_eq!(
        (now.health.as_deref(), now.leaving, now.draining),
        (Some(r#"{"load":2}"#), true, false)
    );
    let older = "UPDATE runners SET health_at = health_at - 30001";
    write!(store, |tx| tx.execute(older, &[])).unwrap();
    assert!(!say(&store, id, r#"{"load":2}"#, true).await, "nothing is new");
    assert!(say(&store, id, r#"{"load":3}"#, true).await);
    write!(store, |tx| tx.execute("UPDATE runners SET last_seen_at = 1", &[])).unwrap();
    assert!(say(&store, id, r#"{"load":3}"#, true).await, "it is a sign of life, too");
    assert!(runner(&store, id).await.last_seen_at > Timestamp(1));
    let wrong = write!(store, |tx| runners::set_health(tx, SYSTEM, id, "{", false));
    assert!(refusal(wrong).to_string().contains("expected JSON"));
    let nobody = RunnerId(999);
    assert!(!say(&store, nobody, "{}", true).await);
}
on_both!(health_is_written_when_it_is_news);

async fn shared_pool(store: &Store) -> PoolId {
    let new = pools::NewPool { org: None, name: "all".to_owned(), settings: "{}".to_owned() };
    write!(store, |tx| pools::create(tx, SYSTEM, &actor(), new.clone())).unwrap()
}

async fn register(store: &Store, pool: PoolId, name: &'static str) -> RunnerId {
    let new = new_runner(pool, name);
    write!(store, |tx| runners::register(tx, SYSTEM, &actor(), new.clone())).unwrap()
}

async fn an_administrator_sees_all_runners_with_names(store: Store) {
    let acme = world(&store, "acme").await;
    let pool = shared_pool(&store).await;
    let shared = register(&store, pool, "shared").await;
    let all = write!(store, |tx| runners::list_all(tx, SYSTEM, Page::first(9))).unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|one| (one.runner.id, one.org_name.as_deref(), one.pool_name.as_str()))
        .collect();
    assert_eq!(names, [(acme.runner, Some("acme"), "builders"), (shared, None, "all")]);
    let scope = acme.scope();
    let own = write!(store, |tx| runners::list_all(tx, scope, Page::first(9))).unwrap();
    assert_eq!(own.len(), 1);
    let after = Page::after(acme.runner.0, 9);
    let rest = write!(store, |tx| runners::list_all(tx, SYSTEM, after)).unwrap();
    assert_eq!(rest[0].runner.id, shared);
}
on_both!(an_administrator_sees_all_runners_with_names);

async fn runners_that_are_silent_for_long_are_forgotten(store: Store) {
    let acme = world(&store, "acme").await;
    let busy = acme.runner;
    let (gone, here) =
        (register(&store, acme.pool, "gone").await, register(&store, acme.pool, "here").await);
    let of = acme.clone();
    write!(store, |tx| add_lease(tx, &of, 5, false)).unwrap();
    let silent = "UPDATE runners SET last_seen_at = 100 WHERE name <> 'here'";
    write!(store, |tx| tx.execute(silent, &[])).unwrap();
    let forgotten = write!(store, |tx| runners::forget(tx, Timestamp(100))).unwrap();
    assert!(forgotten.is_empty());
    let forgotten = write!(store, |tx| runners::forget(tx, Timestamp(101))).unwrap();
    assert_eq!(forgotten, [gone]);
    let left = write!(store, |tx| runners::list_all(tx, SYSTEM, Page::first(9))).unwrap();
    let left: Vec<RunnerId> = left.iter().map(|one| one.runner.id).collect();
    assert_eq!(left, [busy, here], "one that has a job is left until its lease ends");
    let org = acme.org;
    let log = write!(store, |tx| audit::list(tx, SYSTEM, org, Page::first(1))).unwrap();
    assert_eq!((log[0].action.as_str(), log[0].subject), ("runner.forget", Some(gone.0)));
}
on_both!(runners_that_are_silent_for_long_are_forgotten);

const FOUR: &str = "
  a: {runs-on: linux, steps: [{run: x}]}
  b: {runs-on: linux, steps: [{run: x}]}
  c: {runs-on: linux, steps: [{run: x}]}
  d: {runs-on: linux, steps: [{run: x}]}
";

/// S15
async fn what_a_runner_did_is_counted_with_its_speed(store: Store) {
    let site = Site::new(store.clone()).await;
    let pool = shared_pool(&store).await;
    let (fast, slow) = (register(&store, pool, "fast").await, register(&store, pool, "slow").await);
    let (org, repo) = (site.org, site.repo);
    let typical =
        "INSERT INTO usage (org_id, repo_id, consumed, hour, typical) VALUES ($1, $2, 0, 0, 60)";
    write!(store, |tx| tx.execute(typical, &[org.into(), repo.into()])).unwrap();
    site.run(FOUR).await;
    for (runner, seconds, end) in [
        (fast, 20_i64, Conclusion::Success),
        (slow, 600, Conclusion::Success),
        (fast, 600, Conclusion::Failure),
        (fast, 600, Conclusion::Cancelled),
    ] {
        let job = site.claim(runner.0, 1).await.remove(0);
        let (run, id) = (job.run, job.job);
        let earlier = "UPDATE jobs SET claimed_at = claimed_at - $3 WHERE run_id = $1 AND id = $2";
        let values = [run.into(), id.into(), (seconds * 1000).into()];
        write!(store, |tx| tx.execute(earlier, &values)).unwrap();
        site.finish(&job, runner.0, end).await;
    }
    assert_eq!(runner(&store, fast).await.completed, 0, "they are counted later");
    assert!(write!(store, |tx| claims::fold(tx)).unwrap() >= 4);
    let (fast, slow) = (runner(&store, fast).await, runner(&store, slow).await);
    assert_eq!((fast.completed, fast.failed), (3, 1));
    assert_eq!((slow.completed, slow.failed), (1, 0));
    assert!(fast.speed > 1.0 && fast.speed < 1.3, "{}", fast.speed);
    assert!(slow.speed < 1.0 && slow.speed >= 0.9, "{}", slow.speed);
    assert_eq!(write!(store, |tx| claims::fold(tx)).unwrap(), 0);
}
on_both!(what_a_runner_did_is_counted_with_its_speed);

/// S12: the answer to the claim may never have reached it, and one for a single job still waits for that.
async fn a_job_that_was_cancelled_before_it_began_is_none_of_its_runner(store: Store) {
    let site = Site::new(store.clone()).await;
    let pool = shared_pool(&store).await;
    let id = register(&store, pool, "once").await;
    let run = site.run("  a: {runs-on: linux, steps: [{run: x}]}\n").await;
    assert_eq!(site.claim(id.0, 1).await.len(), 1);
    let cancel = Event::Cancel { by: "ada".to_owned(), reason: "enough".to_owned(), forced: true };
    site.tell(run, cancel).await;
    assert_eq!(site.view(run).await.state, RunState::Done(Conclusion::Cancelled));
    write!(store, |tx| claims::fold(tx)).unwrap();
    let now = runner(&store, id).await;
    assert_eq!((now.leases, now.completed, now.failed), (0, 0, 0));
}
on_both!(a_job_that_was_cancelled_before_it_began_is_none_of_its_runner);
