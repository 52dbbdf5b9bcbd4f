//! Queues as people see them: what waits where, and why nobody gets it.
//!
//! A queue is a set of requirements and belongs to the whole installation. An organization sees those in
//! which it has had jobs, and of what waits there only its own.

use kiln_core::id::{OrgId, QueueId};
use kiln_core::queue::Requirements;
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::names;
use super::page::Page;
use super::scope::Scope;
use crate::claims;
use crate::{Refusal, Row, Signal, StoreError, Tx, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub id: QueueId,
    pub requirements: Requirements,
    /// Who paused it and why.
    pub paused: Option<String>,
    /// How many jobs wait, counted up to [`claims::COUNTED`].
    pub waiting: u64,
    pub created_at: Timestamp,
    /// When the last job came in, to the hour.
    pub used_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, requirements, paused, created_at, used_at FROM queues WHERE \
             (EXISTS (SELECT 1 FROM lanes WHERE queue_id = queues.id AND org_id = $1) \
             OR $1 IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: QueueId) -> Result<Queue, StoreError> {
    let row = tx.one("queue", select!("id = $2"), &[scope.parameter(), id.into()]).await?;
    queue(tx, scope, &row).await
}

/// By age.
pub async fn list(tx: &mut Tx<'_>, scope: Scope, page: Page) -> Result<Vec<Queue>, StoreError> {
    let sql = select!("id > $2 ORDER BY id LIMIT $3");
    let rows = tx.rows(sql, &[scope.parameter(), page.rising(), page.limit()]).await?;
    let mut queues = Vec::with_capacity(rows.len());
    for row in &rows {
        queues.push(queue(tx, scope, row).await?);
    }
    Ok(queues)
}

/// Its jobs wait, with this reason, until it is resumed.
pub async fn pause(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: QueueId,
    reason: &str,
) -> Result<(), StoreError> {
    names::line("a reason", reason, 500)?;
    let words = format!("{}: {reason}", actor.shown());
    set(tx, scope, id, words.into()).await?;
    record(tx, actor, id, "queue.pause", json!({ "reason": reason })).await
}

pub async fn resume(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: QueueId,
) -> Result<(), StoreError> {
    set(tx, scope, id, Value::Null).await?;
    tx.signal(Signal::Work(id));
    record(tx, actor, id, "queue.resume", json!(null)).await
}

async fn set(tx: &mut Tx<'_>, scope: Scope, id: QueueId, paused: Value) -> Result<(), StoreError> {
    scope.system("queue")?;
    let sql = "UPDATE queues SET paused = $2 WHERE id = $1";
    if tx.execute(sql, &[id.into(), paused]).await? == 0 {
        return Err(Refusal::NotFound("queue").into());
    }
    Ok(())
}

async fn queue(tx: &mut Tx<'_>, scope: Scope, row: &Row) -> Result<Queue, StoreError> {
    let id = row.get(0)?;
    let requirements = Requirements::parse(&row.get::<String>(1)?)
        .map_err(|error| StoreError::Database(error.to_string()))?;
    let org: Option<OrgId> = match scope {
        Scope::Org(org) => Some(org),
        Scope::System(_) => None,
    };
    Ok(Queue {
        id,
        requirements,
        paused: row.get(2)?,
        waiting: claims::in_queues(tx, &[id], org).await?,
        created_at: row.get(3)?,
        used_at: row.get(4)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: QueueId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: None, action, subject: id.0, detail }).await
}
