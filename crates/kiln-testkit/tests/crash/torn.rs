//! What a power failure leaves of SQLite's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_store::{Options, Store, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::dice::Dice;
use kiln_testkit::load::open_site;
use kiln_testkit::process::Worker;
use tokio::time::sleep;

use crate::{audit, consistent, recovers, rounds};

const LOAD: &str = env!("CARGO_BIN_EXE_store-load");

fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Copies the database and its log, as they lie on the disk.
fn copy(path: &Path, into: &Path) -> PathBuf {
    let copy = into.join("kiln.db");
    fs::copy(path, &copy).unwrap();
    fs::copy(wal_of(path), wal_of(&copy)).unwrap();
    copy
}

async fn is_sound(store: &Store) {
    let look = async |tx: &mut Tx<'_>| tx.rows("PRAGMA integrity_check", &[]).await;
    let rows = store.read(look).await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].get::<String>(0).unwrap(), "ok");
}

fn path_of(database: &Database) -> PathBuf {
    let Options::Sqlite { path } = &database.options else { panic!("it is SQLite") };
    path.clone()
}

/// S4: half a write behind the last one that was answered does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_files_at_any_moment_has_all_that_was_answered() {
    let database = Database::sqlite();
    let path = path_of(&database);
    let worker = Worker::start(LOAD, &[path.to_str().unwrap(), "21"]);
    worker.first_answer().await;
    let mut dice = Dice::new(21);
    for round in 0..rounds(4) {
        sleep(Duration::from_millis(dice.below(400))).await;
        let folder = tempfile::tempdir().unwrap();
        let (answers, copy) = worker.frozen(|| (worker.answers(), copy(&path, folder.path())));
        let mut wal = fs::read(wal_of(&copy)).unwrap();
        let garbage = dice.below(6_000);
        wal.extend((0..garbage).map(|_| u8::try_from(dice.below(256)).unwrap()));
        fs::write(wal_of(&copy), wal).unwrap();
        let site = open_site(Store::open(&Options::Sqlite { path: copy }).unwrap()).await;
        is_sound(site.store()).await;
        audit(&site, &answers, &format!("copied in round {round}")).await;
        if round == 0 {
            recovers(&site, &answers).await;
        }
    }
}

/// S4: a log that is cut or garbled anywhere leaves an earlier state, and a consistent one. A reader
/// holds the beginning of the log: otherwise parts of it would be in the database already, which a power
/// failure cannot bring about before they are safe in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_log_leaves_an_earlier_state() {
    let database = Database::sqlite();
    let path = path_of(&database);
    drop(open_site(database.open()).await);
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.busy_timeout(Duration::from_secs(5)).unwrap();
    reader
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); BEGIN; SELECT count(*) FROM runs;")
        .unwrap();
    assert_eq!(fs::metadata(wal_of(&path)).unwrap().len(), 0);
    let worker = Worker::start(LOAD, &[path.to_str().unwrap(), "22"]);
    worker.first_answer().await;
    sleep(Duration::from_millis(700)).await;
    let mut dice = Dice::new(22);
    for round in 0..rounds(6) {
        sleep(Duration::from_millis(dice.below(100))).await;
        let folder = tempfile::tempdir().unwrap();
        let copy = worker.frozen(|| copy(&path, folder.path()));
        let mut wal = fs::read(wal_of(&copy)).unwrap();
        let at = usize::try_from(dice.below(wal.len() as u64)).unwrap();
        match round % 3 {
            0 => wal.truncate(at),
            1 => wal[at] ^= 0x55,
            _ => wal[at..].fill(0),
        }
        fs::write(wal_of(&copy), wal).unwrap();
        let site = open_site(Store::open(&Options::Sqlite { path: copy }).unwrap()).await;
        is_sound(site.store()).await;
        consistent(&site, &format!("torn in round {round} at byte {at}")).await;
    }
}
