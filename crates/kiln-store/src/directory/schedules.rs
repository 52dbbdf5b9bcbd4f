//! Schedules that start runs.

use kiln_core::id::{OrgId, RepoId, ScheduleId, WorkflowId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, workflows};
use crate::{Row, Sql, StoreError, Tx, Value};

/// How many schedules a workflow may have.
const MOST: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub org: OrgId,
    pub repo: RepoId,
    pub workflow: WorkflowId,
    pub cron: String,
    pub timezone: String,
    pub enabled: bool,
    pub next_at: Timestamp,
    pub last_at: Option<Timestamp>,
}

/// A schedule as the workflow's file has it now.
#[derive(Debug, Clone)]
pub struct FoundSchedule {
    pub cron: String,
    pub timezone: String,
    /// When it fires first, if it is new.
    pub next_at: Timestamp,
}

/// Gives a workflow these schedules and no others. Those that it has already keep their time.
pub async fn set(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    workflow: WorkflowId,
    found: &[FoundSchedule],
) -> Result<(), StoreError> {
    if found.len() > MOST {
        return names::invalid(format!(
            "the workflow has {} schedules; expected up to {MOST}",
            found.len()
        ));
    }
    let owner = workflows::get(tx, scope, workflow).await?;
    let removed = remove_others(tx, workflow, found).await?;
    let mut added = Vec::new();
    for schedule in found {
        names::line("a schedule", &schedule.cron, 200)?;
        names::line("a time zone", &schedule.timezone, 100)?;
        let row = [
            owner.org.into(),
            owner.repo.into(),
            workflow.into(),
            schedule.cron.as_str().into(),
            schedule.timezone.as_str().into(),
            schedule.next_at.into(),
        ];
        let sql = "INSERT INTO schedules (org_id, repo_id, workflow_id, cron, timezone, next_at) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        if tx.execute(sql, &row).await? > 0 {
            added.push(&schedule.cron);
        }
    }
    if added.is_empty() && removed.is_empty() {
        return Ok(());
    }
    let detail = json!({ "added": added, "removed": removed });
    let deed =
        Deed { org: Some(owner.org), action: "workflow.schedule", subject: workflow.0, detail };
    audit::record(tx, actor, deed).await
}

async fn remove_others(
    tx: &mut Tx<'_>,
    workflow: WorkflowId,
    found: &[FoundSchedule],
) -> Result<Vec<String>, StoreError> {
    let mut removed = Vec::new();
    for known in of_workflow(tx, workflow).await? {
        let is_kept =
            found.iter().any(|one| one.cron == known.cron && one.timezone == known.timezone);
        if !is_kept {
            tx.execute("DELETE FROM schedules WHERE id = $1", &[known.id.into()]).await?;
            removed.push(known.cron);
        }
    }
    Ok(removed)
}

macro_rules! columns {
    () => {
        "id, org_id, repo_id, workflow_id, cron, timezone, enabled, next_at, last_at"
    };
}

async fn of_workflow(tx: &mut Tx<'_>, workflow: WorkflowId) -> Result<Vec<Schedule>, StoreError> {
    let sql = concat!("SELECT ", columns!(), " FROM schedules WHERE workflow_id = $1 ORDER BY id");
    tx.rows(sql, &[workflow.into()]).await?.iter().map(schedule).collect()
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: ScheduleId) -> Result<Schedule, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM schedules WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)"
    );
    schedule(&tx.one("schedule", sql, &[id.into(), scope.parameter()]).await?)
}

/// The schedules of an organization, by age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Schedule>, StoreError> {
    scope.admits(org)?;
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM schedules WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3"
    );
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(schedule).collect()
}

/// The schedules of a workflow, by age.
pub async fn list_of_workflow(
    tx: &mut Tx<'_>,
    scope: Scope,
    workflow: WorkflowId,
) -> Result<Vec<Schedule>, StoreError> {
    workflows::get(tx, scope, workflow).await?;
    of_workflow(tx, workflow).await
}

/// Takes the schedules that are due, up to `most`, and moves each to its next time in the same
/// transaction: whoever else takes at the same moment gets others. One that has no next time is disabled.
/// The runs must be made in this transaction, too: see [`Runs::create_in`](crate::runs::Runs::create_in).
pub async fn take_due<F>(
    tx: &mut Tx<'_>,
    scope: Scope,
    most: u32,
    next: F,
) -> Result<Vec<Schedule>, StoreError>
where
    F: Fn(&Schedule) -> Option<Timestamp>,
{
    scope.system("schedule")?;
    let due = Sql::of(
        concat!(
            "SELECT ",
            columns!(),
            " FROM schedules WHERE enabled = 1 AND next_at <= $1 ORDER BY next_at LIMIT $2"
        ),
        concat!(
            "SELECT ",
            columns!(),
            " FROM schedules WHERE enabled = 1 AND next_at <= $1 ORDER BY next_at LIMIT $2 \
             FOR UPDATE SKIP LOCKED"
        ),
    );
    let rows = tx.rows(due, &[tx.now().into(), most.into()]).await?;
    let due = rows.iter().map(schedule).collect::<Result<Vec<_>, _>>()?;
    let moved: Vec<Vec<Value>> = due
        .iter()
        .map(|schedule| {
            let next = next(schedule);
            let at = next.unwrap_or(schedule.next_at);
            vec![schedule.id.into(), at.into(), next.is_some().into(), tx.now().into()]
        })
        .collect();
    tx.execute_all(ADVANCE, &moved).await?;
    Ok(due)
}

const ADVANCE: Sql = Sql::of(
    "UPDATE schedules SET next_at = $2, enabled = $3, last_at = $4 WHERE id = $1",
    "UPDATE schedules SET next_at = n.next_at, enabled = n.enabled, last_at = n.last_at \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) \
     AS n (id, next_at, enabled, last_at) WHERE schedules.id = n.id",
);

fn schedule(row: &Row) -> Result<Schedule, StoreError> {
    Ok(Schedule {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        workflow: row.get(3)?,
        cron: row.get(4)?,
        timezone: row.get(5)?,
        enabled: row.get(6)?,
        next_at: row.get(7)?,
        last_at: row.get(8)?,
    })
}
