//! Copies everything from one database into another of either kind, and checks that it arrived.
//!
//! The source is read in one transaction, so that the copy is one moment of it, whoever writes
//! meanwhile. The target carries a mark until every table was read back and compared: a copy that was
//! cut off is refused by whoever opens it.

mod catalogue;
mod counters;
mod pages;
mod tally;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use crate::{Refusal, Store, StoreError, Tx, Value};
use counters::Counters;
use pages::Pages;
use target::Target;

use catalogue::tables;
pub use catalogue::{Column, Kind, Table};
pub use tally::Tally;
pub use target::prepare;

/// How many pages may wait for the target.
const WAITING: usize = 2;

/// What a copy does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Copying,
    /// Reading the copy back.
    Checking,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'t> {
    pub phase: Phase,
    pub table: &'t str,
    pub done: u64,
    pub total: u64,
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    pub tables: usize,
    pub rows: u64,
}

/// Copies everything into an empty database with the same schema.
pub async fn copy(
    source: &Store,
    target: &Store,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Copied, StoreError> {
    let tables = Arc::new(same_schema(source, target).await?);
    let copies = target.tables().await?;
    let mut receiver = Target::begin(target).await?;
    let (sender, messages) = mpsc::channel(WAITING);
    let reading = read(source, Arc::clone(&tables), sender);
    let writing = write(&mut receiver, &tables, messages, progress);
    // When the target fails, the reader only notices that nobody listens.
    let (snapshot, written) = tokio::join!(reading, writing);
    written?;
    let Snapshot { tallies, counters } = snapshot?;
    receiver.settle(counters).await?;
    for (table, expected) in tables.iter().zip(&tallies) {
        let at = |done| Progress {
            phase: Phase::Checking,
            table: &table.name,
            done,
            total: expected.rows,
        };
        progress(at(0));
        // As the target knows it: the keys of the two may differ.
        let copy = copies.iter().find(|copy| copy.name == table.name).unwrap_or(table);
        let found = target.tally(copy).await.map_err(|error| within(table, &error))?;
        equal(table, *expected, found)?;
        progress(at(found.rows));
    }
    receiver.end().await?;
    Ok(Copied { tables: tables.len(), rows: tallies.iter().map(|tally| tally.rows).sum() })
}

impl Store {
    /// The tables that hold facts, each after those it refers to.
    pub async fn tables(&self) -> Result<Vec<Table>, StoreError> {
        self.read(async |tx: &mut Tx<'_>| tables(tx).await).await
    }

    /// Counts and sums up the rows of a table, over those columns that the argument names.
    pub async fn tally(&self, table: &Table) -> Result<Tally, StoreError> {
        let table = table.clone();
        let work = async move |tx: &mut Tx<'_>| {
            let (mut tally, columns) = (Tally::default(), table.compared());
            let mut pages = Pages::of(&table);
            loop {
                let page = pages.next(tx).await?;
                if page.is_empty() {
                    return Ok(tally);
                }
                tally.add(&page, &columns);
            }
        };
        self.read(work).await
    }
}

/// The tables of the source, if the target has the same.
async fn same_schema(source: &Store, target: &Store) -> Result<Vec<Table>, StoreError> {
    let (from, to) = (source.status().await?.version, target.status().await?.version);
    if from != to || from == 0 {
        let message = format!(
            "the source has schema {from}, the target {to}; `kiln db migrate` brings both to the newest"
        );
        return Err(Refusal::Conflict(message).into());
    }
    let (tables, others) = (source.tables().await?, target.tables().await?);
    let shape = |tables: &[Table]| {
        let mut shape: Vec<(String, Vec<Column>)> =
            tables.iter().map(|table| (table.name.clone(), table.columns.clone())).collect();
        shape.sort_by(|one, other| one.0.cmp(&other.0));
        shape
    };
    let (here, there) = (shape(&tables), shape(&others));
    let odd = here.iter().find(|table| !there.contains(table));
    let odd = odd.or_else(|| there.iter().find(|table| !here.contains(table)));
    match odd {
        None => Ok(tables),
        Some((name, _)) => {
            let message = format!("table `{name}` is not the same in both databases");
            Err(Refusal::Conflict(message).into())
        }
    }
}

/// What goes from the reader to the writer. Tables are named by their place.
#[derive(Debug)]
enum Message {
    Begin { table: usize, total: u64 },
    Rows { table: usize, rows: Vec<Vec<Value>> },
}

/// What is known of the source when all of it was read.
#[derive(Debug)]
struct Snapshot {
    tallies: Vec<Tally>,
    counters: Counters,
}

/// Reads everything in one transaction and sends it on.
async fn read(
    source: &Store,
    tables: Arc<Vec<Table>>,
    sender: mpsc::Sender<Message>,
) -> Result<Snapshot, StoreError> {
    let begun = AtomicBool::new(false);
    let work = async move |tx: &mut Tx<'_>| {
        if begun.swap(true, Ordering::Relaxed) {
            // A second try would send again what the target already has.
            let message = "the connection to the source was lost in the middle of the copy";
            return Err(StoreError::Database(message.to_owned()));
        }
        let mut tallies = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let tally = read_table(tx, at, table, &sender).await;
            tallies.push(tally.map_err(|error| within(table, &error))?);
        }
        Ok(Snapshot { tallies, counters: counters::counters(tx).await? })
    };
    source.read(work).await
}

async fn read_table(
    tx: &mut Tx<'_>,
    at: usize,
    table: &Table,
    sender: &mpsc::Sender<Message>,
) -> Result<Tally, StoreError> {
    let count = tx.rows_of(&format!("SELECT count(*) FROM \"{}\"", table.name), &[]).await?;
    let total = u64::try_from(count[0].get::<i64>(0)?).unwrap_or_default();
    send(tx, sender, Message::Begin { table: at, total }).await?;
    let (mut tally, columns) = (Tally::default(), table.compared());
    let mut pages = Pages::of(table);
    loop {
        let mut rows = pages.next(tx).await?;
        if rows.is_empty() {
            return Ok(tally);
        }
        if table.is_events() {
            pages::without_transactions(table, &mut rows);
        }
        tally.add(&rows, &columns);
        send(tx, sender, Message::Rows { table: at, rows }).await?;
    }
}

/// A reader of SQLite has a thread to itself and must not yield it; one of PostgreSQL must not block.
async fn send(
    tx: &Tx<'_>,
    sender: &mpsc::Sender<Message>,
    message: Message,
) -> Result<(), StoreError> {
    let sent =
        if tx.is_postgres() { sender.send(message).await } else { sender.blocking_send(message) };
    sent.map_err(|_| StoreError::Closed)
}

async fn write(
    target: &mut Target<'_>,
    tables: &[Table],
    mut messages: mpsc::Receiver<Message>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    let (mut done, mut total) = (0, 0);
    while let Some(message) = messages.recv().await {
        let table = match message {
            Message::Begin { table, total: rows } => {
                (done, total) = (0, rows);
                &tables[table]
            }
            Message::Rows { table, rows } => {
                let table = &tables[table];
                done += rows.len() as u64;
                target.insert(table, rows).await.map_err(|error| within(table, &error))?;
                table
            }
        };
        progress(Progress { phase: Phase::Copying, table: &table.name, done, total });
    }
    Ok(())
}

fn equal(table: &Table, expected: Tally, found: Tally) -> Result<(), StoreError> {
    if found == expected {
        return Ok(());
    }
    let difference = if found.rows == expected.rows {
        "the same number of rows, but not the same rows".to_owned()
    } else {
        format!("{} rows instead of {}", found.rows, expected.rows)
    };
    let message = format!("the copy of table `{}` has {difference}; begin again", table.name);
    Err(StoreError::Database(message))
}

/// Says in which table it happened.
fn within(table: &Table, error: &StoreError) -> StoreError {
    match error {
        StoreError::Closed => StoreError::Closed,
        error => StoreError::Database(format!("table `{}`: {error}", table.name)),
    }
}
