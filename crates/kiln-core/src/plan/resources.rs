//! What a job needs of a machine beyond its labels, and how much of it it may use (keys of Kiln's own).

use serde::{Deserialize, Serialize};

/// What a runner must have beyond what `runs-on` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Requires {
    /// Such as `x86_64-linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// At least so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// At least so much, in millions of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// How much of a machine a job may use at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// In millions of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}
