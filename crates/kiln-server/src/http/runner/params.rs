//! What follows the question mark of what runners ask.

use serde::Deserialize;
use utoipa::IntoParams;

/// Which artifacts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    pub(super) name: Option<String>,
    /// The number of the artifact.
    #[serde(rename = "id")]
    #[param(rename = "id")]
    pub(super) number: Option<i64>,
}
