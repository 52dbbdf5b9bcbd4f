//! Workflows: files of a repository that runs are made from.

use kiln_core::id::{OrgId, RepoId, WorkflowId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, repositories};
use crate::{Row, Sql, StoreError, Tx, Value};

/// Where files of workflows lie.
const FOLDER: &str = ".github/workflows";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub org: OrgId,
    pub repo: RepoId,
    pub path: String,
    pub name: String,
    pub enabled: bool,
    /// JSON.
    pub triggers: String,
    /// The number of its latest run.
    pub runs: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A workflow as its file has it now.
#[derive(Debug, Clone)]
pub struct FoundWorkflow {
    pub path: String,
    pub name: String,
    /// JSON.
    pub triggers: String,
}

/// Makes the workflow of a path known, or brings it up to date. Whether it is enabled, and how many runs
/// it had, stay. What does not change leaves no trace.
pub async fn upsert(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    repo: RepoId,
    found: FoundWorkflow,
) -> Result<WorkflowId, StoreError> {
    names::line("the path of a workflow", &found.path, 500)?;
    names::line("the name of a workflow", &found.name, 500)?;
    names::json("the triggers of a workflow", &found.triggers)?;
    let org = repositories::org_of(tx, scope, repo).await?;
    let row = [
        org.into(),
        repo.into(),
        found.path.as_str().into(),
        found.name.as_str().into(),
        found.triggers.into(),
        tx.now().into(),
    ];
    let changed = tx
        .row(
            "INSERT INTO workflows (org_id, repo_id, path, name, triggers, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (repo_id, path) DO UPDATE \
             SET name = excluded.name, triggers = excluded.triggers, updated_at = excluded.updated_at \
             WHERE workflows.name <> excluded.name OR workflows.triggers <> excluded.triggers \
             RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = changed else {
        let sql = "SELECT id FROM workflows WHERE repo_id = $1 AND path = $2";
        return tx.one("workflow", sql, &[repo.into(), found.path.into()]).await?.get(0);
    };
    let id = row.get::<WorkflowId>(0)?;
    let detail = json!({ "path": found.path, "name": found.name });
    let deed = Deed { org: Some(org), action: "workflow.upsert", subject: id.0, detail };
    audit::record(tx, actor, deed).await?;
    Ok(id)
}

/// A disabled workflow starts no runs.
pub async fn set_enabled(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: WorkflowId,
    enabled: bool,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    let sql = "UPDATE workflows SET enabled = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, &[id.into(), enabled.into(), tx.now().into()]).await?;
    let action = if enabled { "workflow.enable" } else { "workflow.disable" };
    let deed = Deed { org: Some(org), action, subject: id.0, detail: json!(null) };
    audit::record(tx, actor, deed).await
}

/// Refuses a workflow that must not start runs; says which repository it is of. One that is paused may
/// start them: their jobs wait.
pub(crate) async fn may_start(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: WorkflowId,
) -> Result<RepoId, StoreError> {
    let sql = "SELECT w.repo_id, w.enabled, r.enabled FROM workflows w \
               JOIN repositories r ON r.id = w.repo_id \
               WHERE w.id = $1 AND (w.org_id = $2 OR $2 IS NULL)";
    let row = tx.one("workflow", sql, &[id.into(), scope.parameter()]).await?;
    if !row.get::<bool>(2)? {
        return names::conflict(disabled("repository"));
    }
    if !row.get::<bool>(1)? {
        return names::conflict(disabled("workflow"));
    }
    row.get(0)
}

fn disabled(what: &str) -> String {
    format!("the {what} is disabled and starts no runs; enable it first")
}

/// The number of the next run. Nobody else gets the same one.
pub async fn next_run_number(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: WorkflowId,
) -> Result<i64, StoreError> {
    let sql = "UPDATE workflows SET runs = runs + 1 \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) RETURNING runs";
    tx.one("workflow", sql, &[id.into(), scope.parameter()]).await?.get(0)
}

/// The number that the next run will have. Nobody else takes it before this transaction ends.
pub async fn coming_run_number(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: WorkflowId,
) -> Result<i64, StoreError> {
    let sql = Sql::of(
        "SELECT runs + 1 FROM workflows WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)",
        "SELECT runs + 1 FROM workflows WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) FOR UPDATE",
    );
    tx.one("workflow", sql, &[id.into(), scope.parameter()]).await?.get(0)
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, repo_id, path, name, enabled, triggers, runs, created_at, updated_at \
             FROM workflows WHERE (org_id = $1 OR $1 IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: WorkflowId) -> Result<Workflow, StoreError> {
    let sql = select!("id = $2");
    workflow(&tx.one("workflow", sql, &[scope.parameter(), id.into()]).await?)
}

/// Path and name of these workflows.
pub async fn names_of(
    tx: &mut Tx<'_>,
    ids: &[WorkflowId],
) -> Result<Vec<(WorkflowId, String, String)>, StoreError> {
    let sql = Sql::of(
        "SELECT id, path, name FROM workflows WHERE id IN (SELECT value FROM json_each($1))",
        "SELECT id, path, name FROM workflows WHERE id = ANY($1)",
    );
    let ids: Value = ids.iter().map(|id| id.0).collect();
    let rows = tx.rows(sql, &[ids]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
}

pub async fn by_path(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    path: &str,
) -> Result<Workflow, StoreError> {
    let sql = select!("repo_id = $2 AND path = $3");
    let parameters = [scope.parameter(), repo.into(), names::searchable(path)];
    workflow(&tx.one("workflow", sql, &parameters).await?)
}

/// By age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    page: Page,
) -> Result<Vec<Workflow>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = select!("repo_id = $2 AND id > $3 ORDER BY id LIMIT $4");
    let parameters = [scope.parameter(), repo.into(), page.rising(), page.limit()];
    tx.rows(sql, &parameters).await?.iter().map(workflow).collect()
}

/// How many workflows a name may mean.
const MOST_NAMESAKES: u32 = 200;

/// Those with this path, file name or name, in one repository or in all that the scope sees.
pub async fn named(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: Option<RepoId>,
    name: &str,
) -> Result<Vec<WorkflowId>, StoreError> {
    let path = names::searchable(&format!("{FOLDER}/{name}"));
    let (wanted, most) = (names::searchable(name), MOST_NAMESAKES.into());
    // A statement for each, so that each has its index.
    let rows = match repo {
        Some(repo) => {
            let sql = "SELECT id FROM workflows WHERE (org_id = $1 OR $1 IS NULL) AND repo_id = $2 \
                       AND (path = $3 OR path = $4 OR name = $3) ORDER BY id LIMIT $5";
            let parameters = [scope.parameter(), repo.into(), wanted, path, most];
            tx.rows(sql, &parameters).await?
        }
        None => {
            let sql = "SELECT id FROM workflows WHERE (org_id = $1 OR $1 IS NULL) \
                       AND (path = $2 OR path = $3 OR name = $2) ORDER BY id LIMIT $4";
            tx.rows(sql, &[scope.parameter(), wanted, path, most]).await?
        }
    };
    rows.iter().map(|row| row.get(0)).collect()
}

fn workflow(row: &Row) -> Result<Workflow, StoreError> {
    Ok(Workflow {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        path: row.get(3)?,
        name: row.get(4)?,
        enabled: row.get(5)?,
        triggers: row.get(6)?,
        runs: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
    })
}
