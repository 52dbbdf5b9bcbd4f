//! The one thread that writes. What waits for it when it begins shares one commit, which another thread flushes.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use kiln_core::time::Timestamp;
use kiln_fault::Point;
use tokio::sync::{mpsc, oneshot, watch};

use super::Connection;
use super::flush::{Broken, Flusher};
use crate::signal::{Hub, Origin, Signals};
use crate::{StoreError, Tx};

/// How much work may wait before callers are held back.
const QUEUE: usize = 4_096;
/// How much work shares a commit at most, so that nobody's answer waits for long.
const BATCH: usize = 512;

/// The way to the writer thread. The thread ends with the last of its clones.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Work>>,
    /// Says nothing, and ends when the thread has closed its connection.
    ended: watch::Receiver<()>,
    broken: Broken,
}

/// Work that was not answered yet. It can be run again: a failed commit undoes it.
pub(super) trait Work: Send {
    fn run(&mut self, connection: &mut Connection, now: Timestamp) -> Result<(), StoreError>;
    /// What those who listen must hear, after the commit.
    fn signals(&self) -> &Signals;
    /// Tells the caller, after the commit.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

impl std::fmt::Debug for dyn Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

struct Call<T, F> {
    work: F,
    result: Option<Result<T, StoreError>>,
    signals: Signals,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Call<T, F>
where
    F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
    T: Send + 'static,
{
    fn run(&mut self, connection: &mut Connection, now: Timestamp) -> Result<(), StoreError> {
        let (result, signals) = now_or_never(&self.work, connection, now);
        let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        self.signals = signals;
        outcome
    }

    fn signals(&self) -> &Signals {
        &self.signals
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = committed.and(self.result.unwrap_or(Err(StoreError::Closed)));
        // Whoever does not wait any more does not want to know.
        let _ = self.caller.send(result);
    }
}

/// Runs work that may wait for nothing but this connection, which never makes it wait. Work that failed
/// has nothing to signal.
pub(super) fn now_or_never<T, F>(
    work: &F,
    connection: &mut Connection,
    now: Timestamp,
) -> (Result<T, StoreError>, Signals)
where
    F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError>,
{
    let mut tx = Tx::sqlite(connection, now);
    let polled = catch_unwind(AssertUnwindSafe(|| {
        pin!(work(&mut tx)).poll(&mut Context::from_waker(Waker::noop()))
    }));
    let failed = match polled {
        Ok(Poll::Ready(Ok(answer))) => return (Ok(answer), tx.into_signals()),
        Ok(Poll::Ready(Err(error))) => error,
        Ok(Poll::Pending) => StoreError::Waited,
        Err(panic) => StoreError::panicked(panic.as_ref()),
    };
    (Err(failed), Signals::default())
}

impl Writer {
    pub(super) fn start(connection: Connection, hub: Arc<Hub>) -> Result<Self, StoreError> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let (ending, ended) = watch::channel(());
        let no_thread = |error| StoreError::Database(format!("cannot start a thread: {error}"));
        let log = connection.log()?;
        let flush = move || log.as_ref().map_or(Ok(()), File::sync_data);
        let flusher = Flusher::start(flush, Arc::clone(&hub)).map_err(no_thread)?;
        let broken = flusher.broken();
        thread::Builder::new()
            .name("kiln-writer".to_owned())
            .spawn(move || {
                serve(connection, receiver, flusher, &hub);
                drop(ending);
            })
            .map_err(no_thread)?;
        Ok(Self { queue, ended, broken })
    }

    /// Waits until the last clone is gone and the connection is closed.
    pub(super) async fn close(self) {
        let Self { queue, mut ended, .. } = self;
        drop(queue);
        while ended.changed().await.is_ok() {}
    }

    /// Whether the disk still keeps what is written.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.broken.check()
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let call = Box::new(Call { work, result: None, signals: Signals::default(), caller });
        self.queue.send(call).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

fn serve(
    mut connection: Connection,
    mut receiver: mpsc::Receiver<Box<dyn Work>>,
    flusher: Flusher,
    hub: &Hub,
) {
    while let Some(first) = receiver.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(next) = receiver.try_recv()
        {
            batch.push(next);
        }
        match flusher.check() {
            Ok(()) => serve_batch(&mut connection, batch, &flusher, hub),
            broken => answer(batch, &broken, hub),
        }
    }
    // Everything is answered before the file is closed.
    drop(flusher);
}

/// How the parts of a batch are kept from each other.
#[derive(Debug, Clone, Copy)]
enum Parts {
    /// Not at all: one that fails after it wrote something spoils the batch. A part that is refused is
    /// refused before it writes, so this is rare.
    Open,
    /// By savepoints, for which SQLite copies each page before it changes.
    Guarded,
}

/// How the transaction of a batch ended.
#[derive(Debug, Clone, Copy)]
enum Ended {
    Committed,
    /// A part failed and left something behind: all of it was undone.
    Spoilt,
}

/// Runs a batch and commits it. One part must not sink the others: if one spoils the batch it is run
/// again with a guard around each, and if the commit fails each part is tried alone.
fn serve_batch(
    connection: &mut Connection,
    mut batch: Vec<Box<dyn Work>>,
    flusher: &Flusher,
    hub: &Hub,
) {
    // A file that somebody else keeps locked is locked for each of them.
    if let Err(error) = connection.begin() {
        return answer(batch, &Err(error), hub);
    }
    let mut ended = commit(connection, &mut batch, Parts::Open);
    // SQLite itself could not flush: trying again would succeed, and prove nothing.
    if let Err(StoreError::InDoubt(why)) = &ended {
        flusher.give_up(why);
        return answer(batch, &ended.map(|_| ()), hub);
    }
    // Alone, what failed has heard why, and is undone with its transaction.
    if matches!(ended, Ok(Ended::Spoilt)) && batch.len() > 1 {
        ended = begin_and_commit(connection, &mut batch);
    }
    match ended {
        Err(_) if batch.len() > 1 => {
            for work in batch {
                let mut alone = vec![work];
                match begin_and_commit(connection, &mut alone) {
                    Ok(_) => flusher.committed(alone),
                    Err(error) => answer(alone, &Err(error), hub),
                }
            }
        }
        Err(error) => answer(batch, &Err(error), hub),
        // Also what changed nothing waits for the flush: it may be about what was committed before.
        Ok(_) => flusher.committed(batch),
    }
}

fn begin_and_commit(
    connection: &mut Connection,
    batch: &mut [Box<dyn Work>],
) -> Result<Ended, StoreError> {
    connection.begin()?;
    commit(connection, batch, Parts::Guarded)
}

pub(super) fn answer(batch: Vec<Box<dyn Work>>, committed: &Result<(), StoreError>, hub: &Hub) {
    if committed.is_ok() {
        let mut signals = Signals::default();
        for work in &batch {
            signals.merge(work.signals());
        }
        hub.publish(&signals, Origin::Here);
    }
    for work in batch {
        work.answer(committed.clone());
    }
}

/// Runs what is in the batch in the transaction that was begun, and ends that.
fn commit(
    connection: &mut Connection,
    batch: &mut [Box<dyn Work>],
    parts: Parts,
) -> Result<Ended, StoreError> {
    let ended = run_all(connection, batch, parts);
    if !matches!(ended, Ok(Ended::Committed)) {
        connection.undo();
    }
    ended
}

fn run_all(
    connection: &mut Connection,
    batch: &mut [Box<dyn Work>],
    parts: Parts,
) -> Result<Ended, StoreError> {
    for work in batch {
        match parts {
            Parts::Guarded => run_guarded(connection, work.as_mut())?,
            Parts::Open => {
                connection.mark();
                let done = work.run(connection, crate::store::now());
                // Some errors of SQLite end the transaction by themselves.
                if done.is_err() && (connection.wrote() || connection.is_idle()) {
                    return Ok(Ended::Spoilt);
                }
            }
        }
    }
    Point::BeforeCommit.pass();
    connection.execute("COMMIT", &[])?;
    Point::AfterCommit.pass();
    Ok(Ended::Committed)
}

/// One part of a batch. What it did wrong is undone and is its own affair.
fn run_guarded(connection: &mut Connection, work: &mut dyn Work) -> Result<(), StoreError> {
    connection.execute("SAVEPOINT part", &[])?;
    if work.run(connection, crate::store::now()).is_err() {
        connection.forget();
        connection.execute("ROLLBACK TO part", &[])?;
    }
    connection.execute("RELEASE part", &[]).map(|_| ())
}
