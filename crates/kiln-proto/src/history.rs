//! What a runner has done.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/runners/{id}/jobs`: a claim of a job that the runner had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerJob {
    pub job_id: i64,
    pub slug: String,
    pub run_id: i64,
    pub repo: String,
    pub name: String,
    /// Which claim of the job.
    pub attempt: u32,
    /// `in_progress`; how the job ended, such as `success`; or how the runner lost it: `lost`, `returned` or `retried`.
    pub outcome: String,
    /// Why it lost it, if that was said.
    pub reason: Option<String>,
    pub claimed_at: Option<String>,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
}
