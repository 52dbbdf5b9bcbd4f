//! What can be said about a database from outside, also about one that this Kiln must not use.

use std::path::Path;
use std::time::Duration;

use rusqlite::OpenFlags;

use crate::error::StoreError;
use crate::postgres::{APPLICATION, HINTS};
use crate::sql::Sql;
use crate::{Options, Store, Tx, migrate};

/// The tables whose rows say how much a Kiln has to do.
const MAIN: &[&str] = &[
    "organizations",
    "users",
    "repositories",
    "workflows",
    "runs",
    "jobs",
    "steps",
    "queue",
    "runners",
    "events",
    "artifacts",
    "caches",
    "blobs",
];

/// The state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The newest step of the schema that was applied; 0 when there is none.
    pub version: i64,
    /// The newest step that this binary knows.
    pub newest: i64,
    /// The steps that are missing.
    pub pending: Vec<(i64, &'static str)>,
    /// A copy into it began and did not end.
    pub incomplete: bool,
    pub bytes: i64,
    /// The main tables and their rows.
    pub rows: Vec<(&'static str, Rows)>,
    /// Whether there are tables although there is no schema of ours.
    pub foreign: bool,
}

/// How many rows a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Exactly(i64),
    /// To count so many would take too long.
    About(i64),
}

/// How many rows are counted.
const COUNTED: i64 = 10_000;

impl Store {
    /// How many servers listen at this database, this one with them. One for a file.
    pub async fn servers(&self) -> Result<u64, StoreError> {
        let count = async |tx: &mut Tx<'_>| {
            if !tx.is_postgres() {
                return Ok(1);
            }
            let question = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
                AND datname = current_database()";
            tx.rows(question, &[HINTS.into()]).await?[0].get::<i64>(0)
        };
        Ok(self.read(count).await?.unsigned_abs())
    }

    /// Describes the database and refuses none.
    pub async fn describe(&self) -> Result<Description, StoreError> {
        self.read(async |tx: &mut Tx<'_>| describe(tx).await).await
    }
}

async fn describe(tx: &mut Tx<'_>) -> Result<Description, StoreError> {
    let size = Sql::of(
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        "SELECT pg_database_size(current_database())",
    );
    let names = Sql::of(
        "SELECT name FROM sqlite_master WHERE type = 'table'",
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    );
    let names = tx.rows(names, &[]).await?;
    let names = names.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    let version = migrate::version(tx).await?;
    let mut rows = Vec::new();
    for table in MAIN.iter().filter(|table| version > 0 && names.iter().any(|name| name == *table))
    {
        rows.push((*table, count(tx, table).await?));
    }
    Ok(Description {
        version,
        newest: migrate::newest(),
        pending: migrate::pending(version),
        incomplete: migrate::is_incomplete(tx).await?,
        bytes: tx.one("size", size, &[]).await?.get(0)?,
        rows,
        foreign: version == 0 && !names.is_empty(),
    })
}

/// Counts the rows of a table up to a bound; beyond it, what the database believes must do.
async fn count(tx: &mut Tx<'_>, table: &str) -> Result<Rows, StoreError> {
    let bounded =
        format!("SELECT count(*) FROM (SELECT 1 FROM \"{table}\" LIMIT {COUNTED}) AS first");
    let counted: i64 = tx.rows_of(&bounded, &[]).await?[0].get(0)?;
    if counted < COUNTED {
        return Ok(Rows::Exactly(counted));
    }
    let believed = if tx.is_postgres() {
        // A table that is cut knows nothing of its rows before somebody analyzes it; its partitions do.
        let sql = "SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class
             WHERE oid = to_regclass($1) AND relkind = 'r'
                OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass($1))";
        tx.rows_of(sql, &[table.into()]).await?[0].get(0)?
    } else if ["queue", "jobs"].contains(&table) {
        // They have no row ids that count.
        let all = format!("SELECT count(*) FROM {table}");
        return Ok(Rows::Exactly(tx.rows_of(&all, &[]).await?[0].get(0)?));
    } else {
        // Two looks at the ends; each alone is found without a search, both together are not.
        let span = format!(
            "SELECT (SELECT max(rowid) FROM \"{table}\") - (SELECT min(rowid) FROM \"{table}\") + 1"
        );
        tx.rows_of(&span, &[]).await?[0].get(0)?
    };
    Ok(Rows::About(counted.max(believed)))
}

/// How often, and how long, somebody who is just leaving is waited for.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(50);

/// Whether somebody else has the database open. On PostgreSQL only a Kiln counts.
pub async fn is_in_use(options: &Options) -> Result<bool, StoreError> {
    let looker = match options {
        Options::Sqlite { path } => Looker::File(path),
        // One connection, so that we do not take ourselves for somebody else.
        Options::Postgres { url, .. } => {
            let options = Options::Postgres { url: url.clone(), connections: 1 };
            Looker::Server(Store::open(&options)?)
        }
    };
    for look in 1..=LOOKS {
        let in_use = match &looker {
            Looker::File(path) => is_file_open(path)?,
            Looker::Server(store) => has_others(store).await?,
        };
        if !in_use {
            return Ok(false);
        }
        if look < LOOKS {
            tokio::time::sleep(BETWEEN).await;
        }
    }
    Ok(true)
}

enum Looker<'p> {
    File(&'p Path),
    Server(Store),
}

async fn has_others(server: &Store) -> Result<bool, StoreError> {
    let others = async |tx: &mut Tx<'_>| {
        let question = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
            AND datname = current_database() AND pid <> pg_backend_pid()";
        tx.rows(question, &[APPLICATION.into()]).await?[0].get::<i64>(0)
    };
    Ok(server.read(others).await? > 0)
}

/// Nobody can have the file alone while somebody else has it open.
fn is_file_open(path: &Path) -> Result<bool, StoreError> {
    if !path.exists() {
        return Ok(false);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    let alone = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK;";
    match connection.execute_batch(alone).map_err(StoreError::from) {
        Err(error) if error.is_transient() => Ok(true),
        other => other.map(|()| false),
    }
}
