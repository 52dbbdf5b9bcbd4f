//! The file of a workflow, and what can be said about it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/repos/{owner}/{repo}/workflows/{workflow_id}/file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowFile {
    pub path: String,
    /// What it calls itself, else its path.
    pub name: String,
    /// The branch, tag or commit that was asked for.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit that this means now.
    pub sha: String,
    /// Whether it starts runs. A workflow that has never been triggered is not disabled.
    pub enabled: bool,
    /// Events that start it.
    pub events: Vec<String>,
    pub text: String,
    /// What is wrong with it, and what is likely to be, in the order of the text.
    pub findings: Vec<Finding>,
}

/// Something about a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// `error` or `warning`. A file with errors starts no runs.
    pub severity: String,
    /// Such as `unknown-key`; the documentation explains it.
    pub code: String,
    pub message: String,
    /// The file, if it is another one that this one calls.
    pub file: Option<String>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is expected there.
    pub label: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}
