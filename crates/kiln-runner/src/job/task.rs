//! What a job is given, and what it gives back.

use std::path::Path;
use std::sync::Arc;

use kiln_core::plan::{self, Plan, StepsJob};
use kiln_core::run::Conclusion;
use kiln_core::value::Object;
use kiln_lang::expr::json;

use crate::gateway::Services;

use super::annotations::Annotation;
use super::deployment::Deployment;
use super::files;
use super::mask::Masker;
use super::places::Places;

/// One leg of a job, ready to run.
#[derive(Debug, Clone)]
pub struct Task {
    pub plan: Arc<Plan>,
    pub workflow: plan::WorkflowIndex,
    pub job: plan::JobIndex,
    /// The name people see.
    pub name: String,
    pub contexts: Contexts,
    /// The name of the environment it deploys to.
    pub environment: Option<String>,
    /// What the `secrets` context holds: a called workflow sees only what its caller hands on.
    pub secrets: Vec<(String, String)>,
    /// What must never be shown: all secrets of the run, also those that this job does not see.
    pub masker: Masker,
    /// What actions can leave behind and find again.
    pub services: Arc<dyn Services>,
    /// It has `id-token: write`: its actions may ask for words that say who it is.
    pub may_identify: bool,
    /// It may find caches and not leave any: actions are told so.
    pub reads_caches_only: bool,
    /// It has `actions: write`: its steps may remove artifacts by GitHub's interface.
    pub may_write_actions: bool,
    pub places: Places,
}

impl Task {
    pub fn workflow(&self) -> &plan::Workflow {
        &self.plan.workflows[self.workflow]
    }

    pub fn job(&self) -> &plan::Job {
        &self.workflow().jobs[self.job]
    }

    /// The steps of the job; a job that calls a workflow is never given to a runner.
    pub fn steps(&self) -> Option<&StepsJob> {
        match &self.job().kind {
            plan::JobKind::Steps(steps) => Some(steps),
            plan::JobKind::Call(_) => None,
        }
    }
}

/// The contexts that do not change while the job runs.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    pub github: Object,
    pub vars: Object,
    pub inputs: Object,
    pub needs: Object,
    pub matrix: Object,
    pub strategy: Object,
}

/// Writes the payload of the event as actions read it.
pub(crate) fn write_event(github: &Object, path: &Path) -> Result<(), String> {
    let payload = json::write(&github.get("event").cloned().unwrap_or_default())?;
    files::write(path, &payload)
        .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct Report {
    pub conclusion: Conclusion,
    pub outputs: Vec<(String, String)>,
    pub deployment: Option<Deployment>,
    /// Limits of the job that nothing here sees to.
    pub unenforced: Vec<String>,
}

impl Report {
    /// An end, and nothing besides.
    pub(crate) fn of(conclusion: Conclusion) -> Self {
        Self { conclusion, outputs: Vec::new(), deployment: None, unenforced: Vec::new() }
    }
}

/// How a step ended: before and after `continue-on-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEnd {
    pub outcome: Conclusion,
    pub conclusion: Conclusion,
    /// What its process ended with, if it was one and ended by itself.
    pub exit_code: Option<i32>,
}

impl StepEnd {
    /// An end that nothing softens.
    pub(crate) fn same(conclusion: Conclusion) -> Self {
        Self { outcome: conclusion, conclusion, exit_code: None }
    }
}

/// Hears what happens in a job, as it happens. Steps that run side by side speak in turns.
pub trait Reporter: Sync {
    fn step_started(&self, step: usize, name: &str);
    /// A line of the log, without its line break and with secrets masked.
    fn line(&self, step: usize, line: &[u8]);
    /// A try failed, the declared retry gives the step another one: the flake is on record.
    fn step_retried(&self, step: usize, failed_try: u32);
    fn step_finished(&self, step: usize, end: StepEnd);
    fn annotation(&self, step: usize, annotation: &Annotation);
    fn summary(&self, step: usize, markdown: &str);
    /// The steps are done; what they leave is stored now.
    fn uploading(&self) {}
    /// A good moment to write out what was buffered.
    fn flush(&self) {}
}
