//! The limit on SQLite: one statement claims one job of one table, with a flush each.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

const JOBS: u32 = 300_000;
const CLAIM: &str = "UPDATE jobs SET state = 1, runner = ?1, claimed_at = unixepoch()
    WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY priority, id LIMIT 1) RETURNING id, payload";

pub(crate) fn claims(path: &Path, time: Duration, threads: u32) -> rusqlite::Result<f64> {
    let connection = open(path)?;
    connection.execute_batch(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INT NOT NULL DEFAULT 0,
             priority INT NOT NULL DEFAULT 0, runner TEXT, claimed_at INT, payload TEXT NOT NULL);
         CREATE INDEX waiting ON jobs (priority, id) WHERE state = 0;",
    )?;
    connection.execute(
        "INSERT INTO jobs (payload) WITH RECURSIVE n (i) AS (
             SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1
         ) SELECT 'job ' || i || printf('%.*c', 180, 'x') FROM n",
        [JOBS],
    )?;
    let start = Instant::now();
    let count = thread::scope(|scope| {
        let claimers: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || claim_until(path, number, start, time)))
            .collect();
        let join = |claimer: thread::ScopedJoinHandle<'_, _>| claimer.join().expect("no panic");
        claimers.into_iter().map(join).sum::<rusqlite::Result<u32>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let rows: u32 =
        connection.query_row("SELECT count(*) FROM jobs WHERE state = 1", [], |row| row.get(0))?;
    assert_eq!(rows, count, "no job was claimed twice");
    Ok(f64::from(count) / seconds)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(20))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

fn claim_until(path: &Path, number: u32, start: Instant, time: Duration) -> rusqlite::Result<u32> {
    let connection = open(path)?;
    let mut statement = connection.prepare(CLAIM)?;
    let runner = format!("r{number}");
    let mut count = 0;
    while start.elapsed() < time {
        let mut rows = statement.query([&runner])?;
        while rows.next()?.is_some() {
            count += 1;
        }
    }
    Ok(count)
}
