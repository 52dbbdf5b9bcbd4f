//! What is around runs in GitHub's interface: people, repositories, runners, settings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Repository, User};

/// `GET /user`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubAccount)]
pub struct Account {
    pub login: String,
    /// 0 where nobody has to say who they are.
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub name: Option<String>,
    pub email: Option<String>,
    /// Of the whole installation.
    pub site_admin: bool,
    pub url: String,
}

/// `GET /orgs/{org}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubOrganization)]
pub struct Organization {
    pub login: String,
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
    pub repos_url: String,
}

/// `GET /repos/{owner}/{repo}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubFullRepository)]
pub struct FullRepository {
    #[serde(flatten)]
    pub repository: Repository,
    pub node_id: String,
    pub private: bool,
    /// `private`, `internal` or `public`.
    pub visibility: String,
    pub description: Option<String>,
    pub archived: bool,
    /// It starts no runs.
    pub disabled: bool,
    pub default_branch: String,
    /// Where git reads it, with an API token as the password.
    pub clone_url: String,
    pub created_at: String,
    pub updated_at: String,
    pub permissions: Permissions,
}

/// What the caller may do with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubPermissions)]
pub struct Permissions {
    pub admin: bool,
    pub push: bool,
    pub pull: bool,
}

/// `GET /rate_limit`, where requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRateLimit)]
pub struct RateLimit {
    pub resources: Resources,
    pub rate: Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubResources)]
pub struct Resources {
    pub core: Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRate)]
pub struct Rate {
    /// In a minute, from one address.
    pub limit: u32,
    pub used: u32,
    pub remaining: u32,
    /// Seconds since 1970.
    pub reset: u64,
}

/// `GET /meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubMeta)]
pub struct Meta {
    pub verifiable_password_authentication: bool,
    /// Of Kiln.
    pub installed_version: String,
}

/// The addresses with which clients begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRoot)]
pub struct Root {
    pub current_user_url: String,
    pub current_user_repositories_url: String,
    pub organization_url: String,
    pub organization_repositories_url: String,
    pub repository_url: String,
    pub rate_limit_url: String,
}

/// `GET /repos/{owner}/{repo}/actions/runners`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRunners)]
pub struct Runners {
    pub total_count: u64,
    pub runners: Vec<Runner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRunner)]
pub struct Runner {
    pub id: i64,
    pub name: String,
    pub os: String,
    /// `online` or `offline`.
    pub status: String,
    pub busy: bool,
    /// It takes one job and goes.
    pub ephemeral: bool,
    pub labels: Vec<RunnerLabel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubRunnerLabel)]
pub struct RunnerLabel {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// `GET /repos/{owner}/{repo}/actions/secrets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubSecrets)]
pub struct Secrets {
    pub total_count: u64,
    pub secrets: Vec<Secret>,
}

/// What may be told about a secret. Its value is told to jobs alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubSecret)]
pub struct Secret {
    pub name: String,
    pub created_at: String,
    pub updated_at: String,
}

/// `GET /repos/{owner}/{repo}/actions/variables`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubVariables)]
pub struct Variables {
    pub total_count: u64,
    pub variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubVariable)]
pub struct Variable {
    pub name: String,
    pub value: String,
    pub created_at: String,
    pub updated_at: String,
}

/// One of `GET /repos/{owner}/{repo}/check-runs/{job_id}/annotations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GithubAnnotation)]
pub struct Annotation {
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub start_column: Option<u32>,
    pub end_column: Option<u32>,
    /// `notice`, `warning` or `failure`.
    pub annotation_level: String,
    pub title: Option<String>,
    pub message: String,
    pub raw_details: Option<String>,
}

impl User {
    /// An organization, in few words.
    pub fn organization(login: &str) -> Self {
        Self { login: login.to_owned(), kind: "Organization".to_owned() }
    }
}
