//! Stopping a running process from any other thread.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A handle by which everything that runs under it can be stopped; its clones are the same handle.
///
/// Controls form a tree like what they control: a run, its jobs, their steps. What reaches one reaches
/// all its children. A request stays: a process that is started later under a cancelled control is
/// stopped at once, so that none slips through. What must run all the same, such as a step with
/// `always()`, runs under [`Control::despite_cancel`].
#[derive(Clone, Debug)]
pub struct Control {
    own: Arc<Switches>,
    /// All switches that count: those above, then its own.
    heeded: Vec<Heeded>,
}

#[derive(Debug)]
struct Switches {
    cancel: Switch,
    kill: Switch,
}

#[derive(Clone, Debug)]
struct Heeded {
    switches: Arc<Switches>,
    cancel: bool,
}

impl Control {
    pub fn new() -> io::Result<Self> {
        Self::below(Vec::new())
    }

    /// A control for a part: it can be stopped alone, and is stopped with this one.
    pub fn child(&self) -> io::Result<Self> {
        Self::below(self.heeded.clone())
    }

    /// The same control for what runs although it was cancelled; it still obeys [`Control::kill`].
    #[must_use]
    pub fn despite_cancel(&self) -> Self {
        let mut control = self.clone();
        for heeded in &mut control.heeded {
            heeded.cancel = false;
        }
        control
    }

    /// Asks to end: SIGINT, later SIGTERM, at last SIGKILL, as [`Ladder`](super::Ladder) says.
    pub fn cancel(&self) {
        self.own.cancel.turn_on();
    }

    /// Ends the whole tree now.
    pub fn kill(&self) {
        self.own.kill.turn_on();
    }

    pub fn is_cancelled(&self) -> bool {
        let cancelled = |heeded: &Heeded| heeded.cancel && heeded.switches.cancel.is_on();
        self.is_killed() || self.heeded.iter().any(cancelled)
    }

    pub fn is_killed(&self) -> bool {
        let killed = |heeded: &Heeded| heeded.switches.kill.is_on();
        self.heeded.iter().any(killed)
    }

    /// When it was cancelled first, also for what runs [despite that](Control::despite_cancel).
    pub fn cancelled_since(&self) -> Option<Instant> {
        let all = self.heeded.iter().map(|heeded| &heeded.switches);
        all.filter_map(|switches| switches.cancel.since.get().copied()).min()
    }

    /// Sleeps, unless it is cancelled meanwhile. Returns whether it slept to the end.
    pub fn sleep(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.is_cancelled() || left.is_zero() {
                return !self.is_cancelled();
            }
            let events = self.cancels().chain(self.kills());
            let mut events: Vec<_> =
                events.map(|event| PollFd::from_borrowed_fd(event, PollFlags::IN)).collect();
            let left =
                Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            // A signal only makes it look again.
            let _ = poll(&mut events, Some(&left));
        }
    }

    /// What becomes readable on [`Control::cancel`].
    pub(super) fn cancels(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let heeded = self.heeded.iter().filter(|heeded| heeded.cancel);
        heeded.map(|heeded| heeded.switches.cancel.event.as_fd())
    }

    /// What becomes readable on [`Control::kill`].
    pub(super) fn kills(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let heeded = self.heeded.iter();
        heeded.map(|heeded| heeded.switches.kill.event.as_fd())
    }

    fn below(mut heeded: Vec<Heeded>) -> io::Result<Self> {
        let own = Arc::new(Switches { cancel: Switch::new()?, kill: Switch::new()? });
        heeded.push(Heeded { switches: Arc::clone(&own), cancel: true });
        Ok(Self { own, heeded })
    }
}

/// A flag that can be waited for. Nobody reads the event, so it stays readable for all.
#[derive(Debug)]
struct Switch {
    on: AtomicBool,
    since: OnceLock<Instant>,
    event: OwnedFd,
}

impl Switch {
    fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (on, since) = (AtomicBool::new(false), OnceLock::new());
        Ok(Self { on, since, event })
    }

    fn turn_on(&self) {
        self.since.get_or_init(Instant::now);
        if !self.on.swap(true, Ordering::SeqCst) {
            let written = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "an event counter takes a first 1");
        }
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::Control;
    use std::time::Duration;

    #[test]
    fn a_cancel_reaches_the_parts_but_not_the_whole() {
        let whole = Control::new().unwrap();
        let part = whole.child().unwrap();
        let sibling = whole.child().unwrap();
        part.cancel();
        assert!(part.is_cancelled() && !whole.is_cancelled() && !sibling.is_cancelled());
        whole.cancel();
        assert!(sibling.is_cancelled() && !sibling.is_killed());
    }

    #[test]
    fn a_sleep_ends_with_its_time_or_with_a_cancel() {
        let control = Control::new().unwrap();
        assert!(control.sleep(Duration::from_millis(2)));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| control.sleep(Duration::from_mins(1)));
            control.cancel();
            assert!(!sleeper.join().unwrap());
        });
        assert!(!control.sleep(Duration::ZERO));
    }

    #[test]
    fn what_runs_despite_a_cancel_obeys_a_kill_and_its_own_cancel() {
        let job = Control::new().unwrap();
        job.cancel();
        let cleanup = job.despite_cancel();
        let step = cleanup.child().unwrap();
        assert!(!cleanup.is_cancelled() && !step.is_cancelled());
        step.cancel();
        assert!(step.is_cancelled() && !cleanup.is_cancelled());
        assert!(job.cancelled_since().is_some());
        assert_eq!(cleanup.cancelled_since(), job.cancelled_since(), "the first cancel counts");
        assert_eq!(step.cancelled_since(), job.cancelled_since());
        job.kill();
        assert!(cleanup.is_killed() && cleanup.is_cancelled() && step.is_killed());
    }
}
