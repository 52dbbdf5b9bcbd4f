//! Runs as lists show them.

use kiln_core::id::{OrgId, RepoId, RunId, WorkflowId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use crate::directory::repositories;
use crate::words::words;
use crate::{Page, Row, Scope, StoreError, Tx};

words! {
    /// How far a run has come, as GitHub calls it.
    RunStatus: "a status of a run" {
        Queued = "queued",
        /// It waits for its concurrency group.
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
    }
}

/// A run with what is known of its current attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    pub id: RunId,
    pub org: OrgId,
    pub repo: RepoId,
    pub workflow: WorkflowId,
    /// Within its workflow.
    pub number: i64,
    pub attempt: u32,
    pub event: String,
    /// Who triggered it first.
    pub actor: String,
    pub reference: String,
    pub head_sha: String,
    pub head_branch: Option<String>,
    pub title: String,
    pub status: RunStatus,
    pub conclusion: Option<Conclusion>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, repo_id, workflow_id, run_number, attempt, event, actor, ref, \
             head_sha, head_branch, title, status, conclusion, created_at, started_at, ended_at \
             FROM runs WHERE ",
            $rest
        )
    };
}

/// The runs of a repository, or all that the scope sees; the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: Option<RepoId>,
    page: Page,
) -> Result<Vec<RunSummary>, StoreError> {
    let (before, limit) = (page.falling(), page.limit());
    // A statement for each, so that each has its index.
    let rows = match (repo, scope) {
        (Some(repo), _) => {
            repositories::org_of(tx, scope, repo).await?;
            let sql = select!("repo_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
            tx.rows(sql, &[repo.into(), before, limit]).await?
        }
        (None, Scope::Org(org)) => {
            let sql = select!("org_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
            tx.rows(sql, &[org.into(), before, limit]).await?
        }
        (None, Scope::System(_)) => {
            tx.rows(select!("id < $1 ORDER BY id DESC LIMIT $2"), &[before, limit]).await?
        }
    };
    rows.iter().map(summary).collect()
}

fn summary(row: &Row) -> Result<RunSummary, StoreError> {
    let conclusion: Option<String> = row.get(13)?;
    let known = |word: String| {
        let unknown = || StoreError::Database(format!("`{word}` is not a conclusion"));
        Conclusion::of_github(&word).ok_or_else(unknown)
    };
    Ok(RunSummary {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        workflow: row.get(3)?,
        number: row.get(4)?,
        attempt: row.get(5)?,
        event: row.get(6)?,
        actor: row.get(7)?,
        reference: row.get(8)?,
        head_sha: row.get(9)?,
        head_branch: row.get(10)?,
        title: row.get(11)?,
        status: row.get(12)?,
        conclusion: conclusion.map(known).transpose()?,
        created: row.get(14)?,
        started: row.get(15)?,
        ended: row.get(16)?,
    })
}
