//! Who did what and when, written with what was done.

use kiln_core::id::{JobId, OrgId};
use kiln_core::time::Timestamp;

use super::actor::{Actor, ActorKind};
use super::page::Page;
use super::scope::Scope;
use crate::{Row, StoreError, Tx};

/// What was done.
#[derive(Debug)]
pub(crate) struct Deed {
    /// `None` for what concerns the whole installation.
    pub(crate) org: Option<OrgId>,
    /// The kind of its subject, a point, and a verb: `repository.pause`.
    pub(crate) action: &'static str,
    pub(crate) subject: i64,
    /// What else one would want to know; null for nothing. Never a secret.
    pub(crate) detail: serde_json::Value,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: i64,
    pub org: Option<OrgId>,
    pub at: Timestamp,
    pub actor: Actor,
    pub action: String,
    pub subject_kind: String,
    pub subject: Option<i64>,
    /// JSON.
    pub detail: Option<String>,
}

/// A job was told who it is, in a token that others believe.
pub async fn identified(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    job: JobId,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    let deed = Deed { org: Some(org), action: "job.identify", subject: job.0, detail };
    record(tx, actor, deed).await
}

/// Somebody did something with what a program keeps here: `action` is the kind of the subject, a point, and a
/// verb.
pub async fn done(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    action: &'static str,
    subject: i64,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    record(tx, actor, Deed { org: Some(org), action, subject, detail }).await
}

/// The same of what concerns the whole installation.
pub async fn done_to_all(
    tx: &mut Tx<'_>,
    actor: &Actor,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    record(tx, actor, Deed { org: None, action, subject: 0, detail }).await
}

/// Writes an entry in the transaction that does the deed.
pub(crate) async fn record(tx: &mut Tx<'_>, actor: &Actor, deed: Deed) -> Result<(), StoreError> {
    let kind = deed.action.split_once('.').map_or(deed.action, |(kind, _)| kind);
    let detail = (!deed.detail.is_null()).then(|| deed.detail.to_string());
    let row = [
        deed.org.into(),
        tx.now().into(),
        actor.kind.into(),
        actor.shown().into(),
        deed.action.into(),
        kind.into(),
        deed.subject.into(),
        detail.into(),
        actor.address.as_deref().map(|address| address.replace('\0', "")).into(),
    ];
    tx.execute(
        "INSERT INTO audit (org_id, at, actor_kind, actor, action, subject_kind, subject_id, detail, \
         address) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &row,
    )
    .await?;
    Ok(())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, at, actor_kind, actor, action, subject_kind, subject_id, detail, \
             address FROM audit ",
            $rest
        )
    };
}

/// What was done in an organization, the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Entry>, StoreError> {
    scope.admits(org)?;
    let sql = select!("WHERE org_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
    let rows = tx.rows(sql, &[org.into(), page.falling(), page.limit()]).await?;
    rows.iter().map(entry).collect()
}

/// What was done to the whole installation, the newest first.
pub async fn list_of_installation(
    tx: &mut Tx<'_>,
    scope: Scope,
    page: Page,
) -> Result<Vec<Entry>, StoreError> {
    scope.system("audit log")?;
    let sql = select!("WHERE org_id IS NULL AND id < $1 ORDER BY id DESC LIMIT $2");
    let rows = tx.rows(sql, &[page.falling(), page.limit()]).await?;
    rows.iter().map(entry).collect()
}

/// All that was done, to the installation and in all organizations, the newest first.
pub async fn list_all(tx: &mut Tx<'_>, scope: Scope, page: Page) -> Result<Vec<Entry>, StoreError> {
    scope.system("audit log")?;
    let sql = select!("WHERE id < $1 ORDER BY id DESC LIMIT $2");
    let rows = tx.rows(sql, &[page.falling(), page.limit()]).await?;
    rows.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let actor = Actor { kind: row.get::<ActorKind>(3)?, name: row.get(4)?, address: row.get(9)? };
    Ok(Entry {
        id: row.get(0)?,
        org: row.get(1)?,
        at: row.get(2)?,
        actor,
        action: row.get(5)?,
        subject_kind: row.get(6)?,
        subject: row.get(7)?,
        detail: row.get(8)?,
    })
}
