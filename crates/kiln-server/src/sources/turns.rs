//! Who may keep a thread busy with git: so many at once, so that slow repositories and slow clients leave
//! threads for everybody else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SourceError;

/// How many do the same kind of thing at once.
const AT_ONCE: usize = 32;
/// How long somebody waits for a turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Turns for one kind of work. Clones are the same turns.
#[derive(Debug, Clone)]
pub struct Turns {
    free: Arc<Semaphore>,
    patience: Duration,
}

/// Held as long as the work takes.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(AT_ONCE, PATIENCE)
    }
}

impl Turns {
    fn new(at_once: usize, patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(at_once)), patience }
    }

    /// Waits for a turn, but not for ever.
    pub async fn next(&self) -> Result<Turn, SourceError> {
        let free = Arc::clone(&self.free).acquire_owned();
        match tokio::time::timeout(self.patience, free).await {
            Ok(Ok(permit)) => Ok(Turn { _permit: permit }),
            _ => Err(SourceError::Busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_had_when_another_ends_and_refused_when_none_does() {
        let turns = Turns::new(2, Duration::from_secs(20));
        let first = turns.next().await.unwrap();
        let _second = turns.next().await.unwrap();
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { turns.next().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        let _third = waiting.await.unwrap().unwrap();
        let hasty = Turns { patience: Duration::from_millis(10), ..turns };
        let refused = hasty.next().await.unwrap_err();
        assert!(refused.to_string().contains("too much at once"), "{refused}");
    }
}
