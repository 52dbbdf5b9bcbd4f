//! Flushes what was committed on a thread of its own, while the writer goes on.
//!
//! SQLite puts a commit into its log and leaves it to us when that reaches the disk (`synchronous = NORMAL`). One flush
//! covers everything that was committed before it, and nobody hears of a commit before its flush.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::writer::{Work, answer};
use crate::StoreError;
use crate::signal::Hub;

/// How many batches may be committed and not flushed. The writer waits for the disk when there are more.
const AHEAD: usize = 4;

type Batch = Vec<Box<dyn Work>>;

/// The way to the thread that flushes. It ends, with everything flushed, when this is dropped.
#[derive(Debug)]
pub(super) struct Flusher {
    /// Always there until the drop.
    queue: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
    /// Why nothing may be written any more.
    broken: Arc<OnceLock<String>>,
}

impl Flusher {
    /// `flush` brings everything that was committed to the disk.
    pub(super) fn start<F>(flush: F, hub: Arc<Hub>) -> io::Result<Self>
    where
        F: Fn() -> io::Result<()> + Send + 'static,
    {
        let (queue, receiver) = sync_channel(AHEAD);
        let broken = Arc::new(OnceLock::new());
        let seen = Arc::clone(&broken);
        let thread = thread::Builder::new()
            .name("kiln-flusher".to_owned())
            .spawn(move || serve(&receiver, &flush, &seen, &hub))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), broken })
    }

    /// A batch that is committed: those who wait for it are told once it is flushed.
    pub(super) fn committed(&self, batch: Batch) {
        if self.queue.as_ref().is_none_or(|queue| queue.send(batch).is_err()) {
            self.give_up("the thread that flushes has ended");
        }
    }

    /// Nobody knows what is on the disk: nothing is written from here on.
    pub(super) fn give_up(&self, why: &str) {
        // Whoever comes second says the same.
        let _ = self.broken.set(why.to_owned());
    }

    /// Where it is seen that nothing may be written any more.
    pub(super) fn broken(&self) -> Broken {
        Broken(Arc::clone(&self.broken))
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.broken().check()
    }
}

/// Why nothing may be written any more, once that is so.
#[derive(Debug, Clone)]
pub(super) struct Broken(Arc<OnceLock<String>>);

impl Broken {
    /// Whether anything may be written. After a flush that failed nobody knows what is on the disk, and a second
    /// one would say that all is well: only a new start finds out.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.get() {
            Some(why) => Err(StoreError::ReadOnly(format!(
                "the disk failed to keep what was written ({why}); look after it and start Kiln again"
            ))),
            None => Ok(()),
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn serve<F>(receiver: &Receiver<Batch>, flush: &F, broken: &OnceLock<String>, hub: &Hub)
where
    F: Fn() -> io::Result<()>,
{
    while let Ok(mut batch) = receiver.recv() {
        while let Ok(next) = receiver.try_recv() {
            batch.extend(next);
        }
        let flushed = match broken.get() {
            Some(why) => Err(why.clone()),
            None => flush().map_err(|error| error.to_string()),
        };
        if let Err(why) = &flushed {
            // Whoever comes second says the same.
            let _ = broken.set(why.clone());
        }
        // Whoever listens must not end this thread, for which all others wait.
        let told = AssertUnwindSafe(|| answer(batch, &flushed.map_err(StoreError::InDoubt), hub));
        if catch_unwind(told).is_err() {
            let _ = broken.set("somebody panicked on hearing what was written".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use kiln_core::time::Timestamp;
    use tokio::sync::oneshot;

    use super::*;
    use crate::signal::Signals;
    use crate::sqlite::Connection;

    struct Written(Signals, oneshot::Sender<Result<(), StoreError>>);

    impl Work for Written {
        fn run(&mut self, _: &mut Connection, _: Timestamp) -> Result<(), StoreError> {
            Ok(())
        }

        fn signals(&self) -> &Signals {
            &self.0
        }

        fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
            let _ = self.1.send(committed);
        }
    }

    fn commit(flusher: &Flusher) -> oneshot::Receiver<Result<(), StoreError>> {
        let (sender, answer) = oneshot::channel();
        flusher.committed(vec![Box::new(Written(Signals::default(), sender))]);
        answer
    }

    /// S3
    #[test]
    fn nobody_hears_of_a_commit_before_it_is_flushed_and_one_flush_serves_many() {
        let (begun, begins) = channel();
        let (go, goes) = channel::<()>();
        let goes = Mutex::new(goes);
        let flush = move || {
            begun.send(()).map_err(io::Error::other)?;
            goes.lock().unwrap().recv().map_err(io::Error::other)
        };
        let flusher = Flusher::start(flush, Arc::default()).unwrap();
        let mut first = commit(&flusher);
        begins.recv().unwrap();
        // These come while the first flush is under way, and share the second.
        let mut others = [commit(&flusher), commit(&flusher)];
        first.try_recv().unwrap_err();
        go.send(()).unwrap();
        first.blocking_recv().unwrap().unwrap();
        begins.recv().unwrap();
        for other in &mut others {
            other.try_recv().unwrap_err();
        }
        go.send(()).unwrap();
        for other in others {
            other.blocking_recv().unwrap().unwrap();
        }
        begins.recv_timeout(Duration::from_millis(20)).unwrap_err();
    }

    #[test]
    fn after_a_flush_that_failed_nothing_is_said_to_be_written() {
        let answers = Mutex::new([Ok(()), Err(io::Error::other("no disk"))].into_iter());
        let flush = move || answers.lock().unwrap().next().unwrap_or(Ok(()));
        let flusher = Flusher::start(flush, Arc::default()).unwrap();
        commit(&flusher).blocking_recv().unwrap().unwrap();
        flusher.check().unwrap();
        let failed = commit(&flusher).blocking_recv().unwrap().unwrap_err();
        assert!(matches!(failed, StoreError::InDoubt(_)), "{failed}");
        // The next flush would succeed, and says nothing about what was lost before.
        let later = commit(&flusher).blocking_recv().unwrap().unwrap_err();
        assert!(matches!(later, StoreError::InDoubt(_)), "{later}");
        let refused = flusher.check().unwrap_err().to_string();
        assert!(refused.contains("no disk") && refused.contains("start Kiln again"), "{refused}");
    }
}
