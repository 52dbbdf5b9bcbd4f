//! Steps of a job.

use super::{Condition, Data, Place, Retry, Template};

#[derive(Debug, Clone)]
pub struct Step {
    /// Given, or generated as GitHub does (`__run`, `__actions_checkout_2`).
    pub id: String,
    pub name: Option<Template>,
    pub condition: Condition,
    pub env: Option<Data>,
    pub continue_on_error: Option<Template>,
    pub timeout_minutes: Option<Template>,
    pub background: bool,
    pub retry: Option<Retry>,
    pub kind: StepKind,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub enum StepKind {
    Run(Run),
    Use(Use),
    /// Wait for these background steps.
    Wait(Vec<String>),
    WaitAll,
    /// Cancel this background step.
    Cancel(String),
    Parallel(Vec<Step>),
}

#[derive(Debug, Clone)]
pub struct Run {
    pub script: Template,
    pub shell: Option<Template>,
    pub working_directory: Option<Template>,
}

#[derive(Debug, Clone)]
pub struct Use {
    pub target: UseTarget,
    pub with: Option<Data>,
}

/// What `uses:` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UseTarget {
    /// `./path`, in the workspace.
    Local(String),
    /// `$/path`, in the repository the workflow file came from.
    SameRepository(String),
    /// `owner/repo/path@ref`.
    Repository { owner: String, repository: String, path: String, reference: String },
    /// `docker://image`.
    Docker(String),
}
