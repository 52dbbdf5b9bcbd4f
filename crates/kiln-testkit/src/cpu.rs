//! How long processors worked.

use std::fs;
use std::path::Path;

/// Microseconds that a thread worked, by its folder in `/proc`; nothing where the system does not say it.
pub fn of_thread(thread: &Path) -> Option<f64> {
    let times = fs::read_to_string(thread.join("schedstat")).ok()?;
    let nanoseconds: f64 = times.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1000.0)
}
