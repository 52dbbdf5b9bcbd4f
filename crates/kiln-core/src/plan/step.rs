//! Steps of a job.

use serde::{Deserialize, Serialize};

use super::json::is_default;
use super::{Condition, Data, Place, Retry, Template};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// Given, or generated as GitHub does (`__run`, `__actions_checkout_2`).
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Template>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition: Condition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_minutes: Option<Template>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub background: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    pub kind: StepKind,
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: Place,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub script: Template,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<Template>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Use {
    pub target: UseTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Data>,
}

/// What `uses:` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseTarget {
    /// `./path`, in the workspace.
    Local(String),
    /// `$/path`, in the repository the workflow file came from.
    SameRepository(String),
    /// `owner/repo/path@ref`.
    Repository {
        owner: String,
        repository: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
        reference: String,
    },
    /// `docker://image`.
    Docker(String),
}
