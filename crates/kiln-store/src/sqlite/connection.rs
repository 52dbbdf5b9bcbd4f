//! One connection to the file, with our settings and our kind of rows.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, OpenFlags, params_from_iter};

use super::frames;
use crate::StoreError;
use crate::runs::Memory;
use crate::sql::{Row, Value, for_sqlite};

/// How many statements stay prepared; more than the code has.
const PREPARED: usize = 512;

#[derive(Debug)]
pub(crate) struct Connection {
    inner: rusqlite::Connection,
    /// Statements of the code, by the address and the length of their text.
    texts: HashMap<(usize, usize), Text>,
    /// Only of the connection that writes.
    memory: Option<Memory>,
    /// The state of the file as another connection left it last.
    version: i64,
    /// Whether anything was written since [`Connection::mark`].
    wrote: bool,
}

/// A statement as SQLite understands it.
#[derive(Debug)]
struct Text {
    sqlite: Box<str>,
    /// The same for [`MANY`] rows at once, if it adds rows and does nothing else.
    many: Option<Box<str>>,
    changes_runs: bool,
}

impl Text {
    fn of(sql: &str) -> Self {
        let sqlite = for_sqlite(sql).into();
        Self { sqlite, many: for_many(sql), changes_runs: changes_runs(sql) }
    }

    /// Runs it for each of these rows and says how many it changed.
    fn run(&self, on: &rusqlite::Connection, mut rows: &[Vec<Value>]) -> Result<u64, StoreError> {
        let mut changed = 0;
        if let Some(many) = self.many.as_ref().filter(|_| rows.len() >= MANY) {
            let mut statement = on.prepare_cached(many)?;
            while let Some((piece, rest)) = rows.split_at_checked(MANY) {
                changed += statement.execute(params_from_iter(piece.iter().flatten()))?;
                rows = rest;
            }
        }
        if !rows.is_empty() {
            let mut statement = on.prepare_cached(&self.sqlite)?;
            for row in rows {
                changed += statement.execute(params_from_iter(row))?;
            }
        }
        Ok(changed as u64)
    }
}

/// How many rows go into a table by one statement.
const MANY: usize = 8;

/// `INSERT INTO … VALUES ($1, …)` for many rows. When one of them cannot be added, those before it stay
/// until the transaction is undone: for everything else, SQLite would copy each page before it changes.
fn for_many(sql: &str) -> Option<Box<str>> {
    let (head, values) = sql.split_once("VALUES (")?;
    let head = head.trim_start().strip_prefix("INSERT INTO ")?;
    let values: Vec<&str> = values.trim_end().strip_suffix(')')?.split(", ").collect();
    let number = |value: &str| value.strip_prefix('$').map(str::parse::<usize>);
    let count = values
        .iter()
        .filter_map(|value| number(value))
        .try_fold(0, |most, number| number.map(|number| most.max(number)));
    let count = count.ok()?;
    let is_plain = |value: &&str| value.starts_with('$') || value.parse::<i64>().is_ok();
    if !values.iter().all(is_plain) {
        return None;
    }
    let row = |at: usize| {
        let value = |value: &&str| match number(value) {
            Some(Ok(number)) => format!("?{}", at * count + number),
            _ => (*value).to_owned(),
        };
        format!("({})", values.iter().map(value).collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = (0..MANY).map(row).collect();
    Some(format!("INSERT OR FAIL INTO {head}VALUES {}", rows.join(", ")).into())
}

/// Whether a statement, if it writes at all, may change rows that are remembered. A new run is not.
fn changes_runs(sql: &str) -> bool {
    let names = ["jobs", "run_attempts", "run_scopes", "run_nodes", "UPDATE runs", "FROM runs"];
    names.iter().any(|name| sql.contains(name))
}

impl Connection {
    /// The connection that writes.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = match frames::vfs() {
            Some(vfs) => {
                rusqlite::Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs)?
            }
            None => rusqlite::Connection::open(path)?,
        };
        // NORMAL: a commit is not flushed by SQLite; see `flush`, which does it before anything is answered.
        // The cache holds all pages that a batch changes, or they would go to the log more than once; a
        // long log, because a page that changes all the time goes back into the file once in its length.
        let opened = Self::set_up(
            connection,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; \
             PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 8000; \
             PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;",
        )?;
        Ok(Self { memory: Some(Memory::default()), ..opened })
    }

    /// The log into which it commits, to be flushed by whoever answers for that. One handle for as long as it is used:
    /// the system tells each handle once that it could not write, and one that is opened later is not told.
    /// None for a connection that only looks.
    pub(crate) fn log(&self) -> Result<Option<File>, StoreError> {
        if self.memory.is_none() {
            return Ok(None);
        }
        // The first look makes the log. It lies beside the file itself, wherever a link to that was.
        self.inner.execute_batch("SELECT count(*) FROM sqlite_schema")?;
        let path = format!("{}-wal", self.inner.path().unwrap_or_default());
        let opened = File::open(&path);
        let wrong = |error| StoreError::Database(format!("cannot open its log `{path}`: {error}"));
        opened.map(Some).map_err(wrong)
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
        let texts = HashMap::new();
        Ok(Self { inner: connection, texts, memory: None, version: 0, wrote: false })
    }

    pub(crate) fn rows(
        &mut self,
        sql: &'static str,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        self.rows_into(&mut found, sql, [parameters])?;
        Ok(found)
    }

    /// The rows for each of these lists of parameters, one after the other.
    pub(crate) fn rows_each(
        &mut self,
        sql: &'static str,
        parameters: &[Vec<Value>],
    ) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::with_capacity(parameters.len());
        self.rows_into(&mut found, sql, parameters.iter().map(Vec::as_slice))?;
        Ok(found)
    }

    fn rows_into<'p>(
        &mut self,
        found: &mut Vec<Row>,
        sql: &'static str,
        parameters: impl IntoIterator<Item = &'p [Value]>,
    ) -> Result<(), StoreError> {
        let text = text_of(&mut self.texts, sql);
        let mut statement = self.inner.prepare_cached(&text.sqlite)?;
        if !statement.readonly() {
            self.wrote = true;
            forget_if(text.changes_runs, &mut self.memory);
        }
        parameters.into_iter().try_for_each(|row| rows_of(&mut statement, row, found))
    }

    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        parameters: &[Value],
    ) -> Result<u64, StoreError> {
        let text = text_of(&mut self.texts, sql);
        let mut statement = self.inner.prepare_cached(&text.sqlite)?;
        if !statement.readonly() {
            self.wrote = true;
            forget_if(text.changes_runs, &mut self.memory);
        }
        Ok(statement.execute(params_from_iter(parameters))? as u64)
    }

    /// Runs a statement that writes for each of these rows.
    pub(crate) fn execute_each(
        &mut self,
        sql: &'static str,
        rows: &[Vec<Value>],
    ) -> Result<u64, StoreError> {
        self.wrote = true;
        let text = text_of(&mut self.texts, sql);
        forget_if(text.changes_runs, &mut self.memory);
        text.run(&self.inner, rows)
    }

    /// Like [`Self::execute_each`], by one who keeps the memory up to date.
    pub(crate) fn execute_remembered(
        &mut self,
        sql: &'static str,
        rows: &[Vec<Value>],
    ) -> Result<u64, StoreError> {
        self.wrote = true;
        text_of(&mut self.texts, sql).run(&self.inner, rows)
    }

    /// Rows of a statement that was made while the program runs.
    pub(crate) fn rows_made(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.inner.prepare_cached(&for_sqlite(sql))?;
        if !statement.readonly() {
            self.wrote = true;
            forget_if(true, &mut self.memory);
        }
        let mut found = Vec::new();
        rows_of(&mut statement, parameters, &mut found)?;
        Ok(found)
    }

    pub(crate) fn execute_made(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<u64, StoreError> {
        self.wrote = true;
        forget_if(true, &mut self.memory);
        let mut statement = self.inner.prepare_cached(&for_sqlite(sql))?;
        Ok(statement.execute(params_from_iter(parameters))? as u64)
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), StoreError> {
        self.wrote = true;
        self.forget();
        Ok(self.inner.execute_batch(text)?)
    }

    /// Begins to write. Nobody else does until the end; what others have done before is seen.
    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        self.execute("BEGIN IMMEDIATE", &[])?;
        let noticed = self.notice_others();
        if noticed.is_err() {
            self.undo();
        }
        noticed
    }

    /// Forgets everything if another connection has written.
    fn notice_others(&mut self) -> Result<(), StoreError> {
        let version = self.rows("PRAGMA data_version", &[])?;
        let version = version.first().map_or(Ok(0), |row| row.get(0))?;
        if std::mem::replace(&mut self.version, version) != version {
            self.forget();
        }
        Ok(())
    }

    /// What was written since the transaction began is undone.
    pub(crate) fn undo(&mut self) {
        self.forget();
        if !self.is_idle() {
            // What cannot even be rolled back is rolled back by the next start.
            let _ = self.execute("ROLLBACK", &[]);
        }
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

    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// What is remembered is not to be relied on.
    pub(crate) fn forget(&mut self) {
        forget_if(true, &mut self.memory);
    }
}

fn forget_if(condition: bool, memory: &mut Option<Memory>) {
    if condition && let Some(memory) = memory {
        memory.forget();
    }
}

fn text_of<'t>(texts: &'t mut HashMap<(usize, usize), Text>, sql: &'static str) -> &'t Text {
    texts.entry((sql.as_ptr().addr(), sql.len())).or_insert_with(|| Text::of(sql))
}

fn rows_of(
    statement: &mut CachedStatement<'_>,
    parameters: &[Value],
    found: &mut Vec<Row>,
) -> Result<(), StoreError> {
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(parameters))?;
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            values.push(value_of(row.get_ref(column)?));
        }
        found.push(Row(values));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::{Connection, for_many};

    /// S3
    #[test]
    fn the_log_that_is_flushed_is_the_one_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("disk")).unwrap();
        let (file, link) = (folder.path().join("disk/kiln.db"), folder.path().join("kiln.db"));
        symlink(&file, &link).unwrap();
        let mut connection = Connection::open(&link).unwrap();
        let log = connection.log().unwrap().unwrap();
        assert_eq!(log.metadata().unwrap().len(), 0);
        connection.script("CREATE TABLE a (b)").unwrap();
        let written = std::fs::metadata(folder.path().join("disk/kiln.db-wal")).unwrap();
        assert_eq!(log.metadata().unwrap().ino(), written.ino());
        assert!(written.len() > 0);
        assert!(Connection::open_reader(&link).unwrap().log().unwrap().is_none());
    }

    #[test]
    fn plain_insertions_take_many_rows_and_nothing_else_does() {
        let many = for_many("INSERT INTO a (x, y, z) VALUES ($1, $2, 0)").unwrap();
        assert!(
            many.starts_with("INSERT OR FAIL INTO a (x, y, z) VALUES (?1, ?2, 0), (?3, ?4, 0), ")
        );
        assert!(many.ends_with(", (?15, ?16, 0)"), "{many}");
        for other in [
            "INSERT INTO a (x) VALUES ($1) ON CONFLICT (x) DO NOTHING",
            "INSERT INTO a (x) VALUES ($1) RETURNING x",
            "INSERT INTO a (x) VALUES (lower($1))",
            "UPDATE a SET x = $1",
        ] {
            assert_eq!(for_many(other), None, "{other}");
        }
    }
}
