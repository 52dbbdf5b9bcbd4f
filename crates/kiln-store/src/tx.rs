//! One transaction on either database.

use kiln_core::time::Timestamp;

use crate::postgres::{Later, Pipe};
use crate::runs::Memory;
use crate::signal::{Signal, Signals};
use crate::sql::{Row, Sql, Value};
use crate::sqlite::Connection;
use crate::{Refusal, StoreError};

/// What only one transaction may do at a time, on any server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Changes of the schema.
    Schema,
    /// Which lanes of the queue are empty. Shared by those who put jobs in.
    Lanes,
}

impl Lock {
    /// Its name in PostgreSQL: any number that nobody else uses.
    fn key(self) -> i64 {
        match self {
            Self::Schema => 7_163_518_295,
            Self::Lanes => 7_163_518_296,
        }
    }
}

/// A transaction under way. It commits when the closure that got it returns `Ok`.
#[derive(Debug)]
pub struct Tx<'t> {
    arm: Arm<'t>,
    now: Timestamp,
    signals: Signals,
    then: Then,
}

/// What is done after the commit, and only then.
#[derive(Default)]
pub(crate) struct Then(Vec<Box<dyn FnOnce() + Send>>);

impl Then {
    pub(crate) fn happen(self) {
        self.0.into_iter().for_each(|then| then());
    }
}

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Then({})", self.0.len())
    }
}

#[derive(Debug)]
enum Arm<'t> {
    Sqlite(&'t mut Connection),
    Postgres(Pipe<'t>),
}

impl<'t> Tx<'t> {
    pub(crate) fn sqlite(connection: &'t mut Connection, now: Timestamp) -> Self {
        Self::new(Arm::Sqlite(connection), now)
    }

    pub(crate) fn postgres(pipe: Pipe<'t>, now: Timestamp) -> Self {
        Self::new(Arm::Postgres(pipe), now)
    }

    fn new(arm: Arm<'t>, now: Timestamp) -> Self {
        Self { arm, now, signals: Signals::default(), then: Then::default() }
    }

    /// The database's time when the transaction began.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Tells those who listen, after the commit and only then.
    pub fn signal(&mut self, signal: Signal) {
        self.signals.add(signal);
    }

    /// Does something after the commit, and only then; never on SQLite, whose writer has a memory of its own.
    pub(crate) fn after_commit(&mut self, then: impl FnOnce() + Send + 'static) {
        self.then.0.push(Box::new(then));
    }

    pub(crate) fn into_signals(self) -> Signals {
        self.signals
    }

    /// What listeners are told and what is done after the commit, and what must be sent before it.
    pub(crate) fn into_parts(self) -> (Signals, Then, Vec<Later>) {
        let later = match self.arm {
            Arm::Sqlite(_) => Vec::new(),
            Arm::Postgres(pipe) => pipe.into_later(),
        };
        (self.signals, self.then, later)
    }

    /// Whether this is PostgreSQL, for the few places where more than a statement differs.
    pub fn is_postgres(&self) -> bool {
        matches!(self.arm, Arm::Postgres(_))
    }

    pub async fn rows(
        &mut self,
        sql: impl Into<Sql>,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.rows(sql.sqlite, parameters),
            Arm::Postgres(session) => session.rows(sql.postgres, parameters).await,
        }
    }

    /// The first row, if there is one.
    pub async fn row(
        &mut self,
        sql: impl Into<Sql>,
        parameters: &[Value],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, parameters).await?.into_iter().next())
    }

    /// The row that must be there.
    pub async fn one(
        &mut self,
        what: &'static str,
        sql: impl Into<Sql>,
        parameters: &[Value],
    ) -> Result<Row, StoreError> {
        let row = self.row(sql, parameters).await?;
        row.ok_or_else(|| Refusal::NotFound(what).into())
    }

    /// Runs a statement and says how many rows it changed.
    pub async fn execute(
        &mut self,
        sql: impl Into<Sql>,
        parameters: &[Value],
    ) -> Result<u64, StoreError> {
        let sql = sql.into();
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.execute(sql.sqlite, parameters),
            Arm::Postgres(session) => session.execute(sql.postgres, parameters).await,
        }
    }

    /// Runs a statement for each of these rows: one by one on SQLite, where that is cheap, and as one
    /// set-based statement on PostgreSQL, which gets each column as an array.
    pub async fn execute_all(&mut self, sql: Sql, rows: &[Vec<Value>]) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.execute_each(sql.sqlite, rows),
            Arm::Postgres(session) => session.execute(sql.postgres, &columns_of(rows)).await,
        }
    }

    /// Like [`Self::execute_all`] where nobody asks how many rows it changed: on PostgreSQL it travels
    /// with the next statement, or with the commit.
    pub(crate) fn write_all(&mut self, sql: Sql, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.execute_each(sql.sqlite, &rows).map(|_| ()),
            Arm::Postgres(pipe) => {
                pipe.later(sql.postgres, into_columns(rows));
                Ok(())
            }
        }
    }

    /// Like [`Self::write_all`] for rows of runs whose new state [`Self::memory`] hears of.
    pub(crate) fn write_remembered(
        &mut self,
        sql: Sql,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), StoreError> {
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.execute_remembered(sql.sqlite, &rows).map(|_| ()),
            Arm::Postgres(_) => self.write_all(sql, rows),
        }
    }

    /// What the writer of an embedded database remembers of runs.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.memory(),
            Arm::Postgres(_) => None,
        }
    }

    /// Asks the same for each of these rows of parameters, and gathers the answers: see
    /// [`Self::execute_all`].
    pub async fn rows_all(
        &mut self,
        sql: Sql,
        rows: &[Vec<Value>],
    ) -> Result<Vec<Row>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.rows_each(sql.sqlite, rows),
            Arm::Postgres(session) => session.rows(sql.postgres, &columns_of(rows)).await,
        }
    }

    /// The same for several questions, none of which waits for the answer to another.
    pub(crate) async fn rows_together<const N: usize>(
        &mut self,
        questions: [(Sql, Vec<Vec<Value>>); N],
    ) -> Result<[Vec<Row>; N], StoreError> {
        let mut answers = [const { Vec::new() }; N];
        let asked = questions.iter().enumerate().filter(|(_, (_, rows))| !rows.is_empty());
        match &mut self.arm {
            Arm::Sqlite(connection) => {
                for (at, (sql, rows)) in asked {
                    answers[at] = connection.rows_each(sql.sqlite, rows)?;
                }
            }
            Arm::Postgres(pipe) => {
                let asked: Vec<(usize, &str, Vec<Value>)> =
                    asked.map(|(at, (sql, rows))| (at, sql.postgres, columns_of(rows))).collect();
                let together: Vec<(&str, &[Value])> =
                    asked.iter().map(|(_, sql, columns)| (*sql, &columns[..])).collect();
                let found = pipe.rows_together(&together).await?;
                for ((at, ..), rows) in asked.iter().zip(found) {
                    answers[*at] = rows;
                }
            }
        }
        Ok(answers)
    }

    /// Waits until no other transaction holds the lock, and keeps it to the end. SQLite has one writer
    /// anyway.
    pub(crate) async fn lock(&mut self, lock: Lock) -> Result<(), StoreError> {
        if let Arm::Postgres(session) = &mut self.arm {
            let taken = "SELECT 1 FROM (SELECT pg_advisory_xact_lock($1)) AS taken";
            session.rows(taken, &[lock.key().into()]).await?;
        }
        Ok(())
    }

    /// Like [`Self::lock`], but together with others who share it.
    pub(crate) async fn share(&mut self, lock: Lock) -> Result<(), StoreError> {
        if let Arm::Postgres(session) = &mut self.arm {
            let taken = "SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared($1)) AS taken";
            session.rows(taken, &[lock.key().into()]).await?;
        }
        Ok(())
    }

    /// Rows of a statement that was made from the catalogue of the database.
    pub(crate) async fn rows_of(
        &mut self,
        text: &str,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.rows_made(text, parameters),
            Arm::Postgres(session) => session.rows(text, parameters).await,
        }
    }

    /// Runs such a statement for each of these rows, as `execute_all` does.
    pub(crate) async fn execute_all_of(
        &mut self,
        text: &str,
        rows: &[Vec<Value>],
    ) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        match &mut self.arm {
            Arm::Sqlite(connection) => {
                rows.iter().try_fold(0, |sum, row| Ok(sum + connection.execute_made(text, row)?))
            }
            Arm::Postgres(session) => session.execute(text, &columns_of(rows)).await,
        }
    }

    /// Several statements without parameters, for migrations.
    pub(crate) async fn script(&mut self, text: &str) -> Result<(), StoreError> {
        match &mut self.arm {
            Arm::Sqlite(connection) => connection.script(text),
            Arm::Postgres(session) => session.script(text).await,
        }
    }
}

/// An array for each column of these rows.
fn columns_of(rows: &[Vec<Value>]) -> Vec<Value> {
    let width = rows.first().map_or(0, Vec::len);
    (0..width).map(|at| rows.iter().map(|row| row[at].clone()).collect()).collect()
}

fn into_columns(rows: Vec<Vec<Value>>) -> Vec<Value> {
    let width = rows.first().map_or(0, Vec::len);
    let mut columns: Vec<Vec<Value>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    columns.into_iter().map(Value::Array).collect()
}

/// A time as columns keep it.
pub(crate) fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
