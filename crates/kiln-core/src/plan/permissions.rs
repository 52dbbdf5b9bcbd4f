//! What a job's token may do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A scope of the job token. The order is that of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Actions,
    ArtifactMetadata,
    Attestations,
    Checks,
    CodeQuality,
    Contents,
    CopilotRequests,
    Deployments,
    Discussions,
    Drives,
    IdToken,
    Issues,
    Models,
    Packages,
    Pages,
    PullRequests,
    RepositoryProjects,
    SecurityEvents,
    Statuses,
    VulnerabilityAlerts,
}

impl Scope {
    pub const ALL: [Scope; 20] = [
        Self::Actions,
        Self::ArtifactMetadata,
        Self::Attestations,
        Self::Checks,
        Self::CodeQuality,
        Self::Contents,
        Self::CopilotRequests,
        Self::Deployments,
        Self::Discussions,
        Self::Drives,
        Self::IdToken,
        Self::Issues,
        Self::Models,
        Self::Packages,
        Self::Pages,
        Self::PullRequests,
        Self::RepositoryProjects,
        Self::SecurityEvents,
        Self::Statuses,
        Self::VulnerabilityAlerts,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Actions => "actions",
            Self::ArtifactMetadata => "artifact-metadata",
            Self::Attestations => "attestations",
            Self::Checks => "checks",
            Self::CodeQuality => "code-quality",
            Self::Contents => "contents",
            Self::CopilotRequests => "copilot-requests",
            Self::Deployments => "deployments",
            Self::Discussions => "discussions",
            Self::Drives => "drives",
            Self::IdToken => "id-token",
            Self::Issues => "issues",
            Self::Models => "models",
            Self::Packages => "packages",
            Self::Pages => "pages",
            Self::PullRequests => "pull-requests",
            Self::RepositoryProjects => "repository-projects",
            Self::SecurityEvents => "security-events",
            Self::Statuses => "statuses",
            Self::VulnerabilityAlerts => "vulnerability-alerts",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    /// The most that `write-all` gives: some scopes have no write level.
    pub fn highest(self) -> Access {
        match self {
            Self::Models | Self::VulnerabilityAlerts => Access::Read,
            _ => Access::Write,
        }
    }

    /// What `read-all` gives: some scopes have no read level.
    pub fn readable(self) -> Access {
        match self {
            Self::IdToken | Self::CopilotRequests => Access::None,
            _ => Access::Read,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    #[default]
    None,
    Read,
    Write,
}

impl Access {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A level for every scope; what is not named is `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Access>", into = "BTreeMap<&str, Access>")]
pub struct Permissions {
    levels: [Access; Scope::ALL.len()],
}

impl Permissions {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn read_all() -> Self {
        Self::from_scopes(Scope::readable)
    }

    pub fn write_all() -> Self {
        Self::from_scopes(Scope::highest)
    }

    fn from_scopes(level: impl Fn(Scope) -> Access) -> Self {
        Self { levels: Scope::ALL.map(level) }
    }

    pub fn get(&self, scope: Scope) -> Access {
        self.levels[scope as usize]
    }

    pub fn set(&mut self, scope: Scope, access: Access) {
        self.levels[scope as usize] = access;
    }

    /// Every scope that is not `none`.
    pub fn granted(&self) -> impl Iterator<Item = (Scope, Access)> {
        Scope::ALL
            .into_iter()
            .map(|scope| (scope, self.get(scope)))
            .filter(|(_, access)| *access != Access::None)
    }

    /// As much of it as `limit` gives, too.
    #[must_use]
    pub fn within(&self, limit: &Self) -> Self {
        Self::from_scopes(|scope| self.get(scope).min(limit.get(scope)))
    }

    /// The scopes for which this asks for more than `limit` gives.
    pub fn beyond(&self, limit: &Permissions) -> Vec<(Scope, Access, Access)> {
        self.granted()
            .map(|(scope, wanted)| (scope, wanted, limit.get(scope)))
            .filter(|(_, wanted, allowed)| wanted > allowed)
            .collect()
    }
}

/// A scope that this version does not know grants nothing.
impl From<BTreeMap<String, Access>> for Permissions {
    fn from(levels: BTreeMap<String, Access>) -> Self {
        let mut permissions = Self::none();
        for (scope, access) in levels {
            if let Some(scope) = Scope::parse(&scope) {
                permissions.set(scope, access);
            }
        }
        permissions
    }
}

impl From<Permissions> for BTreeMap<&str, Access> {
    fn from(permissions: Permissions) -> Self {
        permissions.granted().map(|(scope, access)| (scope.as_str(), access)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_scopes_is_in_order_of_their_numbers() {
        for (index, scope) in Scope::ALL.into_iter().enumerate() {
            assert_eq!(scope as usize, index);
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
    }

    /// P1
    #[test]
    fn a_callee_may_not_ask_for_more_than_its_caller_has() {
        let mut wanted = Permissions::none();
        wanted.set(Scope::Contents, Access::Write);
        wanted.set(Scope::Issues, Access::Read);
        let beyond = wanted.beyond(&Permissions::read_all());
        assert_eq!(beyond, [(Scope::Contents, Access::Write, Access::Read)]);
        assert!(wanted.beyond(&Permissions::write_all()).is_empty());
        let had = wanted.within(&Permissions::read_all());
        let levels = [Scope::Contents, Scope::Issues, Scope::Actions].map(|scope| had.get(scope));
        assert_eq!(levels, [Access::Read, Access::Read, Access::None]);
        assert_eq!(wanted.within(&Permissions::write_all()), wanted);
        assert_eq!(Permissions::read_all().get(Scope::IdToken), Access::None);
    }
}
