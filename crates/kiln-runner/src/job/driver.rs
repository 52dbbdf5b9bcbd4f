//! Runs the steps of one job, in order, and what they leave for its end.

use std::fs;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use kiln_core::plan::{Data, Step, StepKind, Template};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::{evaluate_data, evaluate_template, evaluate_text};
use kiln_lang::expr::coerce::{to_number, to_text, truthy};

use crate::action::{Nodes, Resolver};
use crate::backend::Backend;
use crate::gateway::{Facts, Gateway};
use crate::git::leashed;
use crate::origin::Origin;
use crate::process::{Control, Tree};

use super::background::{Background, Slots};
use super::contexts::StepEnv;
use super::environment::{Environment, PathAdditions, Variables, job_variables};
use super::frame::Frame;
use super::limits::confine;
use super::output::Output;
use super::post::Posts;
use super::task::{Report, Reporter, StepEnd, Task};

/// How a step's work ended, and its outputs.
pub(super) type Done = (Conclusion, Vec<(String, String)>);

/// What is the same for all jobs of a runner.
#[derive(Debug)]
pub struct Host {
    /// What runs the processes of steps.
    pub backend: Box<dyn Backend>,
    /// The environment that jobs start from.
    pub inherited: Environment,
    pub resolver: Resolver,
    /// The repository of the workflow, as actions fetch it.
    pub origin: Origin,
    /// Its name, as jobs are told.
    pub name: String,
    pub nodes: Arc<Nodes>,
    /// How long a job may take that sets no limit itself.
    pub timeout: Duration,
    /// How long a step may print nothing.
    pub silence: Option<Duration>,
    /// How long steps that run all the same have once the job was cancelled, or its time is over.
    pub clean_up: Duration,
}

/// GitHub's time for what runs after a cancel.
pub const CLEAN_UP: Duration = Duration::from_mins(5);

/// Runs a job to its end. Cancelling `control` ends the running step; steps whose condition still
/// holds run all the same.
pub fn run(
    task: &Task,
    host: &Host,
    reporter: &dyn Reporter,
    control: &Control,
    tree: &Tree,
) -> Report {
    let Some(steps) = task.steps() else {
        return Report::of(Conclusion::Failure);
    };
    let shared = Shared::new(task, host, reporter, tree);
    thread::scope(|scope| {
        let mut run = JobRun::new(&shared, scope, control.clone());
        let mut frame = Frame::of_job(task.contexts.inputs.clone());
        let unenforced = confine(tree, &steps.limits);
        for what in &unenforced {
            run.output().say(0, &format!("##[warning]{what} is not seen to on this runner"));
        }
        match run.prepare(&frame) {
            Ok(()) => {
                if let Some(outputs) = run.reused() {
                    return Report { outputs, unenforced, ..Report::of(Conclusion::Success) };
                }
                run.pres(&mut frame, &steps.steps);
                run.job_steps(&mut frame, &steps.steps);
            }
            Err(message) => {
                run.output().error(0, &message);
                frame.status = Conclusion::Failure;
            }
        }
        run.posts(&mut frame);
        let outputs = run.outputs(&mut frame);
        let deployment = run.deployment(&mut frame);
        Report { outputs, deployment, unenforced, ..Report::of(frame.status) }
    })
}

/// What all steps of a job share, also those that run side by side.
pub(super) struct Shared<'j> {
    pub(super) task: &'j Task,
    pub(super) host: &'j Host,
    pub(super) output: Output<'j>,
    pub(super) tree: &'j Tree,
    pub(super) github: Object,
    runner: Value,
    /// How many files of the job have a number.
    pub(super) files: AtomicUsize,
    /// When the job as a whole must be over.
    pub(super) deadline: OnceLock<Instant>,
    pub(super) slots: Slots,
    /// Held while the files of the commit are written out.
    pub(super) exporting: Mutex<()>,
    /// The services that actions expect.
    pub(super) gateway: Gateway,
}

impl<'j> Shared<'j> {
    fn new(task: &'j Task, host: &'j Host, reporter: &'j dyn Reporter, tree: &'j Tree) -> Self {
        let mut masker = task.masker.clone();
        // What is too short to be masked is too short to be a secret.
        let _ = masker.add_all(task.secrets.iter().map(|(_, secret)| secret.as_str()));
        let output = Output::new(reporter, &task.places.workspace, masker);
        Self {
            task,
            host,
            output,
            tree,
            github: task.contexts.github.clone(),
            runner: super::variables::runner(&host.name, &task.places),
            files: AtomicUsize::new(1),
            deadline: OnceLock::new(),
            slots: Slots::default(),
            exporting: Mutex::default(),
            gateway: Gateway::new(
                Arc::clone(&task.services),
                Facts::of(task, host.origin.is_for_others()),
                task.places.scripts.join("gateway"),
            ),
        }
    }
}

/// A line of steps under way: the job's own, or that of one background step.
pub(super) struct JobRun<'s, 'j> {
    pub(super) shared: &'j Shared<'j>,
    pub(super) scope: &'s Scope<'s, 'j>,
    pub(super) control: Control,
    pub(super) env: Variables,
    pub(super) path: PathAdditions,
    /// What steps added to the two above, in order.
    pub(super) changes: Changes,
    pub(super) posts: Posts,
    pub(super) background: Background<'s>,
    /// The top-level step that is under way.
    pub(super) step: usize,
    /// How many steps have a number.
    numbered: usize,
    /// Whether a time limit ended the last process.
    pub(super) timed_out: bool,
    /// What the last process ended with.
    pub(super) exit_code: Option<i32>,
    /// When the composite actions under way must be over.
    pub(super) until: Option<Instant>,
    /// Whether the step under way was started although the job had been cancelled.
    pub(super) despite_cancel: bool,
}

/// Additions to the environment of later steps.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) env: Vec<(String, String)>,
    pub(super) path: Vec<String>,
}

impl<'s, 'j> JobRun<'s, 'j> {
    fn new(shared: &'j Shared<'j>, scope: &'s Scope<'s, 'j>, control: Control) -> Self {
        Self {
            shared,
            scope,
            control,
            env: Variables::default(),
            path: PathAdditions::default(),
            changes: Changes::default(),
            posts: Posts::default(),
            background: Background::default(),
            step: 0,
            numbered: 0,
            timed_out: false,
            exit_code: None,
            until: None,
            despite_cancel: false,
        }
    }

    /// The same line of steps as it is now, to go on beside this one.
    pub(super) fn fork(&self, control: Control, step: usize) -> Self {
        Self {
            env: self.env.clone(),
            path: self.path.clone(),
            posts: self.posts.fork(),
            until: self.until,
            step,
            ..Self::new(self.shared, self.scope, control)
        }
    }

    /// Gives the next step its number.
    pub(super) fn number(&mut self) -> usize {
        self.numbered += 1;
        self.numbered - 1
    }

    /// The next step is under way.
    pub(super) fn begin(&mut self) -> usize {
        self.step = self.number();
        self.step
    }

    pub(super) fn output(&self) -> &'j Output<'j> {
        &self.shared.output
    }

    pub(super) fn set_env(&mut self, name: String, value: String) {
        self.env.insert(name.clone(), value.clone());
        self.changes.env.push((name, value));
    }

    pub(super) fn add_path(&mut self, entry: String) {
        self.path.add(&entry);
        self.changes.path.push(entry);
    }

    /// The environment of the workflow and of the job, and the time the job has.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    fn prepare(&mut self, frame: &Frame) -> Result<(), String> {
        let task = self.shared.task;
        for (key, data) in task.steps().map_or([("", None); 2], |steps| {
            [("container", steps.container.as_ref()), ("services", steps.services.as_ref())]
        }) {
            if data.is_some() {
                return Err(format!("`{key}` needs a container backend, which is not there yet"));
            }
        }
        fs::create_dir_all(&task.places.temp)
            .map_err(|error| format!("cannot make `{}`: {error}", task.places.temp.display()))?;
        let workflow = self.variables(frame, task.workflow().env.as_ref())?;
        self.env.clone_from(&workflow);
        let job = self.variables(frame, task.steps().and_then(|steps| steps.env.as_ref()))?;
        self.env = job_variables(&workflow, &job);
        let limit = match task.steps().and_then(|steps| steps.timeout_minutes.as_ref()) {
            Some(template) => self.minutes(frame, template)?,
            None => self.shared.host.timeout,
        };
        self.shared.deadline.get_or_init(|| Instant::now() + limit);
        Ok(())
    }

    /// What the expressions of a step see.
    pub(super) fn env(&self, frame: &Frame, step_env: &Variables) -> StepEnv<'_> {
        let mut env = self.env.clone();
        env.extend(
            frame.env.iter().chain(step_env).map(|(name, value)| (name.clone(), value.clone())),
        );
        // Inside an action that runs despite a cancel, the state of the action counts.
        let cancelled = self.control.is_cancelled() && !frame.despite_cancel;
        StepEnv {
            task: self.shared.task,
            github: &self.shared.github,
            own: frame.github(),
            env,
            steps: Value::object(frame.steps.clone()),
            inputs: frame.inputs.clone(),
            runner: &self.shared.runner,
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

    /// The steps of the job itself.
    fn job_steps(&mut self, frame: &mut Frame, steps: &[Step]) {
        for step in steps {
            if step.background {
                self.launch(frame, step);
                continue;
            }
            let at = self.begin();
            let name = self.name(frame, step);
            self.output().step_started(at, &name);
            let (end, outputs) = self.one(frame, step);
            frame.record(&step.id, end, &outputs);
            self.output().step_finished(at, end);
        }
        self.wait_for_the_rest(frame);
        if self.control.is_cancelled() {
            // Also when no step was under way that could have noticed.
            frame.worsen(Conclusion::Cancelled);
        }
    }

    /// The steps of a composite action.
    pub(super) fn steps(&mut self, frame: &mut Frame, steps: &[Step]) {
        for step in steps {
            let (end, outputs) = self.one(frame, step);
            frame.record(&step.id, end, &outputs);
        }
    }

    pub(super) fn name(&self, frame: &Frame, step: &Step) -> String {
        let env = self.env(frame, &Variables::default());
        let text = |template: &Template| {
            evaluate_template(template, &env).map(|value| to_text(&value).into_owned())
        };
        match &step.name {
            Some(name) => text(name).unwrap_or_else(|_| step.id.clone()),
            None => {
                let script = |script: &Template| Some(text(script).unwrap_or_default());
                step.kind.usual_name(script).unwrap_or_default()
            }
        }
    }

    /// One step: its condition, its work, and what its failure means.
    fn one(&mut self, frame: &mut Frame, step: &Step) -> (StepEnd, Vec<(String, String)>) {
        frame.step.clone_from(&step.id);
        if self.is_over() {
            frame.worsen(Conclusion::TimedOut);
        }
        if let Some(why) = &step.left_out {
            self.output().say(self.step, why);
            return (StepEnd::same(Conclusion::Skipped), Vec::new());
        }
        match self.holds(frame, &step.condition.text) {
            Ok(true) => self.tries(frame, step),
            Ok(false) => (StepEnd::same(Conclusion::Skipped), Vec::new()),
            Err(message) => {
                self.output().error(self.step, &message);
                (StepEnd::same(Conclusion::Failure), Vec::new())
            }
        }
    }

    /// Whether a step is to run. If it is although the job was cancelled before, that same cancel must
    /// not end it; one that comes later must.
    pub(super) fn holds(&mut self, frame: &Frame, condition: &str) -> Result<bool, String> {
        if self.control.is_killed() {
            // It would be killed at once, but not before it could do something.
            return Ok(false);
        }
        self.despite_cancel = self.control.is_cancelled();
        let holds = evaluate_text(condition, &self.env(frame, &Variables::default()))
            .map(|value| truthy(&value))?;
        if holds && self.is_spent() {
            let message = "##[warning]not run: the time for cleaning up is over";
            self.output().say(self.step, message);
            return Ok(false);
        }
        Ok(holds)
    }

    pub(super) fn tolerates(&mut self, frame: &Frame, step: &Step) -> bool {
        let Some(template) = &step.continue_on_error else { return false };
        match evaluate_template(template, &self.env(frame, &Variables::default())) {
            Ok(value) => truthy(&value),
            Err(message) => {
                self.output().error(self.step, &message);
                false
            }
        }
    }

    pub(super) fn work(&mut self, frame: &mut Frame, step: &Step) -> Result<Done, String> {
        let step_env = self.variables(frame, step.env.as_ref())?;
        let timeout = self.timeout(frame, step)?;
        match &step.kind {
            StepKind::Run(run) => self.script(frame, run, &step_env, timeout),
            StepKind::Use(used) => leashed(self.leash(timeout), || {
                self.use_action(frame, &step.id, used, &step_env, timeout)
            }),
            StepKind::Wait(ids) => Ok(self.wait_for(frame, ids)),
            StepKind::WaitAll => Ok(self.wait_for_all(frame)),
            StepKind::Cancel(id) => Ok(self.cancel_step(frame, id)),
            StepKind::Parallel(steps) => Ok(self.parallel(frame, steps)),
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

    /// The outputs of the job. One that holds a secret is dropped, as on GitHub.
    fn outputs(&mut self, frame: &mut Frame) -> Vec<(String, String)> {
        let Some(steps) = self.shared.task.steps() else { return Vec::new() };
        let mut outputs = Vec::new();
        for (name, template) in &steps.outputs {
            let value = evaluate_template(template, &self.env(frame, &Variables::default()));
            match value.map(|value| to_text(&value).into_owned()) {
                Ok(value) if self.output().has_secret(&value) => {
                    self.output().say(
                        self.step,
                        &format!("##[warning]the output `{name}` may hold a secret and is dropped"),
                    );
                }
                Ok(value) => outputs.push((name.clone(), value)),
                Err(message) => {
                    self.output().error(self.step, &format!("the output `{name}`: {message}"));
                    frame.worsen(Conclusion::Failure);
                }
            }
        }
        outputs
    }
}
