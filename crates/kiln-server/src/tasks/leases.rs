//! Gives back the jobs of runners that are not heard of any more.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::Tx;
use kiln_store::claims::lease_lasts;
use tokio::time::Instant;

use super::driver::{Done, Duty, Fault, Pass, Plan};
use super::timers::report;
use crate::app::App;

/// A clock that is off by more than this from one pass to the next was set.
const SET: Duration = Duration::from_secs(5);

/// The reaper.
#[derive(Debug)]
pub(super) struct Leases {
    /// Since when runners can be heard, and leases mean what they say.
    begun: Instant,
    /// What the clock of the database showed at the last pass, and when that was.
    last: Option<(Timestamp, Instant)>,
}

impl Leases {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), last: None }
    }

    /// Looks at the clock of the database. When it was set, what leases say is of another time: those that
    /// would last for too long are cut, and runners get the time of a lease to renew the others.
    async fn look_at_the_clock(&mut self, app: &App) -> Result<(), Fault> {
        let look = async |tx: &mut Tx<'_>| kiln_store::look_at_clock(tx).await;
        let (shown, was_ahead) = app.store.read(look).await?;
        let now = Instant::now();
        let is_set = self.last.is_some_and(|(then, at)| was_set(then, shown, now - at));
        if is_set {
            tracing::warn!("the clock was set; runners get the time of a lease to be heard");
            self.begun = now;
        }
        if is_set || was_ahead {
            let mend = async |tx: &mut Tx<'_>| kiln_store::clock_was_set(tx).await;
            app.store.write(mend).await?;
        }
        self.last = Some((shown, now));
        Ok(())
    }
}

/// Whether a clock that went from one time to another while so much passed was set.
fn was_set(then: Timestamp, shown: Timestamp, passed: Duration) -> bool {
    let right = then + passed;
    shown.since(right).max(right.since(shown)) > SET
}

impl Duty for Leases {
    fn plan(&self) -> Plan {
        Plan { name: "leases", every: Duration::from_secs(2), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            self.look_at_the_clock(app).await?;
            // Runners could not be heard while there was no server or no database: each gets the time
            // of a lease to say that it lives.
            let begun = app.board.outage().map_or(self.begun, |outage| outage.max(self.begun));
            let left = lease_lasts().saturating_sub(begun.elapsed());
            if !left.is_zero() {
                let seconds = left.as_secs().max(1);
                return Ok(Done::said(format!("waits {seconds} s more for runners to be heard")));
            }
            report(&app.runs.reap().await?, "lost job", "lost jobs")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4
    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_goes() {
        let check = |then: u64, shown: u64, passed: u64, expect: bool| {
            let passed = Duration::from_millis(passed);
            let found = was_set(Timestamp(then), Timestamp(shown), passed);
            assert_eq!(found, expect, "{then} → {shown} in {passed:?}");
        };
        check(1_000_000, 1_002_000, 2_000, false);
        check(1_000_000, 1_006_900, 2_000, false);
        check(1_000_000, 1_007_100, 2_000, true);
        check(1_000_000, 4_602_000, 2_000, true);
        check(1_000_000, 997_100, 2_000, false);
        check(1_000_000, 400_000, 2_000, true);
        // Nobody looked for an hour: the clock went on as it should.
        check(1_000_000, 4_600_000, 3_600_000, false);
    }
}
