//! Hints: after the commit and only then, here and on other servers, each once.

use std::time::Duration;

use kiln_core::id::{QueueId, RunId};
use kiln_store::{Options, Refusal, Signal, Store, StoreError, Subscription, Tx};
use kiln_testkit::database::Database;

const LONG: Duration = Duration::from_secs(20);

async fn signal(store: &Store, signal: Signal) {
    let work = async move |tx: &mut Tx<'_>| {
        tx.signal(signal);
        Ok(())
    };
    store.write(work).await.unwrap();
}

/// All that is heard up to this signal.
async fn heard_until(ear: &mut Subscription, last: Signal) -> Vec<Signal> {
    let mut heard = Vec::new();
    let listening = async {
        while !heard.contains(&last) {
            heard.extend(ear.next(LONG).await);
        }
    };
    tokio::time::timeout(LONG, listening).await.expect("it is heard in time");
    heard
}

fn run(id: i64) -> Signal {
    Signal::Run(RunId(id))
}

/// An ear that has heard all there was to hear of the start.
async fn ear_of(store: &Store) -> Subscription {
    let mut ear = store.subscribe();
    assert_eq!(ear.next(LONG).await, [Signal::Everything]);
    if is_postgres(store).await {
        // The connection to the others comes up a little later.
        assert_eq!(ear.next(Duration::from_secs(3)).await, [Signal::Everything]);
    }
    ear
}

pub(crate) async fn is_postgres(store: &Store) -> bool {
    store.read(async |tx: &mut Tx<'_>| Ok(tx.is_postgres())).await.unwrap()
}

async fn a_commit_is_heard_and_a_refusal_is_not(store: Store) {
    let mut ear = ear_of(&store).await;
    let refused: Result<(), StoreError> = store
        .write(async |tx: &mut Tx<'_>| {
            tx.signal(run(1));
            Err(Refusal::NotFound("run").into())
        })
        .await;
    assert!(refused.is_err());
    let work = async |tx: &mut Tx<'_>| {
        tx.signal(run(2));
        tx.signal(Signal::Work(QueueId(3)));
        tx.signal(run(2));
        Ok(())
    };
    store.write(work).await.unwrap();
    assert_eq!(ear.next(LONG).await, [Signal::Work(QueueId(3)), run(2)]);
}
on_both!(a_commit_is_heard_and_a_refusal_is_not);

async fn what_is_heard_is_already_there(store: Store) {
    store.migrate().await.unwrap();
    let mut ear = ear_of(&store).await;
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        let work = async move |tx: &mut Tx<'_>| {
            tx.signal(run(1));
            let insert =
                "INSERT INTO organizations (name, created_at, updated_at) VALUES ('a', 0, 0)";
            tx.execute(insert, &[]).await
        };
        writer.write(work).await.unwrap();
    });
    heard_until(&mut ear, run(1)).await;
    let count = async |tx: &mut Tx<'_>| {
        tx.one("count", "SELECT count(*) FROM organizations", &[]).await?.get::<i64>(0)
    };
    assert_eq!(store.read(count).await.unwrap(), 1);
    writing.await.unwrap();
}
on_both!(what_is_heard_is_already_there);

/// A commit that fails takes the hints of its whole batch with it; those whose part succeeds alone are
/// heard then, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_is_not_heard() {
    let database = Database::sqlite();
    let store = database.open();
    store.migrate().await.unwrap();
    let mut ear = ear_of(&store).await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let gate = store.write(async move |_: &mut Tx<'_>| {
        let _ = wait.lock().unwrap().recv();
        Ok(())
    });
    // Only the commit finds out that there is no such organization.
    let bad = store.write(async |tx: &mut Tx<'_>| {
        tx.signal(run(1));
        tx.execute("PRAGMA defer_foreign_keys = ON", &[]).await?;
        let insert = "INSERT INTO teams (org_id, name, created_at) VALUES (99, 'a', 0)";
        tx.execute(insert, &[]).await
    });
    let good = store.write(async |tx: &mut Tx<'_>| {
        tx.signal(run(2));
        Ok(())
    });
    let opener = async move {
        tokio::task::yield_now().await;
        drop(go);
    };
    let (gate, bad, good, ()) = tokio::join!(biased; gate, bad, good, opener);
    gate.unwrap();
    good.unwrap();
    assert!(matches!(bad, Err(StoreError::Constraint(_))), "{bad:?}");
    signal(&store, run(3)).await;
    assert_eq!(heard_until(&mut ear, run(3)).await, [run(2), run(3)]);
}

/// Work that is run again after a failed try has signalled nothing the first time.
#[tokio::test]
async fn a_failed_try_is_not_heard() {
    let database = Database::postgres().await;
    let store = database.open();
    let mut ear = ear_of(&store).await;
    let tries = std::sync::atomic::AtomicI64::new(0);
    let work = async move |tx: &mut Tx<'_>| {
        let number = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        tx.signal(run(number));
        if number < 2 { Err(StoreError::Transient("again".to_owned())) } else { Ok(()) }
    };
    store.write(work).await.unwrap();
    assert_eq!(ear.next(LONG).await, [run(2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_hear_each_other_and_themselves_once() {
    let database = Database::postgres().await;
    let (first, second) = (database.open(), database.open());
    let (mut ear, mut other) = (ear_of(&first).await, ear_of(&second).await);
    signal(&first, run(1)).await;
    heard_until(&mut other, run(1)).await;
    signal(&second, run(2)).await;
    // The server that hears the answer would have heard its own words before.
    let heard = heard_until(&mut ear, run(2)).await;
    assert_eq!(heard.iter().filter(|signal| **signal == run(1)).count(), 1, "{heard:?}");
    signal(&first, run(3)).await;
    heard_until(&mut ear, run(3)).await;
    heard_until(&mut other, run(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_ends_in_everything_and_comes_back() {
    let database = Database::postgres().await;
    let (first, second) = (database.open(), database.open());
    let (mut ear, _other) = (ear_of(&first).await, ear_of(&second).await);
    let admin = raw(&database.options).await;
    let killed = admin
        .query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'kiln hints'",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(killed.len(), 2);
    heard_until(&mut ear, Signal::Everything).await;
    // The other one may be on its way back, too: what it has to say is kept until then.
    signal(&second, run(1)).await;
    heard_until(&mut ear, run(1)).await;
}

/// Notifications take a lock of the whole cluster: there are few, however much is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_commits_is_a_few_notifications() {
    let database = Database::postgres().await;
    let (first, second) = (database.open(), database.open());
    let (_ear, mut other) = (ear_of(&first).await, ear_of(&second).await);
    let began = tokio::time::Instant::now();
    let mut wakes = 0;
    let mut heard = std::collections::BTreeSet::new();
    let storm = async {
        for id in 0..600 {
            signal(&first, run(id)).await;
        }
        signal(&first, Signal::Outbox).await;
    };
    let listening = async {
        while !heard.contains(&Signal::Outbox) {
            heard.extend(other.next(LONG).await);
            wakes += 1;
        }
    };
    let both = async { tokio::join!(storm, listening) };
    tokio::time::timeout(LONG, both).await.expect("all is heard in time");
    let bound = began.elapsed().as_millis() / 50 + 3;
    assert!(wakes <= bound, "{wakes} wakes, at most {bound} expected");
    assert!((0..600).all(|id| heard.contains(&run(id))));
}

async fn raw(options: &Options) -> tokio_postgres::Client {
    let Options::Postgres { url, .. } = options else { panic!("only PostgreSQL has sessions") };
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
