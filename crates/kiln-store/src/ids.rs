//! Ids and times as parameters and columns.

use kiln_core::id::{
    ArtifactId, BlobId, CacheId, DeliveryId, EnvironmentId, JobId, LaneId, ManifestId, ObjectId,
    OrgId, PoolId, QueueId, RegistrationKeyId, RepoId, RunId, RunnerId, ScheduleId, TeamId,
    TokenId, UploadId, UserId, WorkflowId,
};
use kiln_core::time::Timestamp;

use crate::sql::{FromValue, Value};

macro_rules! columns {
    ($($id:ident),* $(,)?) => {
        $(
            impl From<$id> for Value {
                fn from(id: $id) -> Self {
                    Self::Int(id.0)
                }
            }

            impl FromValue for $id {
                const EXPECTED: &'static str = "an id";

                fn from_value(value: &Value) -> Option<Self> {
                    i64::from_value(value).map(Self)
                }
            }
        )*
    };
}

columns! {
    ArtifactId, BlobId, CacheId, DeliveryId, EnvironmentId, JobId, LaneId, ManifestId, ObjectId,
    OrgId, PoolId, QueueId, RegistrationKeyId, RepoId, RunId, RunnerId, ScheduleId, TeamId, TokenId,
    UploadId, UserId, WorkflowId,
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Int(i64::try_from(time.0).unwrap_or(i64::MAX))
    }
}

impl FromValue for Timestamp {
    const EXPECTED: &'static str = "a time";

    fn from_value(value: &Value) -> Option<Self> {
        u64::try_from(i64::from_value(value)?).ok().map(Self)
    }
}
