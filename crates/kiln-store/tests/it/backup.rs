//! A backup is one file, and gives everything back. (H3)

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_store::{Backup, Options, Store, StoreError, Tx, backup, is_in_use};
use kiln_testkit::database::Database;

use crate::filled::{Held, fill, number, run, tallies};

async fn full(database: &Database) -> Store {
    let store = database.open();
    let newest = store.status().await.unwrap().newest;
    fill(&store, newest).await;
    store
}

async fn back_up(store: &Store, file: &Path) -> Result<(), StoreError> {
    backup(store, file, false, &mut |_| ()).await
}

async fn give_back(file: &Path, target: &Store) -> Result<(), StoreError> {
    Backup::open(file).await?.restore(target, &mut |_| ()).await.map(|_| ())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// H3
async fn a_backup_gives_everything_back_into_either_database(database: Database) {
    let store = full(&database).await;
    let tables = store.tables().await.unwrap();
    let before = tallies(&store, &tables).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kiln.backup");
    back_up(&store, &file).await.unwrap();
    assert_eq!(names(folder.path()), ["kiln.backup"]);
    for target in [Database::sqlite(), Database::postgres().await] {
        let target = target.open();
        give_back(&file, &target).await.unwrap();
        assert_eq!(tallies(&target, &tables).await, before);
    }
    assert_eq!(names(folder.path()), ["kiln.backup"], "a restore leaves nothing beside the backup");
}
with_database!(a_backup_gives_everything_back_into_either_database);

/// SQLite → PostgreSQL → backup → SQLite.
#[tokio::test]
async fn nothing_changes_all_the_way_around() {
    let first = Held::sqlite().full().await;
    let tables = first.tables().await.unwrap();
    let before = tallies(&first, &tables).await;
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let middle = Held::postgres().await;
    back_up(&first, &one).await.unwrap();
    give_back(&one, &middle).await.unwrap();
    back_up(&middle, &two).await.unwrap();
    let last = Held::sqlite();
    give_back(&two, &last).await.unwrap();
    assert_eq!(tallies(&last, &tables).await, before);
}

async fn a_backup_of_an_older_schema_is_upgraded_on_its_way_back(database: Database) {
    let old = database.open();
    fill(&old, 1).await;
    let tables = old.tables().await.unwrap();
    let before = tallies(&old, &tables).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old");
    back_up(&old, &file).await.unwrap();
    let bytes = fs::read(&file).unwrap();
    let target = Held::like(&database).await;
    give_back(&file, &target).await.unwrap();
    let status = target.status().await.unwrap();
    assert_eq!(status.version, status.newest);
    assert_eq!(tallies(&target, &tables).await, before);
    assert!(fs::read(&file).unwrap() == bytes, "the backup itself stays as it was");
}
with_database!(a_backup_of_an_older_schema_is_upgraded_on_its_way_back);

#[tokio::test]
async fn a_backup_of_a_newer_kiln_is_refused_with_the_remedy() {
    let newer = Held::sqlite().full().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("newer");
    back_up(&newer, &file).await.unwrap();
    let step =
        "INSERT INTO schema_steps (version, name, checksum, applied_at) VALUES (99, '', '', 0)";
    run(&Store::open(&Options::Sqlite { path: file.clone() }).unwrap(), step).await;
    let target = Held::sqlite();
    let refused = give_back(&file, &target).await.unwrap_err().to_string();
    assert!(refused.contains("use the newer Kiln"), "{refused}");
    assert_eq!(target.status().await.unwrap().version, 0, "the target was not touched");
}

#[tokio::test]
async fn what_is_no_backup_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "not a database at all, but long enough to look at").unwrap();
    fs::write(path("empty"), "").unwrap();
    run(
        &Store::open(&Options::Sqlite { path: path("other") }).unwrap(),
        "CREATE TABLE t (a BIGINT PRIMARY KEY)",
    )
    .await;
    let target = Held::sqlite();
    for name in ["text", "empty", "other"] {
        let refused = give_back(&path(name), &target).await.unwrap_err().to_string();
        assert!(refused.contains("is not a Kiln database") && refused.contains(name), "{refused}");
    }
    let missing = give_back(&path("missing"), &target).await.unwrap_err().to_string();
    assert!(missing.contains("cannot read") && missing.contains("missing"), "{missing}");
    let folder = give_back(folder.path(), &target).await.unwrap_err().to_string();
    assert!(folder.contains("is not a Kiln database"), "{folder}");
    assert_eq!(target.status().await.unwrap().version, 0);
}

#[tokio::test]
async fn a_damaged_backup_is_refused() {
    let store = Held::sqlite().full().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged");
    back_up(&store, &file).await.unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // Pages in the middle, where rows are.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3 * 4096].fill(0xA5);
    fs::write(&file, bytes).unwrap();
    let target = Held::sqlite();
    give_back(&file, &target).await.unwrap_err();
    assert_eq!(number(&target, "SELECT count(*) FROM sqlite_master").await, 0);
}

async fn an_existing_file_is_replaced_only_on_request(store: Store) {
    store.migrate().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("taken");
    fs::write(&file, "precious").unwrap();
    let refused = back_up(&store, &file).await.unwrap_err().to_string();
    assert!(refused.contains("`--force` replaces it"), "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    backup(&store, &file, true, &mut |_| ()).await.unwrap();
    assert!(fs::read(&file).unwrap().starts_with(b"SQLite format 3"));
    assert_eq!(names(folder.path()), ["taken"]);
}
on_both!(an_existing_file_is_replaced_only_on_request);

async fn a_place_that_cannot_be_written_is_named(store: Store) {
    store.migrate().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no/such/folder/backup");
    let failed = back_up(&store, &file).await.unwrap_err().to_string();
    assert!(failed.contains("there is no folder") && failed.contains("no/such/folder"), "{failed}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
on_both!(a_place_that_cannot_be_written_is_named);

async fn an_empty_database_has_nothing_to_back_up(store: Store) {
    let folder = tempfile::tempdir().unwrap();
    let refused = back_up(&store, &folder.path().join("file")).await.unwrap_err().to_string();
    assert!(refused.contains("nothing to back up"), "{refused}");
}
on_both!(an_empty_database_has_nothing_to_back_up);

/// Each commit adds a row to two tables: a backup that saw half of one would show it.
async fn a_backup_is_one_moment_while_others_write(store: Store) {
    store.migrate().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    store.write(async |tx: &mut Tx<'_>| pair(tx).await).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..3).map(|n| folder.path().join(n.to_string())).collect();
    for file in &files {
        back_up(&store, file).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    assert!(written > 0);
    let mut earlier = 0;
    for file in files {
        let backup = Store::open_read_only(&file).unwrap();
        let pairs = number(&backup, "SELECT count(*) FROM audit").await;
        assert_eq!(number(&backup, "SELECT count(*) FROM outbox").await, pairs);
        assert!((earlier..=written).contains(&pairs));
        earlier = pairs;
    }
}
on_both!(a_backup_is_one_moment_while_others_write);

async fn pair(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let audit = "INSERT INTO audit (at, actor_kind, actor, action, subject_kind) VALUES (0, '', '', '', '')";
    tx.execute(audit, &[]).await?;
    let outbox = "INSERT INTO outbox (kind, payload, due_at, created_at) VALUES ('', '', 0, 0)";
    tx.execute(outbox, &[]).await
}

async fn a_database_that_somebody_has_open_is_told(database: Database) {
    assert!(!is_in_use(&database.options).await.unwrap());
    let store = database.open();
    store.migrate().await.unwrap();
    assert!(is_in_use(&database.options).await.unwrap());
    // It did no harm to those who have it open.
    store.write(async |tx: &mut Tx<'_>| pair(tx).await).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM audit").await, 1);
}
with_database!(a_database_that_somebody_has_open_is_told);

/// Somebody who copies the file of a closed database must not miss half of it.
#[tokio::test]
async fn a_closed_database_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.db");
    let store = Store::open(&Options::Sqlite { path }).unwrap();
    store.migrate().await.unwrap();
    store.write(async |tx: &mut Tx<'_>| pair(tx).await).await.unwrap();
    assert!(names(folder.path()).len() > 1);
    store.close().await;
    assert_eq!(names(folder.path()), ["kiln.db"]);
}
