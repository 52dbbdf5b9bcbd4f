//! The one place of the agent that looks at the clock.

use std::time::{Instant, SystemTime};

/// UTC milliseconds.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the agent")]
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    kiln_fault::clock(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this is the clock of the agent")]
pub(super) fn instant() -> Instant {
    Instant::now()
}
