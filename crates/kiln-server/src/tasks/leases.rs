//! Gives back the jobs of runners that are not heard of any more.

use std::time::Duration;

use kiln_store::claims::LEASE;
use tokio::time::Instant;

use super::driver::{Done, Duty, Pass, Plan};
use super::timers::report;
use crate::app::App;

/// The reaper.
#[derive(Debug)]
pub(super) struct Leases {
    begun: Instant,
}

impl Leases {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now() }
    }
}

impl Duty for Leases {
    fn plan(&self) -> Plan {
        Plan { name: "leases", every: Duration::from_secs(2), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            // Runners could not be heard while there was no server or no database: each gets the time
            // of a lease to say that it lives.
            let begun = app.board.outage().map_or(self.begun, |outage| outage.max(self.begun));
            let left = LEASE.saturating_sub(begun.elapsed());
            if !left.is_zero() {
                let seconds = left.as_secs().max(1);
                return Ok(Done::said(format!("waits {seconds} s more for runners to be heard")));
            }
            report(&app.runs.reap().await?, "lost job", "lost jobs")
        })
    }
}
