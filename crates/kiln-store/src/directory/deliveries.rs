//! What forges sent: kept once each, to be handled and, if need be, handled again.

use std::time::Duration;

use kiln_core::id::{DeliveryId, OrgId, RepoId};
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, repositories};
use crate::tx::millis;
use crate::words::words;
use crate::{Row, Sql, StoreError, Tx, Value};

/// GitHub's limit.
const LONGEST: usize = 25 << 20;

macro_rules! columns {
    () => {
        "id, org_id, repo_id, forge, delivery, event, status, error, received_at, handled_at"
    };
}

words! {
    /// How far a delivery has come.
    DeliveryStatus: "a status of a delivery" {
        Received = "received",
        Handled = "handled",
        Failed = "failed",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub org: Option<OrgId>,
    pub repo: Option<RepoId>,
    pub forge: String,
    /// What the forge calls it.
    pub delivery: String,
    pub event: String,
    pub status: DeliveryStatus,
    pub error: Option<String>,
    pub received_at: Timestamp,
    pub handled_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// What it is about, if that is known. The organization is the repository's.
    pub repo: Option<RepoId>,
    pub forge: String,
    pub delivery: String,
    pub event: String,
    pub payload: Vec<u8>,
}

/// Keeps what a forge sent; `None` when it came before. What came before may be about somebody else, so
/// nothing is said about it. Who receives it handles it; if they die, [`take_waiting`] finds it.
pub async fn receive(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: NewDelivery,
) -> Result<Option<DeliveryId>, StoreError> {
    names::name("a forge", &new.forge)?;
    names::line("the id of a delivery", &new.delivery, 200)?;
    names::line("an event", &new.event, 100)?;
    if new.payload.len() > LONGEST {
        return names::invalid(format!("the payload is too long; expected up to {LONGEST} bytes"));
    }
    let org = match new.repo {
        Some(repo) => Some(repositories::org_of(tx, scope, repo).await?),
        None => scope.system("repository").map(|()| None)?,
    };
    let row = [
        org.into(),
        new.repo.into(),
        new.forge.into(),
        new.delivery.into(),
        new.event.into(),
        new.payload.into(),
        tx.now().into(),
        DeliveryStatus::Received.into(),
    ];
    let made = tx
        .row(
            "INSERT INTO webhook_deliveries (org_id, repo_id, forge, delivery, event, payload, \
             received_at, status, taken_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $7) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    made.map(|row| row.get(0)).transpose()
}

/// Takes deliveries that nobody has handled although somebody took them longer ago than `patience`, or
/// that are to be handled again: up to `most`, those that wait longest first. Nobody else gets the same
/// until it has waited again.
pub async fn take_waiting(
    tx: &mut Tx<'_>,
    scope: Scope,
    most: u32,
    patience: Duration,
) -> Result<Vec<Delivery>, StoreError> {
    scope.system("delivery")?;
    let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
    let before = millis(tx.now()).saturating_sub(patience);
    let rows = tx.rows(WAITING, &[before.into(), most.min(Page::LARGEST).into()]).await?;
    let waiting = rows.iter().map(delivery).collect::<Result<Vec<_>, _>>()?;
    let taken: Vec<Vec<Value>> =
        waiting.iter().map(|one| vec![one.id.into(), tx.now().into()]).collect();
    tx.execute_all(TAKE, &taken).await?;
    Ok(waiting)
}

const WAITING: Sql = Sql::of(
    concat!(
        "SELECT ",
        columns!(),
        " FROM webhook_deliveries WHERE taken_at <= $1 ORDER BY taken_at LIMIT $2"
    ),
    concat!(
        "SELECT ",
        columns!(),
        " FROM webhook_deliveries WHERE taken_at <= $1 ORDER BY taken_at LIMIT $2 \
         FOR UPDATE SKIP LOCKED"
    ),
);

const TAKE: Sql = Sql::of(
    "UPDATE webhook_deliveries SET taken_at = $2 WHERE id = $1",
    "UPDATE webhook_deliveries SET taken_at = n.at \
     FROM unnest($1::bigint[], $2::bigint[]) AS n (id, at) WHERE webhook_deliveries.id = n.id",
);

/// Must be in the transaction that creates the runs. One that was handled already is refused, so that two
/// who handle it at the same time do not both create them.
pub async fn mark_handled(tx: &mut Tx<'_>, scope: Scope, id: DeliveryId) -> Result<(), StoreError> {
    mark(tx, scope, id, DeliveryStatus::Handled, None).await
}

/// With the reason, for people. It is not tried again, unless somebody asks for it.
pub async fn mark_failed(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: DeliveryId,
    error: &str,
) -> Result<(), StoreError> {
    let error = error.chars().take(2_000).collect::<String>().replace('\0', "");
    mark(tx, scope, id, DeliveryStatus::Failed, Some(error)).await
}

async fn mark(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: DeliveryId,
    status: DeliveryStatus,
    error: Option<String>,
) -> Result<(), StoreError> {
    let row = [id.into(), scope.parameter(), status.into(), error.into(), tx.now().into()];
    let sql = "UPDATE webhook_deliveries SET status = $3, error = $4, handled_at = $5, taken_at = NULL \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) AND taken_at IS NOT NULL";
    if tx.execute(sql, &row).await? > 0 {
        return Ok(());
    }
    let known = get(tx, scope, id).await?;
    names::conflict(format!(
        "the delivery `{}` was handled already; replay it to handle it again",
        known.delivery
    ))
}

/// Makes a delivery wait to be handled again, by whoever takes it next. One that waits already goes on
/// waiting.
pub async fn replay(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: DeliveryId,
) -> Result<Delivery, StoreError> {
    let sql = "UPDATE webhook_deliveries SET status = $3, error = NULL, handled_at = NULL, \
               taken_at = coalesce(taken_at, 0) WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    tx.execute(sql, &[id.into(), scope.parameter(), DeliveryStatus::Received.into()]).await?;
    let delivery = get(tx, scope, id).await?;
    let deed = Deed {
        org: delivery.org,
        action: "delivery.replay",
        subject: id.0,
        detail: json!({ "delivery": delivery.delivery }),
    };
    audit::record(tx, actor, deed).await?;
    Ok(delivery)
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_deliveries WHERE (org_id = $1 OR $1 IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: DeliveryId) -> Result<Delivery, StoreError> {
    let sql = select!("id = $2");
    delivery(&tx.one("delivery", sql, &[scope.parameter(), id.into()]).await?)
}

/// What was sent, byte for byte.
pub async fn payload(tx: &mut Tx<'_>, scope: Scope, id: DeliveryId) -> Result<Vec<u8>, StoreError> {
    let sql = "SELECT payload FROM webhook_deliveries \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    tx.one("delivery", sql, &[id.into(), scope.parameter()]).await?.get(0)
}

/// What came for a repository, the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    page: Page,
) -> Result<Vec<Delivery>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = select!("repo_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4");
    let parameters = [scope.parameter(), repo.into(), page.falling(), page.limit()];
    tx.rows(sql, &parameters).await?.iter().map(delivery).collect()
}

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        forge: row.get(3)?,
        delivery: row.get(4)?,
        event: row.get(5)?,
        status: row.get(6)?,
        error: row.get(7)?,
        received_at: row.get(8)?,
        handled_at: row.get(9)?,
    })
}
