//! GitHub's REST interface for Actions, as far as Kiln speaks it. The names of fields are GitHub's.

mod around;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use around::{
    Account, Annotation, FullRepository, Meta, Organization, Permissions, Rate, RateLimit,
    Resources, Root, Runner, RunnerLabel, Runners, Secret, Secrets, Variable, Variables,
};

/// `GET /repos/{owner}/{repo}/actions/runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubWorkflowRuns)]
pub struct WorkflowRuns {
    /// Counted up to 10,000.
    pub total_count: u64,
    pub workflow_runs: Vec<WorkflowRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubWorkflowRun)]
pub struct WorkflowRun {
    pub id: i64,
    pub node_id: String,
    /// What the workflow calls itself.
    pub name: String,
    pub display_title: String,
    pub head_branch: Option<String>,
    pub head_sha: String,
    /// Of the workflow's file.
    pub path: String,
    pub run_number: i64,
    pub run_attempt: u32,
    pub event: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub workflow_id: i64,
    pub url: String,
    pub html_url: String,
    pub created_at: String,
    pub updated_at: String,
    pub run_started_at: Option<String>,
    pub actor: User,
    pub triggering_actor: User,
    pub jobs_url: String,
    pub logs_url: String,
    pub artifacts_url: String,
    pub cancel_url: String,
    pub rerun_url: String,
    pub workflow_url: String,
    pub previous_attempt_url: Option<String>,
    #[schema(value_type = Vec<Object>)]
    pub pull_requests: Vec<serde_json::Value>,
    pub repository: Repository,
    pub head_repository: Repository,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubUser)]
pub struct User {
    pub login: String,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRepository)]
pub struct Repository {
    pub id: i64,
    pub name: String,
    pub full_name: String,
    pub owner: User,
    pub html_url: String,
    pub url: String,
}

/// `GET /repos/{owner}/{repo}/deployments`: a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubDeployment)]
pub struct Deployment {
    pub id: i64,
    pub node_id: String,
    pub url: String,
    pub sha: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub task: String,
    pub environment: String,
    pub original_environment: String,
    pub description: Option<String>,
    pub creator: User,
    pub created_at: String,
    pub updated_at: String,
    pub statuses_url: String,
    pub repository_url: String,
    pub transient_environment: bool,
    pub production_environment: bool,
}

/// `GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses`: a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubDeploymentStatus)]
pub struct DeploymentStatus {
    pub id: i64,
    pub node_id: String,
    pub url: String,
    /// `success`, `failure`, `inactive` or `in_progress`.
    pub state: String,
    pub creator: User,
    pub description: String,
    pub environment: String,
    pub environment_url: String,
    pub target_url: String,
    pub log_url: String,
    pub created_at: String,
    pub updated_at: String,
    pub deployment_url: String,
    pub repository_url: String,
}

/// `GET /repos/{owner}/{repo}/actions/runs/{run_id}/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubJobs)]
pub struct Jobs {
    pub total_count: u64,
    pub jobs: Vec<Job>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubJob)]
pub struct Job {
    pub id: i64,
    pub node_id: String,
    pub run_id: i64,
    pub run_url: String,
    pub run_attempt: u32,
    pub head_branch: Option<String>,
    pub head_sha: String,
    pub workflow_name: String,
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub url: String,
    pub html_url: String,
    pub created_at: String,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub labels: Vec<String>,
    pub runner_id: Option<i64>,
    pub runner_name: Option<String>,
    pub runner_group_id: Option<i64>,
    pub runner_group_name: Option<String>,
    #[serde(default)]
    pub check_run_url: String,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubStep)]
pub struct Step {
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub number: u32,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
}

/// `GET /repos/{owner}/{repo}/actions/workflows`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubWorkflows)]
pub struct Workflows {
    pub total_count: u64,
    pub workflows: Vec<Workflow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubWorkflow)]
pub struct Workflow {
    pub id: i64,
    pub node_id: String,
    pub name: String,
    pub path: String,
    /// `active` or `disabled_manually`.
    pub state: String,
    pub created_at: String,
    pub updated_at: String,
    pub url: String,
    pub html_url: String,
    pub badge_url: String,
}

/// `POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GithubDispatch)]
pub struct Dispatch {
    /// A branch or tag.
    #[serde(rename = "ref")]
    pub reference: String,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub inputs: BTreeMap<String, serde_json::Value>,
    /// Whether the answer says which run it made.
    #[serde(default)]
    pub return_run_details: bool,
}

/// What a dispatch answers when it was asked for details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubDispatched)]
pub struct Dispatched {
    pub workflow_run_id: i64,
    pub run_url: String,
    pub html_url: String,
}

/// `GET /repos/{owner}/{repo}/actions/runs/{run_id}/timing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubTiming)]
pub struct Timing {
    /// Runners of one's own are not billed.
    pub billable: Nothing,
    pub run_duration_ms: u64,
}

/// `POST /repos/{owner}/{repo}/dispatches`: something happened that only the sender knows of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GithubRepositoryDispatch)]
pub struct RepositoryDispatch {
    /// What happened: `types` of `on.repository_dispatch` go by it.
    #[schema(min_length = 1, max_length = 100)]
    pub event_type: String,
    /// `github.event.client_payload`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub client_payload: BTreeMap<String, serde_json::Value>,
}

/// An answer that says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubNothing)]
pub struct Nothing {}

/// `GET /repos/{owner}/{repo}/actions/artifacts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubArtifacts)]
pub struct Artifacts {
    pub total_count: u64,
    pub artifacts: Vec<Artifact>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubArtifact)]
pub struct Artifact {
    pub id: i64,
    pub node_id: String,
    pub name: String,
    pub size_in_bytes: u64,
    pub url: String,
    pub archive_download_url: String,
    /// Its time is over; it goes soon.
    pub expired: bool,
    /// `sha256:` and 64 hexadecimals.
    pub digest: String,
    pub created_at: String,
    pub updated_at: String,
    pub expires_at: Option<String>,
    pub workflow_run: ArtifactRun,
    /// Kiln's own: it stays beyond its time.
    pub keep: bool,
    /// Kiln's own: the trust of the run that made it. What is not `trusted` may be what a stranger wrote.
    pub trust: String,
    /// Kiln's own.
    pub content_type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubArtifactRun)]
pub struct ArtifactRun {
    pub id: i64,
    pub repository_id: i64,
    pub head_repository_id: i64,
    pub head_branch: Option<String>,
    pub head_sha: String,
}

/// A form by which an artifact is added to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactForm {
    pub name: String,
    /// Its bytes.
    #[schema(format = Binary)]
    pub file: String,
    /// Replaces one of the same name; 409 without it.
    #[serde(default)]
    pub overwrite: bool,
    /// When it may go; the repository's own time if nothing is said, never longer than that.
    #[serde(default)]
    pub retention_days: Option<u32>,
    /// It stays beyond its time.
    #[serde(default)]
    pub keep: bool,
}

/// The answer to an upload by `multipart/form-data`, with a name and a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadedArtifact {
    pub id: String,
    pub name: String,
    pub size_bytes: u64,
    /// `sha256:` and 64 hexadecimals.
    pub content_hash: String,
    pub expires_at: Option<String>,
    /// The path of the address.
    pub download_url: String,
}

/// `GET /repos/{owner}/{repo}/actions/caches`, and what a deletion by key removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubCaches)]
pub struct Caches {
    pub total_count: u64,
    pub actions_caches: Vec<Cache>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubCache)]
pub struct Cache {
    pub id: i64,
    #[serde(rename = "ref")]
    pub git_ref: String,
    pub key: String,
    pub version: String,
    pub last_accessed_at: String,
    pub created_at: String,
    pub size_in_bytes: u64,
    /// Kiln's own: how often it was found.
    pub hits: u64,
    /// Kiln's own: the trust of the run that wrote it.
    pub trust: String,
}

/// `GET /repos/{owner}/{repo}/actions/cache/usage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubCacheUsage)]
pub struct CacheUsage {
    pub full_name: String,
    pub active_caches_size_in_bytes: u64,
    pub active_caches_count: u64,
    /// Kiln's own: how often jobs looked for a cache and found one, those that are gone by now among them.
    #[serde(default)]
    pub hits: u64,
    /// Kiln's own: how often they found none.
    #[serde(default)]
    pub misses: u64,
    /// Kiln's own: by the trust of those who wrote them.
    pub trusts: Vec<CacheTrust>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubCacheTrust)]
pub struct CacheTrust {
    pub trust: String,
    pub count: u64,
    pub size_in_bytes: u64,
    /// How many bytes there may be; the least recently used go.
    pub quota_in_bytes: u64,
    /// How often those that are there were found.
    pub hits: u64,
}
