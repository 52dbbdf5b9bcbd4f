//! How long stopping may take.

use std::time::{Duration, Instant};

use super::clock;
use super::dispatcher::{Dispatcher, Stop};

/// How long the last words to the server, and the last files of jobs, may take at the end.
pub(super) const FAREWELL: Duration = Duration::from_secs(10);

/// How long a runner that was asked to stop may take.
#[derive(Default)]
pub(super) struct Limit(Option<(Stop, Instant)>);

impl Limit {
    /// A drain has its grace. In a hurry, what is left when all jobs have ended has a moment.
    pub(super) fn set(&mut self, dispatcher: &Dispatcher, grace: Option<Duration>) {
        let stop = dispatcher.stopping();
        let time = match stop {
            Stop::No => None,
            Stop::Drain => grace,
            Stop::HandBack | Stop::Kill => dispatcher.is_idle().then_some(FAREWELL),
        };
        let is_set = self.0.is_some_and(|(known, _)| known == stop);
        self.0 = match time {
            Some(_) if is_set => self.0,
            time => time.map(|time| (stop, clock::instant() + time)),
        };
    }

    /// Waits until the time is over, if there is a limit to it.
    pub(super) async fn over(&self) {
        match self.0 {
            Some((_, at)) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}
