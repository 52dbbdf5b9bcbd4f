//! What steps of an attempt said for the page of the run: annotations and summaries, as they came.

use kiln_core::id::{JobId, RunId};

use super::{Annotation, EventKind, stored};
use crate::sql::{Sql, Value};
use crate::{Scope, StoreError, Tx};

/// How many summaries are looked at for one answer.
const MOST: u32 = 1_000;

/// The first annotations of an attempt.
pub async fn annotations(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
    limit: u32,
) -> Result<Vec<(Option<JobId>, Annotation)>, StoreError> {
    let sql = "SELECT txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload
               FROM events WHERE run_id = $1 AND attempt = $2 AND (org_id = $3 OR $3 IS NULL)
               AND kind = 'annotation' ORDER BY id LIMIT $4";
    let values = [run.0.into(), attempt.into(), scope.parameter(), limit.into()];
    let mut found = Vec::new();
    for row in tx.rows(sql, &values).await? {
        let event = stored(&row)?.event;
        if let EventKind::Annotation(annotation) = event.kind {
            found.push((event.job, annotation));
        }
    }
    Ok(found)
}

/// Markdown that a step wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The event that brought it.
    pub id: i64,
    pub job: Option<JobId>,
    /// From 0.
    pub step: u32,
    pub text: String,
}

/// Summaries in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summaries {
    pub found: Vec<Summary>,
    /// There are more after the last of them.
    pub more: bool,
}

/// Summaries of an attempt after this event, as many as `room` bytes hold, and at least one. Each may have a
/// mebibyte, so their sizes are asked for before their texts.
pub async fn summaries(
    tx: &mut Tx<'_>,
    scope: Scope,
    (run, attempt): (RunId, u32),
    after: i64,
    room: u64,
) -> Result<Summaries, StoreError> {
    let sql = "SELECT id, octet_length(payload) FROM events
               WHERE run_id = $1 AND attempt = $2 AND (org_id = $3 OR $3 IS NULL)
               AND kind = 'summary' AND id > $4 ORDER BY id LIMIT $5";
    let values = [run.0.into(), attempt.into(), scope.parameter(), after.into(), (MOST + 1).into()];
    let sizes = tx.rows(sql, &values).await?;
    let mut used = 0_u64;
    let mut chosen: Vec<i64> = Vec::new();
    for row in &sizes {
        let size: Option<i64> = row.get(1)?;
        used = used.saturating_add(size.unwrap_or_default().unsigned_abs());
        if chosen.len() >= MOST as usize || (used > room && !chosen.is_empty()) {
            break;
        }
        chosen.push(row.get(0)?);
    }
    let more = chosen.len() < sizes.len();
    Ok(Summaries { found: texts(tx, run, chosen).await?, more })
}

async fn texts(tx: &mut Tx<'_>, run: RunId, ids: Vec<i64>) -> Result<Vec<Summary>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = Sql::of(
        "SELECT txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload FROM events
         WHERE run_id = $1 AND id IN (SELECT value FROM json_each($2)) ORDER BY id",
        "SELECT txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload FROM events
         WHERE run_id = $1 AND id = ANY($2) ORDER BY id",
    );
    let ids: Value = ids.into_iter().collect();
    let mut found = Vec::new();
    for row in tx.rows(sql, &[run.0.into(), ids]).await? {
        let stored = stored(&row)?;
        if let EventKind::Summary { step, text } = stored.event.kind {
            found.push(Summary { id: stored.id, job: stored.event.job, step, text });
        }
    }
    Ok(found)
}
