//! What actions leave for the end of the job.

use kiln_core::plan::Script;
use kiln_core::run::Conclusion;
use kiln_lang::engine::evaluate_text;
use kiln_lang::expr::coerce::truthy;

use super::driver::JobRun;
use super::environment::Variables;
use super::frame::{ActionPlace, Frame};
use super::task::StepEnd;

/// The clean-up of an action that ran.
pub(super) struct Post {
    pub(super) name: String,
    pub(super) script: Script,
    pub(super) node: u32,
    pub(super) place: ActionPlace,
    pub(super) inputs: Variables,
    pub(super) env: Variables,
    /// What the main part saved for it.
    pub(super) state: Vec<(String, String)>,
}

impl JobRun<'_> {
    /// Runs the clean-ups, the last action's first, even after a failure.
    pub(super) fn posts(&mut self, frame: &mut Frame) {
        while let Some(post) = self.posts.pop() {
            self.output.reporter().step_started(self.step, &format!("Post {}", post.name));
            let conclusion = match self.post(frame, &post) {
                Ok(conclusion) => conclusion,
                Err(message) => {
                    self.output.error(self.step, &message);
                    Conclusion::Failure
                }
            };
            self.output
                .reporter()
                .step_finished(self.step, StepEnd { outcome: conclusion, conclusion });
            frame.worsen(conclusion);
            self.step += 1;
        }
    }

    fn post(&mut self, frame: &Frame, post: &Post) -> Result<Conclusion, String> {
        let condition =
            evaluate_text(&post.script.condition.text, &self.env(frame, &Variables::default()))?;
        if !truthy(&condition) {
            return Ok(Conclusion::Skipped);
        }
        let mut inner =
            frame.of_action(kiln_core::value::Object::new(), post.env.clone(), post.place.clone());
        inner.status = frame.status;
        let state = &post.state;
        let done = self.node(&inner, &post.script.path, post.node, &post.inputs, state, None)?;
        Ok(done.conclusion)
    }
}
