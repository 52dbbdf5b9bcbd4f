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
    /// The ids of the steps that led here, each with a slash behind it.
    scope: String,
    /// The id of the step under way.
    pub(super) step: String,
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
    /// The commit that the reference stood for.
    pub(super) commit: Option<String>,
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
            scope: String::new(),
            step: String::new(),
        }
    }

    /// The steps of the action that the step `id` uses.
    pub(super) fn of_action(
        &self,
        id: &str,
        inputs: Object,
        env: Variables,
        place: ActionPlace,
    ) -> Self {
        Self {
            scope: self.key(id) + "/",
            step: id.to_owned(),
            inputs: Value::object(inputs),
            env,
            action: Some(place),
            depth: self.depth + 1,
            ..Self::of_job(Object::new())
        }
    }

    /// What changes in the `github` context from step to step.
    pub(super) fn github(&self) -> Vec<(&'static str, String)> {
        let mut own = vec![("action", self.step.clone())];
        if let Some(place) = &self.action {
            own.push(("action_path", place.path.to_string_lossy().into_owned()));
            own.push(("action_repository", place.repository.clone()));
            own.push(("action_ref", place.reference.clone()));
        }
        own
    }

    /// What tells a step from all others of the job.
    pub(super) fn key(&self, id: &str) -> String {
        format!("{}{id}", self.scope)
    }

    /// Keeps the end of a step for the `steps` context and for the steps after it.
    pub(super) fn record(&mut self, id: &str, end: StepEnd, outputs: &[(String, String)]) {
        self.keep(id, end, outputs);
        self.worsen(end.conclusion);
    }

    /// Keeps the end of a step for the `steps` context only.
    pub(super) fn keep(&mut self, id: &str, end: StepEnd, outputs: &[(String, String)]) {
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
    }

    pub(super) fn worsen(&mut self, conclusion: Conclusion) {
        self.status = worse(self.status, conclusion);
    }
}

/// A failure stays a failure, a cancellation a cancellation.
pub(super) fn worse(status: Conclusion, conclusion: Conclusion) -> Conclusion {
    if status == Conclusion::Success && conclusion != Conclusion::Skipped {
        conclusion
    } else {
        status
    }
}
