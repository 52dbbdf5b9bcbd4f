//! The queue from its own side: each place is that of a queued job, in a lane that shows it.

use kiln_core::id::JOBS_PER_RUN;

use super::{Report, Rule};
use crate::{StoreError, Tx};

/// How many places are read at once.
const PLACES: i64 = 5_000;

pub(super) type Key = (i64, i64, i64);

/// Checks the places behind `after`. Returns the last one if there may be more.
pub(super) async fn check(
    tx: &mut Tx<'_>,
    after: Key,
    report: &mut Report,
) -> Result<Option<Key>, StoreError> {
    let sql = "SELECT q.lane_id, q.key, q.job_id, j.id, j.state, j.lane_id, j.queue_key, l.floor, l.active
               FROM (
                   SELECT lane_id, key, job_id, attempt, number FROM queue
                   WHERE (lane_id, key, job_id) > ($1, $2, $3)
                   ORDER BY lane_id, key, job_id LIMIT $4
               ) AS q
               LEFT JOIN jobs AS j
                   ON j.run_id = q.job_id / $5 AND j.attempt = q.attempt AND j.number = q.number
               LEFT JOIN lanes AS l ON l.id = q.lane_id
               ORDER BY q.lane_id, q.key, q.job_id";
    let (lane, key, job) = after;
    let values = [lane, key, job, PLACES, JOBS_PER_RUN].map(crate::Value::from);
    let rows = tx.rows(sql, &values).await?;
    let mut last = after;
    for row in &rows {
        last = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (lane, key, id) = last;
        let subject = format!("the place of job {id} in lane {lane} with key {key}");
        let job: (Option<i64>, Option<String>) = (row.get(3)?, row.get(4)?);
        let place: (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
        if job.0 != Some(id)
            || job.1.as_deref() != Some("queued")
            || place != (Some(lane), Some(key))
        {
            let text = format!("the job is {job:?} and says that its place is {place:?}");
            report.find(Rule::QueuePlace, subject.clone(), text);
        }
        let (floor, active): (Option<i64>, Option<i64>) = (row.get(7)?, row.get(8)?);
        if floor.is_none_or(|floor| floor > key) || active != Some(1) {
            let text =
                format!("no claim sees it: its lane has the floor {floor:?}, active {active:?}");
            report.find(Rule::Lane, subject, text);
        }
    }
    report.queued += rows.len() as u64;
    Ok((i64::try_from(rows.len()) == Ok(PLACES)).then_some(last))
}
