//! Document E's words for the same: workers that poll for builds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/workers/register`, with `X-API-Key`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = WorkerRegister)]
pub struct Register {
    /// An id from before; its credential comes as `X-Worker-Token` or in `credential`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    pub name: Option<String>,
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = WorkerCapabilities)]
pub struct Capabilities {
    pub platforms: Vec<String>,
    pub max_concurrent_builds: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkerRegistered)]
pub struct Registered {
    pub id: String,
    pub access_token: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// `GET /api/workers/poll`: 200 in either case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Poll {
    pub job: Option<Build>,
    pub access_token: String,
    pub queue_size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Build {
    pub id: String,
    pub platform: String,
    pub source_url: String,
    pub certs_url: Option<String>,
    #[serde(rename = "baseImageId", default, skip_serializing_if = "Option::is_none")]
    pub base_image_id: Option<String>,
}

/// `POST /api/workers/unregister`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkerUnregistered)]
pub struct Unregistered {
    pub success: bool,
    pub builds_reassigned: u64,
}
