//! A list of steps under way: the job's own, or those of a composite action.

use std::path::PathBuf;

use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};

use crate::action::Author;

use super::environment::Variables;
use super::task::StepEnd;

/// How deep composite actions may nest.
pub(super) const MAX_DEPTH: usize = 10;

/// What the steps of one list share.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The `steps` context so far.
    pub(super) steps: Object,
    pub(super) inputs: Value,
    /// `env` of the steps that led here.
    pub(super) env: Variables,
    pub(super) status: Conclusion,
    /// Where the action around it lies.
    pub(super) action: Option<ActionPlace>,
    pub(super) depth: usize,
}

#[derive(Debug, Clone)]
pub(super) struct ActionPlace {
    pub(super) path: PathBuf,
    /// The files of its whole repository; `None` for those of the workspace.
    pub(super) root: Option<PathBuf>,
    pub(super) author: Author,
    /// `owner/repository`, for actions that were fetched.
    pub(super) repository: String,
    pub(super) reference: String,
}

impl Frame {
    pub(super) fn of_job(inputs: Object) -> Self {
        Self {
            steps: Object::new(),
            inputs: Value::object(inputs),
            env: Variables::default(),
            status: Conclusion::Success,
            action: None,
            depth: 0,
        }
    }

    pub(super) fn of_action(&self, inputs: Object, env: Variables, place: ActionPlace) -> Self {
        Self {
            inputs: Value::object(inputs),
            env,
            action: Some(place),
            depth: self.depth + 1,
            ..Self::of_job(Object::new())
        }
    }

    /// Keeps the end of a step for the `steps` context and for the steps after it.
    pub(super) fn record(&mut self, id: &str, end: StepEnd, outputs: &[(String, String)]) {
        let outputs: Object = outputs
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from(value.as_str())))
            .collect();
        let step: Object = [
            ("outputs", Value::object(outputs)),
            ("outcome", Value::from(end.outcome.result())),
            ("conclusion", Value::from(end.conclusion.result())),
        ]
        .into_iter()
        .collect();
        self.steps.insert(id, Value::object(step));
        self.worsen(end.conclusion);
    }

    /// A failure stays a failure, a cancellation a cancellation.
    pub(super) fn worsen(&mut self, conclusion: Conclusion) {
        if self.status == Conclusion::Success && conclusion != Conclusion::Skipped {
            self.status = conclusion;
        }
    }
}
