//! What happened, to be followed from any point.
//!
//! Whoever follows keeps a [`Cursor`] and asks for what comes after it. Ids alone would not do on
//! PostgreSQL: a transaction can take an id early and commit late, when a reader is past it. So pages are
//! cut by transaction first, and only those events are read which no open transaction can precede: that
//! way nothing is missed and nothing comes twice.
//!
//! Transactions are numbered when they take their first lock, not when they commit, so theirs is not the
//! order in which things happened. Ids are, within one run: they are given out under its lock. Followers
//! can rely on this: in a page, the events of one run stand in the order in which they happened, by
//! [`StoredEvent::id`]. Between pages a run's events can be swapped, if a page ends between two
//! transactions of which the later one was first to commit; whoever cares compares ids. Between runs
//! there is no order.

mod kind;
mod remarks;

use std::borrow::Cow;
use std::collections::BTreeMap;

use kiln_core::id::{JobId, OrgId, RepoId, RunId};
use kiln_core::time::Timestamp;

use crate::directory::scope::Scope;
use crate::tx::millis;
use crate::{Refusal, Row, Sql, StoreError, Tx, Value};

pub use kind::{Annotation, EventKind, Level, Outcome, TestResult};
pub use remarks::{Summaries, Summary, annotations, summaries};

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub org: OrgId,
    pub repo: RepoId,
    pub run: RunId,
    pub attempt: u32,
    pub job: Option<JobId>,
    pub kind: EventKind,
}

/// An event in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Grows within a run as things happen. It is no place to go on from: only a page's end is.
    pub id: i64,
    pub at: Timestamp,
    pub event: Event,
}

/// Some events, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub events: Vec<StoredEvent>,
    /// The cursor for the next question; it may have moved on although no event was found.
    pub next: Cursor,
    /// Whether it is worth asking again at once.
    pub more: bool,
}

/// A place between two events. The default is before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    txid: i64,
    id: i64,
}

/// As clients keep it: two numbers and a dash.
impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.txid, self.id)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let number = |text: &str| text.parse().ok().filter(|number: &i64| *number >= 0);
        let parts = text.split_once('-').and_then(|(txid, id)| Some((number(txid)?, number(id)?)));
        let (txid, id) = parts.ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            Refusal::Invalid(format!("`{start}` is no cursor; expected two numbers as in `12-34`"))
        })?;
        Ok(Self { txid, id })
    }
}

/// Whose events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    All,
    Org(OrgId),
    Repo(RepoId),
    Run(RunId),
}

/// Adds events; they are read once the transaction has committed.
pub fn append(tx: &mut Tx<'_>, events: &[Event]) -> Result<(), StoreError> {
    let at = millis(tx.now());
    let rows: Vec<Vec<Value>> = events.iter().map(|event| row_of(event, at)).collect();
    tx.write_all(
        Sql::of(
            "INSERT INTO events (run_id, org_id, repo_id, attempt, job_id, kind, payload, at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            // The transaction is named once, and not for each of them.
            "INSERT INTO events (run_id, org_id, repo_id, attempt, job_id, kind, payload, at, txid)
             SELECT u.*, (SELECT pg_current_xact_id()::text::bigint)
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                         $6::text[], $7::text[], $8::bigint[]) AS u",
        ),
        rows,
    )?;
    Ok(())
}

fn row_of(event: &Event, at: i64) -> Vec<Value> {
    let (kind, payload) = event.kind.encode();
    let kind = match kind {
        Cow::Borrowed(word) => Value::Word(word),
        Cow::Owned(text) => text.into(),
    };
    vec![
        event.run.0.into(),
        event.org.0.into(),
        event.repo.0.into(),
        event.attempt.into(),
        event.job.map(|job| job.0).into(),
        kind,
        payload.into(),
        at.into(),
    ]
}

/// On SQLite all have the same transaction, and lie in the order of their ids.
macro_rules! after {
    ($whose:literal) => {
        Sql::of(
            concat!(
                "SELECT txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload
                 FROM events WHERE id > $2 AND id <= $4 AND (org_id = $7 OR $7 IS NULL) AND ",
                $whose,
                " ORDER BY id LIMIT $5"
            ),
            concat!(
                "SELECT txid, id, at, org_id, repo_id, run_id, attempt, job_id, kind, payload
                 FROM events WHERE (txid, id) > ($1, $2) AND (txid, id) <= ($3, $4)
                 AND (org_id = $7 OR $7 IS NULL) AND ",
                $whose,
                " ORDER BY txid, id LIMIT $5"
            ),
        )
    };
}

/// How many events of others one question passes over at most.
const LOOKS: u32 = 10_000;

/// The next events after a cursor.
pub async fn read(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: Filter,
    after: Cursor,
    limit: u32,
) -> Result<Page, StoreError> {
    let horizon = horizon(tx).await?;
    if after > horizon {
        let message = format!("the cursor {after} is not of this database; begin anew without one");
        return Err(Refusal::Invalid(message).into());
    }
    let (sql, whose) = match filter {
        Filter::All => (after!("$6 = 0"), 0),
        Filter::Org(org) => (after!("org_id = $6"), org.0),
        Filter::Repo(repo) => (after!("repo_id = $6"), repo.0),
        Filter::Run(run) => (after!("run_id = $6"), run.0),
    };
    let finds_all = matches!((scope, filter), (Scope::System(_), Filter::All));
    let bound = if finds_all || matches!(filter, Filter::Run(_)) {
        None
    } else {
        bound(tx, after, horizon).await?
    };
    let end = bound.unwrap_or(horizon);
    let numbers = [after.txid, after.id, end.txid, end.id, i64::from(limit), whose];
    let mut values: Vec<Value> = numbers.map(Value::from).to_vec();
    values.push(scope.parameter());
    let rows = tx.rows(sql, &values).await?;
    // Fewer than asked for: all up to the end was seen, also what the filter left out.
    let full = rows.len() >= limit as usize;
    let next = match rows.last() {
        Some(last) if full => cursor_of(last)?,
        _ if full => after,
        _ => end,
    };
    let events = rows.iter().map(stored).collect::<Result<_, _>>()?;
    Ok(Page { events: as_they_happened(events), next, more: full || bound.is_some() })
}

/// Where a question that finds few of the events it passes stops, if there are that many.
async fn bound(tx: &mut Tx<'_>, after: Cursor, end: Cursor) -> Result<Option<Cursor>, StoreError> {
    let sql = Sql::of(
        "SELECT txid, id FROM events WHERE id > $2 AND id <= $4 ORDER BY id LIMIT 1 OFFSET $5",
        "SELECT txid, id FROM events WHERE (txid, id) > ($1, $2) AND (txid, id) <= ($3, $4)
         ORDER BY txid, id LIMIT 1 OFFSET $5",
    );
    let numbers = [after.txid, after.id, end.txid, end.id, i64::from(LOOKS) - 1];
    tx.row(sql, &numbers.map(Value::from)).await?.as_ref().map(cursor_of).transpose()
}

/// Each run's events in the order of their ids, in the places that the run has in the page.
fn as_they_happened(events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    let places: Vec<RunId> = events.iter().map(|stored| stored.event.run).collect();
    let mut of_runs: BTreeMap<RunId, Vec<StoredEvent>> = BTreeMap::new();
    for stored in events {
        of_runs.entry(stored.event.run).or_default().push(stored);
    }
    // The latest first, so that the earliest is taken from the end.
    for events in of_runs.values_mut() {
        events.sort_by_key(|stored| std::cmp::Reverse(stored.id));
    }
    places.iter().filter_map(|run| of_runs.get_mut(run)?.pop()).collect()
}

fn cursor_of(row: &Row) -> Result<Cursor, StoreError> {
    Ok(Cursor { txid: row.get(0)?, id: row.get(1)? })
}

fn stored(row: &Row) -> Result<StoredEvent, StoreError> {
    let kind: String = row.get(8)?;
    let payload: Option<String> = row.get(9)?;
    Ok(StoredEvent {
        id: row.get(1)?,
        at: Timestamp(row.get::<i64>(2)?.try_into().unwrap_or_default()),
        event: Event {
            org: OrgId(row.get(3)?),
            repo: RepoId(row.get(4)?),
            run: RunId(row.get(5)?),
            attempt: row.get(6)?,
            job: row.get::<Option<i64>>(7)?.map(JobId),
            kind: EventKind::decode(kind, payload),
        },
    })
}

/// The cursor behind all events that are settled: whatever is committed from now on comes after it.
pub async fn horizon(tx: &mut Tx<'_>) -> Result<Cursor, StoreError> {
    let sql = Sql::of(
        "SELECT 0, coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'",
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1, 9223372036854775807",
    );
    cursor_of(&tx.one("horizon", sql, &[]).await?)
}

/// Events that come from another cluster, by a restored dump, carry transaction ids that this one has
/// not reached, or that it will give out a second time. They are older than all that this one will add,
/// and their ids keep them in order.
pub(crate) async fn adopt(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    if tx.is_postgres() {
        let sql = "UPDATE events SET txid = 0 WHERE txid <> 0 AND EXISTS (
                 SELECT 1 FROM events
                 WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)";
        tx.execute(sql, &[]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = Cursor { txid: 12, id: i64::MAX };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "-", "1", "1-", "-1-2", "1--2", "x-1", "1-99999999999999999999"] {
            let error = text.parse::<Cursor>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("12-34"), "{error}");
        }
    }
}
