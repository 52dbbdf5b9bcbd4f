//! How a request is refused: a problem document of RFC 9457.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem for programs: `about:blank#not-found`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in a few words for people.
    pub title: String,
    pub status: u16,
    /// What was wrong with this request, and what would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// By which the line in the log of the server is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// GitHub's clients read this one.
    #[serde(default)]
    pub message: String,
    /// GitHub's clients show it beside the message: where all requests are described.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Where a log or the events of a job go on, when there was a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u64>,
}
