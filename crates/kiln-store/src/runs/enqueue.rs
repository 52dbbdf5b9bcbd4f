//! Into the queue and out of it.
//!
//! A leg that can run waits in a lane: first in, first out for one repository, class and priority in the
//! queue of its requirements. While a transaction adds to lanes it holds their lock together with others
//! who do; whoever closes empty lanes holds it alone, and so never misses a job that is just coming in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_core::id::{JobId, LaneId, OrgId, QueueId, RepoId, RunId};
use kiln_core::queue::{Class, HeadStarts, key};
use kiln_core::run::{LegNo, LegState};
use sha2::{Digest as _, Sha256};

use super::open::{Batch, Open};
use crate::claims;
use crate::sql::{Sql, Value};
use crate::tx::{Lock, millis};
use crate::{Signal, StoreError, Tx};

/// A leg on its way into the queue.
#[derive(Debug)]
struct Coming {
    run: RunId,
    leg: LegNo,
    job: JobId,
    attempt: u32,
    queued_at: i64,
    requirements: String,
    hash: [u8; 32],
    org: OrgId,
    repo: RepoId,
    class: Class,
    priority: i64,
}

/// What makes a lane.
type LaneKey = (QueueId, i64, OrgId, RepoId, Class);

/// Takes legs out that left the queue, and puts those in that came.
pub(super) async fn move_in_queue(tx: &mut Tx<'_>, batch: &mut Batch) -> Result<(), StoreError> {
    let (mut gone, mut coming) = (Vec::new(), Vec::new());
    let mut hashes = HashMap::new();
    for open in batch.runs.values() {
        for leg in open.changed_legs() {
            let number = &leg.number;
            let before = open.before.jobs.get(number);
            let stays = before.is_some_and(|past| {
                past.is_queued()
                    && leg.state == LegState::Queued
                    && past.leg.timings == leg.timings
                    && !open.is_moved
            });
            if stays {
                continue;
            }
            if let Some(past) = before.filter(|past| past.is_queued()) {
                let place = past.lane.zip(past.key);
                gone.extend(place.map(|(lane, key)| (LaneId(lane), key, open.jobs[number].id)));
            }
            if leg.state == LegState::Queued {
                coming.push(coming_in(open, *number, &mut hashes)?);
            }
        }
    }
    claims::remove(tx, &gone)?;
    if coming.is_empty() { Ok(()) } else { put_in(tx, batch, &coming).await }
}

/// `hashes` holds those of requirements that were seen before: the legs of a matrix share them.
fn coming_in(
    open: &Open,
    number: LegNo,
    hashes: &mut HashMap<String, [u8; 32]>,
) -> Result<Coming, StoreError> {
    let leg = &open.hood.legs[&number];
    let placement = match open.placements.get(&number) {
        Some(placement) => Ok(placement.clone()),
        None => open.facts.evaluator.placement(&open.hood.context(leg.node, Some(number))),
    };
    let placed = placement.and_then(|placement| Ok((placement.requirements()?, placement)));
    // The engine asked the same before it put the leg into the queue.
    let (requirements, placement) = placed.map_err(StoreError::Database)?;
    let requirements = requirements.canonical();
    let class = match placement.environment {
        Some(_) => Class::Urgent,
        None => Class::parse(&open.attempt.class).unwrap_or(Class::Normal),
    };
    Ok(Coming {
        run: open.id(),
        leg: number,
        job: open.jobs[&number].id,
        attempt: open.hood.run.attempt,
        queued_at: millis(leg.timings.queued.unwrap_or_default()),
        hash: match hashes.get(&requirements) {
            Some(hash) => *hash,
            None => *hashes
                .entry(requirements.clone())
                .or_insert_with_key(|text| Sha256::digest(text).into()),
        },
        requirements,
        org: open.attempt.org,
        repo: open.attempt.repo,
        class,
        priority: open.attempt.priority,
    })
}

async fn put_in(tx: &mut Tx<'_>, batch: &mut Batch, coming: &[Coming]) -> Result<(), StoreError> {
    tx.share(Lock::Lanes).await?;
    let starts = head_starts(tx, coming).await?;
    let queues = queues(tx, coming).await?;
    let lane_key = |job: &Coming| (queues[&job.hash], job.priority, job.org, job.repo, job.class);
    let key_of = |job: &Coming| key(job.queued_at, job.class, &starts[&job.repo]);
    let mut wanted: BTreeMap<LaneKey, i64> = BTreeMap::new();
    for job in coming {
        let lowest = wanted.entry(lane_key(job)).or_insert(i64::MAX);
        *lowest = key_of(job).min(*lowest);
    }
    let lanes = lanes(tx, &wanted).await?;
    let mut rows = Vec::new();
    for job in coming {
        let (lane, key) = (lanes[&lane_key(job)], key_of(job));
        let row = batch.run(job.run).jobs.get_mut(&job.leg).expect("it is on its way in");
        (row.lane, row.key) = (Some(lane), Some(key));
        let (id, attempt, number) = (job.job.0, job.attempt, job.leg);
        rows.push(vec![lane.into(), key.into(), id.into(), attempt.into(), number.into()]);
    }
    let sql = Sql::of(
        "INSERT INTO queue (lane_id, key, job_id, attempt, number) VALUES ($1, $2, $3, $4, $5)",
        "INSERT INTO queue (lane_id, key, job_id, attempt, number)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])",
    );
    tx.write_all(sql, rows)?;
    for queue in queues.values() {
        tx.signal(Signal::Work(*queue));
    }
    Ok(())
}

/// How much earlier than they are the jobs of each class count, which is the repository's to say.
async fn head_starts(
    tx: &mut Tx<'_>,
    coming: &[Coming],
) -> Result<BTreeMap<RepoId, HeadStarts>, StoreError> {
    let repos: BTreeSet<RepoId> = coming.iter().map(|job| job.repo).collect();
    let mut starts: BTreeMap<RepoId, HeadStarts> =
        repos.iter().map(|repo| (*repo, HeadStarts::default())).collect();
    let sql = Sql::of(
        "SELECT id, priorities FROM repositories WHERE id = $1 AND priorities IS NOT NULL",
        "SELECT id, priorities FROM repositories WHERE id = ANY($1) AND priorities IS NOT NULL",
    );
    let keys: Vec<_> = repos.iter().map(|repo| vec![repo.0.into()]).collect();
    for row in tx.rows_all(sql, &keys).await? {
        let own = HeadStarts::parse(&row.get::<String>(1)?);
        // They were checked when they were set; a mistake must not stop the queue.
        starts.insert(RepoId(row.get(0)?), own.unwrap_or_default());
    }
    Ok(starts)
}

/// The queues of these requirements, made if they are new.
async fn queues(
    tx: &mut Tx<'_>,
    coming: &[Coming],
) -> Result<BTreeMap<[u8; 32], QueueId>, StoreError> {
    let wanted: BTreeMap<[u8; 32], &str> =
        coming.iter().map(|job| (job.hash, job.requirements.as_str())).collect();
    let mut found = find_queues(tx, wanted.keys()).await?;
    let missing: Vec<Vec<Value>> = wanted
        .iter()
        .filter(|(hash, _)| !found.contains_key(*hash))
        .map(|(hash, text)| vec![hash[..].into(), (*text).into(), millis(tx.now()).into()])
        .collect();
    // Once an hour is enough to tell which ones nobody uses any more.
    let used = Sql::of(
        "UPDATE queues SET used_at = $2 WHERE id = $1 AND used_at < $2 - 3600000",
        "UPDATE queues AS q SET used_at = u.at FROM unnest($1::bigint[], $2::bigint[]) AS u (id, at)
         WHERE q.id = u.id AND q.used_at < u.at - 3600000",
    );
    let now = millis(tx.now());
    tx.write_all(used, found.values().map(|id| vec![id.0.into(), now.into()]).collect())?;
    if missing.is_empty() {
        return Ok(found);
    }
    let sql = Sql::of(
        "INSERT INTO queues (hash, requirements, created_at, used_at) VALUES ($1, $2, $3, $3)
         ON CONFLICT (hash) DO NOTHING",
        "INSERT INTO queues (hash, requirements, created_at, used_at)
         SELECT u.hash, u.text, u.at, u.at FROM unnest($1::bytea[], $2::text[], $3::bigint[])
             AS u (hash, text, at)
         ON CONFLICT (hash) DO NOTHING",
    );
    tx.write_all(sql, missing)?;
    found.extend(find_queues(tx, wanted.keys()).await?);
    Ok(found)
}

async fn find_queues(
    tx: &mut Tx<'_>,
    hashes: impl Iterator<Item = &[u8; 32]>,
) -> Result<BTreeMap<[u8; 32], QueueId>, StoreError> {
    let sql = Sql::of(
        "SELECT hash, id FROM queues WHERE hash = $1",
        "SELECT hash, id FROM queues WHERE hash = ANY($1)",
    );
    let keys: Vec<_> = hashes.map(|hash| vec![hash[..].into()]).collect();
    let mut found = BTreeMap::new();
    for row in tx.rows_all(sql, &keys).await? {
        let hash: Vec<u8> = row.get(0)?;
        let hash = hash.try_into().map_err(|_| StoreError::Database("a hash is cut".to_owned()))?;
        found.insert(hash, QueueId(row.get(1)?));
    }
    Ok(found)
}

/// The lanes of these keys, open for jobs from the given place on.
async fn lanes(
    tx: &mut Tx<'_>,
    wanted: &BTreeMap<LaneKey, i64>,
) -> Result<BTreeMap<LaneKey, i64>, StoreError> {
    let mut found = BTreeMap::new();
    let mut closed = Vec::new();
    for (key, (lane, floor, active)) in find_lanes(tx, wanted.keys()).await? {
        if active && floor <= wanted[&key] {
            found.insert(key, lane);
        }
    }
    for (key, floor) in wanted.iter().filter(|(key, _)| !found.contains_key(*key)) {
        closed.push([lane_row(key), vec![(*floor).into()]].concat());
    }
    if closed.is_empty() {
        return Ok(found);
    }
    // Both see the same smallest key: SQLite's `min` of two is PostgreSQL's `least`.
    let sql = Sql::of(
        "INSERT INTO lanes (queue_id, priority, org_id, repo_id, class, floor, active)
         VALUES ($1, $2, $3, $4, $5, $6, 1)
         ON CONFLICT (queue_id, priority, org_id, repo_id, class)
         DO UPDATE SET floor = min(lanes.floor, excluded.floor), active = 1",
        "INSERT INTO lanes (queue_id, priority, org_id, repo_id, class, floor, active)
         SELECT u.*, 1 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[],
             $6::bigint[]) AS u
         ON CONFLICT (queue_id, priority, org_id, repo_id, class)
         DO UPDATE SET floor = least(lanes.floor, excluded.floor), active = 1",
    );
    tx.write_all(sql, closed)?;
    let opened = find_lanes(tx, wanted.keys()).await?;
    Ok(opened.into_iter().map(|(key, (lane, ..))| (key, lane)).collect())
}

fn lane_row((queue, priority, org, repo, class): &LaneKey) -> Vec<Value> {
    vec![queue.0.into(), (*priority).into(), org.0.into(), repo.0.into(), class.word().into()]
}

async fn find_lanes(
    tx: &mut Tx<'_>,
    wanted: impl Iterator<Item = &LaneKey>,
) -> Result<Vec<(LaneKey, (i64, i64, bool))>, StoreError> {
    let sql = Sql::of(
        "SELECT queue_id, priority, org_id, repo_id, class, id, floor, active FROM lanes
         WHERE queue_id = $1 AND priority = $2 AND org_id = $3 AND repo_id = $4 AND class = $5",
        "SELECT l.queue_id, l.priority, l.org_id, l.repo_id, l.class, l.id, l.floor, l.active
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
             AS u (queue_id, priority, org_id, repo_id, class)
         JOIN lanes AS l USING (queue_id, priority, org_id, repo_id, class)",
    );
    let keys: Vec<_> = wanted.map(lane_row).collect();
    let lane = |row: &crate::Row| {
        let class = Class::parse(&row.get::<String>(4)?).unwrap_or(Class::Normal);
        let (queue, org, repo) = (QueueId(row.get(0)?), OrgId(row.get(2)?), RepoId(row.get(3)?));
        Ok(((queue, row.get(1)?, org, repo, class), (row.get(5)?, row.get(6)?, row.get(7)?)))
    };
    tx.rows_all(sql, &keys).await?.iter().map(lane).collect()
}
