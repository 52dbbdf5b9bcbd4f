//! What actions want to do before the job's first step.

use kiln_core::plan::{Action, ActionRuns, Script, Step, StepKind, Use, UseTarget};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};

use crate::action::load;
use crate::git::leashed;

use super::driver::JobRun;
use super::frame::{Frame, MAX_DEPTH};
use super::post::Post;
use super::task::StepEnd;

/// A script that runs before the first step.
struct Pre {
    script: Script,
    /// How the action is run afterwards, and what it cleans up if it does.
    post: Option<Script>,
    action: Post,
}

impl JobRun<'_, '_> {
    /// Runs the first scripts of all actions that the job uses, in the order of its steps.
    pub(super) fn pres(&mut self, frame: &mut Frame, steps: &[Step]) {
        let mut found = Vec::new();
        leashed(self.leash(None), || self.find_pres(frame, steps, &mut found));
        for pre in found {
            let step = self.begin();
            self.output().step_started(step, &format!("Pre {}", pre.action.name));
            let conclusion = self.pre(frame, pre).unwrap_or_else(|message| {
                self.output().error(step, &message);
                Conclusion::Failure
            });
            self.output().step_finished(step, StepEnd::same(conclusion));
            frame.worsen(conclusion);
        }
    }

    fn pre(&mut self, frame: &Frame, pre: Pre) -> Result<Conclusion, String> {
        if !self.holds(frame, &pre.script.condition.text)? {
            return Ok(Conclusion::Skipped);
        }
        let mut action = pre.action;
        let inner = action.frame(frame);
        let done = self.node(&inner, &pre.script.path, action.node, &action.inputs, &[], None)?;
        action.state = done.said.state;
        self.posts.save(&action.key, &action.state);
        if let Some(script) = pre.post {
            self.posts.register(Post { script, ..action });
        }
        Ok(done.conclusion)
    }

    /// Looks into fetched actions only: files of the repository are not there before the checkout.
    /// What cannot be found or read says so when its step is reached, and not when it is skipped.
    fn find_pres(&mut self, frame: &Frame, steps: &[Step], found: &mut Vec<Pre>) {
        for step in steps.iter().filter(|step| step.left_out.is_none()) {
            match &step.kind {
                StepKind::Parallel(steps) => self.find_pres(frame, steps, found),
                StepKind::Use(used) => {
                    let _ = self.find_pre(frame, step, used, found);
                }
                _ => {}
            }
        }
    }

    fn find_pre(
        &mut self,
        frame: &Frame,
        step: &Step,
        used: &Use,
        found: &mut Vec<Pre>,
    ) -> Result<(), String> {
        let is_fetched = matches!(used.target, UseTarget::Repository { .. });
        if !is_fetched || self.built_in(&used.target).is_some() || frame.depth >= MAX_DEPTH {
            return Ok(());
        }
        let place = self.place(frame, &used.target)?;
        let Action { name, inputs, runs, .. } = load(&place.path, place.author)?.action;
        let mut env = frame.env.clone();
        env.extend(self.variables(frame, step.env.as_ref())?);
        let with = self.variables(frame, used.with.as_ref())?;
        match runs {
            ActionRuns::JavaScript { node, pre: Some(script), post, .. } => {
                let inputs = self.inputs(frame, &inputs, &with)?;
                let key = frame.key(&step.id);
                let action = Post {
                    key,
                    name,
                    script: script.clone(),
                    node,
                    place,
                    inputs,
                    env,
                    state: Vec::new(),
                };
                found.push(Pre { script, post, action });
            }
            ActionRuns::Composite(steps) => {
                let inputs = self.inputs(frame, &inputs, &with)?;
                let inputs: Object =
                    inputs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
                let inner = frame.of_action(&step.id, inputs, env, place);
                self.find_pres(&inner, &steps, found);
            }
            ActionRuns::JavaScript { .. } | ActionRuns::Docker { .. } => {}
        }
        Ok(())
    }
}
