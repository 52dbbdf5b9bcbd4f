//! Queues of any depth, written straight into the tables: a million jobs in seconds.

use kiln_core::id::QueueId;
use kiln_store::{Sql, Store, StoreError, Tx};

use crate::runs::add_repository;

/// Runs that the engine did not make have ids from here on.
const FIRST_RUN: i64 = 500_000;

/// A queue with many jobs that wait.
#[derive(Debug, Clone)]
pub struct Depth {
    pub queue: QueueId,
    /// One lane for each repository.
    pub lanes: Vec<i64>,
    filled: i64,
}

impl Depth {
    /// A queue without jobs, with lanes of so many organizations and repositories.
    pub async fn new(store: &Store, orgs: usize, repos: usize) -> Self {
        let mut places = Vec::new();
        for org in 0..orgs {
            for repo in 0..repos {
                let (org, repo, _) =
                    add_repository(store, &format!("org{org}"), &format!("repo{repo}")).await;
                places.push((org, repo));
            }
        }
        let make = async move |tx: &mut Tx<'_>| {
            let sql = "INSERT INTO queues (hash, requirements, created_at, used_at)
                       VALUES ($1, '{}', 0, 0) RETURNING id";
            let queue: i64 = tx.one("queue", sql, &[vec![7_u8; 32].into()]).await?.get(0)?;
            let mut lanes = Vec::new();
            for (org, repo) in &places {
                let sql =
                    "INSERT INTO lanes (queue_id, priority, org_id, repo_id, class, floor, active)
                     VALUES ($1, 0, $2, $3, 'normal', 0, 1) RETURNING id";
                let row = tx.one("lane", sql, &[queue.into(), org.0.into(), repo.0.into()]).await?;
                lanes.push(row.get(0)?);
            }
            Ok((QueueId(queue), lanes))
        };
        let (queue, lanes) = store.write(make).await.expect("the names are free");
        Self { queue, lanes, filled: 0 }
    }

    /// Adds jobs behind those that wait, evenly over the lanes, ten to a run.
    pub async fn fill(&mut self, store: &Store, jobs: i64) {
        let (from, to, first_lane) = (self.filled, self.filled + jobs, self.lanes[0]);
        let count = i64::try_from(self.lanes.len()).expect("they were made one by one");
        let work = async move |tx: &mut Tx<'_>| fill(tx, (from, to), (first_lane, count)).await;
        store.write(work).await.expect("the ids are free");
        self.filled = to;
    }
}

/// Lanes were made one after the other, so their ids are, too.
async fn fill(
    tx: &mut Tx<'_>,
    (from, to): (i64, i64),
    (lane, lanes): (i64, i64),
) -> Result<(), StoreError> {
    let bounds = [from.into(), to.into(), lane.into(), lanes.into(), FIRST_RUN.into()];
    let queue = Sql::of(
        "INSERT INTO queue (lane_id, key, job_id, attempt, number)
         WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2)
         SELECT $3 + i % $4, 1000 + i, ($5 + i / 10) * 1048576 + i % 10, 1, i % 10 FROM n",
        "INSERT INTO queue (lane_id, key, job_id, attempt, number)
         SELECT $3 + i % $4, 1000 + i, ($5 + i / 10) * 1048576 + i % 10, 1, i % 10
         FROM generate_series($1::bigint, $2::bigint - 1) AS n (i)",
    );
    tx.execute(queue, &bounds).await?;
    let jobs = Sql::of(
        "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, state,
             claim, retries, losses, cancelling, tolerated, lane_id, queue_key, queued_at)
         WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2)
         SELECT $5 + i / 10, 1, i % 10, ($5 + i / 10) * 1048576 + i % 10, 0, 0, 1, 'build', 'queued',
             0, 0, 0, 0, 0, $3 + i % $4, 1000 + i, 1000 + i FROM n",
        "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, state,
             claim, retries, losses, cancelling, tolerated, lane_id, queue_key, queued_at)
         SELECT $5 + i / 10, 1, i % 10, ($5 + i / 10) * 1048576 + i % 10, 0, 0, 1, 'build', 'queued',
             0, 0, 0, 0, 0, $3 + i % $4, 1000 + i, 1000 + i
         FROM generate_series($1::bigint, $2::bigint - 1) AS n (i)",
    );
    tx.execute(jobs, &bounds).await?;
    Ok(())
}
