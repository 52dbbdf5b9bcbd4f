//! On whose behalf something is asked.

use kiln_core::id::OrgId;

use crate::sql::Value;
use crate::{Refusal, StoreError};

/// What a question may see. Statements take it as a parameter in the form
/// `(org_id = $n OR $n IS NULL)`; PostgreSQL learns the type from the first half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only what belongs to this organization.
    Org(OrgId),
    /// Everything, for work of Kiln itself.
    System(Duty),
}

/// Why Kiln itself asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// An administrator of the whole installation.
    Administration,
    /// Somebody proves who they are: a person, a token, a runner.
    Authentication,
    /// Work is handed to runners and taken back.
    Claims,
    /// Webhooks and schedules start runs.
    Triggers,
    /// What is old goes away.
    Retention,
    /// Secrets get a new key.
    Rotation,
}

impl Scope {
    /// The organization that rows must belong to; NULL admits all.
    pub(crate) fn parameter(self) -> Value {
        match self {
            Self::Org(org) => org.into(),
            Self::System(_) => Value::Null,
        }
    }

    /// Refuses an organization that this scope cannot see.
    pub(crate) fn admits(self, org: OrgId) -> Result<(), StoreError> {
        match self {
            Self::Org(own) if own != org => Err(Refusal::NotFound("organization").into()),
            _ => Ok(()),
        }
    }

    /// Refuses what belongs to the whole installation to everybody but Kiln itself.
    pub(crate) fn system(self, what: &'static str) -> Result<(), StoreError> {
        match self {
            Self::Org(_) => Err(Refusal::NotFound(what).into()),
            Self::System(_) => Ok(()),
        }
    }
}
