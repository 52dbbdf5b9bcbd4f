//! Steps of a job.

use std::fmt;

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
    /// Why it is left out, whatever else holds; its condition is false, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
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

impl StepKind {
    /// The name of a step that has none. `text` says what a script is; without that nobody knows.
    pub fn usual_name(&self, text: impl FnOnce(&Template) -> Option<String>) -> Option<String> {
        Some(match self {
            Self::Run(run) => {
                let script = text(&run.script)?;
                format!("Run {}", script.trim().lines().next().unwrap_or_default())
            }
            Self::Use(used) => format!("Run {}", used.target),
            Self::Wait(_) => "Wait".to_owned(),
            Self::WaitAll => "Wait for all".to_owned(),
            Self::Cancel(step) => format!("Cancel {step}"),
            Self::Parallel(_) => "Parallel group".to_owned(),
        })
    }
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

/// As it is written.
impl fmt::Display for UseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "./{path}"),
            Self::SameRepository(path) => write!(f, "$/{path}"),
            Self::Docker(image) => write!(f, "docker://{image}"),
            Self::Repository { owner, repository, path, reference } => {
                let slash = if path.is_empty() { "" } else { "/" };
                write!(f, "{owner}/{repository}{slash}{path}@{reference}")
            }
        }
    }
}
