//! Jobs of a plan.

use super::{
    Condition, Data, JobIndex, Permissions, Place, RunDefaults, Step, Template, WorkflowIndex,
};

/// A job as written: one node of the graph, before its matrix makes legs of it.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: String,
    /// The display name; the id when there is none.
    pub name: Option<Template>,
    /// Direct needs, in the order written, each once.
    pub needs: Vec<JobIndex>,
    pub condition: Condition,
    pub strategy: Strategy,
    pub permissions: Option<Permissions>,
    pub concurrency: Option<Concurrency>,
    pub retry: Option<Retry>,
    pub kind: JobKind,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub enum JobKind {
    Steps(Box<StepsJob>),
    Call(Box<Call>),
}

/// A job that runs steps on a runner.
#[derive(Debug, Clone)]
pub struct StepsJob {
    /// A label, a list of labels, or `{group, labels}`.
    pub runs_on: Data,
    /// Where to run first, and after how long to look further.
    pub prefer: Vec<Preference>,
    pub env: Option<Data>,
    pub defaults: RunDefaults,
    pub container: Option<Data>,
    /// A map of service id to container.
    pub services: Option<Data>,
    /// A name, or `{name, url, deployment}`.
    pub environment: Option<Data>,
    pub timeout_minutes: Option<Template>,
    pub cancel_timeout_minutes: Option<Template>,
    pub continue_on_error: Option<Template>,
    pub outputs: Vec<(String, Template)>,
    /// Reuse the result of an earlier green run of the same inputs; globs of the files that count,
    /// all of them when empty.
    pub result_cache: Option<Vec<String>>,
    pub steps: Vec<Step>,
}

/// A job that calls a reusable workflow.
#[derive(Debug, Clone)]
pub struct Call {
    /// As written: `./.github/workflows/x.yml` or `owner/repo/.github/workflows/x.yml@ref`.
    pub uses: String,
    /// `None` when the file was not at hand while compiling; it must be before the run starts.
    pub workflow: Option<WorkflowIndex>,
    pub with: Option<Data>,
    pub secrets: CallSecrets,
}

#[derive(Debug, Clone, Default)]
pub enum CallSecrets {
    #[default]
    None,
    Inherit,
    Named(Data),
}

/// How a job multiplies.
#[derive(Debug, Clone, Default)]
pub enum Strategy {
    /// One leg.
    #[default]
    Single,
    /// Legs known now.
    Legs {
        legs: Vec<crate::value::Object>,
        fail_fast: Option<Template>,
        max_parallel: Option<Template>,
    },
    /// A matrix that has to be evaluated first.
    Matrix { matrix: Data, fail_fast: Option<Template>, max_parallel: Option<Template> },
    /// The whole strategy is one expression.
    Expr(std::sync::Arc<str>),
}

#[derive(Debug, Clone)]
pub struct Concurrency {
    pub group: Template,
    pub cancel_in_progress: Option<Template>,
    pub queue: QueueMode,
}

/// How many may wait for a concurrency group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueMode {
    /// One; a newer one replaces it.
    #[default]
    Single,
    /// Up to a hundred, first in first out.
    Max,
}

/// Declared retry of a job or step (a key of Kiln's own).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Further tries after the first.
    pub max: u32,
    pub backoff_seconds: u32,
    pub on: RetryOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryOn {
    #[default]
    Failure,
    Timeout,
    Any,
}

/// One entry of a runner preference list (a key of Kiln's own).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preference {
    /// Labels beyond those that the job demands anyway.
    pub labels: Vec<String>,
    pub pool: Option<String>,
    /// How long the job waits for this entry alone before the next one is tried too.
    pub after_seconds: u32,
}
