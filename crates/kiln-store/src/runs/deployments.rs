//! Jobs that deployed to an environment, those of a whole repository.

use kiln_core::id::{JobId, RepoId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use super::used::Deployed;
use crate::directory::repositories;
use crate::{Row, Scope, StoreError, Tx, Value};

/// A job that deployed, with what its run was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub job: JobId,
    pub job_name: String,
    pub deployed: Deployed,
    /// None while another attempt of it runs.
    pub conclusion: Option<Conclusion>,
    pub reference: String,
    pub sha: String,
    pub actor: String,
    pub created: Timestamp,
    pub ended: Option<Timestamp>,
}

/// Which deployments are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentFilter {
    pub environment: Option<String>,
    pub sha: Option<String>,
    pub reference: Option<String>,
    pub job: Option<JobId>,
}

macro_rules! select {
    ($first:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $first,
            " FROM jobs AS j JOIN runs AS r ON r.id = j.run_id
             WHERE j.environment IS NOT NULL AND r.repo_id = $1
                 AND (j.environment = $2 OR $2 IS NULL) AND (r.head_sha = $3 OR $3 IS NULL)
                 AND (r.ref = $4 OR $4 IS NULL) AND (j.id = $5 OR $5 IS NULL)",
            $rest
        )
    };
}

/// Those of a repository, the newest first, from one on; and how many there are in all.
pub async fn deployments(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    filter: &DeploymentFilter,
    (skip, take): (u32, u32),
) -> Result<(u64, Vec<Deployment>), StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let mut keys: Vec<Value> = vec![
        repo.into(),
        filter.environment.as_deref().into(),
        filter.sha.as_deref().into(),
        filter.reference.as_deref().into(),
        filter.job.map(|job| job.0).into(),
    ];
    let total: i64 = tx.one("deployment", select!("count(*)", ""), &keys).await?.get(0)?;
    keys.extend([take.into(), skip.into()]);
    let sql = select!(
        "j.id, j.name, j.environment, j.environment_url, j.conclusion, r.ref, r.head_sha, r.actor,
             coalesce(j.queued_at, r.created_at), j.ended_at",
        " ORDER BY j.id DESC LIMIT $6 OFFSET $7"
    );
    let rows = tx.rows(sql, &keys).await?;
    let found = rows.iter().map(deployment).collect::<Result<_, _>>()?;
    Ok((total.unsigned_abs(), found))
}

fn deployment(row: &Row) -> Result<Deployment, StoreError> {
    let conclusion: Option<String> = row.get(4)?;
    Ok(Deployment {
        job: row.get(0)?,
        job_name: row.get(1)?,
        deployed: Deployed { environment: row.get(2)?, url: row.get(3)? },
        conclusion: conclusion.as_deref().and_then(Conclusion::of_github),
        reference: row.get(5)?,
        sha: row.get(6)?,
        actor: row.get(7)?,
        created: row.get(8)?,
        ended: row.get(9)?,
    })
}
