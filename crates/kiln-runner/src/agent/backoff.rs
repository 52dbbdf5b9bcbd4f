//! How long to wait before something is tried again.
//!
//! Thousands of runners lose the same server at the same moment. Each waits for a random part of a time
//! that doubles, so that they come back within seconds, but not all at once.

use std::time::Duration;

use crate::random;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A server may ask for more patience than we have, but not for ever.
const MOST_ASKED: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure. What the server asked for is waited at least.
    pub(super) fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let pause = pause(self.failures, asked, random::fraction());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

/// Between a half and the whole of the time, as chance (0 to 1) has it.
fn pause(failures: u32, asked: Option<Duration>, chance: f64) -> Duration {
    let whole = FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST);
    let own = whole.mul_f64(0.5 + chance / 2.0);
    // Those who were all asked to wait for the same time must not come back together either.
    let asked = asked.map(|asked| asked.min(MOST_ASKED).mul_f64(1.0 + chance / 10.0));
    asked.unwrap_or_default().max(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failures: u32, asked: Option<u64>, chance: f64, expect_ms: u64) {
        let pause = pause(failures, asked.map(Duration::from_secs), chance);
        assert_eq!(pause, Duration::from_millis(expect_ms), "{failures} {asked:?} {chance}");
    }

    #[test]
    fn pauses_double_up_to_five_seconds_and_differ_by_half() {
        check(0, None, 0.0, 50);
        check(0, None, 1.0, 100);
        check(1, None, 1.0, 200);
        check(5, None, 0.0, 1600);
        check(6, None, 1.0, 5000);
        check(u32::MAX, None, 0.0, 2500);
    }

    #[test]
    fn what_the_server_asks_for_is_waited_but_not_for_ever() {
        check(0, Some(3), 0.0, 3000);
        check(0, Some(3), 1.0, 3300);
        check(9, Some(0), 0.0, 2500);
        check(0, Some(1_000_000), 0.0, 300_000);
    }
}
