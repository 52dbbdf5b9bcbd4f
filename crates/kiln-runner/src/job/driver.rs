//! Runs the steps of one job, in order, and what they leave for its end.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_core::plan::{Data, Step, StepKind, Template};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::{evaluate_data, evaluate_template, evaluate_text};
use kiln_lang::expr::coerce::{to_number, to_text, truthy};

use crate::action::Resolver;
use crate::process::{self, Control, End, Limits, Tree};

use super::contexts::StepEnv;
use super::environment::{Environment, Layers, PathAdditions, Variables, job_variables};
use super::file_commands;
use super::files::CommandFiles;
use super::frame::Frame;
use super::output::{Output, Said, StepSink};
use super::post::Post;
use super::task::{Report, Reporter, StepEnd, Task};
use super::variables::Protected;

/// GitHub's limit for a job that sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_hours(6);

/// What is the same for all jobs of a runner.
#[derive(Debug)]
pub struct Host {
    /// The environment that jobs start from.
    pub inherited: Environment,
    pub resolver: Resolver,
    /// The repository of the workflow on this machine, for the built-in checkout.
    pub repository: PathBuf,
    /// How long a step may print nothing.
    pub silence: Option<Duration>,
}

/// Runs a job to its end. Cancelling `control` ends the running step; steps whose condition still
/// holds run all the same.
pub fn run(
    task: &Task,
    host: &Host,
    reporter: &mut dyn Reporter,
    control: &Control,
    tree: &Tree,
) -> Report {
    let Some(steps) = task.steps() else {
        return Report { conclusion: Conclusion::Failure, outputs: Vec::new() };
    };
    let mut run = JobRun::new(task, host, reporter, control, tree);
    let mut frame = Frame::of_job(task.contexts.inputs.clone());
    match run.prepare(&frame) {
        Ok(()) => run.steps(&mut frame, &steps.steps),
        Err(message) => {
            run.output.error(0, &message);
            frame.status = Conclusion::Failure;
        }
    }
    run.posts(&mut frame);
    let outputs = run.outputs(&frame);
    Report { conclusion: frame.status, outputs }
}

pub(super) struct JobRun<'a> {
    pub(super) task: &'a Task,
    pub(super) host: &'a Host,
    pub(super) output: Output<'a>,
    pub(super) control: &'a Control,
    pub(super) tree: &'a Tree,
    pub(super) github: Object,
    runner: Value,
    env: Variables,
    path: PathAdditions,
    pub(super) posts: Vec<Post>,
    /// The top-level step that is under way, or the next one.
    pub(super) step: usize,
    files: usize,
    /// When the job as a whole must be over.
    deadline: Option<Instant>,
}

impl<'a> JobRun<'a> {
    fn new(
        task: &'a Task,
        host: &'a Host,
        reporter: &'a mut dyn Reporter,
        control: &'a Control,
        tree: &'a Tree,
    ) -> Self {
        let mut output = Output::new(reporter, &task.places.workspace);
        for (_, secret) in &task.secrets {
            // What is too short to be masked is too short to be a secret.
            let _ = output.masker.add(secret);
        }
        Self {
            task,
            host,
            output,
            control,
            tree,
            github: task.contexts.github.clone(),
            runner: super::variables::runner(&task.places),
            env: Variables::default(),
            path: PathAdditions::default(),
            posts: Vec::new(),
            step: 0,
            files: 0,
            deadline: None,
        }
    }

    /// The environment of the workflow and of the job, and the time the job has.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    fn prepare(&mut self, frame: &Frame) -> Result<(), String> {
        for (key, data) in self.task.steps().map_or([("", None); 2], |steps| {
            [("container", steps.container.as_ref()), ("services", steps.services.as_ref())]
        }) {
            if data.is_some() {
                return Err(format!("`{key}` needs a container backend, which is not there yet"));
            }
        }
        fs::create_dir_all(&self.task.places.temp).map_err(|error| {
            format!("cannot make `{}`: {error}", self.task.places.temp.display())
        })?;
        let workflow = self.variables(frame, self.task.workflow().env.as_ref())?;
        self.env.clone_from(&workflow);
        let job = self.variables(frame, self.task.steps().and_then(|steps| steps.env.as_ref()))?;
        self.env = job_variables(&workflow, &job);
        let limit = match self.task.steps().and_then(|steps| steps.timeout_minutes.as_ref()) {
            Some(template) => self.minutes(frame, template)?,
            None => DEFAULT_TIMEOUT,
        };
        self.deadline = Some(Instant::now() + limit);
        Ok(())
    }

    /// What the expressions of a step see.
    pub(super) fn env(&self, frame: &Frame, step_env: &Variables) -> StepEnv<'_> {
        let mut env = self.env.clone();
        env.extend(
            frame.env.iter().chain(step_env).map(|(name, value)| (name.clone(), value.clone())),
        );
        let cancelled = self.control.is_cancelled();
        StepEnv {
            task: self.task,
            github: &self.github,
            env,
            steps: Value::object(frame.steps.clone()),
            inputs: frame.inputs.clone(),
            runner: &self.runner,
            status: if cancelled { Conclusion::Cancelled } else { frame.status },
            secrets: frame.action.is_none(),
        }
    }

    /// Evaluates an `env` or `with` mapping.
    pub(super) fn variables(
        &self,
        frame: &Frame,
        data: Option<&Data>,
    ) -> Result<Variables, String> {
        let Some(data) = data else { return Ok(Variables::default()) };
        match evaluate_data(data, &self.env(frame, &Variables::default()))? {
            Value::Object(object) => Ok(object
                .iter()
                .map(|(name, value)| (name.to_owned(), to_text(value).into_owned()))
                .collect()),
            _ => Err("expected a mapping".to_owned()),
        }
    }

    pub(super) fn steps(&mut self, frame: &mut Frame, steps: &[Step]) {
        for step in steps {
            let top = frame.depth == 0;
            if top {
                let name = self.name(frame, step);
                let name = self.output.masker.mask_text(&name).into_owned();
                self.output.reporter().step_started(self.step, &name);
            }
            let (end, outputs) = self.one(frame, step);
            frame.record(&step.id, end, &outputs);
            if top {
                self.output.reporter().step_finished(self.step, end);
                self.step += 1;
            }
        }
    }

    fn name(&self, frame: &Frame, step: &Step) -> String {
        let env = self.env(frame, &Variables::default());
        let text = |template: &Template| {
            evaluate_template(template, &env).map(|value| to_text(&value).into_owned())
        };
        match &step.name {
            Some(name) => text(name).unwrap_or_else(|_| step.id.clone()),
            None => super::variables::default_name(&step.kind, text),
        }
    }

    /// One step: its condition, its work, and what its failure means.
    fn one(&mut self, frame: &mut Frame, step: &Step) -> (StepEnd, Vec<(String, String)>) {
        let skipped = StepEnd { outcome: Conclusion::Skipped, conclusion: Conclusion::Skipped };
        let runs = evaluate_text(&step.condition.text, &self.env(frame, &Variables::default()));
        match runs {
            Ok(value) if truthy(&value) => {}
            Ok(_) => return (skipped, Vec::new()),
            Err(message) => {
                self.output.error(self.step, &message);
                let end = StepEnd { outcome: Conclusion::Failure, conclusion: Conclusion::Failure };
                return (end, Vec::new());
            }
        }
        let (outcome, outputs) = match self.work(frame, step) {
            Ok(done) => done,
            Err(message) => {
                self.output.error(self.step, &message);
                (Conclusion::Failure, Vec::new())
            }
        };
        let tolerated = outcome.is_failure() && self.tolerates(frame, step);
        let conclusion = if tolerated { Conclusion::Success } else { outcome };
        (StepEnd { outcome, conclusion }, outputs)
    }

    fn tolerates(&mut self, frame: &Frame, step: &Step) -> bool {
        let Some(template) = &step.continue_on_error else { return false };
        match evaluate_template(template, &self.env(frame, &Variables::default())) {
            Ok(value) => truthy(&value),
            Err(message) => {
                self.output.error(self.step, &message);
                false
            }
        }
    }

    fn work(
        &mut self,
        frame: &mut Frame,
        step: &Step,
    ) -> Result<(Conclusion, Vec<(String, String)>), String> {
        let step_env = self.variables(frame, step.env.as_ref())?;
        let timeout = self.timeout(frame, step)?;
        match &step.kind {
            StepKind::Run(run) => self.script(frame, run, &step_env, timeout),
            StepKind::Use(used) => self.use_action(frame, used, &step_env, timeout),
            StepKind::Wait(_) | StepKind::WaitAll | StepKind::Cancel(_) | StepKind::Parallel(_) => {
                Err("background and parallel steps cannot run yet".to_owned())
            }
        }
    }

    fn timeout(&self, frame: &Frame, step: &Step) -> Result<Option<Duration>, String> {
        step.timeout_minutes.as_ref().map(|template| self.minutes(frame, template)).transpose()
    }

    fn minutes(&self, frame: &Frame, template: &Template) -> Result<Duration, String> {
        let minutes =
            to_number(&evaluate_template(template, &self.env(frame, &Variables::default()))?);
        if !minutes.is_finite() || minutes <= 0.0 {
            return Err(format!("`timeout-minutes` is {minutes}, expected a number above zero"));
        }
        Ok(Duration::from_secs_f64((minutes * 60.0).min(1e9)))
    }

    /// The environment of a process of this step.
    pub(super) fn environment(
        &self,
        step_env: &Variables,
        action_env: &Variables,
        protected: &Variables,
    ) -> Environment {
        let layers = Layers {
            inherited: &self.host.inherited,
            job: &self.env,
            step: step_env,
            action: action_env,
            protected,
            path: &self.path,
        };
        layers.environment()
    }

    /// What is left of the job's time. Once it is over, steps with `always()` have five minutes.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    fn time_left(&self) -> Duration {
        const CLEAN_UP: Duration = Duration::from_mins(5);
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero()).unwrap_or(CLEAN_UP)
    }

    /// A number for the next file of this job.
    pub(super) fn next_number(&mut self) -> usize {
        self.files += 1;
        self.files
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
        let number = self.next_number();
        let files = CommandFiles::create(&self.task.places.scripts, number)?;
        let protected =
            Protected { task: self.task, frame, github: &self.github, files: &files }.variables();
        let environment = self.environment(parts.step_env, parts.action_env, &protected);
        let unsecure = environment.get(OsStr::new("ACTIONS_ALLOW_UNSECURE_COMMANDS"));
        let allow_unsecure = unsecure.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let command = process::Command {
            program,
            args,
            env: environment.into_iter().collect(),
            cwd: cwd.to_owned(),
        };
        let left_to_job = self.time_left();
        let wall = parts.timeout.map_or(left_to_job, |own| own.min(left_to_job));
        let limits = Limits { wall: Some(wall), silence: self.host.silence, ..Limits::default() };
        // A step that runs although the job is cancelled must not be stopped by that same cancel.
        let control = if self.control.is_cancelled() {
            self.control.despite_cancel()
        } else {
            self.control.clone()
        };
        let mut sink = StepSink::new(&mut self.output, self.step, allow_unsecure);
        let outcome = process::run(&command, &mut sink, &control, &limits, self.tree);
        let said = std::mem::take(&mut sink.said);
        drop(sink);
        let outcome = outcome.map_err(|error| error.to_string())?;
        let left = files.read();
        files.remove(&left);
        let (mut conclusion, why) = judge(outcome.end, wall);
        if outcome.end == End::TimedOut && wall == left_to_job {
            conclusion = Conclusion::TimedOut;
        }
        if let Some(why) = why {
            self.output.error(self.step, &why);
        }
        let mut said = said;
        if said.failed && conclusion == Conclusion::Success {
            conclusion = Conclusion::Failure;
        }
        if !self.take_in(&mut said, &left) && conclusion == Conclusion::Success {
            conclusion = Conclusion::Failure;
        }
        Ok(Executed { conclusion, said })
    }

    /// Takes over what a step left in its files. Returns whether all of it could be read.
    fn take_in(&mut self, said: &mut Said, left: &super::files::Left) -> bool {
        let step = self.step;
        let mut whole = true;
        let outputs = file_commands::pairs(&left.output);
        let state = file_commands::pairs(&left.state);
        let task = self.task;
        let env = file_commands::environment(&left.env, |name| {
            super::variables::is_protected(name, task)
        });
        for (file, fault) in [
            ("GITHUB_OUTPUT", &outputs.fault),
            ("GITHUB_STATE", &state.fault),
            ("GITHUB_ENV", &env.fault),
        ] {
            if let Some(fault) = fault {
                self.output.error(step, &format!("{file}, {fault}"));
                whole = false;
            }
        }
        for refusal in &env.refused {
            self.output.error(step, &refusal.to_string());
        }
        said.outputs.extend(outputs.pairs);
        said.state.extend(state.pairs);
        for (name, value) in said.env.drain(..).chain(env.pairs) {
            self.env.insert(name, value);
        }
        match file_commands::path(&left.path) {
            Ok(entries) => {
                said.path.drain(..).chain(entries).for_each(|entry| self.path.add(&entry));
            }
            Err(fault) => {
                self.output.error(step, &format!("GITHUB_PATH, {fault}"));
                whole = false;
            }
        }
        match file_commands::summary(&left.summary) {
            Ok(Some(summary)) => {
                let masked = self.output.masker.mask_text(&summary).into_owned();
                self.output.reporter().summary(step, &masked);
            }
            Ok(None) => {}
            Err(error) => self.output.error(step, &error.to_string()),
        }
        whole
    }

    /// The outputs of the job. One that holds a secret is dropped, as on GitHub.
    fn outputs(&mut self, frame: &Frame) -> Vec<(String, String)> {
        let Some(steps) = self.task.steps() else { return Vec::new() };
        let mut outputs = Vec::new();
        for (name, template) in &steps.outputs {
            let value = evaluate_template(template, &self.env(frame, &Variables::default()));
            match value.map(|value| to_text(&value).into_owned()) {
                Ok(value) if self.output.masker.occurs_in(value.as_bytes()) => {
                    self.output.say(
                        self.step,
                        &format!("##[warning]the output `{name}` may hold a secret and is dropped"),
                    );
                }
                Ok(value) => outputs.push((name.clone(), value)),
                Err(message) => self.output.error(self.step, &message),
            }
        }
        outputs
    }
}

/// What differs between the processes of steps.
pub(super) struct ProcessParts<'p> {
    pub(super) step_env: &'p Variables,
    pub(super) action_env: &'p Variables,
    pub(super) timeout: Option<Duration>,
}

pub(super) struct Executed {
    pub(super) conclusion: Conclusion,
    pub(super) said: Said,
}

/// What the end of a process means for its step, and what the log says about it.
fn judge(end: End, wall: Duration) -> (Conclusion, Option<String>) {
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
            Some(format!("the step ran longer than {} s and was ended", wall.as_secs())),
        ),
        End::Silent => (
            Conclusion::Failure,
            Some("the step printed nothing for too long and was ended".to_owned()),
        ),
        End::Cancelled => (Conclusion::Cancelled, Some("the step was cancelled".to_owned())),
    }
}
