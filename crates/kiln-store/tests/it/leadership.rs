//! Leadership: one at a time, and never nobody for long, however the leader goes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kiln_store::{Leadership, Store, Tx};
use kiln_testkit::database::Database;
use tokio::time::{Instant, timeout};

/// The longest time without a leader.
const TAKEOVER: Duration = Duration::from_secs(5);

async fn leads(candidate: &mut Leadership) {
    while !timeout(TAKEOVER, candidate.changed()).await.expect("it takes over in time") {}
}

#[tokio::test]
async fn the_embedded_database_has_one_server_which_leads() {
    let database = Database::sqlite();
    let mut alone = database.open().leadership("test");
    assert!(alone.is_leader());
    assert!(alone.changed().await);
    assert!(timeout(Duration::from_millis(10), alone.changed()).await.is_err(), "for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_the_next_follows_when_it_resigns() {
    let database = Database::postgres().await;
    let (first, second) = (database.open(), database.open());
    let mut leader = first.leadership("test");
    leads(&mut leader).await;
    let mut follower = second.leadership("test");
    let mut other_duty = second.leadership("another");
    leads(&mut other_duty).await;
    assert!(leader.is_leader() && !follower.is_leader());
    drop(leader);
    leads(&mut follower).await;
}

async fn kill_backends(store: &Store, application: &'static str) -> usize {
    let work = async move |tx: &mut Tx<'_>| {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = $1";
        Ok(tx.rows(sql, &[application.into()]).await?.len())
    };
    store.write(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_connection_stops_at_once() {
    let database = Database::postgres().await;
    let store = database.open();
    let mut leader = store.leadership("test");
    leads(&mut leader).await;
    let mut follower = database.open().leadership("test");
    assert!(timeout(Duration::from_millis(600), follower.changed()).await.is_err());
    let began = Instant::now();
    assert_eq!(kill_backends(&store, "kiln leader").await, 2);
    assert!(!timeout(TAKEOVER, leader.changed()).await.unwrap(), "it notices");
    tokio::select! {
        () = leads(&mut leader) => assert!(!follower.is_leader()),
        () = leads(&mut follower) => assert!(!leader.is_leader()),
    }
    assert!(began.elapsed() < TAKEOVER);
}

/// A server of its own: its runtime does nothing while its thread is frozen, as if it got SIGSTOP.
struct Server {
    freeze: tokio::sync::mpsc::UnboundedSender<mpsc::Receiver<()>>,
    thread: thread::JoinHandle<()>,
}

impl Server {
    /// Starts it, and returns its leadership once it leads.
    fn leading(database: &Database) -> (Self, Leadership) {
        let (freeze, mut freezes) = tokio::sync::mpsc::unbounded_channel::<mpsc::Receiver<()>>();
        let (give, leadership) = mpsc::channel();
        let store = database.open();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let mut leader = store.leadership("test");
                leads(&mut leader).await;
                give.send(leader).unwrap();
                while let Some(frozen) = freezes.recv().await {
                    let _ = frozen.recv();
                }
            });
        });
        (Self { freeze, thread }, leadership.recv().unwrap())
    }

    /// Stands still until the sender is dropped.
    fn freeze(&self) -> mpsc::Sender<()> {
        let (thaw, frozen) = mpsc::channel();
        self.freeze.send(frozen).unwrap();
        thaw
    }

    /// Goes away without a word to the database.
    fn die(self) {
        drop(self.freeze);
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_is_replaced() {
    let database = Database::postgres().await;
    let (server, _leader) = Server::leading(&database);
    let mut follower = database.open().leadership("test");
    assert!(timeout(Duration::from_millis(600), follower.changed()).await.is_err());
    server.die();
    leads(&mut follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_is_replaced_and_knows_when_it_thaws() {
    let database = Database::postgres().await;
    let (server, mut leader) = Server::leading(&database);
    let mut follower = database.open().leadership("test");
    assert!(timeout(Duration::from_millis(600), follower.changed()).await.is_err());
    let thaw = server.freeze();
    let began = Instant::now();
    // Whenever the next one leads, the frozen one must already know that it does not.
    let leads_now = timeout(TAKEOVER, follower.changed()).await.expect("it takes over in time");
    assert!(leads_now && !leader.is_leader());
    assert!(began.elapsed() < TAKEOVER);
    drop(thaw);
    assert!(!leader.changed().await, "it has not led since");
    assert!(timeout(Duration::from_secs(1), leader.changed()).await.is_err(), "nor does it again");
    assert!(follower.is_leader());
    server.die();
}
