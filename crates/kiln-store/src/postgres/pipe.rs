//! Statements whose answers nobody waits for travel with the next one that is waited for.

use futures_util::future::{join, join_all};

use super::Session;
use crate::StoreError;
use crate::sql::{Row, Value};

/// A session, and what is still to be sent to it.
#[derive(Debug)]
pub(crate) struct Pipe<'s> {
    session: &'s Session,
    later: Vec<Later>,
}

/// A statement that changes something. If it fails, so does the transaction.
#[derive(Debug)]
pub(crate) struct Later {
    sql: &'static str,
    parameters: Vec<Value>,
}

impl<'s> Pipe<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        Self { session, later: Vec::new() }
    }

    /// Takes a statement along; it happens before whatever is asked next, or before the commit.
    pub(crate) fn later(&mut self, sql: &'static str, parameters: Vec<Value>) {
        self.later.push(Later { sql, parameters });
    }

    pub(crate) async fn rows(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let mut answers = self.rows_together(&[(sql, parameters)]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// The rows of several questions, none of which waits for the answer to another.
    pub(crate) async fn rows_together(
        &mut self,
        questions: &[(&str, &[Value])],
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let later = std::mem::take(&mut self.later);
        prepare(self.session, &later).await?;
        for (sql, _) in questions {
            self.session.prepare(sql).await?;
        }
        // One right behind the other. What fails of the first makes the others fail, too.
        let asked = questions.iter().map(|(sql, parameters)| self.session.rows(sql, parameters));
        let (sent, rows) = join(send(self.session, &later), join_all(asked)).await;
        sent?;
        rows.into_iter().collect()
    }

    pub(crate) async fn execute(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<u64, StoreError> {
        self.flush().await?;
        self.session.execute(sql, parameters).await
    }

    pub(crate) async fn script(&mut self, text: &str) -> Result<(), StoreError> {
        self.flush().await?;
        self.session.script(text).await
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        let later = std::mem::take(&mut self.later);
        prepare(self.session, &later).await?;
        send(self.session, &later).await
    }

    pub(crate) fn into_later(self) -> Vec<Later> {
        self.later
    }
}

/// Lets the server know these statements; those that it does not know yet would lose their place in the
/// order of [`send`].
pub(super) async fn prepare(session: &Session, later: &[Later]) -> Result<(), StoreError> {
    for statement in later {
        session.prepare(statement.sql).await?;
    }
    Ok(())
}

/// Sends all of these at once. The server takes them one after the other, in this order.
pub(super) async fn send(session: &Session, later: &[Later]) -> Result<(), StoreError> {
    let sent = later.iter().map(|statement| session.execute(statement.sql, &statement.parameters));
    join_all(sent).await.into_iter().try_for_each(|answer| answer.map(|_| ()))
}
