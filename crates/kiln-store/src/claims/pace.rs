//! What runners have done, and how fast they are.
//!
//! The end of a job adds a row, which locks nothing; this counts the rows with their runners later.

use std::collections::BTreeMap;

use crate::sql::{Sql, Value};
use crate::{Row, StoreError, Tx};

/// How much one job moves the speed of its runner.
const WEIGHT: f64 = 0.1;
/// However odd the jobs, no runner is taken for slower or faster than this.
const BOUNDS: (f64, f64) = (0.1, 10.0);

/// What is to be added to a runner.
#[derive(Debug, Default)]
struct Done {
    completed: i64,
    failed: i64,
    /// The repositories and seconds of jobs that say something about its speed, in order.
    paces: Vec<((i64, i64), f64)>,
}

/// Counts at most this many ends. Returns how many there were.
pub(super) async fn fold(tx: &mut Tx<'_>, piece: u32) -> Result<usize, StoreError> {
    let sql = Sql::of(
        "DELETE FROM runner_ends WHERE id IN (SELECT id FROM runner_ends ORDER BY id LIMIT $1)
         RETURNING runner_id, org_id, repo_id, failed, took, id",
        "DELETE FROM runner_ends WHERE id IN (
             SELECT id FROM runner_ends ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
         RETURNING runner_id, org_id, repo_id, failed, took, id",
    );
    let mut rows = tx.rows(sql, &[piece.into()]).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    rows.sort_by_key(|row| row.get::<i64>(5).unwrap_or_default());
    let mut done: BTreeMap<i64, Done> = BTreeMap::new();
    for row in &rows {
        add(done.entry(row.get(0)?).or_default(), row)?;
    }
    let typical = typical(tx, &done).await?;
    write(tx, &done, &typical).await?;
    Ok(rows.len())
}

fn add(done: &mut Done, row: &Row) -> Result<(), StoreError> {
    let failed: i64 = row.get(3)?;
    done.completed += 1;
    done.failed += failed;
    if let Some(took) = row.get::<Option<f64>>(4)? {
        done.paces.push(((row.get(1)?, row.get(2)?), took));
    }
    Ok(())
}

/// How long jobs of these repositories usually take.
async fn typical(
    tx: &mut Tx<'_>,
    done: &BTreeMap<i64, Done>,
) -> Result<BTreeMap<i64, f64>, StoreError> {
    let repos: BTreeMap<i64, i64> =
        done.values().flat_map(|done| &done.paces).map(|((org, repo), _)| (*repo, *org)).collect();
    let keys: Vec<Vec<Value>> =
        repos.iter().map(|(repo, org)| vec![(*org).into(), (*repo).into()]).collect();
    let sql = Sql::of(
        "SELECT repo_id, typical FROM usage
         WHERE org_id = $1 AND repo_id = $2 AND typical IS NOT NULL",
        "SELECT s.repo_id, s.typical FROM unnest($1::bigint[], $2::bigint[]) AS u (org_id, repo_id)
         JOIN usage AS s ON s.org_id = u.org_id AND s.repo_id = u.repo_id
         WHERE s.typical IS NOT NULL",
    );
    tx.rows_all(sql, &keys).await?.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

async fn write(
    tx: &mut Tx<'_>,
    done: &BTreeMap<i64, Done>,
    typical: &BTreeMap<i64, f64>,
) -> Result<(), StoreError> {
    let keys: Vec<Vec<Value>> = done.keys().map(|runner| vec![(*runner).into()]).collect();
    let sql = Sql::of(
        "SELECT id, speed FROM runners WHERE id = $1",
        "SELECT id, speed FROM runners WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    );
    let mut changed = Vec::new();
    for row in tx.rows_all(sql, &keys).await? {
        let (runner, speed): (i64, f64) = (row.get(0)?, row.get(1)?);
        let done = &done[&runner];
        let speed = done.paces.iter().fold(speed, |speed, ((_, repo), took)| {
            typical.get(repo).map_or(speed, |typical| moved(speed, *typical, *took))
        });
        changed.push(vec![runner.into(), done.completed.into(), done.failed.into(), speed.into()]);
    }
    let sql = Sql::of(
        "UPDATE runners SET completed = completed + $2, failed = failed + $3, speed = $4
         WHERE id = $1",
        "UPDATE runners AS t SET completed = t.completed + u.completed,
             failed = t.failed + u.failed, speed = u.speed
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::float8[])
             AS u (id, completed, failed, speed)
         WHERE t.id = u.id",
    );
    tx.write_all(sql, changed)
}

/// S15: the speed after a job that took this long where jobs usually take `typical`.
fn moved(speed: f64, typical: f64, took: f64) -> f64 {
    let (slowest, fastest) = BOUNDS;
    // A job that took no time at all says no more than that it was fast.
    let pace = if took > 0.0 { (typical / took).clamp(slowest, fastest) } else { fastest };
    ((1.0 - WEIGHT) * speed + WEIGHT * pace).clamp(slowest, fastest)
}

#[cfg(test)]
mod tests {
    use super::moved;

    fn check(speed: f64, typical: f64, took: f64, expected: f64) {
        let found = moved(speed, typical, took);
        assert!((found - expected).abs() < 1e-9, "{speed} {typical} {took}: {found}");
    }

    #[test]
    fn a_job_moves_the_speed_of_its_runner_a_little() {
        check(1.0, 60.0, 60.0, 1.0);
        check(1.0, 60.0, 30.0, 1.1);
        check(1.0, 60.0, 120.0, 0.95);
        check(2.0, 60.0, 60.0, 1.9);
    }

    #[test]
    fn odd_jobs_do_not_make_a_runner_odd() {
        check(1.0, 60.0, 0.0, 1.9);
        check(10.0, 1e9, 1e-9, 10.0);
        check(0.1, 0.0, 1e9, 0.1);
        check(1.0, 60.0, 0.001, 1.9);
    }
}
