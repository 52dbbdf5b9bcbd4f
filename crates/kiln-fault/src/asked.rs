//! What the environment asks for.
#![expect(
    clippy::disallowed_methods,
    reason = "tests ask by the environment, and debug builds alone look"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Point;

/// A death at a point, and how often it was passed.
struct Death {
    point: Point,
    at: u64,
    passed: AtomicU64,
}

pub(crate) fn die_at(point: Point) {
    static DEATH: OnceLock<Option<Death>> = OnceLock::new();
    let asked = DEATH.get_or_init(|| {
        let text = std::env::var("KILN_FAULT").ok()?;
        let (point, at) = death(&text).expect("KILN_FAULT is a point, a colon and a count from 1");
        Some(Death { point, at, passed: AtomicU64::new(0) })
    });
    let Some(death) = asked.as_ref().filter(|death| death.point == point) else { return };
    if death.passed.fetch_add(1, Ordering::SeqCst) + 1 == death.at {
        std::process::abort();
    }
}

/// Only for threads that have nobody else waiting for them.
pub(crate) fn hold_at(point: Point) {
    static HOLD: OnceLock<Option<(Point, PathBuf)>> = OnceLock::new();
    let asked = HOLD.get_or_init(|| {
        let text = std::env::var("KILN_FAULT_HOLD").ok()?;
        Some(hold(&text).expect("KILN_FAULT_HOLD is a point, a colon and a file"))
    });
    let Some((_, file)) = asked.as_ref().filter(|(at, _)| *at == point) else { return };
    while file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn hold(text: &str) -> Option<(Point, PathBuf)> {
    let (name, file) = text.split_once(':')?;
    let point = Point::ALL.into_iter().find(|point| point.name() == name)?;
    Some((point, PathBuf::from(file)))
}

fn death(text: &str) -> Option<(Point, u64)> {
    let (name, count) = text.split_once(':')?;
    let point = Point::ALL.into_iter().find(|point| point.name() == name)?;
    Some((point, count.parse().ok().filter(|count| *count > 0)?))
}

pub(crate) fn shifted(right: u64) -> u64 {
    static CLOCK: OnceLock<Option<OsString>> = OnceLock::new();
    let Some(file) = CLOCK.get_or_init(|| std::env::var_os("KILN_FAULT_CLOCK")) else {
        return right;
    };
    // It is replaced as a whole; while there is none, the clock is right.
    let text = std::fs::read_to_string(PathBuf::from(file)).unwrap_or_default();
    right.saturating_add_signed(text.trim().parse().unwrap_or(0))
}

pub(crate) fn lease() -> Option<Duration> {
    static LEASE: OnceLock<Option<Duration>> = OnceLock::new();
    *LEASE.get_or_init(|| {
        let text = std::env::var("KILN_FAULT_LEASE").ok()?;
        Some(Duration::from_millis(text.parse().expect("KILN_FAULT_LEASE is in milliseconds")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_a_point_and_a_count() {
        let check =
            |text: &str, expect: Option<(Point, u64)>| assert_eq!(death(text), expect, "{text}");
        check("store.before-commit:17", Some((Point::BeforeCommit, 17)));
        check("runner.completed:1", Some((Point::RunnerCompleted, 1)));
        check("runner.completed:0", None);
        check("runner.completed", None);
        check("runner.unheard:1", None);
    }

    #[test]
    fn a_hold_is_a_point_and_a_file() {
        assert_eq!(
            hold("runner.claimed:/tmp/a:b"),
            Some((Point::RunnerClaimed, "/tmp/a:b".into()))
        );
        assert_eq!(hold("runner.unheard:/tmp/a"), None);
        assert_eq!(hold("runner.claimed"), None);
    }

    #[test]
    fn without_being_asked_nothing_happens() {
        Point::AfterCommit.pass();
        assert_eq!(crate::clock(5), 5);
        assert_eq!(crate::lease(Duration::from_mins(1)), Duration::from_mins(1));
    }
}
