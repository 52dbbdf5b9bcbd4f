//! The side of a copy that is written to.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalogue::{self, Table};
use super::counters::{self, Counters};
use crate::{Refusal, Store, StoreError, Tx, Value, migrate, partitions};

/// The database that a copy goes to.
#[derive(Debug)]
pub(super) struct Target<'s> {
    store: &'s Store,
    /// The partitions that are known to be there.
    partitions: BTreeSet<i64>,
}

impl<'s> Target<'s> {
    /// Takes an empty database and marks it as incomplete, in one step: of two copies that begin at
    /// once, one is refused.
    pub(super) async fn begin(store: &'s Store) -> Result<Self, StoreError> {
        store.write(async |tx: &mut Tx<'_>| mark(tx).await).await?;
        Ok(Self { store, partitions: BTreeSet::new() })
    }

    pub(super) async fn insert(
        &mut self,
        table: &Table,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), StoreError> {
        let missing: Vec<i64> =
            partitions_of(table, &rows).difference(&self.partitions).copied().collect();
        let known = missing.clone();
        let (table, rows) = (table.clone(), Arc::new(rows));
        let work = async move |tx: &mut Tx<'_>| {
            partitions::make(tx, &missing).await?;
            let statement = insert_statement(&table, tx.is_postgres());
            tx.execute_all_of(&statement, &rows).await
        };
        self.store.write(work).await?;
        self.partitions.extend(known);
        Ok(())
    }

    /// Makes the next ids follow the last ones, and room for the runs to come.
    pub(super) async fn settle(&self, source: Counters) -> Result<(), StoreError> {
        let work = async move |tx: &mut Tx<'_>| {
            counters::continue_from(tx, &source).await?;
            partitions::ensure(tx).await?;
            // Without it, PostgreSQL would plan for empty tables until it looks again.
            if tx.is_postgres() { tx.script("ANALYZE").await } else { Ok(()) }
        };
        self.store.write(work).await
    }

    /// Takes the mark away: the copy is whole.
    pub(super) async fn end(self) -> Result<(), StoreError> {
        self.store.write(async |tx: &mut Tx<'_>| tx.script("DROP TABLE copying").await).await
    }
}

/// Gives an empty database the newest schema. One that holds anything is left as it is.
pub async fn prepare(store: &Store) -> Result<(), StoreError> {
    store.status().await?;
    if store.describe().await?.foreign {
        let message = "the target holds tables that are not Kiln's; give a new database";
        return Err(Refusal::Conflict(message.to_owned()).into());
    }
    store.read(async |tx: &mut Tx<'_>| is_empty(tx).await).await?;
    store.migrate().await.map(|_| ())
}

async fn mark(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.lock(crate::tx::Lock::Schema).await?;
    migrate::must_be_complete(tx).await?;
    is_empty(tx).await?;
    tx.script("CREATE TABLE copying (started_at BIGINT NOT NULL)").await
}

async fn is_empty(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    for table in catalogue::tables(tx).await? {
        let question = format!("SELECT 1 FROM \"{}\" LIMIT 1", table.name);
        if !tx.rows_of(&question, &[]).await?.is_empty() {
            let message = format!(
                "the target is not empty: table `{}` has rows; give a new database",
                table.name
            );
            return Err(Refusal::Conflict(message).into());
        }
    }
    Ok(())
}

/// The partitions in which these rows lie.
fn partitions_of(table: &Table, rows: &[Vec<Value>]) -> BTreeSet<i64> {
    let column = partitions::column(&table.name).and_then(|column| table.position(column));
    let Some(column) = column else { return BTreeSet::new() };
    let part = |row: &Vec<Value>| match row[column] {
        Value::Int(run) => Some(partitions::part_of(run)),
        _ => None,
    };
    rows.iter().filter_map(part).collect()
}

/// One statement for each row on SQLite, one for all of them on PostgreSQL.
fn insert_statement(table: &Table, postgres: bool) -> String {
    let mark = |(at, kind): (usize, super::Kind)| {
        if postgres { format!("${}::{}", at + 1, kind.array()) } else { format!("${}", at + 1) }
    };
    let kinds = table.columns.iter().map(|column| column.kind).enumerate();
    let marks = kinds.map(mark).collect::<Vec<_>>().join(", ");
    let values = if postgres {
        format!("SELECT * FROM unnest({marks})")
    } else {
        format!("VALUES ({marks})")
    };
    format!("INSERT INTO \"{}\" ({}) {values}", table.name, table.listed())
}
