//! How many connections there is room for: what is set, and what the system lets a process open.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Files that a server opens beside its connections: the database, logs, git.
const OWN_FILES: u64 = 256;
/// For so long nobody can be let in before it is said, and said again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The places of clients and runners.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    count: usize,
}

impl Places {
    /// As many as are wanted, if the system allows that many open files. Many systems begin with 1,024 and
    /// let a process ask for more, so that is asked for.
    pub(crate) fn new(wanted: usize) -> Self {
        let count = wanted.min(places_within(open_files(wanted as u64 + OWN_FILES)));
        if count < wanted {
            tracing::warn!(
                wanted,
                count,
                "fewer connections than `limits.connections` are possible: raise the limit of open files \
                 (`LimitNOFILE=` of the unit, `ulimit -n`)"
            );
        }
        Self { free: Arc::new(Semaphore::new(count)), count }
    }

    /// The next free place. That there is none for long is said, since those who wait outside hear nothing.
    pub(crate) async fn next(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.free).acquire_owned();
            if let Ok(place) = timeout(PATIENCE, place).await {
                return place.ok();
            }
            tracing::warn!(
                connections = self.count,
                "all places are taken and others wait: raise `limits.connections`"
            );
        }
    }
}

/// How many files may be open, after asking for as many as are wanted. Not for more: jobs of a runner in
/// this process inherit the limit, and some programs go through every number below it.
fn open_files(wanted: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let asked = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_none_or(|current| current >= asked) {
        return limit.current;
    }
    let raised = Rlimit { current: Some(asked), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(asked),
        Err(_) => limit.current,
    }
}

/// None is no limit.
fn places_within(files: Option<u64>) -> usize {
    let left = files.map_or(u64::MAX, |files| files.saturating_sub(OWN_FILES).max(files / 2));
    usize::try_from(left).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_kept_for_the_server_itself() {
        assert_eq!(places_within(Some(20_000)), 19_744);
        assert_eq!(places_within(Some(100)), 50);
        assert_eq!(places_within(Some(0)), 1);
        assert_eq!(places_within(None), Semaphore::MAX_PERMITS);
    }

    #[tokio::test]
    async fn a_place_that_is_left_is_taken_by_the_next() {
        let places = Places::new(1);
        let first = places.next().await.expect("a place");
        let mut second = std::pin::pin!(places.next());
        assert!(timeout(Duration::from_millis(10), second.as_mut()).await.is_err());
        drop(first);
        assert!(second.await.is_some());
    }
}
