//! One connection of the pool with a transaction on it.

use deadpool_postgres::Object;
use futures_util::future::join;
use kiln_core::time::Timestamp;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{ToSql, Type};

use super::pipe::{self, Later};
use crate::StoreError;
use crate::sql::{Row, Value};

/// A connection that goes back to the pool only when its transaction has ended.
pub(crate) struct Session {
    connection: Option<Object>,
    open: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(connection: Object) -> Self {
        Self { connection: Some(connection), open: false }
    }

    fn connection(&self) -> &Object {
        self.connection.as_ref().expect("it is only taken away on drop")
    }

    /// Begins and asks for the time in one round trip.
    pub(super) async fn begin(&mut self, begin: &str) -> Result<Timestamp, StoreError> {
        self.open = true;
        let question =
            format!("{begin}; SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint");
        let messages = self.connection().simple_query(&question).await?;
        let time = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        let time: u64 = time.ok_or_else(|| StoreError::Database("it tells no time".to_owned()))?;
        Ok(Timestamp(kiln_fault::clock(time)))
    }

    /// Sends what is left and the commit right behind it. A statement that fails turns the commit into its
    /// opposite. After a connection was lost here, nobody knows whether the server committed.
    pub(super) async fn commit_after(mut self, later: Vec<Later>) -> Result<(), StoreError> {
        pipe::prepare(&self, &later).await?;
        let commit = self.connection().batch_execute("COMMIT");
        let (sent, committed) = join(pipe::send(&self, &later), commit).await;
        match committed {
            Ok(()) => {
                self.open = false;
                sent
            }
            // Without an answer, or with the one that the server goes down, it is in doubt.
            Err(error) if error.code().is_none_or(|code| code.code().starts_with("57P")) => {
                Err(StoreError::InDoubt(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn prepare(&self, sql: &str) -> Result<(), StoreError> {
        self.connection().prepare_cached(sql).await?;
        Ok(())
    }

    pub(super) async fn rollback(mut self) {
        self.open = self.connection().batch_execute("ROLLBACK").await.is_err();
    }

    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.connection().prepare_cached(sql).await?;
        let rows = self.connection().query(&statement, &by_reference(parameters)).await?;
        rows.iter().map(row_of).collect()
    }

    pub(crate) async fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        let statement = self.connection().prepare_cached(sql).await?;
        Ok(self.connection().execute(&statement, &by_reference(parameters)).await?)
    }

    pub(crate) async fn script(&self, text: &str) -> Result<(), StoreError> {
        Ok(self.connection().batch_execute(text).await?)
    }
}

impl Drop for Session {
    /// Work that was given up in the middle leaves its transaction open: such a connection is closed.
    fn drop(&mut self) {
        if self.open
            && let Some(connection) = self.connection.take()
        {
            drop(Object::take(connection));
        }
    }
}

fn by_reference(parameters: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect()
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let columns = row.columns().iter().enumerate();
    columns.map(|(at, column)| value_of(row, at, column.type_())).collect::<Result<_, _>>().map(Row)
}

fn value_of(row: &tokio_postgres::Row, at: usize, ty: &Type) -> Result<Value, StoreError> {
    Ok(match *ty {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.into(),
        Type::INT4 => row.try_get::<_, Option<i32>>(at)?.into(),
        Type::INT2 => row.try_get::<_, Option<i16>>(at)?.map(i32::from).into(),
        Type::BOOL => row.try_get::<_, Option<bool>>(at)?.into(),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.into(),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(at)?.into(),
        Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<&str>>(at)?.into(),
        _ => {
            let found = format!("the type `{ty}`");
            return Err(StoreError::Shape { column: at, found, expected: "a type that Kiln uses" });
        }
    })
}
