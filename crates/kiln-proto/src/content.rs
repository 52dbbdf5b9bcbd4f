//! What a job leaves behind and finds again: artifacts, caches, and the word of the server for who it is.
//!
//! A runner says these on behalf of its job, with the job's token, below
//! `/actions/jobs/{id}/attempts/{n}/`. The bytes themselves go by their SHA-256, as in [`crate::blob`]:
//! first they are sent, then the entry is completed with their hash.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST …/caches/find`: is there a cache for this key, or for one that begins like these?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FindCache {
    pub key: String,
    /// Beginnings of keys that will do, best first.
    #[serde(default)]
    pub restore_keys: Vec<String>,
    /// What the paths and the compression of the archive hash to.
    pub version: String,
}

/// The answer to [`FindCache`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundCache {
    pub cache: Option<Cache>,
}

/// A complete cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cache {
    pub id: i64,
    pub key: String,
    pub version: String,
    /// The ref of the run that wrote it.
    #[serde(rename = "ref")]
    pub git_ref: String,
    pub size: u64,
    /// SHA-256 of the archive, as 64 hexadecimals.
    pub hash: String,
    pub created_at: String,
    pub used_at: String,
    /// How often it was found.
    pub hits: u64,
}

/// `POST …/caches`: this key is to be written. 409 if there is one, 403 if the job may not write here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCache {
    pub key: String,
    pub version: String,
}

/// What was reserved and is to be completed: `POST …/caches/{id}/complete`, `POST …/artifacts/{id}/complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reserved {
    pub id: i64,
}

/// The bytes of what was reserved; they have been sent before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ContentComplete)]
pub struct Complete {
    /// SHA-256, as 64 hexadecimals.
    pub hash: String,
    pub size: u64,
}

/// `POST …/caches/chunks`: where these chunks lie, as far as a cache has them that the job may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FindChunks {
    /// SHA-256, each as 64 hexadecimals; 10,000 at most.
    pub hashes: Vec<String>,
}

/// The answer to [`FindChunks`], in no order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundChunks {
    pub chunks: Vec<TreeChunk>,
}

/// A chunk of a tree, in a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeChunk {
    pub hash: String,
    /// SHA-256 of the pack, as 64 hexadecimals.
    pub pack: String,
    pub offset: u32,
    /// How many bytes it takes there. It is compressed if that is less than its size.
    pub stored: u32,
    pub size: u32,
}

/// `POST …/caches/packs`: a pack of chunks has been sent, and is to be looked through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPack {
    /// SHA-256, as 64 hexadecimals.
    pub hash: String,
}

/// `POST …/caches/{id}/tree`: the root of a tree and all its packs have been sent before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTree {
    /// SHA-256 of the root, as 64 hexadecimals.
    pub hash: String,
    pub size: u64,
    /// SHA-256 of each pack that it needs; 10,000 at most.
    pub packs: Vec<String>,
}

/// `POST …/artifacts`: a name in the run is to be written. 409 if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewArtifact {
    pub name: String,
    /// `application/zip` unless it is a single file.
    #[serde(default)]
    pub content_type: Option<String>,
    /// When it may go; the repository's own time if nothing is said, never longer than that.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// Replaces one of the same name.
    #[serde(default)]
    pub overwrite: bool,
}

/// `GET …/artifacts`: the complete artifacts of the job's run, by age.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifacts {
    pub artifacts: Vec<Artifact>,
}

/// A complete artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    pub id: i64,
    pub run_id: i64,
    pub attempt: i64,
    pub job_id: Option<i64>,
    pub name: String,
    pub size: u64,
    /// SHA-256, as 64 hexadecimals.
    pub hash: String,
    pub content_type: String,
    /// The trust of the run that made it.
    pub trust: String,
    /// It stays beyond its time.
    pub keep: bool,
    pub created_at: String,
    pub expires_at: Option<String>,
}

/// `POST …/id-token`: a word of the server for who this job is, for one audience. 403 unless the job has
/// `id-token: write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AskIdToken {
    /// The address of the repository's owner if nothing is said.
    pub audience: Option<String>,
}

/// The answer to [`AskIdToken`]: a signed token, good for minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdToken {
    pub value: String,
}

/// `PUT /api/artifacts/{artifact_id}/keep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepArtifact {
    /// It stays beyond its time.
    pub keep: bool,
}

/// `GET /api/artifacts/{artifact_id}`: an artifact, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactDetail {
    #[serde(flatten)]
    pub artifact: Artifact,
    /// By which commands know it.
    pub slug: String,
    /// `owner/name`.
    pub repo: String,
    /// Its time is over; it goes soon.
    pub expired: bool,
}

/// `GET /api/runs/{run}/artifacts`: the complete artifacts of a run, by age.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunArtifacts {
    pub artifacts: Vec<ArtifactDetail>,
}
