//! What steps of an attempt said for the page of the run: annotations and summaries, as they came. What a re-run took
//! over from an earlier attempt said so there, and is shown with the job that stands for it here.

use std::collections::HashMap;

use kiln_core::id::{JobId, RunId};

use super::{Annotation, EventKind, stored};
use crate::runs::taken_over;
use crate::sql::{Sql, Value};
use crate::{Scope, StoreError, Tx};

/// How many summaries are looked at for one answer.
const MOST: u32 = 1_000;

/// Words of one kind in an attempt, those of the jobs that it took over as well.
macro_rules! said {
    ($columns:literal, $among:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM events WHERE run_id = $1 AND (org_id = $2 OR $2 IS NULL)
              AND (attempt = $3 OR job_id ",
            $among,
            ") AND kind = ",
            $rest
        )
    };
}

macro_rules! said_on_both {
    ($columns:literal, $rest:literal) => {
        Sql::of(
            said!($columns, "IN (SELECT value FROM json_each($4))", $rest),
            said!($columns, "= ANY($4)", $rest),
        )
    };
}

/// The jobs that an attempt took over: by that which ran, that which stands for it.
struct TakenOver(HashMap<JobId, JobId>);

impl TakenOver {
    async fn by(
        tx: &mut Tx<'_>,
        scope: Scope,
        run: RunId,
        attempt: u32,
    ) -> Result<Self, StoreError> {
        let pairs = taken_over(tx, scope, run, attempt).await?;
        Ok(Self(pairs.into_iter().map(|(here, ran, _)| (ran, here)).collect()))
    }

    fn ran(&self) -> Value {
        self.0.keys().map(|job| job.0).collect()
    }

    /// The job of this attempt that a word is about.
    fn here(&self, job: Option<JobId>) -> Option<JobId> {
        job.map(|job| self.0.get(&job).copied().unwrap_or(job))
    }
}

/// The first annotations of an attempt.
pub async fn annotations(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    attempt: u32,
    limit: u32,
) -> Result<Vec<(Option<JobId>, Annotation)>, StoreError> {
    let taken = TakenOver::by(tx, scope, run, attempt).await?;
    let sql = said_on_both!(
        "txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload",
        "'annotation' ORDER BY id LIMIT $5"
    );
    let values = [run.0.into(), scope.parameter(), attempt.into(), taken.ran(), limit.into()];
    let mut found = Vec::new();
    for row in tx.rows(sql, &values).await? {
        let event = stored(&row)?.event;
        if let EventKind::Annotation(annotation) = event.kind {
            found.push((taken.here(event.job), annotation));
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
    let taken = TakenOver::by(tx, scope, run, attempt).await?;
    let sql =
        said_on_both!("id, octet_length(payload)", "'summary' AND id > $5 ORDER BY id LIMIT $6");
    let values = [
        run.0.into(),
        scope.parameter(),
        attempt.into(),
        taken.ran(),
        after.into(),
        (MOST + 1).into(),
    ];
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
    let mut found = texts(tx, run, chosen).await?;
    for summary in &mut found {
        summary.job = taken.here(summary.job);
    }
    Ok(Summaries { found, more })
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
