//! What runners and servers say to each other between jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Job, JobRef};

/// How long a poll may wait, in seconds.
pub const LONGEST_POLL: u32 = 50;
/// How often a runner with jobs is heard of, in seconds.
pub const HEARTBEAT: u32 = 15;

/// `POST /api/runners/register`: a new runner with a key, or one that comes back with its credential.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Register {
    /// The registration key of a new runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id and the credential of one that was here before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    pub name: String,
    pub capabilities: Capabilities,
    /// Unregistered by the server after one job.
    pub single_use: bool,
    pub version: String,
    pub protocol: u32,
    /// To which the secrets of its jobs are sealed: X25519, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Of a runner that was started anew: the jobs of which it still has something to say. Whatever else it
    /// had goes back to the queue at once. Without it, it keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobRef>>,
}

/// What a runner has. Everything it does not say, it does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Capabilities {
    pub labels: Vec<String>,
    /// Such as `x86_64-linux`.
    pub systems: Vec<String>,
    pub features: Vec<String>,
    pub tools: Vec<String>,
    /// `linux`, `macos` or `windows`.
    pub os: String,
    /// `x64`, `arm64` or another of GitHub's words.
    pub architecture: String,
    pub cores: u32,
    pub memory_mb: u64,
    pub disk_mb: u64,
    pub max_parallel: u32,
    /// How it runs steps: `host`, `sandbox`, `container`, `vm` or `dummy`.
    pub backends: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    pub id: i64,
    pub name: String,
    /// Only for a new runner, and never again: it is the runner's to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Good for 90 seconds; every poll and heartbeat brings a new one.
    pub access_token: String,
    /// `registered` or `re-registered`.
    pub status: String,
    pub protocol: u32,
    /// Seconds.
    pub heartbeat: u32,
    /// Seconds that a job stays with a runner that is not heard of.
    pub lease: u32,
}

/// `POST /actions/runners/{id}/jobs/claim`: a long poll. 200 is a [`Job`], or [`Jobs`] if several were asked for; 204 is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Claim {
    /// Chosen by the runner: the same question has the same nonce, and gets the same answer.
    pub nonce: String,
    /// Seconds, [`LONGEST_POLL`] at most.
    pub wait: u32,
    /// Repositories (`owner/name`) whose files this runner has at hand, the latest first.
    pub warm: Vec<String>,
    /// How many jobs the runner has room for. With more than one, several may come at once. Since protocol 3.
    #[serde(skip_serializing_if = "is_one_at_most")]
    pub want: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one_at_most(want: &u32) -> bool {
    *want <= 1
}

/// The answer to a claim of several.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimedJobs)]
pub struct Jobs {
    pub jobs: Vec<Job>,
}

/// `POST /actions/runners/{id}/heartbeat`. The answer may wait until there is something to say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Heartbeat {
    pub jobs: Vec<JobRef>,
    pub health: Health,
    /// The runner takes no new jobs.
    pub draining: bool,
    /// Seconds that the answer may wait for a command, [`HEARTBEAT`] at most.
    pub wait: u32,
}

/// How a runner's machine does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = RunnerHealth)]
pub struct Health {
    /// Of one minute, over the number of cores.
    pub load: f64,
    pub memory_free_mb: u64,
    pub disk_free_mb: u64,
    /// Why it takes no jobs although it could: in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    pub access_token: String,
    #[serde(default)]
    pub commands: Vec<Command>,
    /// How many jobs wait that this runner could take.
    #[serde(default)]
    pub queue_size: u64,
}

/// What a runner is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// End the job; steps that run even then still do.
    Cancel(JobRef),
    /// End it at once.
    Kill(JobRef),
    /// It is not this runner's any more: end it at once, and say nothing more about it.
    Abandon(JobRef),
    /// Take no new jobs, and go when the last is done.
    Drain,
}

/// `POST /api/runners/{id}/unregister`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unregistered {
    /// How many jobs went back to the queue.
    pub jobs_returned: u64,
}
