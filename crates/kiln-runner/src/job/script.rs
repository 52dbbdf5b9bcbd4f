//! `run` steps.

use std::time::Duration;

use kiln_core::plan::{Run, Template};
use kiln_lang::engine::evaluate_template;
use kiln_lang::expr::coerce::to_text;

use crate::process::find_program;

use super::driver::{Done, JobRun};
use super::environment::Variables;
use super::execute::ProcessParts;
use super::files;
use super::frame::Frame;
use super::shell::Script;

impl JobRun<'_, '_> {
    pub(super) fn script(
        &mut self,
        frame: &Frame,
        run: &Run,
        step_env: &Variables,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        let text = |this: &Self, template: &Template| {
            evaluate_template(template, &this.env(frame, step_env))
                .map(|value| to_text(&value).into_owned())
        };
        let script = text(self, &run.script)?;
        let defaults = self.run_defaults(frame);
        let choose = |this: &Self, own: &Option<Template>, default: Option<Template>| {
            own.clone().or(default).map(|template| text(this, &template)).transpose()
        };
        let shell = choose(self, &run.shell, defaults.0)?;
        let directory = choose(self, &run.working_directory, defaults.1)?;
        let mut layered = frame.env.clone();
        layered.extend(step_env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let environment = self.environment(&layered, &Variables::default(), &Variables::default());
        let path = Self::search_path(&environment);
        let workspace = &self.shared.task.places.workspace;
        let cwd = directory
            .filter(|directory| !directory.is_empty())
            .map_or_else(|| workspace.clone(), |directory| workspace.join(directory));
        let number = self.next_number();
        let stem = self.shared.task.places.scripts.join(format!("script-{number}"));
        let which = |name: &str| find_program(std::path::Path::new(name), &path, &cwd);
        let script = Script::new(shell.as_deref(), &script, &stem, which)
            .map_err(|error| error.to_string())?;
        files::write(&script.path, &script.contents).map_err(|error| {
            format!("cannot write the script `{}`: {error}", script.path.display())
        })?;
        self.announce(&script.contents, &script.description);
        let args = script.args.iter().map(Into::into).collect();
        let parts = ProcessParts {
            step_env: &layered,
            action_env: &Variables::default(),
            timeout,
            offered: Variables::default(),
            leader: None,
        };
        let done = self.execute(frame, script.program, args, &cwd, &parts);
        files::wipe(&script.path);
        let done = done?;
        Ok((done.conclusion, done.said.outputs))
    }

    /// Shell and directory from `defaults.run`; a composite action has none.
    fn run_defaults(&self, frame: &Frame) -> (Option<Template>, Option<Template>) {
        if frame.action.is_some() {
            return (None, None);
        }
        let workflow = &self.shared.task.workflow().defaults;
        let job = self.shared.task.steps().map(|steps| &steps.defaults);
        let shell = job.and_then(|job| job.shell.clone()).or_else(|| workflow.shell.clone());
        let directory = job
            .and_then(|job| job.working_directory.clone())
            .or_else(|| workflow.working_directory.clone());
        (shell, directory)
    }

    /// What the log shows before a script runs.
    fn announce(&mut self, script: &str, shell: &str) {
        let step = self.step;
        let first = script.trim().lines().next().unwrap_or_default();
        self.output().say(step, &format!("##[group]Run {first}"));
        self.output().say(step, script.trim_end());
        self.output().say(step, &format!("shell: {shell}"));
        self.output().say(step, "##[endgroup]");
        self.output().flush();
    }
}
