//! Manifests: what lives and goes away together, and who owns it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/manifests`: a draft that takes resources until it is sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewManifest {
    /// The organization.
    pub owner: String,
    /// The number or slug of the run that makes it.
    #[serde(default)]
    pub run: Option<String>,
    /// How many seconds its resources stay after it was sealed; a day if nothing is said.
    #[serde(default)]
    pub retention: Option<u64>,
    /// They stay until somebody takes them.
    #[serde(default)]
    pub for_ever: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Manifest {
    pub id: i64,
    pub slug: String,
    pub run_id: Option<i64>,
    /// Kiln made it for what the run leaves: it owns the objects of its artifacts, and changes with the run alone.
    #[serde(default)]
    pub own: bool,
    /// `DRAFT`, `SEALED`; `DUE` when its time is over and it owns something, `EXPIRED` when it owns nothing any more.
    pub state: String,
    /// In seconds; none for ever.
    pub retention: Option<u64>,
    pub created_at: String,
    /// When it was sealed.
    pub released_at: Option<String>,
    pub expires_at: Option<String>,
    /// What it owns, in the order of clean-up. Lists leave them out.
    #[serde(default)]
    pub resources: Vec<Resource>,
}

/// Something that a manifest owns, and nothing else does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// `artifact`, `cache` or `object`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The number of it.
    pub id: i64,
    /// From 0 to 100, higher goes first; 70 for artifacts, 65 for caches, 60 for objects if nothing is said.
    #[serde(default)]
    pub cleanup_priority: Option<i64>,
}

/// `POST /api/manifests/{manifest_id}/claim`: takes something from a sealed manifest into this draft.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ManifestClaim)]
pub struct Claim {
    /// The number or slug of the manifest that owns it.
    pub from: String,
    /// `artifact`, `cache` or `object`.
    #[serde(rename = "type")]
    pub kind: String,
    pub id: i64,
}
