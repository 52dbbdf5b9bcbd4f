//! Objects: bytes or things elsewhere with a type and tags, found by their tags.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/objects`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewObject {
    /// The organization.
    pub owner: String,
    /// What it is, in a word: `snapshot`, `report`.
    #[serde(rename = "type")]
    pub kind: String,
    /// SHA-256 of bytes that were sent before, as 64 hexadecimals; none if it lies elsewhere.
    #[serde(default)]
    pub hash: Option<String>,
    /// What whoever keeps it calls it.
    #[serde(default)]
    pub provider_object_id: Option<String>,
    /// Such as `name:value`, without commas.
    #[serde(default)]
    pub tags: Vec<String>,
    /// In RFC 3339; none if it stays until somebody or its manifest removes it.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// The number or slug of a draft that owns it from the beginning.
    #[serde(default)]
    pub manifest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Object {
    pub id: i64,
    pub slug: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// SHA-256 of its bytes, if it has some here.
    pub hash: Option<String>,
    pub size: Option<u64>,
    pub provider_object_id: Option<String>,
    pub tags: Vec<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
}

/// `PUT /api/objects/{object_id}/tags`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeTags {
    #[serde(default)]
    pub add: Vec<String>,
    #[serde(default)]
    pub remove: Vec<String>,
    /// What is added is taken away from all other objects of the organization: the tag moves here.
    #[serde(default, rename = "move")]
    pub moves: bool,
}

/// `GET /api/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    pub tag: String,
    /// How many objects have it.
    pub objects: u64,
}
