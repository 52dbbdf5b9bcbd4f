//! A compiled run: what a pipeline text became, as data that no longer knows the text's format.
//!
//! Whatever depends on the run itself (an event, a need's outputs, a matrix leg) stays an expression
//! in [`Data`] or [`Template`] until its moment has come. A plan is a small arena: workflows refer to
//! the reusable workflows they call by index, so a file that is called ten times is compiled once.

mod action;
mod data;
mod job;
pub mod matrix;
mod permissions;
mod step;

pub use action::{Action, ActionInput, ActionRuns, Script};
pub use data::{Condition, Data, MapKey, Template};
pub use job::{
    Call, CallSecrets, Concurrency, Job, JobKind, Preference, QueueMode, Retry, RetryOn, StepsJob,
    Strategy,
};
pub use permissions::{Access, Permissions, Scope};
pub use step::{Run, Step, StepKind, Use, UseTarget};

/// Index of a workflow in [`Plan::workflows`].
pub type WorkflowIndex = usize;

/// Index of a job in [`Workflow::jobs`].
pub type JobIndex = usize;

/// A whole run: the triggered workflow first, then every reusable workflow it reaches.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub workflows: Vec<Workflow>,
}

impl Plan {
    /// The workflow that was triggered.
    pub fn root(&self) -> &Workflow {
        &self.workflows[0]
    }
}

/// Where in a source file something was written, for annotations and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

/// One workflow file.
#[derive(Debug, Clone, Default)]
pub struct Workflow {
    /// The path of the file, as the caller names it.
    pub path: String,
    pub name: Option<String>,
    pub run_name: Option<Template>,
    pub env: Option<Data>,
    pub defaults: RunDefaults,
    pub permissions: Option<Permissions>,
    pub concurrency: Option<Concurrency>,
    /// What `workflow_dispatch` asks for.
    pub dispatch_inputs: Vec<Input>,
    /// What `workflow_call` asks for; `None` when the file cannot be called.
    pub call: Option<CallInterface>,
    /// In the order of the file.
    pub jobs: Vec<Job>,
}

impl Workflow {
    pub fn job(&self, id: &str) -> Option<(JobIndex, &Job)> {
        self.jobs.iter().enumerate().find(|(_, job)| job.id.eq_ignore_ascii_case(id))
    }
}

/// `defaults.run` of a workflow or job.
#[derive(Debug, Clone, Default)]
pub struct RunDefaults {
    pub shell: Option<Template>,
    pub working_directory: Option<Template>,
}

/// What a callable workflow takes and gives.
#[derive(Debug, Clone, Default)]
pub struct CallInterface {
    pub inputs: Vec<Input>,
    pub secrets: Vec<SecretInput>,
    /// Name and expression over the `jobs` context.
    pub outputs: Vec<(String, Template)>,
}

#[derive(Debug, Clone)]
pub struct SecretInput {
    pub name: String,
    pub required: bool,
}

/// A typed input of a dispatched or called workflow.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: String,
    pub description: Option<String>,
    pub kind: InputKind,
    pub required: bool,
    pub default: Option<Template>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    String,
    Boolean,
    Number,
    Environment,
    Choice(Vec<String>),
}

impl InputKind {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Environment => "environment",
            Self::Choice(_) => "choice",
        }
    }
}
