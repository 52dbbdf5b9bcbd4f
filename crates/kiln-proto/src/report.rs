//! What a runner tells about a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most events in one request.
pub const MOST_EVENTS: usize = 1_000;

/// `POST /actions/jobs/{id}/attempts/{n}/events`: in order, without gaps, repeated until acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    pub events: Vec<Event>,
}

/// Something that happened in a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobEvent)]
pub struct Event {
    /// From 1, without gaps: what the server has heard before is skipped.
    pub sequence: u64,
    /// UTC milliseconds of the runner's clock.
    pub at: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// The runner has all it needs, and the first step is about to begin.
    Started {
        /// How long that took since it got the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preparing_ms: Option<u64>,
    },
    StepStarted {
        step: u32,
        name: String,
    },
    StepRetried {
        step: u32,
        failed_try: u32,
    },
    /// `conclusion` is what counts, after `continue-on-error`; `outcome` is how it was.
    StepFinished {
        step: u32,
        outcome: String,
        conclusion: String,
        /// What its process ended with, if it was one and ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    Annotation(Annotation),
    Summary {
        step: u32,
        markdown: String,
    },
    /// The steps are done, and what they left is being stored.
    Uploading,
}

impl What {
    /// A start of which nobody says how long it took to prepare.
    pub fn started() -> Self {
        Self::Started { preparing_ms: None }
    }
}

/// What a step says about a place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Annotation {
    pub step: u32,
    /// `notice`, `warning` or `error`.
    pub severity: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What the server has of the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heard {
    /// The last sequence number.
    pub sequence: u64,
    /// Somebody has asked for the end of the job: the runner cancels it now instead of with its next heartbeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelling: bool,
}

/// `PUT /actions/jobs/{id}/attempts/{n}/log?from=N`: what the server has of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stored {
    /// Bytes; the next request begins there.
    pub offset: u64,
}

/// `POST /actions/jobs/{id}/attempts/{n}/complete`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Complete {
    /// GitHub's word: `success`, `failure`, `cancelled`, `skipped` or `timed_out`.
    pub conclusion: String,
    pub outputs: BTreeMap<String, String>,
    /// The length of the log: the job is not done before the server has all of it.
    pub log_bytes: u64,
    /// The number of events, likewise.
    pub sequence: u64,
    /// The last of them, as far as they were not said before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Not the job's fault, so that it may be tried again elsewhere: out of memory, disk full, network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transient: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    pub used: Used,
    /// What it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Allowed>,
}

/// The most ends in one request.
pub const MOST_ENDS: usize = 64;

/// `POST /actions/runners/{id}/jobs/complete`: the ends of jobs that ended together. Since protocol 3.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ends {
    /// [`MOST_ENDS`] at most.
    pub ends: Vec<End>,
}

/// How one of them ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobEnd)]
pub struct End {
    pub job_id: i64,
    pub attempt: u32,
    /// The token of the job.
    pub token: String,
    pub complete: Complete,
}

/// What became of each, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// How each job ended, as for one told alone. None was not heard: told alone, its answer says why.
    pub ended: Vec<Option<Completed>>,
}

/// `POST /actions/jobs/{id}/attempts/{n}/return`: the runner gives it back before it began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GiveBack {
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    pub environment: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a job was allowed, as its runner saw to it. What is left out had no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Allowed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
    /// How long a step may print nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    /// Limits that the job asks for and the runner cannot enforce, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<String>,
}

/// What a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Used {
    pub cpu_ms: u64,
    pub memory_peak_kb: u64,
    pub disk_mb: u64,
}

/// The answer to a completion, the same when it is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completed {
    pub conclusion: String,
}
