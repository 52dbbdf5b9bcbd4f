//! Results of jobs that are used again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /actions/jobs/{id}/attempts/{n}/result`: was a job with this fingerprint green before? If not, this
/// one is remembered with it, and counts for others once it is green.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskResult {
    /// 64 hexadecimals over all that the result depends on.
    pub fingerprint: String,
    /// The same part by part, always in the same order, so that the answer can name what changed; 16 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResultPart>,
}

/// A part of what the result of a job depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultPart {
    /// What it is called in sentences, such as `the files`.
    pub name: String,
    /// 16 hexadecimals.
    pub fingerprint: String,
}

/// The answer to [`AskResult`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundResult {
    /// What stands for the job, which need not run; its artifacts are there already.
    pub reused: Option<EarlierResult>,
    /// Why nothing does, in words.
    #[serde(default)]
    pub reason: String,
}

/// A green job whose result is used again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EarlierResult {
    #[serde(flatten)]
    pub from: ReusedFrom,
    pub job_name: String,
    pub outputs: BTreeMap<String, String>,
    /// The names of its artifacts.
    #[serde(default)]
    pub artifacts: Vec<String>,
}

/// Whose result stands for a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReusedFrom {
    pub run_id: i64,
    /// Counts the runs of the workflow.
    pub run_number: i64,
    /// The attempt of that run.
    pub run_attempt: u32,
    pub job_id: i64,
}
