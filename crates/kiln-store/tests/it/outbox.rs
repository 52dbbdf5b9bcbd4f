//! The outbox: at least once, by one at a time, and never without end.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_store::outbox::{self, Kind, Message, TRIES, Task};
use kiln_store::{Duty, Refusal, Scope, Signal, Store, StoreError, Tx};

use crate::world::actor;

const SYSTEM: Scope = Scope::System(Duty::Administration);
const ALL: [Kind; 4] = [Kind::Admit, Kind::CancelMember, Kind::Continue, Kind::Notify];
const MINUTE: Duration = Duration::from_mins(1);

fn message(number: i64) -> Message {
    Message::at_once(Kind::Continue, RunId(number), format!("{{\"step\":{number}}}"))
}

async fn put(store: &Store, messages: Vec<Message>) {
    store.write(async move |tx: &mut Tx<'_>| outbox::put(tx, &messages)).await.unwrap();
}

async fn take(store: &Store, limit: u32, patience: Duration) -> Vec<Task> {
    let work = async move |tx: &mut Tx<'_>| outbox::take(tx, &ALL, limit, patience).await;
    store.write(work).await.unwrap()
}

async fn done(store: &Store, task: &Task) -> bool {
    let task = task.clone();
    store.write(async move |tx: &mut Tx<'_>| outbox::done(tx, &task).await).await.unwrap()
}

async fn failed(store: &Store, task: &Task) {
    let task = task.clone();
    let work = async move |tx: &mut Tx<'_>| outbox::failed(tx, &task, "no route").await;
    store.write(work).await.unwrap();
}

/// Lets time pass for all that waits.
async fn make_due(store: &Store) {
    let sql = "UPDATE outbox SET due_at = 0";
    store.write(async move |tx: &mut Tx<'_>| tx.execute(sql, &[]).await).await.unwrap();
}

fn runs(tasks: &[Task]) -> Vec<i64> {
    tasks.iter().map(|task| task.run.unwrap().0).collect()
}

async fn a_task_carries_what_was_put_in_until_it_is_done(store: Store) {
    store.migrate().await.unwrap();
    let mut ear = store.subscribe();
    ear.next(MINUTE).await;
    put(&store, vec![message(5)]).await;
    let heard = ear.next(MINUTE).await;
    assert!(heard == [Signal::Outbox] || heard == [Signal::Everything], "{heard:?}");
    let tasks = take(&store, 10, MINUTE).await;
    let [task] = tasks.as_slice() else { panic!("one task: {tasks:?}") };
    assert_eq!((task.kind, task.run, task.tries), (Kind::Continue, Some(RunId(5)), 1));
    assert_eq!(task.payload, r#"{"step":5}"#);
    assert!(take(&store, 10, MINUTE).await.is_empty(), "somebody has it");
    assert!(done(&store, task).await);
    assert!(!done(&store, task).await, "it is done already");
    make_due(&store).await;
    assert!(take(&store, 10, MINUTE).await.is_empty());
}
on_both!(a_task_carries_what_was_put_in_until_it_is_done);

async fn the_longest_due_comes_first(store: Store) {
    store.migrate().await.unwrap();
    let due = |number: i64, at: u64| Message { due: Some(Timestamp(at)), ..message(number) };
    let later = u64::MAX;
    put(&store, vec![due(1, 30), due(2, 10), due(3, later), due(4, 10), message(5)]).await;
    assert_eq!(runs(&take(&store, 2, MINUTE).await), [2, 4]);
    assert_eq!(runs(&take(&store, 9, MINUTE).await), [1, 5]);
    assert_eq!(runs(&take(&store, 9, MINUTE).await), [0_i64; 0]);
}
on_both!(the_longest_due_comes_first);

async fn two_takers_never_get_the_same(store: Store) {
    store.migrate().await.unwrap();
    put(&store, (0..200).map(message).collect()).await;
    let takers: Vec<_> = (0..6)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let tasks = take(&store, 5, MINUTE).await;
                    if tasks.is_empty() {
                        return taken;
                    }
                    taken.extend(runs(&tasks));
                }
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    for taker in takers {
        for run in taker.await.unwrap() {
            assert!(all.insert(run), "{run} was taken twice");
        }
    }
    // A taker that finds all rows locked goes away with nothing; what is left is there for the next.
    all.extend(runs(&take(&store, 200, MINUTE).await));
    assert_eq!(all.len(), 200);
}
on_both!(two_takers_never_get_the_same);

async fn what_a_dead_taker_had_comes_again(store: Store) {
    store.migrate().await.unwrap();
    put(&store, vec![message(1)]).await;
    let first = take(&store, 1, Duration::ZERO).await.remove(0);
    let second = take(&store, 1, MINUTE).await.remove(0);
    assert_eq!((first.id, first.tries, second.tries), (second.id, 1, 2));
    // The first one was only slow. It has lost the task and cannot speak for it any more.
    failed(&store, &first).await;
    assert!(!done(&store, &first).await);
    assert!(take(&store, 1, MINUTE).await.is_empty());
    assert!(done(&store, &second).await);
}
on_both!(what_a_dead_taker_had_comes_again);

async fn a_failed_task_waits_longer_each_time_and_is_put_aside(store: Store) {
    store.migrate().await.unwrap();
    put(&store, vec![message(1)]).await;
    let mut waits = Vec::new();
    for number in 1..=TRIES {
        let task = take(&store, 1, MINUTE).await.remove(0);
        assert_eq!(task.tries, number);
        failed(&store, &task).await;
        let question = async |tx: &mut Tx<'_>| {
            let now = tx.now();
            Ok(outbox::next_due(tx).await?.map(|due| due.since(now).as_millis()))
        };
        waits.extend(store.read(question).await.unwrap());
        make_due(&store).await;
    }
    assert_eq!(waits.len() + 1, TRIES as usize, "the last failure puts it aside");
    assert!(waits.is_sorted() && waits[0] <= 1_000 && waits[5] > 25_000, "{waits:?}");
    assert!(take(&store, 1, MINUTE).await.is_empty());
    let list = async |tx: &mut Tx<'_>| outbox::parked(tx, SYSTEM, 10).await;
    let parked = store.read(list).await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!((parked[0].error.as_str(), parked[0].task.run), ("no route", Some(RunId(1))));
    let id = parked[0].task.id;
    store
        .write(async move |tx: &mut Tx<'_>| outbox::retry(tx, SYSTEM, &actor(), id).await)
        .await
        .unwrap();
    assert_eq!(take(&store, 1, MINUTE).await[0].tries, 1);
    let twice = store
        .write(async move |tx: &mut Tx<'_>| outbox::retry(tx, SYSTEM, &actor(), id).await)
        .await;
    assert!(matches!(twice, Err(StoreError::Refused(Refusal::NotFound(_)))));
}
on_both!(a_failed_task_waits_longer_each_time_and_is_put_aside);

async fn a_task_that_kills_its_takers_is_put_aside(store: Store) {
    store.migrate().await.unwrap();
    put(&store, vec![message(1), message(2)]).await;
    for _ in 0..TRIES {
        assert_eq!(runs(&take(&store, 1, Duration::ZERO).await), [1]);
        make_due(&store).await;
    }
    assert_eq!(runs(&take(&store, 2, MINUTE).await), [2]);
    let list = async |tx: &mut Tx<'_>| outbox::parked(tx, SYSTEM, 10).await;
    let parked = store.read(list).await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].error, "nobody who took it came back");
}
on_both!(a_task_that_kills_its_takers_is_put_aside);

async fn what_only_a_newer_kiln_knows_is_left_to_it(store: Store) {
    store.migrate().await.unwrap();
    put(&store, vec![message(1), message(2)]).await;
    let newer = "UPDATE outbox SET kind = 'teleport' WHERE run_id = 1";
    store.write(async move |tx: &mut Tx<'_>| tx.execute(newer, &[]).await).await.unwrap();
    assert_eq!(runs(&take(&store, 2, MINUTE).await), [2]);
}
on_both!(what_only_a_newer_kiln_knows_is_left_to_it);

async fn a_taker_gets_the_kinds_it_asks_for(store: Store) {
    store.migrate().await.unwrap();
    let notify = Message::at_once(Kind::Notify, RunId(1), "{}".to_owned());
    put(&store, vec![notify, message(2)]).await;
    let take = async |kinds: &'static [Kind]| {
        let work = async move |tx: &mut Tx<'_>| outbox::take(tx, kinds, 9, MINUTE).await;
        runs(&store.write(work).await.unwrap())
    };
    assert_eq!(take(&[]).await, [0_i64; 0]);
    assert_eq!(take(&[Kind::Admit, Kind::Continue]).await, [2]);
    assert_eq!(take(&[Kind::Admit, Kind::Continue]).await, [0_i64; 0]);
    assert_eq!(take(&[Kind::Notify]).await, [1]);
}
on_both!(a_taker_gets_the_kinds_it_asks_for);

async fn what_is_given_back_is_due_at_once_and_was_not_tried(store: Store) {
    store.migrate().await.unwrap();
    put(&store, vec![message(1), message(2), message(3)]).await;
    let give_back = async |tasks: Vec<Task>| {
        let work = async move |tx: &mut Tx<'_>| outbox::give_back(tx, &tasks).await;
        store.write(work).await.unwrap();
    };
    let mut taken = take(&store, 3, MINUTE).await;
    assert!(done(&store, &taken.remove(0)).await);
    give_back(taken).await;
    let again = take(&store, 3, Duration::ZERO).await;
    assert_eq!(runs(&again), [2, 3]);
    assert!(again.iter().all(|task| task.tries == 1), "{again:?}");
    // Somebody else has them by now: they are not this one's to give back.
    assert_eq!(take(&store, 3, MINUTE).await.len(), 2);
    give_back(again).await;
    assert!(take(&store, 3, MINUTE).await.is_empty());
}
on_both!(what_is_given_back_is_due_at_once_and_was_not_tried);

async fn tasks_are_not_for_organizations(store: Store) {
    store.migrate().await.unwrap();
    let org = Scope::Org(kiln_core::id::OrgId(1));
    let list = store.read(async move |tx: &mut Tx<'_>| outbox::parked(tx, org, 10).await).await;
    assert!(matches!(list, Err(StoreError::Refused(Refusal::NotFound(_)))));
    let retry =
        store.write(async move |tx: &mut Tx<'_>| outbox::retry(tx, org, &actor(), 1).await).await;
    assert!(matches!(retry, Err(StoreError::Refused(Refusal::NotFound(_)))));
}
on_both!(tasks_are_not_for_organizations);
