//! What there is: lanes, queues, runners, and what these are busy with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kiln_core::id::{LaneId, OrgId, QueueId, RepoId, RunnerId};
use kiln_core::queue::{Class, Lane, Requirements};

use crate::claims::machines::{Machine, machines};
use crate::claims::shares::{Shares, shares};
use crate::tx::millis;
use crate::{Row, StoreError, Tx};

/// How many lanes are looked at, the most urgent ones first.
const MOST_LANES: u32 = 10_000;
/// How many leases are looked at.
const MOST_LEASES: u32 = 20_000;

/// A lane with what is said about it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) lane: Lane,
    pub(super) floor: i64,
    pub(super) queue_paused: Option<String>,
    pub(super) repo_paused: Option<String>,
    /// With its owner.
    pub(super) repo_name: String,
    /// Whether it is known how long jobs of the repository take.
    pub(super) has_history: bool,
}

impl Known {
    pub(super) fn is_open(&self) -> bool {
        self.queue_paused.is_none() && self.repo_paused.is_none()
    }
}

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) now: i64,
    pub(super) lanes: BTreeMap<LaneId, Known>,
    pub(super) queues: BTreeMap<QueueId, Requirements>,
    pub(super) machines: Vec<Machine>,
    pub(super) shares: Shares,
    /// For each runner, in how many seconds its jobs are likely to end.
    busy: HashMap<RunnerId, Vec<f64>>,
}

impl Scene {
    pub(super) async fn read(tx: &mut Tx<'_>) -> Result<Self, StoreError> {
        let lanes = lanes(tx).await?;
        let repos: BTreeSet<(OrgId, RepoId)> =
            lanes.values().map(|known| (known.lane.org, known.lane.repo)).collect();
        Ok(Self {
            now: millis(tx.now()),
            lanes,
            queues: crate::claims::queues(tx).await?.into_iter().collect(),
            machines: machines(tx).await?,
            shares: shares(tx, &repos).await?,
            busy: busy(tx).await?,
        })
    }

    /// In how many seconds the jobs of a runner are likely to end.
    pub(super) fn busy(&self, machine: &Machine) -> &[f64] {
        self.busy.get(&machine.id).map_or(&[], Vec::as_slice)
    }
}

async fn lanes(tx: &mut Tx<'_>) -> Result<BTreeMap<LaneId, Known>, StoreError> {
    let sql =
        "SELECT l.id, l.queue_id, l.priority, l.org_id, l.repo_id, l.class, l.floor, q.paused,
                   r.paused, o.name, r.name, u.typical
               FROM lanes AS l JOIN queues AS q ON q.id = l.queue_id
               JOIN repositories AS r ON r.id = l.repo_id
               JOIN organizations AS o ON o.id = l.org_id
               LEFT JOIN usage AS u ON u.org_id = l.org_id AND u.repo_id = l.repo_id
               WHERE l.active = 1 ORDER BY l.priority DESC, l.floor, l.id LIMIT $1";
    let known = |row: &Row| {
        let class = Class::parse(&row.get::<String>(5)?).unwrap_or(Class::Normal);
        let lane = Lane {
            id: row.get(0)?,
            queue: row.get(1)?,
            priority: row.get(2)?,
            org: row.get(3)?,
            repo: row.get(4)?,
            class,
        };
        let (owner, name): (String, String) = (row.get(9)?, row.get(10)?);
        let known = Known {
            lane,
            floor: row.get(6)?,
            queue_paused: row.get(7)?,
            repo_paused: row.get(8)?,
            repo_name: format!("{owner}/{name}"),
            has_history: row.get::<Option<f64>>(11)?.is_some(),
        };
        Ok((lane.id, known))
    };
    tx.rows(sql, &[MOST_LANES.into()]).await?.iter().map(known).collect()
}

async fn busy(tx: &mut Tx<'_>) -> Result<HashMap<RunnerId, Vec<f64>>, StoreError> {
    let mut busy: HashMap<RunnerId, Vec<f64>> = HashMap::new();
    let now = tx.now();
    let sql = "SELECT runner_id, claimed_at, estimate FROM leases ORDER BY job_id LIMIT $1";
    for row in tx.rows(sql, &[MOST_LEASES.into()]).await? {
        let (runner, claimed, estimate): (RunnerId, i64, f64) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let elapsed = Duration::from_millis(now.0.saturating_sub(claimed.unsigned_abs()));
        // What takes longer than usual may end at any time: a tenth is as good a guess as any.
        let left = (estimate - elapsed.as_secs_f64()).max(estimate / 10.0);
        busy.entry(runner).or_default().push(left);
    }
    Ok(busy)
}
