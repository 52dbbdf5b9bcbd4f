//! What steps wrote for the page of their run (`GITHUB_STEP_SUMMARY`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Markdown of one step. Whoever shows it must not believe it: jobs write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepSummary {
    /// Goes up as they came.
    pub id: i64,
    pub job_id: Option<i64>,
    /// What the job is called.
    pub job: Option<String>,
    /// From 1, as in logs.
    pub step: u32,
    /// Without secrets, up to a mebibyte.
    pub markdown: String,
}
