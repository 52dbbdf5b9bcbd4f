//! A backend that notes what the processes of a job use, and what ended them that was not their fault.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kiln_proto::report::Used;
use rustix::process::Signal;

use crate::backend::Backend;
use crate::process::{Cage, Command, Control, End, Limits, Outcome, Sink, Tree};

use super::health;

/// A disk with less than this is full: 1 MiB.
const FULL_MB: u64 = 1;
/// How a shell tells that SIGKILL ended what it ran.
const KILLED_IN_SHELL: i32 = 128 + 9;

/// What a job used so far. Clones are the same meter.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Arc<Mutex<Reading>>);

#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    cpu: Duration,
    max_rss: u64,
    disk: u64,
    killed: bool,
    disk_full: bool,
    /// Processes that memory had run out for before the job began.
    out_of_memory: Option<u64>,
}

impl Meter {
    pub(super) fn new() -> Self {
        let out_of_memory = health::out_of_memory_kills();
        Self(Arc::new(Mutex::new(Reading { out_of_memory, ..Reading::default() })))
    }

    fn reading(&self) -> Reading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self) -> Used {
        let reading = self.reading();
        Used {
            cpu_ms: u64::try_from(reading.cpu.as_millis()).unwrap_or(u64::MAX),
            memory_peak_kb: reading.max_rss >> 10,
            disk_mb: reading.disk.div_ceil(1_000_000),
        }
    }

    /// Looks now and then how much memory all processes of a job have together, as long as it works.
    pub(super) fn watching<T>(&self, tree: &Tree, work: impl FnOnce() -> T) -> T {
        let over = Over::default();
        let look = || {
            let mut pause = FIRST_LOOK;
            while !over.within(pause) {
                self.saw_memory(tree.memory());
                pause = NEXT_LOOK;
            }
        };
        let done = thread::scope(|scope| {
            // Also when the work panics; and without a thread, the largest process must do.
            let _ends = Ends(&over);
            let _ = thread::Builder::new().spawn_scoped(scope, look);
            work()
        });
        if let Some(peak) = tree.cage().and_then(Cage::peak) {
            self.saw_memory(peak);
        }
        done
    }

    fn saw_memory(&self, bytes: u64) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.max_rss = reading.max_rss.max(bytes);
    }

    pub(super) fn saw_disk(&self, bytes: u64) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.disk = reading.disk.max(bytes);
    }

    /// What went wrong on this machine, if that can be why a step failed.
    pub(super) fn excuse(&self) -> Option<String> {
        let reading = self.reading();
        if reading.disk_full {
            return Some("the disk of the runner is full".to_owned());
        }
        let before = reading.out_of_memory?;
        let more = health::out_of_memory_kills().is_some_and(|now| now > before);
        (reading.killed && more).then(|| "the runner ran out of memory".to_owned())
    }

    fn note(&self, outcome: &Outcome, disk_full: bool) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.cpu += outcome.usage.user + outcome.usage.system;
        reading.max_rss = reading.max_rss.max(outcome.usage.max_rss);
        reading.killed |= was_killed(outcome.end);
        reading.disk_full |= disk_full;
    }
}

/// A short job is not looked at: its largest process says enough.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const NEXT_LOOK: Duration = Duration::from_secs(2);

/// Whether something is over, for one who waits for that.
#[derive(Debug, Default)]
struct Over(Mutex<bool>, Condvar);

impl Over {
    /// Waits for so long at most.
    fn within(&self, time: Duration) -> bool {
        let is_over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says that it is over when it is dropped.
struct Ends<'o>(&'o Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

fn was_killed(end: End) -> bool {
    matches!(end, End::Signaled(signal) if signal == Signal::KILL.as_raw())
        || end == End::Exited(KILLED_IN_SHELL)
}

#[derive(Debug)]
pub(super) struct Metered {
    pub(super) inner: Box<dyn Backend>,
    pub(super) meter: Meter,
    /// A folder on the disk that jobs use.
    pub(super) work: PathBuf,
}

impl Backend for Metered {
    fn run(
        &self,
        command: &Command,
        sink: &mut dyn Sink,
        control: &Control,
        limits: &Limits,
        tree: &Tree,
    ) -> io::Result<Outcome> {
        let outcome = self.inner.run(command, sink, control, limits, tree);
        if let Ok(outcome) = &outcome {
            let failed = outcome.end != End::Exited(0);
            let disk_full =
                failed && health::disk_free_mb(&self.work).is_some_and(|free| free < FULL_MB);
            self.meter.note(outcome, disk_full);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Usage;

    /// S7, S23
    #[test]
    fn use_is_added_up_and_only_the_machine_is_an_excuse() {
        let meter = Meter::new();
        let outcome = |end| Outcome {
            end,
            usage: Usage {
                user: Duration::from_millis(20),
                system: Duration::from_millis(5),
                max_rss: 3 << 20,
            },
            left_running: false,
        };
        meter.note(&outcome(End::Exited(0)), false);
        meter.note(&outcome(End::Exited(1)), false);
        assert_eq!(meter.used(), Used { cpu_ms: 50, memory_peak_kb: 3 << 10, disk_mb: 0 });
        assert_eq!(meter.excuse(), None);
        for end in [End::Signaled(9), End::Exited(137)] {
            assert!(was_killed(end), "{end:?}");
        }
        assert!(!was_killed(End::Signaled(15)) && !was_killed(End::Exited(9)));
        meter.note(&outcome(End::Exited(1)), true);
        assert!(meter.excuse().unwrap().contains("disk"));
    }
}
