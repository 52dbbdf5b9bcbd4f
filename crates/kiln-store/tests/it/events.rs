//! Events: nothing missed, nothing twice, whoever writes and whoever reads.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, RepoId, RunId};
use kiln_store::events::{self, Cursor, Event, EventKind, Filter, Page};
use kiln_store::{Duty, Refusal, Scope, Signal, Store, StoreError, Tx};

const SYSTEM: Scope = Scope::System(Duty::Administration);

fn event(run: i64, text: &str) -> Event {
    Event {
        org: OrgId(run % 2),
        repo: RepoId(run % 4),
        run: RunId(run),
        attempt: 1,
        job: Some(JobId::of(RunId(run), 3)),
        kind: EventKind::JobLost { reason: text.to_owned() },
    }
}

async fn append(store: &Store, events: Vec<Event>) {
    store.write(async move |tx: &mut Tx<'_>| events::append(tx, &events)).await.unwrap();
}

/// Appends and waits until everybody sees it, whatever else the cluster is busy with.
async fn append_and_settle(store: &Store, events: Vec<Event>) {
    append(store, events).await;
    let count = async |tx: &mut Tx<'_>| {
        let found = events::read(tx, SYSTEM, Filter::All, Cursor::default(), 1_000).await?.events;
        let all = tx.one("count", "SELECT count(*) FROM events", &[]).await?.get::<i64>(0)?;
        Ok(usize::try_from(all).unwrap() == found.len())
    };
    while !store.read(count).await.unwrap() {
        tokio::task::yield_now().await;
    }
}

async fn page(store: &Store, filter: Filter, after: Cursor, limit: u32) -> Page {
    let question =
        async move |tx: &mut Tx<'_>| events::read(tx, SYSTEM, filter, after, limit).await;
    store.read(question).await.unwrap()
}

/// Follows until so many events have come.
async fn follow(store: &Store, filter: Filter, mut after: Cursor, count: usize) -> Vec<Event> {
    let mut hints = store.subscribe();
    let mut found = Vec::new();
    while found.len() < count {
        let Page { events, next, more } = page(store, filter, after, 7).await;
        assert!(next >= after, "a cursor never goes back");
        after = next;
        if !more {
            hints.next(Duration::from_millis(5)).await;
        }
        found.extend(events.into_iter().map(|stored| stored.event));
    }
    found
}

const WRITERS: i64 = 6;
const TRANSACTIONS: i64 = 25;

/// A writer whose transactions take their ids early and commit late, some of them not at all.
async fn write_slowly(store: Store, writer: i64) {
    for number in 0..TRANSACTIONS {
        let dice = (writer * 7_919 + number * 104_729) % 101;
        let work = async move |tx: &mut Tx<'_>| {
            events::append(tx, &[event(writer, &format!("{number} a"))])?;
            if tx.is_postgres() {
                tokio::time::sleep(Duration::from_micros(dice.unsigned_abs() * 150)).await;
            }
            events::append(tx, &[event(writer, &format!("{number} b"))])?;
            tx.signal(Signal::Run(RunId(writer)));
            if dice % 5 == 0 { Err(Refusal::NotFound("luck").into()) } else { Ok(()) }
        };
        let written: Result<(), StoreError> = store.write(work).await;
        if written.is_err() {
            append(&store, vec![event(writer, &format!("{number} a"))]).await;
            append(&store, vec![event(writer, &format!("{number} b"))]).await;
        }
    }
}

/// C10
async fn a_reader_misses_nothing_and_gets_nothing_twice(store: Store) {
    store.migrate().await.unwrap();
    let count = usize::try_from(WRITERS * TRANSACTIONS * 2).unwrap();
    let reader = {
        let store = store.clone();
        tokio::spawn(async move { follow(&store, Filter::All, Cursor::default(), count).await })
    };
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write_slowly(store.clone(), writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let bound = tokio::time::timeout(Duration::from_secs(30), reader).await;
    let live = bound.expect("nothing is missed").unwrap();
    let text = |event: &Event| match &event.kind {
        EventKind::JobLost { reason } => (event.run.0, reason.clone()),
        other => panic!("nobody wrote {other:?}"),
    };
    let distinct: BTreeSet<_> = live.iter().map(text).collect();
    assert_eq!(distinct.len(), count, "nothing comes twice");
    // Each writer's events come in the order in which it committed them.
    for writer in 0..WRITERS {
        let own: Vec<_> = live.iter().filter(|event| event.run.0 == writer).map(text).collect();
        let order: Vec<_> = (0..TRANSACTIONS)
            .flat_map(|number| ["a", "b"].map(|half| (writer, format!("{number} {half}"))))
            .collect();
        assert_eq!(own, order);
    }
    let replay = follow(&store, Filter::All, Cursor::default(), count).await;
    assert_eq!(replay, live, "what is read again is the same");
}
on_both!(a_reader_misses_nothing_and_gets_nothing_twice);

async fn each_reader_sees_its_own_part(store: Store) {
    store.migrate().await.unwrap();
    append_and_settle(&store, (0..8).map(|run| event(run, "once")).collect()).await;
    let runs = async |filter| {
        let page = page(&store, filter, Cursor::default(), 100).await;
        page.events.iter().map(|stored| stored.event.run.0).collect::<Vec<_>>()
    };
    assert_eq!(runs(Filter::All).await, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(runs(Filter::Org(OrgId(1))).await, [1, 3, 5, 7]);
    assert_eq!(runs(Filter::Repo(RepoId(2))).await, [2, 6]);
    assert_eq!(runs(Filter::Run(RunId(5))).await, [5]);
    assert_eq!(runs(Filter::Run(RunId(9))).await, [0_i64; 0]);
}
on_both!(each_reader_sees_its_own_part);

async fn an_organization_sees_nothing_of_others(store: Store) {
    store.migrate().await.unwrap();
    append_and_settle(&store, (0..8).map(|run| event(run, "once")).collect()).await;
    let runs = async |filter| {
        let read = async move |tx: &mut Tx<'_>| {
            events::read(tx, Scope::Org(OrgId(1)), filter, Cursor::default(), 100).await
        };
        let page = store.read(read).await.unwrap();
        page.events.iter().map(|stored| stored.event.run.0).collect::<Vec<_>>()
    };
    assert_eq!(runs(Filter::All).await, [1, 3, 5, 7]);
    assert_eq!(runs(Filter::Org(OrgId(0))).await, [0_i64; 0]);
    assert_eq!(runs(Filter::Repo(RepoId(2))).await, [0_i64; 0]);
    assert_eq!(runs(Filter::Repo(RepoId(3))).await, [3, 7]);
    assert_eq!(runs(Filter::Run(RunId(2))).await, [0_i64; 0]);
}
on_both!(an_organization_sees_nothing_of_others);

/// Whoever comes with an old cursor and wants little goes through the rest piece by piece.
async fn a_question_passes_over_a_bounded_number_of_events(store: Store) {
    store.migrate().await.unwrap();
    let others = (0..12_000).map(|_| event(0, "of others")).collect();
    append(&store, others).await;
    append(&store, vec![event(1, "wanted")]).await;
    while page(&store, Filter::Run(RunId(1)), Cursor::default(), 5).await.events.is_empty() {
        tokio::task::yield_now().await;
    }
    let filter = Filter::Repo(RepoId(1));
    let first = page(&store, filter, Cursor::default(), 5).await;
    assert_eq!((first.events.len(), first.more), (0, true));
    assert!(first.next > Cursor::default(), "it moves on");
    assert_eq!(follow(&store, filter, first.next, 1).await, [event(1, "wanted")]);
}
on_both!(a_question_passes_over_a_bounded_number_of_events);

async fn a_cursor_leads_on_from_any_place(store: Store) {
    store.migrate().await.unwrap();
    append_and_settle(&store, (0..5).map(|run| event(run, "first")).collect()).await;
    let Page { events: first, next: middle, more } =
        page(&store, Filter::All, Cursor::default(), 3).await;
    assert_eq!((first.len(), more), (3, true));
    let Page { events: rest, next: end, more } = page(&store, Filter::All, middle, 3).await;
    assert!(!more);
    assert_eq!(rest.iter().map(|stored| stored.event.run.0).collect::<Vec<_>>(), [3, 4]);
    let Page { events: none, next: end, .. } = page(&store, Filter::Run(RunId(77)), end, 3).await;
    assert!(none.is_empty());
    append_and_settle(&store, vec![event(77, "second")]).await;
    let new = page(&store, Filter::Run(RunId(77)), end, 3).await.events;
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].event, event(77, "second"));
    let kept: Cursor = middle.to_string().parse().unwrap();
    assert_eq!(page(&store, Filter::All, kept, 2).await.events, rest);
}
on_both!(a_cursor_leads_on_from_any_place);

async fn a_cursor_of_another_database_is_refused(store: Store) {
    store.migrate().await.unwrap();
    let foreign: Cursor = "999999999999-5".parse().unwrap();
    let read = store
        .read(async move |tx: &mut Tx<'_>| events::read(tx, SYSTEM, Filter::All, foreign, 1).await)
        .await;
    assert!(matches!(read, Err(StoreError::Refused(Refusal::Invalid(_)))), "{read:?}");
}
on_both!(a_cursor_of_another_database_is_refused);

/// C10: a reader that stands still in the middle of its transaction holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_reader_blocks_nobody() {
    let database = kiln_testkit::database::Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    append(&store, vec![event(1, "before")]).await;
    let (reads, is_reading) = tokio::sync::oneshot::channel();
    let reads = std::sync::Mutex::new(Some(reads));
    let dead = tokio::spawn({
        let store = store.clone();
        async move {
            let stuck = async move |tx: &mut Tx<'_>| {
                events::read(tx, SYSTEM, Filter::All, Cursor::default(), 10).await?;
                reads.lock().unwrap().take().unwrap().send(()).unwrap();
                std::future::pending::<Result<(), StoreError>>().await
            };
            store.read(stuck).await
        }
    });
    is_reading.await.unwrap();
    let work = async {
        append(&store, vec![event(1, "after")]).await;
        follow(&store, Filter::All, Cursor::default(), 2).await
    };
    let both = tokio::time::timeout(Duration::from_secs(5), work).await.expect("nobody waits");
    assert_eq!(both, [event(1, "before"), event(1, "after")]);
    dead.abort();
}

/// H3: a dump that is restored into another cluster brings transaction ids that this one never reached.
#[tokio::test]
async fn events_from_another_cluster_come_before_new_ones() {
    let database = kiln_testkit::database::Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    append(&store, vec![event(1, "old"), event(2, "old")]).await;
    let restored = "UPDATE events SET txid = 900000000000";
    store.write(async move |tx: &mut Tx<'_>| tx.execute(restored, &[]).await).await.unwrap();
    store.migrate().await.unwrap();
    append(&store, vec![event(3, "new")]).await;
    let all = follow(&store, Filter::All, Cursor::default(), 3).await;
    assert_eq!(all, [event(1, "old"), event(2, "old"), event(3, "new")]);
}

/// A transaction gets its number with its first lock. One that gets it early and commits late adds what
/// happened after the work of another one that has a higher number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_told_in_the_order_in_which_it_happened() {
    let database = kiln_testkit::database::Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((begun, wait)));
    let late = tokio::spawn({
        let store = store.clone();
        async move {
            let work = async move |tx: &mut Tx<'_>| {
                tx.one("number", "SELECT pg_current_xact_id()::text", &[]).await?;
                let (begun, wait) = once.lock().unwrap().take().unwrap();
                begun.send(()).unwrap();
                let _ = wait.await;
                events::append(tx, &[event(2, "other run"), event(1, "done")])
            };
            store.write(work).await.unwrap();
        }
    });
    has_begun.await.unwrap();
    append(&store, vec![event(1, "claimed")]).await;
    assert!(page(&store, Filter::All, Cursor::default(), 9).await.events.is_empty());
    go.send(()).unwrap();
    late.await.unwrap();
    append_and_settle(&store, Vec::new()).await;
    let page = page(&store, Filter::All, Cursor::default(), 9).await;
    let told: Vec<Event> = page.events.iter().map(|stored| stored.event.clone()).collect();
    assert_eq!(told, [event(2, "other run"), event(1, "claimed"), event(1, "done")]);
    let ids = |run: i64| {
        let own = page.events.iter().filter(move |stored| stored.event.run.0 == run);
        own.map(|stored| stored.id).collect::<Vec<_>>()
    };
    assert!(ids(1).is_sorted());
}

/// Some of the restored events can have transaction ids that this cluster has reached; they stay in order
/// with the rest.
#[tokio::test]
async fn restored_events_keep_their_order() {
    let database = kiln_testkit::database::Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    append(&store, vec![event(1, "first"), event(1, "second")]).await;
    let restored = "UPDATE events SET txid = CASE WHEN id = (SELECT min(id) FROM events)
                    THEN 900000000000 ELSE 5 END";
    store.write(async move |tx: &mut Tx<'_>| tx.execute(restored, &[]).await).await.unwrap();
    store.migrate().await.unwrap();
    let all = follow(&store, Filter::All, Cursor::default(), 2).await;
    assert_eq!(all, [event(1, "first"), event(1, "second")]);
    let count = "SELECT count(*) FROM events WHERE txid = 0";
    let count = async move |tx: &mut Tx<'_>| tx.one("count", count, &[]).await?.get::<i64>(0);
    assert_eq!(store.read(count).await.unwrap(), 2);
}
