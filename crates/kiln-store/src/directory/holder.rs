//! What secrets and variables belong to.

use kiln_core::id::{EnvironmentId, OrgId, RepoId};

use super::scope::Scope;
use super::{environments, organizations, repositories};
use crate::{Refusal, Row, StoreError, Tx, Value};

/// The nearer one wins: environment, then repository, then organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    Org(OrgId),
    Repo(RepoId),
    Environment(EnvironmentId),
}

impl Holder {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Org(_) => "org",
            Self::Repo(_) => "repo",
            Self::Environment(_) => "environment",
        }
    }

    pub(crate) fn id(self) -> i64 {
        match self {
            Self::Org(id) => id.0,
            Self::Repo(id) => id.0,
            Self::Environment(id) => id.0,
        }
    }

    /// The columns `scope_kind` and `scope_id`.
    pub(crate) fn parameters(self) -> [Value; 2] {
        [self.kind().into(), self.id().into()]
    }

    pub(crate) fn from_row(row: &Row, kind: usize, id: usize) -> Result<Self, StoreError> {
        let number = row.get::<i64>(id)?;
        match row.get::<String>(kind)?.as_str() {
            "org" => Ok(Self::Org(OrgId(number))),
            "repo" => Ok(Self::Repo(RepoId(number))),
            "environment" => Ok(Self::Environment(EnvironmentId(number))),
            other => Err(StoreError::Shape {
                column: kind,
                found: format!("`{other}`"),
                expected: "`org`, `repo` or `environment`",
            }),
        }
    }

    /// The organization of a holder that the scope can see.
    pub(crate) async fn org(self, tx: &mut Tx<'_>, scope: Scope) -> Result<OrgId, StoreError> {
        match self {
            Self::Org(id) => organizations::require(tx, scope, id).await.map(|()| id),
            Self::Repo(id) => repositories::org_of(tx, scope, id).await,
            Self::Environment(id) => Ok(environments::get(tx, scope, id).await?.org),
        }
    }
}

/// What a job belongs to, for the statement that finds what it may have: organization, repository and
/// environment (0 for none).
pub(crate) async fn of_job(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    environment: Option<EnvironmentId>,
) -> Result<(OrgId, [Value; 3]), StoreError> {
    let org = repositories::org_of(tx, scope, repo).await?;
    if let Some(environment) = environment
        && environments::get(tx, scope, environment).await?.repo != repo
    {
        return Err(Refusal::NotFound("environment").into());
    }
    Ok((org, [org.into(), repo.into(), environment.map_or(0, |id| id.0).into()]))
}
