//! A compiled run: what a pipeline text became, as data that no longer knows the text's format.
//!
//! Whatever depends on the run itself (an event, a need's outputs, a matrix leg) stays an expression
//! in [`Data`] or [`Template`] until its moment has come. A plan is a small arena: workflows refer to
//! the reusable workflows they call by index, so a file that is called ten times is compiled once.
//!
//! A plan is kept as JSON, which a later version must still read: a new field has a default, a field
//! that goes is ignored, and what is empty is not written. The form of its trees is in `json.rs`.

mod action;
mod data;
mod from_step;
mod job;
mod json;
pub mod matrix;
mod permissions;
mod resources;
mod step;

use serde::{Deserialize, Serialize};

use json::{AnyPlan, is_default};

pub use action::{Action, ActionInput, ActionRuns, Script};
pub use data::{Condition, Data, MapKey, Template};
pub use from_step::NoStep;
pub use job::{
    Call, CallSecrets, Concurrency, Job, JobKind, Preference, QueueMode, Retry, RetryOn, StepsJob,
    Strategy,
};
pub use permissions::{Access, Permissions, Scope};
pub use resources::{Limits, Requires};
pub use step::{Run, Step, StepKind, Use, UseTarget};

/// Index of a workflow in [`Plan::workflows`].
pub type WorkflowIndex = usize;

/// Index of a job in [`Workflow::jobs`].
pub type JobIndex = usize;

/// A whole run: the triggered workflow first, then every reusable workflow it reaches.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "AnyPlan")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

/// One workflow file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Workflow {
    /// The path of the file, as the caller names it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_name: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Data>,
    #[serde(default, skip_serializing_if = "RunDefaults::is_empty")]
    pub defaults: RunDefaults,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// What `workflow_dispatch` asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dispatch_inputs: Vec<Input>,
    /// What `workflow_call` asks for; `None` when the file cannot be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallInterface>,
    /// In the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
}

impl Workflow {
    pub fn job(&self, id: &str) -> Option<(JobIndex, &Job)> {
        self.jobs.iter().enumerate().find(|(_, job)| job.id.eq_ignore_ascii_case(id))
    }
}

/// `defaults.run` of a workflow or job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunDefaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<Template>,
}

impl RunDefaults {
    fn is_empty(&self) -> bool {
        self.shell.is_none() && self.working_directory.is_none()
    }
}

/// What a callable workflow takes and gives.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CallInterface {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretInput>,
    /// Name and expression over the `jobs` context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<(String, Template)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SecretInput {
    pub name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
}

/// A typed input of a dispatched or called workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub kind: InputKind,
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Template>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
