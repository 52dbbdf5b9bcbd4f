//! What follows the question mark of lists of artifacts, jobs, deployments and caches.

use kiln_store::content::caches::Order;
use kiln_store::runs::DeploymentFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use super::list::{Paging, Window};
use crate::http::error::{Answer, Failure};

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfArtifacts {
    /// The whole name.
    pub(super) name: Option<String>,
    #[param(minimum = 1, maximum = 100)]
    pub(super) per_page: Option<u32>,
    #[param(minimum = 1)]
    pub(super) page: Option<u32>,
}

impl OfArtifacts {
    pub(super) fn window(&self) -> Answer<Window> {
        Paging { per_page: self.per_page, page: self.page }.window()
    }
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfJobs {
    /// `latest`, or `all` for those of earlier attempts besides.
    filter: Option<String>,
    #[param(minimum = 1, maximum = 100)]
    per_page: Option<u32>,
    #[param(minimum = 1)]
    page: Option<u32>,
}

impl OfJobs {
    pub(super) fn window(&self) -> Answer<Window> {
        Paging { per_page: self.per_page, page: self.page }.window()
    }

    /// Whether those of all attempts are wanted.
    pub(super) fn all(&self) -> Answer<bool> {
        match self.filter.as_deref() {
            None | Some("latest") => Ok(false),
            Some("all") => Ok(true),
            Some(_) => Err(Failure::invalid("`filter`: expected `latest` or `all`")),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfDeployments {
    environment: Option<String>,
    sha: Option<String>,
    /// A branch, or a full ref.
    #[serde(rename = "ref")]
    #[param(rename = "ref")]
    git_ref: Option<String>,
    #[param(minimum = 1, maximum = 100)]
    pub(super) per_page: Option<u32>,
    #[param(minimum = 1)]
    pub(super) page: Option<u32>,
}

impl OfDeployments {
    pub(super) fn filter(self) -> DeploymentFilter {
        // PostgreSQL has no text with this character, so nothing is called so.
        let clean = |text: Option<String>| text.map(|text| text.replace('\0', "\u{fffd}"));
        DeploymentFilter {
            environment: clean(self.environment),
            sha: clean(self.sha),
            reference: clean(self.git_ref).map(full_reference),
            job: None,
        }
    }
}

/// A name without the kind of ref is that of a branch.
fn full_reference(name: String) -> String {
    if name.starts_with("refs/") { name } else { format!("refs/heads/{name}") }
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfCaches {
    /// A key, or the beginning of one.
    pub(super) key: Option<String>,
    /// A full ref.
    #[serde(rename = "ref")]
    #[param(rename = "ref")]
    pub(super) git_ref: Option<String>,
    /// `created_at`, `last_accessed_at` or `size_in_bytes`.
    pub(super) sort: Option<String>,
    /// `asc` or `desc`.
    pub(super) direction: Option<String>,
    #[param(minimum = 1, maximum = 100)]
    pub(super) per_page: Option<u32>,
    #[param(minimum = 1)]
    pub(super) page: Option<u32>,
}

impl OfCaches {
    pub(super) fn order(&self) -> Answer<(Order, bool)> {
        let order = match self.sort.as_deref() {
            Some("created_at") => Order::Created,
            None | Some("last_accessed_at") => Order::Used,
            Some("size_in_bytes") => Order::Size,
            Some(_) => {
                let message =
                    "`sort`: expected `created_at`, `last_accessed_at` or `size_in_bytes`";
                return Err(Failure::invalid(message));
            }
        };
        match self.direction.as_deref() {
            None | Some("desc") => Ok((order, false)),
            Some("asc") => Ok((order, true)),
            Some(_) => Err(Failure::invalid("`direction`: expected `asc` or `desc`")),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfKey {
    /// The whole key.
    pub(super) key: Option<String>,
    /// A full ref; of all refs when it is left out.
    #[serde(rename = "ref")]
    #[param(rename = "ref")]
    pub(super) git_ref: Option<String>,
}
