//! One process of a step: how it starts, how long it may take, and what it leaves behind.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kiln_core::run::Conclusion;

use crate::git::Leash;
use crate::process::{Command, Control, End, Leader, Limits};

use super::driver::JobRun;
use super::environment::{Environment, Layers, Variables, keep_from_proxies};
use super::file_commands;
use super::files::{CommandFiles, Left};
use super::frame::Frame;
use super::output::{Said, StepSink};
use super::variables::{Protected, is_protected};

/// What differs between the processes of steps.
pub(super) struct ProcessParts<'p> {
    pub(super) step_env: &'p Variables,
    pub(super) action_env: &'p Variables,
    pub(super) timeout: Option<Duration>,
    /// What only actions are told: where they find what they expect.
    pub(super) offered: Variables,
    /// Who wants to know of the process.
    pub(super) leader: Option<Leader>,
}

pub(super) struct Executed {
    pub(super) conclusion: Conclusion,
    pub(super) said: Said,
}

impl JobRun<'_, '_> {
    /// The environment of a process of this step.
    pub(super) fn environment(
        &self,
        step_env: &Variables,
        action_env: &Variables,
        protected: &Variables,
    ) -> Environment {
        let layers = Layers {
            inherited: &self.shared.host.inherited,
            job: &self.env,
            step: step_env,
            action: action_env,
            protected,
            path: &self.path,
        };
        layers.environment()
    }

    /// What is left of the job's time. Once it is over, or the job was cancelled, steps with `always()`
    /// have [`Host::clean_up`](super::Host) in all.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(super) fn time_left(&self) -> Duration {
        let clean_up = self.shared.host.clean_up;
        let now = Instant::now();
        let after = |end: Instant| clean_up.saturating_sub(now.saturating_duration_since(end));
        let of_job = match self.shared.deadline.get() {
            Some(deadline) if now < *deadline => *deadline - now,
            Some(deadline) => after(*deadline),
            None => clean_up,
        };
        let of_cancel = self.control.cancelled_since().map(after);
        of_cancel.into_iter().chain([of_job]).min().unwrap_or_default()
    }

    /// Whether even what runs after a cancel, or after the job's time, has had its time.
    pub(super) fn is_spent(&self) -> bool {
        self.time_left().is_zero()
    }

    /// Whether the time of the job is over.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(super) fn is_over(&self) -> bool {
        self.shared.deadline.get().is_some_and(|deadline| *deadline <= Instant::now())
    }

    /// Runs something that has so much time as a whole, however many processes it takes.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(super) fn within<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.until;
        let own = limit.map(|limit| Instant::now() + limit);
        self.until = outer.into_iter().chain(own).min();
        let done = work(self);
        self.until = outer;
        done
    }

    /// How long the next process may take: what it is given itself, and what is left of all around it.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    fn wall(&self, own: Option<Duration>) -> Duration {
        let around = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let all = own.into_iter().chain(around).chain([self.time_left()]);
        all.min().unwrap_or_default().max(Duration::from_millis(1))
    }

    /// A number for the next file of this job.
    pub(super) fn next_number(&self) -> usize {
        self.shared.files.fetch_add(1, Ordering::Relaxed)
    }

    /// The folders that programs are looked up in.
    pub(super) fn search_path(environment: &Environment) -> OsString {
        environment.get(OsStr::new("PATH")).cloned().unwrap_or_default()
    }

    /// Starts a process of a step, hears it out and takes in what it left in the command files.
    pub(super) fn execute(
        &mut self,
        frame: &Frame,
        program: PathBuf,
        args: Vec<OsString>,
        cwd: &Path,
        parts: &ProcessParts<'_>,
    ) -> Result<Executed, String> {
        let files = CommandFiles::create(&self.shared.task.places.scripts, self.next_number())?;
        let github = &self.shared.github;
        let mut protected = Protected {
            task: self.shared.task,
            frame,
            github,
            files: &files,
            runner: &self.shared.host.name,
        }
        .variables();
        protected.extend(parts.offered.clone());
        let mut environment = self.environment(parts.step_env, parts.action_env, &protected);
        if !parts.offered.is_empty() {
            keep_from_proxies(&mut environment);
        }
        let unsecure = environment.get(OsStr::new("ACTIONS_ALLOW_UNSECURE_COMMANDS"));
        let allow_unsecure = unsecure.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let env = environment.into_iter().collect();
        let command = Command { program, args, env, cwd: cwd.to_owned() };
        let wall = self.wall(parts.timeout);
        let mut sink = StepSink::new(&self.shared.output, self.step, allow_unsecure);
        let end = self.start(&command, &mut sink, wall, parts.leader.clone());
        let mut said = std::mem::take(&mut sink.said);
        drop(sink);
        let end = end.map_err(|error| error.to_string())?;
        let left = files.read();
        files.remove(&left);
        self.timed_out = matches!(end, End::TimedOut | End::Silent);
        self.exit_code = match end {
            End::Exited(code) => Some(code),
            _ => None,
        };
        let (mut conclusion, mut why) = judge(end, wall, self.shared.host.silence);
        if end == End::TimedOut && self.is_over() {
            conclusion = Conclusion::TimedOut;
        } else if end == End::TimedOut && self.is_spent() {
            conclusion = Conclusion::Cancelled;
            let ago = span(self.shared.host.clean_up);
            why = Some(format!("the job was cancelled {ago} ago: what still ran was ended"));
        }
        if let Some(why) = why {
            self.output().error(self.step, &why);
        }
        if let Some(over) = self.over_limit() {
            self.output().error(self.step, &over);
            if conclusion == Conclusion::Success {
                conclusion = Conclusion::Failure;
            }
        }
        let whole = self.take_in(&mut said, &left);
        if conclusion == Conclusion::Success && (said.failed || !whole) {
            conclusion = Conclusion::Failure;
        }
        Ok(Executed { conclusion, said })
    }

    /// Runs a process in a tree of its own: what ends it leaves the job's other processes alone.
    fn start(
        &self,
        command: &Command,
        sink: &mut StepSink<'_, '_>,
        wall: Duration,
        leader: Option<Leader>,
    ) -> io::Result<End> {
        let silence = self.shared.host.silence;
        let limits = Limits { wall: Some(wall), silence, ..Limits::default() };
        let control = self.step_control();
        let tree = self.shared.tree.part()?.led_by(leader);
        let outcome = self.shared.host.backend.run(command, sink, &control, &limits, &tree);
        self.shared.tree.take_back(&tree);
        Ok(outcome?.end)
    }

    /// By what the processes of this step are stopped.
    pub(super) fn step_control(&self) -> Control {
        if self.despite_cancel { self.control.despite_cancel() } else { self.control.clone() }
    }

    /// How git is stopped while it works for this step.
    pub(super) fn leash(&self, timeout: Option<Duration>) -> Leash {
        let (control, mark) = (self.step_control(), self.shared.tree.mark());
        Leash { control, mark, wall: self.wall(timeout) }
    }

    /// Takes over what a step left in its files. Returns whether all of it could be read.
    fn take_in(&mut self, said: &mut Said, left: &Left) -> bool {
        let step = self.step;
        let mut whole = true;
        let outputs = file_commands::pairs(&left.output);
        let state = file_commands::pairs(&left.state);
        let task = self.shared.task;
        let env = file_commands::environment(&left.env, |name| is_protected(name, task));
        for (file, fault) in [
            ("GITHUB_OUTPUT", &outputs.fault),
            ("GITHUB_STATE", &state.fault),
            ("GITHUB_ENV", &env.fault),
        ] {
            if let Some(fault) = fault {
                self.output().error(step, &format!("{file}, {fault}"));
                whole = false;
            }
        }
        for refusal in &env.refused {
            self.output().error(step, &refusal.to_string());
        }
        said.outputs.extend(outputs.pairs);
        said.state.extend(state.pairs);
        for (name, value) in said.env.drain(..).chain(env.pairs) {
            self.set_env(name, value);
        }
        match file_commands::path(&left.path) {
            Ok(entries) => {
                said.path.drain(..).chain(entries).for_each(|entry| self.add_path(entry));
            }
            Err(fault) => {
                self.output().error(step, &format!("GITHUB_PATH, {fault}"));
                whole = false;
            }
        }
        match file_commands::summary(&left.summary) {
            Ok(Some(summary)) => self.output().summary(step, &summary),
            Ok(None) => {}
            Err(error) => self.output().error(step, &error.to_string()),
        }
        whole
    }
}

/// What the end of a process means for its step, and what the log says about it.
fn judge(end: End, wall: Duration, silence: Option<Duration>) -> (Conclusion, Option<String>) {
    match end {
        End::Exited(0) => (Conclusion::Success, None),
        End::Exited(code) => {
            (Conclusion::Failure, Some(format!("process completed with exit code {code}")))
        }
        End::Signaled(signal) => {
            (Conclusion::Failure, Some(format!("process was ended by signal {signal}")))
        }
        End::TimedOut => (
            Conclusion::Failure,
            Some(format!("the step ran longer than {} and was ended", span(wall))),
        ),
        End::Silent => (
            Conclusion::Failure,
            Some(format!(
                "the step printed nothing for {} and was ended",
                span(silence.unwrap_or_default())
            )),
        ),
        End::Cancelled => (Conclusion::Cancelled, Some("the step was cancelled".to_owned())),
    }
}

/// A limit in words.
fn span(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    match seconds {
        ..2.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}
