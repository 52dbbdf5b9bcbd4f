//! What actions leave for the end of the job.

use std::collections::BTreeMap;

use kiln_core::plan::Script;
use kiln_core::run::Conclusion;

use super::cache::Later;
use super::driver::JobRun;
use super::environment::Variables;
use super::frame::{ActionPlace, Frame};
use super::task::StepEnd;

/// The clean-up of an action that ran.
#[derive(Clone)]
pub(super) struct Post {
    /// The step that used the action.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) script: Script,
    pub(super) node: u32,
    pub(super) place: ActionPlace,
    pub(super) inputs: Variables,
    pub(super) env: Variables,
    /// What the parts before it saved for it.
    pub(super) state: Vec<(String, String)>,
}

impl Post {
    /// The id of the step, without those that led to it.
    fn step(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// What a script of the action sees outside of its step.
    pub(super) fn frame(&self, job: &Frame) -> Frame {
        let mut frame = job.clone();
        frame.env.clone_from(&self.env);
        frame.action = Some(self.place.clone());
        self.step().clone_into(&mut frame.step);
        frame
    }
}

/// What is left for the end of the job.
enum Left {
    Script(Post),
    Cache(Later),
}

impl Left {
    fn key(&self) -> &str {
        match self {
            Self::Script(post) => &post.key,
            Self::Cache(later) => &later.key,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Script(post) => &post.name,
            Self::Cache(_) => "Cache",
        }
    }
}

/// The clean-ups of a job, and what actions saved on the way to them.
#[derive(Default)]
pub(super) struct Posts {
    list: Vec<Left>,
    states: BTreeMap<String, Vec<(String, String)>>,
}

impl Posts {
    /// Keeps what the first script of an action saved for its main one.
    pub(super) fn save(&mut self, key: &str, state: &[(String, String)]) {
        self.states.insert(key.to_owned(), state.to_vec());
    }

    pub(super) fn state(&self, key: &str) -> &[(String, String)] {
        self.states.get(key).map_or(&[], Vec::as_slice)
    }

    /// A step has one clean-up; the place of the first registration counts, the last one's contents.
    pub(super) fn register(&mut self, post: Post) {
        self.add(Left::Script(post));
    }

    /// A cache is to be saved at the end.
    pub(super) fn register_cache(&mut self, later: Later) {
        self.add(Left::Cache(later));
    }

    fn add(&mut self, left: Left) {
        match self.list.iter_mut().find(|known| known.key() == left.key()) {
            Some(known) => *known = left,
            None => self.list.push(left),
        }
    }

    /// For a step that runs beside the others: it knows what was saved, and registers its own.
    pub(super) fn fork(&self) -> Self {
        Self { list: Vec::new(), states: self.states.clone() }
    }

    pub(super) fn take_over(&mut self, fork: Self) {
        fork.list.into_iter().for_each(|left| self.add(left));
    }
}

impl JobRun<'_, '_> {
    /// Runs the clean-ups, the last action's first, even after a failure.
    pub(super) fn posts(&mut self, frame: &mut Frame) {
        if !self.posts.list.is_empty() {
            self.output().uploading();
        }
        while let Some(left) = self.posts.list.pop() {
            let step = self.begin();
            self.output().step_started(step, &format!("Post {}", left.name()));
            let done = match &left {
                Left::Script(post) => self.post(frame, post),
                Left::Cache(later) => self.post_cache(frame, later),
            };
            let conclusion = done.unwrap_or_else(|message| {
                self.output().error(step, &message);
                Conclusion::Failure
            });
            self.output().step_finished(step, StepEnd::same(conclusion));
            frame.worsen(conclusion);
        }
    }

    /// Only what a job leaves that went well is worth keeping.
    fn post_cache(&mut self, frame: &Frame, later: &Later) -> Result<Conclusion, String> {
        if !self.holds(frame, "success()")? {
            return Ok(Conclusion::Skipped);
        }
        Ok(self.save_later(later))
    }

    fn post(&mut self, frame: &Frame, post: &Post) -> Result<Conclusion, String> {
        if !self.holds(frame, &post.script.condition.text)? {
            return Ok(Conclusion::Skipped);
        }
        let (inner, state) = (post.frame(frame), &post.state);
        let done = self.node(&inner, &post.script.path, post.node, &post.inputs, state, None)?;
        Ok(done.conclusion)
    }
}
