//! Which lanes have jobs, and the first ones in each.

use kiln_core::id::{JobId, LaneId, OrgId, QueueId, RepoId};
use kiln_core::queue::{Class, Head, Lane};

use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// What is needed to claim a job that is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) attempt: u32,
    pub(super) number: u32,
}

/// A lane, and where its jobs begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) lane: Lane,
    pub(super) floor: i64,
}

/// The lanes of these queues that may have jobs. Paused queues and repositories have none, and a paused
/// server has none at all.
pub(super) const OPEN: Sql = Sql::of(
        "SELECT l.id, l.queue_id, l.priority, l.org_id, l.repo_id, l.class, l.floor
         FROM lanes AS l JOIN queues AS q ON q.id = l.queue_id JOIN repositories AS r ON r.id = l.repo_id
         WHERE l.queue_id = $1 AND l.active = 1 AND q.paused IS NULL AND r.paused IS NULL
             AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'paused')",
        "SELECT l.id, l.queue_id, l.priority, l.org_id, l.repo_id, l.class, l.floor
         FROM lanes AS l JOIN queues AS q ON q.id = l.queue_id JOIN repositories AS r ON r.id = l.repo_id
         WHERE l.queue_id = ANY($1) AND l.active = 1 AND q.paused IS NULL AND r.paused IS NULL
             AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'paused')",
);

/// What [`OPEN`] found.
pub(super) fn open_lanes(found: &[Row]) -> Result<Vec<Open>, StoreError> {
    found.iter().map(lane_of).collect()
}

fn lane_of(row: &Row) -> Result<Open, StoreError> {
    let word: String = row.get(5)?;
    let class = Class::parse(&word)
        .ok_or_else(|| StoreError::Database(format!("`{word}` is not a class")))?;
    let lane = Lane {
        id: LaneId(row.get(0)?),
        queue: QueueId(row.get(1)?),
        priority: row.get(2)?,
        org: OrgId(row.get(3)?),
        repo: RepoId(row.get(4)?),
        class,
    };
    Ok(Open { lane, floor: row.get(6)? })
}

/// A lane, and the key and job behind which to look.
pub(super) type After = (LaneId, (i64, i64));

/// The next jobs of these lanes behind the given places, at most `piece` of each. On PostgreSQL they are
/// ours until the transaction ends; what another one has is passed over.
pub(super) async fn heads(
    tx: &mut Tx<'_>,
    after: &[After],
    piece: usize,
) -> Result<Vec<(LaneId, Head<Place>)>, StoreError> {
    let piece = i64::try_from(piece).unwrap_or(i64::MAX);
    let rows = if tx.is_postgres() {
        let sql = "SELECT h.lane_id, h.key, h.job_id, h.attempt, h.number
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (lane_id, key, job_id)
             CROSS JOIN LATERAL (
                 SELECT q.lane_id, q.key, q.job_id, q.attempt, q.number FROM queue AS q
                 WHERE q.lane_id = u.lane_id AND (q.key, q.job_id) > (u.key, u.job_id)
                 ORDER BY q.key, q.job_id LIMIT $4 FOR UPDATE SKIP LOCKED
             ) AS h";
        let lanes = after.iter().map(|(lane, _)| lane.0).collect();
        let keys = after.iter().map(|(_, (key, _))| *key).collect();
        let jobs = after.iter().map(|(_, (_, job))| *job).collect();
        tx.rows(sql, &[lanes, keys, jobs, piece.into()]).await?
    } else {
        let sql = "SELECT lane_id, key, job_id, attempt, number FROM queue
             WHERE lane_id = $1 AND (key, job_id) > ($2, $3) ORDER BY key, job_id LIMIT $4";
        let row = |(lane, (key, job)): &After| {
            vec![lane.0.into(), (*key).into(), (*job).into(), piece.into()]
        };
        let keys: Vec<Vec<Value>> = after.iter().map(row).collect();
        tx.rows_all(sql.into(), &keys).await?
    };
    let head = |row: &Row| {
        let payload = Place { attempt: row.get(3)?, number: row.get(4)? };
        Ok((LaneId(row.get(0)?), Head { key: row.get(1)?, job: JobId(row.get(2)?), payload }))
    };
    rows.iter().map(head).collect()
}

/// Whether any of these lanes has more jobs, from its floor on, than were seen in it: others hold them at
/// this moment. On SQLite there are no others.
pub(super) async fn hold_more(
    tx: &mut Tx<'_>,
    seen: &[(LaneId, i64, i64)],
) -> Result<bool, StoreError> {
    if !tx.is_postgres() || seen.is_empty() {
        return Ok(false);
    }
    let sql =
        "SELECT 1 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (lane_id, floor, seen)
         CROSS JOIN LATERAL (
             SELECT count(*) AS count FROM (
                 SELECT 1 FROM queue AS q WHERE q.lane_id = u.lane_id AND q.key >= u.floor
                 LIMIT u.seen + 1
             ) AS jobs
         ) AS there
         WHERE there.count > u.seen LIMIT 1";
    let lanes = seen.iter().map(|(lane, ..)| lane.0).collect();
    let floors = seen.iter().map(|(_, floor, _)| *floor).collect();
    let counts = seen.iter().map(|(.., count)| *count).collect();
    Ok(tx.row(sql, &[lanes, floors, counts]).await?.is_some())
}

/// Takes these jobs out of the queue. Whoever does it holds their places.
pub(crate) fn remove(tx: &mut Tx<'_>, places: &[(LaneId, i64, JobId)]) -> Result<(), StoreError> {
    let sql = Sql::of(
        "DELETE FROM queue WHERE lane_id = $1 AND key = $2 AND job_id = $3",
        // They are locked, so they stay where they are. OFFSET 0: each is looked up for itself, also by a
        // plan that was made when the queue was so small that reading all of it seemed as good.
        "DELETE FROM queue WHERE ctid = ANY (ARRAY (
             SELECT q.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
                 AS u (lane_id, key, job_id)
             CROSS JOIN LATERAL (
                 SELECT q.ctid AS place FROM queue AS q
                 WHERE q.lane_id = u.lane_id AND q.key = u.key AND q.job_id = u.job_id OFFSET 0
             ) AS q))",
    );
    let row =
        |(lane, key, job): &(LaneId, i64, JobId)| vec![lane.0.into(), (*key).into(), job.0.into()];
    let rows: Vec<Vec<Value>> = places.iter().map(row).collect();
    tx.write_all(sql, rows)?;
    Ok(())
}
