//! Who watches a log on another server, and how those hear that it has grown.
//!
//! Servers read logs where all of them can; what they tell each other are hints. A server whose people watch a log
//! says so now and then, and the one that the log grows on says when there is more, as long as it heard of that.
//! Without a hint whoever watches looks by himself after a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_core::id::JobId;
use kiln_store::{Signal, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::bus::Bus;

/// How often others are told that a log is watched here.
pub const TELL: Duration = Duration::from_secs(5);
/// How long that holds for those who hear it.
const HOLDS: Duration = Duration::from_secs(15);
/// How many may watch by sockets of their own at once.
const VIEWERS: usize = 4_096;
/// A viewer that takes nothing for so long is gone; it can come back with what it saw last.
const TOO_SLOW: Duration = Duration::from_secs(30);
/// How many logs are remembered as watched.
const REMEMBERED: usize = 10_000;

/// Logs that are watched elsewhere. Clones are the same.
#[derive(Debug, Clone)]
pub struct Tails {
    store: Store,
    watched: Arc<Mutex<HashMap<JobId, Instant>>>,
    viewers: Arc<Semaphore>,
    too_slow: Duration,
}

impl Tails {
    /// Listens until the bus is gone. Must be called where tokio runs.
    pub fn start(store: &Store, bus: &Bus) -> Self {
        let watched = Arc::new(Mutex::new(HashMap::new()));
        let (mut ear, weak) = (bus.listen(), Arc::downgrade(&watched));
        tokio::spawn(async move {
            loop {
                let signal = ear.next().await;
                let Some(watched) = weak.upgrade() else { return };
                if let Signal::Watch(job) = signal {
                    note(&watched, job);
                }
            }
        });
        let viewers = Arc::new(Semaphore::new(VIEWERS));
        Self { store: store.clone(), watched, viewers, too_slow: TOO_SLOW }
    }

    /// With another patience for viewers, for tests.
    #[must_use]
    pub fn cutting_after(self, too_slow: Duration) -> Self {
        Self { too_slow, ..self }
    }

    /// How long a viewer may take nothing.
    pub fn too_slow(&self) -> Duration {
        self.too_slow
    }

    /// A place for somebody who watches by a socket, which is no connection of the server any more; none if there
    /// are too many.
    pub fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.viewers).try_acquire_owned().ok()
    }

    /// Somebody watches the log of a job here.
    pub fn watch(&self, job: JobId) {
        self.store.hint_others(Signal::Watch(job));
    }

    /// The log of a job has grown here.
    pub fn grew(&self, job: JobId) {
        let until = locked(&self.watched).get(&job).copied();
        if until.is_some_and(|until| Instant::now() < until) {
            self.store.hint_others(Signal::Log(job));
        }
    }
}

fn note(watched: &Mutex<HashMap<JobId, Instant>>, job: JobId) {
    let now = Instant::now();
    let mut watched = locked(watched);
    if watched.len() >= REMEMBERED {
        watched.retain(|_, until| now < *until);
    }
    if watched.len() < REMEMBERED {
        watched.insert(job, now + HOLDS);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
