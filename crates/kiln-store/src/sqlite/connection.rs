//! One connection to the file, with our settings and our kind of rows.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{OpenFlags, params_from_iter};

use crate::StoreError;
use crate::sql::{Row, Value, for_sqlite};

/// How many statements stay prepared; more than the code has.
const PREPARED: usize = 512;

#[derive(Debug)]
pub(crate) struct Connection {
    inner: rusqlite::Connection,
    /// Whether anything was written since [`Connection::mark`].
    wrote: bool,
}

impl Connection {
    /// The connection that writes.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = rusqlite::Connection::open(path)?;
        // FULL: what was answered survives a power failure. Group commit pays for it.
        // The cache holds all pages that a batch changes, or they would go to the log more than once; a
        // long log, because a page that changes all the time goes back into the file once in its length.
        Self::set_up(
            connection,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
             PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 8000; \
             PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;",
        )
    }

    /// A connection that only looks.
    pub(crate) fn open_reader(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = rusqlite::Connection::open_with_flags(path, flags)?;
        Self::set_up(connection, "PRAGMA query_only = ON;")
    }

    fn set_up(connection: rusqlite::Connection, pragmas: &str) -> Result<Self, StoreError> {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        // A plan that depends on the values is made anew for each of them, which costs more than it gains.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(pragmas)?;
        Ok(Self { inner: connection, wrote: false })
    }

    pub(crate) fn rows(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.inner.prepare_cached(&for_sqlite(sql))?;
        self.wrote |= !statement.readonly();
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(parameters))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|column| Ok(value_of(row.get_ref(column)?)));
            found.push(Row(values.collect::<Result<_, rusqlite::Error>>()?));
        }
        Ok(found)
    }

    pub(crate) fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        let mut statement = self.inner.prepare_cached(&for_sqlite(sql))?;
        self.wrote |= !statement.readonly();
        let changed = statement.execute(params_from_iter(parameters))?;
        Ok(changed as u64)
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), StoreError> {
        self.wrote = true;
        Ok(self.inner.execute_batch(text)?)
    }

    /// From here on it is noted whether anything is written.
    pub(crate) fn mark(&mut self) {
        self.wrote = false;
    }

    /// Whether something was written since the mark.
    pub(crate) fn wrote(&self) -> bool {
        self.wrote
    }

    /// Whether no transaction is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.is_autocommit()
    }
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}
