//! A job on its way to a runner, with everything it needs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A job in the hands of one runner: the second number counts claims and fences off late words.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
pub struct JobRef {
    pub job_id: i64,
    pub attempt: u32,
}

/// The answer to a claim. The first fields have the names of document A.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimedJob)]
pub struct Job {
    pub job_id: i64,
    pub run_id: i64,
    /// Counts the claims of this job: part of the address of everything said about it.
    pub attempt: u32,
    /// `owner/name`.
    pub repo: String,
    /// The path of the workflow's file.
    pub workflow: String,
    pub job_name: String,
    /// The names of its steps, as far as they are known before it runs.
    pub steps: Vec<String>,
    pub secrets: Sealed,
    /// Containers beside the job.
    #[schema(value_type = Vec<Object>)]
    pub services: Vec<serde_json::Value>,
    pub timeout_minutes: u32,
    /// Good as long as the lease, for calls about this job and for its repository.
    pub token: String,
    /// Seconds until the lease ends, unless a heartbeat renews it.
    pub lease: u32,
    pub source: Source,
    /// The environment that the job deploys to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// It may find caches and not leave any, as actions are told by `ACTIONS_CACHE_MODE`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_caches_only: bool,
    /// A plan of one workflow with one job, as `kiln-core` writes it.
    #[schema(value_type = Object)]
    pub plan: Box<RawValue>,
    pub contexts: Contexts,
    pub limits: Limits,
}

impl Job {
    pub fn reference(&self) -> JobRef {
        JobRef { job_id: self.job_id, attempt: self.attempt }
    }
}

/// The contexts that do not change while the job runs, each an object.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Contexts {
    #[schema(value_type = Object)]
    pub github: Box<RawValue>,
    #[schema(value_type = Object)]
    pub vars: Box<RawValue>,
    #[schema(value_type = Object)]
    pub inputs: Box<RawValue>,
    #[schema(value_type = Object)]
    pub needs: Box<RawValue>,
    #[schema(value_type = Object)]
    pub matrix: Box<RawValue>,
    #[schema(value_type = Object)]
    pub strategy: Box<RawValue>,
}

/// Where the files of the job come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// What git fetches from, with the job's token as password; absolute, or a path of the server.
    pub clone_url: String,
    pub commit: String,
    /// The full ref.
    pub reference: String,
}

/// Secrets of a job, sealed to the runner's public key: see `kiln-runner`'s and `kiln-server`'s `seal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sealed {
    /// In base64: an object with [`Secrets`] inside. Empty when there are none.
    pub encrypted_data: String,
    /// Which public key it was sealed to: the first 16 hexadecimals of its SHA-256.
    pub key_id: String,
    #[serde(default, skip_serializing_if = "Form::is_once")]
    pub form: Form,
}

/// How something is sealed to a runner: `encrypted_data` begins with the server's public key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SealForm)]
pub enum Form {
    /// The server's key is used for this message alone, with a nonce of zeroes.
    #[default]
    Once,
    /// The server's key is used for a while, each claim has a key of its own, and a nonce comes first.
    Shared,
}

impl Form {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_once(&self) -> bool {
        *self == Self::Once
    }

    /// The best that a runner understands.
    pub fn of_protocol(protocol: i64) -> Self {
        if protocol < 2 { Self::Once } else { Self::Shared }
    }
}

/// What is inside of [`Sealed`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// What the `secrets` context of this job holds.
    pub visible: Vec<(String, String)>,
    /// What must be masked besides.
    #[serde(default)]
    pub hidden: Vec<String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.visible.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Secrets").field("visible", &names).finish_non_exhaustive()
    }
}

/// What a job may use, beyond what its own text says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Limits {
    /// Bytes of its log; what is longer is cut, and the log says where.
    pub log_bytes: u64,
    /// Seconds for a job that names no limit itself.
    pub wall: u64,
    /// Seconds that a step may print nothing; 0 for any.
    pub silence: u64,
    /// Seconds for steps that run although the job was cancelled or its time is over; five minutes when an
    /// older server says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_up: Option<u64>,
}
