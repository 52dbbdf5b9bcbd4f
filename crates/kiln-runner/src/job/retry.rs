//! Declared retry of a step: each try is logged, the flake is on record.

use std::time::Duration;

use kiln_core::plan::{Retry, RetryOn, Step};
use kiln_core::run::Conclusion;

use super::driver::{Done, JobRun};
use super::frame::Frame;
use super::task::StepEnd;

impl JobRun<'_, '_> {
    /// Tries a step as often as it declares, and says what the last end means for the job.
    pub(super) fn tries(
        &mut self,
        frame: &mut Frame,
        step: &Step,
    ) -> (StepEnd, Vec<(String, String)>) {
        let mut tried = 1;
        let (outcome, outputs) = loop {
            let done = self.one_try(frame, step);
            match &step.retry {
                Some(retry)
                    if tried <= retry.max
                        && self.is_worth_another(done.0, retry.on)
                        && wait_before(retry, tried) < self.time_left() =>
                {
                    if !self.pause(retry, tried) {
                        break (Conclusion::Cancelled, done.1);
                    }
                    tried += 1;
                }
                _ => break done,
            }
        };
        let tolerated = outcome.is_failure() && self.tolerates(frame, step);
        let conclusion = if tolerated { Conclusion::Success } else { outcome };
        // Taken, so that an action does not end with the code of its last step.
        let exit_code = self.exit_code.take();
        (StepEnd { outcome, conclusion, exit_code }, outputs)
    }

    fn one_try(&mut self, frame: &mut Frame, step: &Step) -> Done {
        self.timed_out = false;
        self.exit_code = None;
        self.work(frame, step).unwrap_or_else(|message| {
            self.output().error(self.step, &message);
            let cancelled = self.step_control().is_cancelled();
            let conclusion = if cancelled { Conclusion::Cancelled } else { Conclusion::Failure };
            (conclusion, Vec::new())
        })
    }

    /// The job's own time limit and a cancel end all tries.
    fn is_worth_another(&self, outcome: Conclusion, on: RetryOn) -> bool {
        let wanted = match on {
            RetryOn::Failure => !self.timed_out,
            RetryOn::Timeout => self.timed_out,
            RetryOn::Any => true,
        };
        outcome == Conclusion::Failure && wanted && !self.control.is_cancelled() && !self.is_over()
    }

    /// Waits before the next try. Returns whether there is to be one.
    fn pause(&self, retry: &Retry, tried: u32) -> bool {
        let wait = wait_before(retry, tried);
        let total = retry.max + 1;
        let when = if wait.is_zero() { String::new() } else { format!(" in {} s", wait.as_secs()) };
        let message =
            format!("##[warning]try {tried} of {total} failed, the next one starts{when}");
        self.output().say(self.step, &message);
        self.output().step_retried(self.step, tried);
        self.control.sleep(wait)
    }
}

/// Twice as long each time.
fn wait_before(retry: &Retry, tried: u32) -> Duration {
    Duration::from_secs(u64::from(retry.backoff_seconds) << (tried - 1).min(16))
}
