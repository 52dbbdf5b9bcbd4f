//! The ladder by which a process is made to end.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::run::End;

/// How long a process has to end after each signal but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// From SIGINT to SIGTERM.
    pub interrupt: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate: Duration,
}

impl Default for Ladder {
    /// GitHub's times.
    fn default() -> Self {
        Self { interrupt: Duration::from_millis(7500), terminate: Duration::from_millis(2500) }
    }
}

/// A process that even SIGKILL does not end hangs in the kernel, and is given up after so long.
const UNKILLABLE: Duration = Duration::from_secs(5);

/// A process that is being made to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) why: End,
    rung: Rung,
    next: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Asked,
    Interrupted,
    Terminated,
    Killed,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Signal(Signal),
    Kill,
    GiveUp,
}

impl Stop {
    /// The first step is due at once.
    pub(super) fn new(why: End, now: Instant) -> Self {
        Self { why, rung: Rung::Asked, next: now }
    }

    /// Leaves out what is before SIGKILL.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.rung != Rung::Killed {
            self.rung = Rung::Terminated;
            self.next = now;
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.rung == Rung::Killed
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The step that is due, if any; the ladder is then one rung further.
    pub(super) fn climb(&mut self, now: Instant, ladder: &Ladder) -> Option<Step> {
        if now < self.next {
            return None;
        }
        let (rung, wait, step) = match self.rung {
            Rung::Asked => (Rung::Interrupted, ladder.interrupt, Step::Signal(Signal::INT)),
            Rung::Interrupted => (Rung::Terminated, ladder.terminate, Step::Signal(Signal::TERM)),
            Rung::Terminated => (Rung::Killed, UNKILLABLE, Step::Kill),
            Rung::Killed => (Rung::Killed, UNKILLABLE, Step::GiveUp),
        };
        self.rung = rung;
        self.next = now + wait;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ladder, Step, Stop};
    use crate::process::End;
    use rustix::process::Signal;
    use std::time::{Duration, Instant};

    #[test]
    fn the_signals_come_at_github_s_times() {
        let start = Instant::now();
        let ladder = Ladder::default();
        let mut stop = Stop::new(End::Cancelled, start);
        let mut check = |millis: u64, expect: Option<Step>| {
            let now = start + Duration::from_millis(millis);
            assert_eq!(stop.climb(now, &ladder), expect, "after {millis} ms");
        };
        check(0, Some(Step::Signal(Signal::INT)));
        check(7_499, None);
        check(7_500, Some(Step::Signal(Signal::TERM)));
        check(9_999, None);
        check(10_000, Some(Step::Kill));
        check(14_999, None);
        check(15_000, Some(Step::GiveUp));
    }

    #[test]
    fn a_second_request_kills_at_once_and_only_once() {
        let start = Instant::now();
        let mut stop = Stop::new(End::Cancelled, start);
        stop.climb(start, &Ladder::default());
        stop.hurry(start);
        assert_eq!(stop.climb(start, &Ladder::default()), Some(Step::Kill));
        stop.hurry(start);
        assert_eq!(stop.climb(start, &Ladder::default()), None);
    }
}
