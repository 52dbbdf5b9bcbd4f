//! Which jobs are shown, and what is said about each.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kiln_core::id::{JobId, LaneId, RunId};
use kiln_core::queue::{Reason, Standing, explain};
use kiln_core::time::Timestamp;

use super::crew::{Crew, Crews};
use super::order::{Order, Seen, peek};
use super::scene::{Known, Scene};
use super::{WaitingJob, Waits};
use crate::Scope;
use crate::claims::lanes::After;
use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// How many jobs are looked at to find those that come first, at most.
const MOST: usize = 20_000;
/// How far jobs before another one in its lane are counted.
const COUNTED: i64 = 10_000;
/// How many names of runners are given.
const MOST_NAMES: usize = 20;

/// A job that is shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) lane: LaneId,
    job: JobId,
    key: i64,
    name: String,
    queued_at: i64,
    /// How many are before it in its lane.
    ahead: u64,
}

/// The jobs that are asked for and may be seen, `reach` of a lane at most.
pub(super) async fn shown(
    tx: &mut Tx<'_>,
    scope: Scope,
    scene: &Scene,
    waits: &Waits,
    reach: usize,
) -> Result<Vec<Shown>, StoreError> {
    let run = waits.job.map(JobId::run).or(waits.run);
    let visible = |known: &&Known| {
        scope.admits(known.lane.org).is_ok()
            && waits.repo.is_none_or(|repo| repo == known.lane.repo)
    };
    let visible: HashMap<LaneId, &Known> =
        scene.lanes.values().filter(visible).map(|known| (known.lane.id, known)).collect();
    let mut shown = match run {
        Some(run) => of_run(tx, run).await?,
        None => first_of(tx, &visible, reach).await?,
    };
    let other = |run: RunId| waits.run.is_some_and(|wanted| wanted != run);
    shown.retain(|one| visible.contains_key(&one.lane) && !other(one.job.run()));
    if run.is_some() {
        count_ahead(tx, &mut shown, &visible).await?;
    }
    shown.retain(|one| waits.job.is_none_or(|job| job == one.job));
    Ok(shown)
}

/// The queued jobs of a run, in the order of their lanes.
async fn of_run(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Shown>, StoreError> {
    let sql = "SELECT j.lane_id, j.id, j.queue_key, j.name, j.queued_at FROM jobs AS j
               WHERE j.run_id = $1 AND j.state = 'queued' AND j.lane_id IS NOT NULL
               ORDER BY j.lane_id, j.queue_key, j.id LIMIT $2";
    let most = i64::try_from(MOST).unwrap_or(i64::MAX);
    let row = |row: &Row| {
        let (lane, job, key) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Shown { lane, job, key, name: row.get(3)?, queued_at: row.get(4)?, ahead: 0 })
    };
    tx.rows(sql, &[run.0.into(), most.into()]).await?.iter().map(row).collect()
}

/// The first jobs of these lanes, so many of each at most.
async fn first_of(
    tx: &mut Tx<'_>,
    lanes: &HashMap<LaneId, &Known>,
    reach: usize,
) -> Result<Vec<Shown>, StoreError> {
    let mut known: Vec<&&Known> = lanes.values().collect();
    known.sort_unstable_by_key(|known| (-known.lane.priority, known.floor, known.lane.id));
    let after: Vec<After> =
        known.iter().take(MOST).map(|known| (known.lane.id, (known.floor, -1))).collect();
    let piece = reach.min(MOST / after.len().max(1)).max(1);
    let places = peek(tx, &after, piece).await?;
    let names = names(tx, &places).await?;
    let mut ahead: HashMap<LaneId, u64> = HashMap::new();
    let mut shown = Vec::with_capacity(places.len());
    for Seen { lane, key, job, .. } in places {
        let before = ahead.entry(lane).or_default();
        // A place without its job is a leftover that goes with the next claim.
        if let Some((name, queued_at)) = names.get(&job).cloned() {
            shown.push(Shown { lane, job, key, name, queued_at, ahead: *before });
        }
        *before += 1;
    }
    Ok(shown)
}

async fn names(
    tx: &mut Tx<'_>,
    places: &[Seen],
) -> Result<HashMap<JobId, (String, i64)>, StoreError> {
    let sql = Sql::of(
        "SELECT id, name, coalesce(queued_at, 0) FROM jobs
         WHERE run_id = $1 AND attempt = $2 AND number = $3",
        "SELECT j.id, j.name, coalesce(j.queued_at, 0)
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (run_id, attempt, number)
         CROSS JOIN LATERAL (
             SELECT j.id, j.name, j.queued_at FROM jobs AS j
             WHERE j.run_id = u.run_id AND j.attempt = u.attempt AND j.number = u.number OFFSET 0
         ) AS j",
    );
    let key = |seen: &Seen| vec![seen.job.run().0.into(), seen.attempt.into(), seen.number.into()];
    let keys: Vec<Vec<Value>> = places.iter().map(key).collect();
    let name = |row: &Row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
    tx.rows_all(sql, &keys).await?.iter().map(name).collect()
}

/// Counts who is before the first job in each lane; the others of a run follow it.
async fn count_ahead(
    tx: &mut Tx<'_>,
    shown: &mut [Shown],
    lanes: &HashMap<LaneId, &Known>,
) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM queue
                   WHERE lane_id = $1 AND key >= $2 AND (key, job_id) < ($3, $4) LIMIT $5
               ) AS before";
    let mut ahead: BTreeMap<LaneId, u64> = BTreeMap::new();
    for one in shown {
        let before = match ahead.entry(one.lane) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let floor = lanes.get(&one.lane).map_or(i64::MIN, |known| known.floor);
                let place = [one.lane.0, floor, one.key, one.job.0, COUNTED].map(Value::from);
                let count: i64 = tx.one("count", sql, &place).await?.get(0)?;
                new.insert(count.unsigned_abs())
            }
        };
        one.ahead = *before;
        *before += 1;
    }
    Ok(())
}

/// What is known about all jobs that are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) scene: &'a Scene,
    pub(super) crews: &'a Crews,
    pub(super) order: &'a Order,
    pub(super) scope: Scope,
    pub(super) waits: &'a Waits,
}

impl View<'_> {
    /// What is said about a job.
    pub(super) fn explain(&self, shown: &Shown) -> WaitingJob {
        let known = &self.scene.lanes[&shown.lane];
        let lane = known.lane;
        let crew = self.crews.get(&lane);
        let (position, start) = if known.is_open() {
            self.order.place(crew, &lane, shown.job, shown.ahead)
        } else {
            (shown.ahead + 1, None)
        };
        let reason = self.reason(known, crew, shown, position);
        let needs = self.scene.queues.get(&lane.queue);
        WaitingJob {
            job: shown.job,
            run: shown.job.run(),
            org: lane.org,
            repo: lane.repo,
            repo_name: known.repo_name.clone(),
            name: shown.name.clone(),
            queue: lane.queue,
            queued: Timestamp(shown.queued_at.unsigned_abs()),
            class: lane.class,
            priority: lane.priority,
            requirements: needs.map(ToString::to_string).unwrap_or_default(),
            position,
            estimate: estimate(self.scene, &reason, start),
            reason: reason.to_string(),
            runners: runners(self.scene, self.scope, &crew.live),
        }
    }

    fn reason(&self, known: &Known, crew: &Crew, shown: &Shown, position: u64) -> Reason {
        let share = self.scene.shares.orgs.get(&known.lane.org).copied().unwrap_or_default();
        explain(&Standing {
            now: self.scene.now,
            queued_at: shown.queued_at,
            server_paused: self.waits.server_paused.as_deref(),
            repo_paused: known.repo_paused.as_deref(),
            queue_paused: known.queue_paused.as_deref(),
            limit_reached: share.limit.filter(|limit| share.running >= *limit),
            candidates: &crew.candidates,
            away: crew.away,
            nobody: crew.nobody.clone(),
            position,
        })
    }
}

/// How long it is likely to be yet.
fn estimate(scene: &Scene, reason: &Reason, start: Option<f64>) -> Option<Duration> {
    match reason {
        Reason::Busy(_) | Reason::First | Reason::Behind(_) => {
            start.map(|seconds| Duration::from_secs_f64(seconds.round().clamp(0.0, 1e9)))
        }
        Reason::Preferred(until) => {
            Some(Duration::from_millis(until.saturating_sub(scene.now).unsigned_abs()))
        }
        _ => None,
    }
}

/// Names of runners. An organization knows its own; shared ones are known by their pool.
fn runners(scene: &Scene, scope: Scope, live: &[usize]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for machine in live.iter().map(|number| &scene.machines[*number]) {
        let name = match (scope, machine.org) {
            (Scope::Org(_), None) => format!("pool {}", machine.pool),
            _ => machine.name.clone(),
        };
        if names.len() == MOST_NAMES {
            break;
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
