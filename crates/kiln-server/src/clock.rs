//! The one place of the server that looks at the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use kiln_core::time::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the clock of the server")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(kiln_fault::clock(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
