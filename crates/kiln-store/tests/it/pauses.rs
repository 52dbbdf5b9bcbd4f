//! Nothing is handed out of what is paused, and what waits is counted.

use std::time::Duration;

use kiln_core::id::QueueId;
use kiln_store::directory::{audit, queues, repositories, settings};
use kiln_store::{Page, Refusal, Scope, Signal, Store, StoreError, Subscription, claims};
use kiln_testkit::runs::{Site, add_repository, plan};

use crate::world::{SYSTEM, actor, refusal, write};

const JOBS: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
  b: {runs-on: linux, steps: [{run: 'true'}]}
  c: {runs-on: macos, steps: [{run: 'true'}]}
";

/// An ear that has heard all that happened before.
async fn ear(store: &Store) -> Subscription {
    let mut ear = store.subscribe();
    ear.next(Duration::from_mins(1)).await;
    ear
}

/// A listener that was connected to PostgreSQL anew is told to look at everything, since it may have missed
/// something: that will do, too. It is not what one hears when patience is at its end: that is longer here
/// than a test may take.
async fn heard(ear: &mut Subscription, wanted: Signal) {
    loop {
        let signals = ear.next(Duration::from_mins(10)).await;
        if signals.contains(&wanted) || signals.contains(&Signal::Everything) {
            return;
        }
    }
}

async fn waiting(site: &Site) -> u64 {
    let queues = site.queues().await;
    write!(site.store(), |tx| claims::waiting_count(tx, &queues, None)).unwrap()
}

/// S7
async fn a_paused_server_hands_nothing_out(store: Store) {
    let site = Site::new(store.clone()).await;
    site.run(JOBS).await;
    let held = site.claim(1, 1).await;
    write!(store, |tx| settings::pause_server(tx, SYSTEM, &actor(), "an upgrade")).unwrap();
    assert!(site.claim(2, 9).await.is_empty());
    assert_eq!(waiting(&site).await, 0);
    let pause = write!(store, |tx| settings::server_pause(tx)).unwrap().unwrap();
    assert_eq!((pause.by.as_str(), pause.reason.as_str()), ("ada", "an upgrade"));
    let accepted = site.finish(&held[0], 1, kiln_core::run::Conclusion::Success).await;
    assert_eq!(accepted, kiln_store::runs::Answer::Accepted, "what runs goes on");

    let mut ear = ear(&store).await;
    write!(store, |tx| settings::resume_server(tx, SYSTEM, &actor())).unwrap();
    heard(&mut ear, Signal::Everything).await;
    assert_eq!(write!(store, |tx| settings::server_pause(tx)).unwrap(), None);
    assert_eq!(waiting(&site).await, 2);
    assert_eq!(site.claim(2, 9).await.len(), 2);
    write!(store, |tx| settings::resume_server(tx, SYSTEM, &actor())).unwrap();
    let log = write!(store, |tx| audit::list_of_installation(tx, SYSTEM, Page::first(9))).unwrap();
    let actions: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["server.resume", "server.pause"], "what is not paused is not resumed");
}
on_both!(a_paused_server_hands_nothing_out);

async fn listed(store: &Store, scope: Scope) -> Result<Vec<queues::Queue>, StoreError> {
    write!(store, |tx| queues::list(tx, scope, Page::first(9)))
}

async fn a_paused_queue_hands_nothing_out(store: Store) {
    let site = Site::new(store.clone()).await;
    site.run(JOBS).await;
    let mut all = listed(&store, SYSTEM).await.unwrap();
    all.sort_by_key(|queue| std::cmp::Reverse(queue.waiting));
    let waiting_in: Vec<u64> = all.iter().map(|queue| queue.waiting).collect();
    assert_eq!(waiting_in, [2, 1]);
    let queue = all[0].id;
    assert_eq!(all[0].requirements.canonical(), claims_of(&site, queue).await);

    write!(store, |tx| queues::pause(tx, SYSTEM, &actor(), queue, "flaky")).unwrap();
    assert_eq!(waiting(&site).await, 1);
    let paused = write!(store, |tx| queues::get(tx, SYSTEM, queue)).unwrap();
    assert_eq!((paused.paused.as_deref(), paused.waiting), (Some("ada: flaky"), 2));
    assert_eq!(site.claim(1, 9).await.len(), 1);

    let mut ear = ear(&store).await;
    write!(store, |tx| queues::resume(tx, SYSTEM, &actor(), queue)).unwrap();
    heard(&mut ear, Signal::Work(queue)).await;
    assert_eq!(site.claim(1, 9).await.len(), 2);
    let none = QueueId(999);
    let unknown = write!(store, |tx| queues::pause(tx, SYSTEM, &actor(), none, "why"));
    assert_eq!(refusal(unknown), Refusal::NotFound("queue"));
}
on_both!(a_paused_queue_hands_nothing_out);

async fn claims_of(site: &Site, queue: QueueId) -> String {
    let all = write!(site.store(), |tx| claims::queues(tx)).unwrap();
    all.into_iter().find(|(id, _)| *id == queue).unwrap().1.canonical()
}

async fn a_resumed_repository_is_heard_where_its_jobs_wait(store: Store) {
    let site = Site::new(store.clone()).await;
    let repo = site.repo;
    site.run(JOBS).await;
    write!(store, |tx| repositories::pause(tx, SYSTEM, &actor(), repo, "why")).unwrap();
    assert!(site.claim(1, 9).await.is_empty());
    let mut ear = ear(&store).await;
    write!(store, |tx| repositories::resume(tx, SYSTEM, &actor(), repo)).unwrap();
    let first = site.queues().await[0];
    heard(&mut ear, Signal::Work(first)).await;
    assert_eq!(site.claim(1, 9).await.len(), 3);
}
on_both!(a_resumed_repository_is_heard_where_its_jobs_wait);

/// G1
async fn an_organization_sees_only_its_own_jobs_in_queues(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, workflow) = add_repository(&store, "other", "app").await;
    site.run(JOBS).await;
    let mut push = site.push(plan(
        "on: push\njobs: {a: {runs-on: linux, steps: [{run: x}]}, b: {runs-on: arm, steps: [{run: x}]}}",
    ));
    (push.org, push.repo, push.workflow) = (org, repo, workflow);
    site.runs.create(push).await.unwrap();
    let of = |queues: Vec<queues::Queue>| -> Vec<u64> {
        let mut counts: Vec<u64> = queues.iter().map(|queue| queue.waiting).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(of(listed(&store, SYSTEM).await.unwrap()), [1, 1, 3]);
    assert_eq!(of(listed(&store, Scope::Org(site.org)).await.unwrap()), [1, 2]);
    assert_eq!(of(listed(&store, Scope::Org(org)).await.unwrap()), [1, 1]);
    let all = site.queues().await;
    let count = write!(store, |tx| claims::waiting_count(tx, &all, Some(org))).unwrap();
    assert_eq!(count, 2);
    let (own, foreign) = (Scope::Org(site.org), *site.queues().await.last().unwrap());
    let got = write!(store, |tx| queues::get(tx, own, foreign));
    assert_eq!(refusal(got), Refusal::NotFound("queue"));
    let paused = write!(store, |tx| queues::pause(tx, own, &actor(), foreign, "mine"));
    assert_eq!(refusal(paused), Refusal::NotFound("queue"));
}
on_both!(an_organization_sees_only_its_own_jobs_in_queues);
