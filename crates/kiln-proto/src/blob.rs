//! Bytes: what is there, how it is sent, and who uses how much.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most hashes in one question.
pub const MOST_HASHES: usize = 10_000;

/// `POST /api/blobs/exists`: which of these bytes the organization has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exists {
    /// The organization; that of the job for tokens of jobs.
    #[serde(default)]
    pub owner: Option<String>,
    /// SHA-256, each as 64 hexadecimals.
    pub hashes: Vec<String>,
}

/// Those that need not be sent. They stay for the time of grace, also if nothing refers to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Present {
    pub present: Vec<String>,
}

/// `POST /api/blobs/uploads`: bytes are to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUpload {
    /// The organization; that of the job for tokens of jobs.
    #[serde(default)]
    pub owner: Option<String>,
    /// SHA-256, as 64 hexadecimals.
    pub hash: String,
    pub size: u64,
    /// Up to 64 KiB may come with the question, in base64.
    #[serde(default)]
    pub content: Option<String>,
    /// They stay as they are sent: what is compressed already has nothing in common with others.
    #[serde(default)]
    pub whole: bool,
}

/// Where to send bytes, or that there is no need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    /// The bytes are there; nothing is to be sent.
    pub stored: bool,
    /// What is to be completed.
    pub id: Option<i64>,
    /// Each is to be sent with `PUT`, without a token; several may be sent at once.
    pub pieces: Vec<Piece>,
    pub expires_at: Option<String>,
}

/// A part of the bytes, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Piece {
    pub url: String,
    /// The first byte, and the one after the last.
    pub from: u64,
    pub to: u64,
}

/// `POST /api/blobs/uploads/{id}/complete`: everything is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompleteUpload {
    /// The `ETag` that the store answered to each piece, in their order, if there were several.
    pub tags: Vec<String>,
}

/// Bytes that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blob {
    pub hash: String,
    pub size: u64,
}

/// `GET /api/blobs/{hash}/link`: an address that needs no token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Link {
    pub url: String,
    pub expires_at: String,
}

/// `GET /api/storage`: who uses how much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Storage {
    pub uses: Vec<Use>,
    /// For administrators of the whole installation.
    pub kept: Option<Kept>,
    pub last_collection: Option<Collection>,
    /// Logs are still being counted, and not among the uses; ask again.
    #[serde(default)]
    pub counting_logs: bool,
}

/// The bytes of one kind of things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Use {
    pub owner: String,
    pub repository: Option<String>,
    /// `artifact`, `cache`, `log`, or another type of objects.
    pub kind: String,
    pub count: u64,
    pub bytes: u64,
}

/// What all bytes take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Kept {
    pub blobs: u64,
    /// What can be read of them.
    pub bytes: u64,
    /// What they take, each counted once.
    pub stored: u64,
    /// What is still to be removed.
    pub removals: u64,
}

/// `POST /api/storage/gc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Collect {
    /// Only says what could go.
    pub dry_run: bool,
}

/// What a collection freed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Collection {
    pub at: String,
    pub dry_run: bool,
    /// Nothing refers to them; they go when their time of grace is over.
    pub unused: u64,
    pub unused_bytes: u64,
    /// They went, or would.
    pub removed: u64,
    pub removed_bytes: u64,
    /// Uploads that nobody completed.
    pub uploads: u64,
    /// Objects in the store that no row knows.
    pub strays: u64,
    /// There was more to do than one request may take; the server goes on by itself.
    pub more: bool,
}
