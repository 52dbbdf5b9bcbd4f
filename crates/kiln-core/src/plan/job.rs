//! Jobs of a plan.

use serde::{Deserialize, Serialize};

use super::json::is_default;
use super::{
    Condition, Data, JobIndex, Limits, Permissions, Place, Requires, RunDefaults, Step, Template,
    WorkflowIndex,
};

/// A job as written: one node of the graph, before its matrix makes legs of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    /// The display name; the id when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Template>,
    /// Direct needs, in the order written, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<JobIndex>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition: Condition,
    #[serde(default, skip_serializing_if = "Strategy::is_single")]
    pub strategy: Strategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    pub kind: JobKind,
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: Place,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    Steps(Box<StepsJob>),
    Call(Box<Call>),
}

/// A job that runs steps on a runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepsJob {
    /// A label, a list of labels, or `{group, labels}`.
    pub runs_on: Data,
    /// What a runner must have beyond that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requires: Requires,
    /// Where to run first, and after how long to look further.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Preference>,
    /// How much of the runner it may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Data>,
    #[serde(default, skip_serializing_if = "RunDefaults::is_empty")]
    pub defaults: RunDefaults,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Data>,
    /// A map of service id to container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Data>,
    /// A name, or `{name, url, deployment}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_minutes: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_timeout_minutes: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<Template>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<(String, Template)>,
    /// Reuse the result of an earlier green run of the same inputs; globs of the files that count,
    /// all of them when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_cache: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A job that calls a reusable workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// As written: `./.github/workflows/x.yml` or `owner/repo/.github/workflows/x.yml@ref`.
    pub uses: String,
    /// `None` when the file was not at hand while compiling; it must be before the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowIndex>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Data>,
    #[serde(default, skip_serializing_if = "CallSecrets::is_none")]
    pub secrets: CallSecrets,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallSecrets {
    #[default]
    None,
    Inherit,
    Named(Data),
}

impl CallSecrets {
    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// How a job multiplies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One leg.
    #[default]
    Single,
    /// Legs known now.
    Legs {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        legs: Vec<crate::value::Object>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fail_fast: Option<Template>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_parallel: Option<Template>,
    },
    /// A matrix that has to be evaluated first.
    Matrix {
        matrix: Data,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fail_fast: Option<Template>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_parallel: Option<Template>,
    },
    /// The whole strategy is one expression.
    Expr(std::sync::Arc<str>),
}

impl Strategy {
    fn is_single(&self) -> bool {
        matches!(self, Self::Single)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Concurrency {
    pub group: Template,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_in_progress: Option<Template>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue: QueueMode,
}

/// How many may wait for a concurrency group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// One; a newer one replaces it.
    #[default]
    Single,
    /// Up to a hundred, first in first out.
    Max,
}

/// Declared retry of a job or step (a key of Kiln's own).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Further tries after the first.
    pub max: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub backoff_seconds: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub on: RetryOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    #[default]
    Failure,
    Timeout,
    Any,
}

/// One entry of a runner preference list (a key of Kiln's own).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preference {
    /// Labels beyond those that the job demands anyway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// How long the job waits for this entry alone before the next one is tried too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_seconds: u32,
}
