//! Steps that run beside others: `background`, `wait`, `wait-all`, `cancel` and `parallel`.
//!
//! A background step sees the job as it was when it was reached. What it leaves (outputs, variables,
//! clean-ups, its own end) reaches the job when somebody waits for it, at the latest before the
//! clean-ups.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

use kiln_core::plan::Step;
use kiln_core::run::Conclusion;

use crate::process::Control;

use super::driver::{Changes, Done, JobRun};
use super::frame::{Frame, worse};
use super::post::Posts;
use super::task::StepEnd;

/// How many background steps run at once; more of them wait for a free place.
const MAX_AT_ONCE: usize = 10;

/// The background steps that nobody has waited for yet.
pub(super) struct Background<'s> {
    running: Vec<Running<'s>>,
    /// The worst end of those that were waited for.
    worst: Conclusion,
}

impl Default for Background<'_> {
    fn default() -> Self {
        Self { running: Vec::new(), worst: Conclusion::Success }
    }
}

struct Running<'s> {
    id: String,
    name: String,
    control: Control,
    /// A `cancel` step has asked it to end.
    unwanted: bool,
    thread: ScopedJoinHandle<'s, Ended>,
}

impl Running<'_> {
    fn is(&self, id: &str) -> bool {
        self.id.eq_ignore_ascii_case(id)
    }
}

/// What a background step leaves to the job.
struct Ended {
    end: StepEnd,
    outputs: Vec<(String, String)>,
    changes: Changes,
    posts: Posts,
}

/// The places for background steps.
#[derive(Default)]
pub(super) struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. One that is cancelled meanwhile gets one, too, and ends with it at once.
    fn take(&self, control: &Control) {
        let full = |taken: &mut usize| *taken >= MAX_AT_ONCE && !control.is_cancelled();
        let waited = self.freed.wait_while(self.lock(), full);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn free(&self) {
        *self.lock() -= 1;
        self.freed.notify_all();
    }

    /// Lets those that wait look whether they were cancelled.
    fn wake(&self) {
        let _taken = self.lock();
        self.freed.notify_all();
    }
}

impl JobRun<'_, '_> {
    /// Starts a background step, unless its condition says no.
    pub(super) fn launch(&mut self, frame: &mut Frame, step: &Step) {
        frame.step.clone_from(&step.id);
        let (at, name) = (self.number(), self.name(frame, step));
        let refusal = match self.holds(frame, &step.condition.text) {
            _ if step.left_out.is_some() => Some(Conclusion::Skipped),
            Ok(true) => None,
            Ok(false) => Some(Conclusion::Skipped),
            Err(message) => {
                self.output().error(at, &message);
                Some(Conclusion::Failure)
            }
        };
        if let Some(conclusion) = refusal {
            let end = StepEnd::same(conclusion);
            self.output().step_started(at, &name);
            if let Some(why) = &step.left_out {
                self.output().say(at, why);
            }
            frame.record(&step.id, end, &[]);
            self.output().step_finished(at, end);
        } else if let Err(error) = self.spawn(frame, step, at, &name) {
            self.output().error(at, &format!("the background step cannot be started: {error}"));
            frame.record(&step.id, StepEnd::same(Conclusion::Failure), &[]);
        }
    }

    fn spawn(&mut self, frame: &Frame, step: &Step, at: usize, name: &str) -> std::io::Result<()> {
        let control = self.step_control().child()?;
        let mut beside = self.fork(control.clone(), at);
        let (mut frame, step_copy, title) = (frame.clone(), step.clone(), name.to_owned());
        let work = move || beside.run_beside(&mut frame, &step_copy, &title);
        let thread = std::thread::Builder::new().spawn_scoped(self.scope, work)?;
        let running = Running {
            id: step.id.clone(),
            name: name.to_owned(),
            control,
            unwanted: false,
            thread,
        };
        self.background.running.push(running);
        Ok(())
    }

    /// A background step, on its own thread.
    fn run_beside(&mut self, frame: &mut Frame, step: &Step, name: &str) -> Ended {
        self.shared.slots.take(&self.control);
        self.output().step_started(self.step, name);
        let (end, outputs) = if self.control.is_cancelled() {
            (StepEnd::same(Conclusion::Cancelled), Vec::new())
        } else if self.is_over() {
            (StepEnd::same(Conclusion::TimedOut), Vec::new())
        } else {
            self.tries(frame, step)
        };
        self.output().step_finished(self.step, end);
        self.shared.slots.free();
        let (changes, posts) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.posts));
        Ended { end, outputs, changes, posts }
    }

    pub(super) fn wait_for(&mut self, frame: &mut Frame, ids: &[String]) -> Done {
        self.join(frame, |running| ids.iter().any(|id| running.is(id)))
    }

    pub(super) fn wait_for_all(&mut self, frame: &mut Frame) -> Done {
        self.join(frame, |_| true)
    }

    /// Waits at the end of the job for what nobody waited for, as a step of its own.
    pub(super) fn wait_for_the_rest(&mut self, frame: &mut Frame) {
        if !self.background.running.is_empty() {
            let step = self.begin();
            self.output().step_started(step, "Wait for all background steps");
            let (conclusion, _) = self.wait_for_all(frame);
            self.output().step_finished(step, StepEnd::same(conclusion));
        }
        // Also when the step that waited for them tolerated it, as on GitHub.
        frame.worsen(self.background.worst);
    }

    /// Ends one background step. That it was cancelled is no fault of the job; that it failed counts
    /// when the job ends.
    pub(super) fn cancel_step(&mut self, frame: &mut Frame, id: &str) -> Done {
        for running in self.background.running.iter_mut().filter(|running| running.is(id)) {
            running.control.cancel();
            running.unwanted = true;
        }
        self.shared.slots.wake();
        self.join(frame, |running| running.is(id));
        (Conclusion::Success, Vec::new())
    }

    /// Runs steps side by side and waits for them.
    pub(super) fn parallel(&mut self, frame: &mut Frame, steps: &[Step]) -> Done {
        for step in steps {
            self.launch(frame, step);
        }
        let ids: Vec<String> = steps.iter().map(|step| step.id.clone()).collect();
        self.wait_for(frame, &ids)
    }

    /// Waits for the chosen steps and takes over what they leave. The worst end is the answer.
    fn join(&mut self, frame: &mut Frame, chosen: impl Fn(&Running<'_>) -> bool) -> Done {
        let mut worst = Conclusion::Success;
        let all = std::mem::take(&mut self.background.running);
        let (waited, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(chosen);
        self.background.running = rest;
        for running in waited {
            let ended = running.thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            let conclusion = ended.end.conclusion;
            let (name, result) = (&running.name, conclusion.result());
            if conclusion.is_failure() {
                self.output().error(self.step, &format!("the background step `{name}` failed"));
            } else {
                self.output().say(self.step, &format!("{name}: {result}"));
            }
            ended.changes.env.into_iter().for_each(|(name, value)| self.set_env(name, value));
            ended.changes.path.into_iter().for_each(|entry| self.add_path(entry));
            self.posts.take_over(ended.posts);
            frame.keep(&running.id, ended.end, &ended.outputs);
            if !(running.unwanted && conclusion.is_cancelled()) {
                worst = worse(worst, conclusion);
            }
        }
        self.background.worst = worse(self.background.worst, worst);
        (worst, Vec::new())
    }
}
