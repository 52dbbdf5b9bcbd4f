//! Schedules, deliveries and documents.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::directory::deliveries::{self, DeliveryStatus, NewDelivery};
use kiln_store::directory::documents::{self, Hash};
use kiln_store::directory::schedules::{self, FoundSchedule};
use kiln_store::{Page, Refusal, Store};

use crate::world::{SYSTEM, actor, refusal, world, write};

fn found(cron: &str, next_at: u64) -> FoundSchedule {
    FoundSchedule { cron: cron.to_owned(), timezone: "UTC".to_owned(), next_at: Timestamp(next_at) }
}

async fn a_workflow_gets_the_schedules_of_its_file_and_no_others(store: Store) {
    let acme = world(&store, "acme").await;
    let (workflow, scope) = (acme.workflow, acme.scope());
    let new = [found("0 3 * * *", 9_999), found("0 4 * * *", 2_000)];
    write!(store, |tx| schedules::set(tx, scope, &actor(), workflow, &new)).unwrap();
    let list = async || {
        let all = write!(store, |tx| schedules::list_of_workflow(tx, scope, workflow)).unwrap();
        all.into_iter().map(|one| (one.cron, one.next_at.0)).collect::<Vec<_>>()
    };
    // The first one was there, and keeps its time.
    assert_eq!(list().await, [("0 3 * * *".to_owned(), 1_000), ("0 4 * * *".to_owned(), 2_000)]);
    let new = [found("0 4 * * *", 7_777)];
    write!(store, |tx| schedules::set(tx, scope, &actor(), workflow, &new)).unwrap();
    assert_eq!(list().await, [("0 4 * * *".to_owned(), 2_000)]);
    let many: Vec<_> = (0..101).map(|hour| found(&format!("0 {hour} * * *"), 0)).collect();
    let refused = write!(store, |tx| schedules::set(tx, scope, &actor(), workflow, &many));
    assert!(refusal(refused).to_string().contains("expected up to 100"));
}
on_both!(a_workflow_gets_the_schedules_of_its_file_and_no_others);

/// Those who look at the same moment never fire the same schedule.
async fn a_schedule_that_is_due_fires_once(store: Store) {
    let acme = world(&store, "acme").await;
    let (workflow, scope) = (acme.workflow, acme.scope());
    let new: Vec<_> = (0..20).map(|hour| found(&format!("0 {hour} * * *"), 1_000 + hour)).collect();
    write!(store, |tx| schedules::set(tx, scope, &actor(), workflow, &new)).unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let later = |_: &schedules::Schedule| Some(Timestamp(u64::MAX >> 12));
                write!(store, |tx| schedules::take_due(tx, SYSTEM, 7, later)).unwrap()
            })
        })
        .collect();
    let mut fired = Vec::new();
    for task in tasks {
        fired.extend(task.await.unwrap().into_iter().map(|one| one.id));
    }
    // On PostgreSQL those who came together may have left some to the next look.
    let later = |_: &schedules::Schedule| Some(Timestamp(u64::MAX >> 12));
    let rest = write!(store, |tx| schedules::take_due(tx, SYSTEM, 100, later)).unwrap();
    fired.extend(rest.into_iter().map(|one| one.id));
    let count = fired.len();
    fired.sort_unstable();
    fired.dedup();
    assert_eq!((count, fired.len()), (20, 20));
    let left = write!(store, |tx| schedules::take_due(tx, SYSTEM, 100, later)).unwrap();
    assert_eq!(left, []);
}
on_both!(a_schedule_that_is_due_fires_once);

async fn a_schedule_that_never_comes_again_is_disabled(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, scope) = (acme.schedule, acme.scope());
    let due = write!(store, |tx| schedules::take_due(tx, SYSTEM, 10, |_| None)).unwrap();
    assert_eq!(due.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    let after = write!(store, |tx| schedules::get(tx, scope, id)).unwrap();
    assert!(!after.enabled && after.last_at.is_some());
    let due = write!(store, |tx| schedules::take_due(tx, SYSTEM, 10, |_| None)).unwrap();
    assert_eq!(due, []);
}
on_both!(a_schedule_that_never_comes_again_is_disabled);

fn push(repo: Option<kiln_core::id::RepoId>, delivery: &str) -> NewDelivery {
    NewDelivery {
        repo,
        forge: "github".to_owned(),
        delivery: delivery.to_owned(),
        event: "push".to_owned(),
        payload: br#"{"ref":"main"}"#.to_vec(),
    }
}

/// F1
async fn a_delivery_that_comes_again_is_known(store: Store) {
    let repo = world(&store, "acme").await.repo;
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let new = push(Some(repo), &format!("d-{}", number % 2));
                write!(store, |tx| deliveries::receive(tx, SYSTEM, new.clone())).unwrap()
            })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += u32::from(task.await.unwrap().is_some());
    }
    assert_eq!(new, 2);
    // Another forge may use the same id.
    let other = NewDelivery { forge: "gitea".to_owned(), ..push(None, "d-0") };
    let made = write!(store, |tx| deliveries::receive(tx, SYSTEM, other.clone())).unwrap();
    assert!(made.is_some());
    let list = write!(store, |tx| deliveries::list(tx, SYSTEM, repo, Page::first(9))).unwrap();
    assert_eq!(list.len(), 3);
    assert!(list.windows(2).all(|pair| pair[0].id > pair[1].id), "the newest comes first");
}
on_both!(a_delivery_that_comes_again_is_known);

/// F1
async fn a_delivery_can_be_handled_again(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, scope) = (acme.delivery, acme.scope());
    write!(store, |tx| deliveries::mark_failed(tx, scope, id, "no such\0 branch")).unwrap();
    let failed = write!(store, |tx| deliveries::get(tx, scope, id)).unwrap();
    assert_eq!(
        (failed.status, failed.error.as_deref()),
        (DeliveryStatus::Failed, Some("no such branch"))
    );
    let again = write!(store, |tx| deliveries::replay(tx, scope, &actor(), id)).unwrap();
    assert_eq!(
        (again.status, again.error, again.handled_at),
        (DeliveryStatus::Received, None, None)
    );
    write!(store, |tx| deliveries::mark_handled(tx, scope, id)).unwrap();
    let handled = write!(store, |tx| deliveries::get(tx, scope, id)).unwrap();
    assert!(handled.status == DeliveryStatus::Handled && handled.handled_at.is_some());
    assert_eq!(write!(store, |tx| deliveries::payload(tx, scope, id)).unwrap(), b"{}");
}
on_both!(a_delivery_can_be_handled_again);

/// F1
async fn a_delivery_whose_receiver_died_is_taken_by_another(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, scope) = (acme.delivery, acme.scope());
    let take = async |patience: Duration| {
        let taken = write!(store, |tx| deliveries::take_waiting(tx, SYSTEM, 10, patience));
        taken.unwrap().into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    let minute = Duration::from_mins(1);
    assert_eq!(take(minute).await, [], "whoever received it has it");
    let late = "UPDATE webhook_deliveries SET taken_at = taken_at - 60000 WHERE taken_at > 0";
    write!(store, |tx| tx.execute(late, &[])).unwrap();
    assert_eq!(take(minute).await, [id]);
    assert_eq!(take(minute).await, [], "another has it now");
    write!(store, |tx| deliveries::mark_handled(tx, scope, id)).unwrap();
    let twice = write!(store, |tx| deliveries::mark_handled(tx, scope, id));
    assert!(refusal(twice).to_string().contains("was handled already; replay it"));
    assert_eq!(take(Duration::ZERO).await, []);
    write!(store, |tx| deliveries::replay(tx, scope, &actor(), id)).unwrap();
    assert_eq!(take(minute).await, [id], "nobody has one that is replayed");
    write!(store, |tx| deliveries::mark_failed(tx, scope, id, "no such branch")).unwrap();
    assert_eq!(take(Duration::ZERO).await, []);
}
on_both!(a_delivery_whose_receiver_died_is_taken_by_another);

async fn a_document_is_kept_once_and_found_by_its_hash(store: Store) {
    store.migrate().await.unwrap();
    let (one, two) = tokio::join!(
        store.write(async |tx: &mut kiln_store::Tx<'_>| documents::put(tx, "{\"jobs\":[]}").await),
        store.write(async |tx: &mut kiln_store::Tx<'_>| documents::put(tx, "{\"jobs\":[]}").await),
    );
    let hash = one.unwrap();
    assert_eq!((hash, hash), (two.unwrap(), Hash::of("{\"jobs\":[]}")));
    let text = write!(store, |tx| documents::get(tx, SYSTEM, hash)).unwrap();
    assert_eq!(text, "{\"jobs\":[]}");
    let missing = write!(store, |tx| documents::get(tx, SYSTEM, Hash::of("other")));
    assert_eq!(refusal(missing), Refusal::NotFound("document"));
    let zero = write!(store, |tx| documents::put(tx, "a\0b"));
    assert!(matches!(refusal(zero), Refusal::Invalid(_)));
}
on_both!(a_document_is_kept_once_and_found_by_its_hash);
