//! What waits for a concurrency group.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/queue/held`: a run, or one job of it, that waits until another one has left its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Held {
    pub run_id: i64,
    pub slug: String,
    pub repo: String,
    /// What the workflow calls itself.
    pub workflow: String,
    /// Of the run, within its workflow.
    pub number: i64,
    /// The title of the run, or the name of the job.
    pub name: String,
    /// The job that waits; `null` when the whole run does.
    pub job_id: Option<i64>,
    pub group: String,
    /// Why it waits: in words.
    pub reason: String,
    /// Who has the group.
    pub holder: Option<Holder>,
    /// How many wait for the group before it.
    pub before: u64,
    /// When the run was made.
    pub since: String,
}

/// The run that others wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    pub run_id: i64,
    pub workflow: String,
    pub number: i64,
}
