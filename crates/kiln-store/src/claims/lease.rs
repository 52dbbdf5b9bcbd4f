//! Leases: who has which job, and until when.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_core::id::{JobId, LaneId, OrgId, RepoId, RunId, RunnerId};
use kiln_core::queue::{Lane, Pick};
use kiln_core::time::Timestamp;

use super::lanes::Place;
use super::take::lease_rows;
use super::{Asking, Claimed, lease_lasts};
use crate::sql::{Row, Sql, Value};
use crate::tx::millis;
use crate::{Signal, StoreError, Tx};

/// What a runner says of itself from time to time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub runner: RunnerId,
    /// The jobs it has, with their claims.
    pub held: Vec<(JobId, u32)>,
}

/// The answer to a beat, in the order of the jobs that it named.
pub type Pulse = Vec<Held>;

/// How a job stands that a runner says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The lease is good until then; the runner may be told to end the job.
    Renewed { until: Timestamp, command: Option<Command> },
    /// It is not this runner's any more.
    Gone,
}

/// What a runner is told about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End it, and run what must run even then.
    Cancel,
    /// End it at once.
    Kill,
}

impl Command {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "cancel" => Some(Self::Cancel),
            "kill" => Some(Self::Kill),
            _ => None,
        }
    }
}

/// The leases of those who asked the same before.
pub(super) const ANSWERED: Sql = Sql::of(
    "SELECT l.runner_id, l.nonce, l.job_id, l.run_id, l.attempt, l.number, l.claim, l.org_id,
             l.repo_id, l.expires_at, j.name
         FROM leases AS l JOIN jobs AS j
             ON j.run_id = l.run_id AND j.attempt = l.attempt AND j.number = l.number
         WHERE l.runner_id = $1 AND l.nonce = $2",
    // OFFSET 0: each question is looked up for itself, also by a plan made when there were no leases.
    "SELECT l.runner_id, l.nonce, l.job_id, l.run_id, l.attempt, l.number, l.claim, l.org_id,
             l.repo_id, l.expires_at, l.name
         FROM unnest($1::bigint[], $2::text[]) AS u (runner_id, nonce)
         CROSS JOIN LATERAL (
             SELECT l.*, j.name FROM leases AS l JOIN jobs AS j
                 ON j.run_id = l.run_id AND j.attempt = l.attempt AND j.number = l.number
             WHERE l.runner_id = u.runner_id AND l.nonce = u.nonce OFFSET 0
         ) AS l",
);

/// The keys of these questions, for [`ANSWERED`].
pub(super) fn nonces(asking: &[Asking]) -> Vec<Vec<Value>> {
    asking.iter().map(|asking| vec![asking.runner.0.into(), (&asking.nonce).into()]).collect()
}

/// Answers of questions that were asked before: a lost response costs nothing. Each in the order in which its jobs were made,
/// as a runner may want only the first of them by now, and must get the same one again.
pub(super) fn answered_before(
    asking: &[Asking],
    found: Vec<Row>,
) -> Result<Vec<Vec<Claimed>>, StoreError> {
    let mut answers = vec![Vec::new(); asking.len()];
    for row in found {
        let (runner, nonce): (i64, String) = (row.get(0)?, row.get(1)?);
        let claimed = Claimed {
            job: JobId(row.get(2)?),
            run: RunId(row.get(3)?),
            attempt: row.get(4)?,
            number: row.get(5)?,
            claim: row.get(6)?,
            org: OrgId(row.get(7)?),
            repo: RepoId(row.get(8)?),
            name: row.get(10)?,
            expires: Timestamp(row.get::<i64>(9)?.unsigned_abs()),
        };
        let same = |asking: &Asking| asking.runner.0 == runner && asking.nonce == nonce;
        if let Some(at) = asking.iter().position(same) {
            answers[at].push(claimed);
        }
    }
    for answer in &mut answers {
        answer.sort_unstable_by_key(|claimed| claimed.job);
    }
    Ok(answers)
}

/// Counts the picks of organizations that have a limit. If others were quicker, what is too much stays
/// in the queue.
pub(super) async fn within_limits(
    tx: &mut Tx<'_>,
    picks: Vec<Pick<Place>>,
    lanes: &HashMap<LaneId, Lane>,
    limited: &BTreeSet<OrgId>,
) -> Result<Vec<Pick<Place>>, StoreError> {
    let mut counts: BTreeMap<OrgId, i64> = BTreeMap::new();
    for pick in &picks {
        let org = lanes[&pick.lane].org;
        if limited.contains(&org) {
            *counts.entry(org).or_default() += 1;
        }
    }
    for (org, count) in &mut counts {
        *count = reserve(tx, *org, *count).await?;
    }
    let mut kept = Vec::with_capacity(picks.len());
    for pick in picks {
        let lane = lanes[&pick.lane];
        match counts.get_mut(&lane.org) {
            Some(0) => tx.signal(Signal::Work(lane.queue)),
            Some(left) => {
                *left -= 1;
                kept.push(pick);
            }
            None => kept.push(pick),
        }
    }
    Ok(kept)
}

/// Takes as much of an organization's room as there is, up to `count`.
async fn reserve(tx: &mut Tx<'_>, org: OrgId, count: i64) -> Result<i64, StoreError> {
    let take = "UPDATE org_loads SET running = running + $2
                WHERE org_id = $1 AND (job_limit IS NULL OR running + $2 <= job_limit)";
    if tx.execute(take, &[org.0.into(), count.into()]).await? == 1 {
        return Ok(count);
    }
    let room = Sql::of(
        "SELECT job_limit - running FROM org_loads WHERE org_id = $1",
        "SELECT job_limit - running FROM org_loads WHERE org_id = $1 FOR UPDATE",
    );
    let room = tx.row(room, &[org.0.into()]).await?;
    let room: i64 = room.map_or(Ok(Some(0)), |row| row.get::<Option<i64>>(0))?.unwrap_or(count);
    let room = room.clamp(0, count);
    if room > 0 {
        let sql = "UPDATE org_loads SET running = running + $2 WHERE org_id = $1";
        tx.execute(sql, &[org.0.into(), room.into()]).await?;
    }
    Ok(room)
}

/// Room that was reserved for places in the queue without a job.
pub(super) async fn give_room_back(tx: &mut Tx<'_>, orgs: Vec<OrgId>) -> Result<(), StoreError> {
    for org in orgs {
        let sql = "UPDATE org_loads SET running = running - 1 WHERE org_id = $1";
        tx.execute(sql, &[org.0.into()]).await?;
    }
    Ok(())
}

pub(super) fn make(
    tx: &mut Tx<'_>,
    asking: &[Asking],
    taken: &[(&Pick<Place>, Claimed)],
    limited: &BTreeSet<OrgId>,
) -> Result<(), StoreError> {
    let rows = lease_rows(asking, taken, limited, millis(tx.now()));
    let sql = Sql::of(
        "INSERT INTO leases (job_id, run_id, attempt, number, claim, runner_id, nonce, claimed_at,
             expires_at, counted, org_id, repo_id, estimate, acknowledged)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0)",
        "INSERT INTO leases (job_id, run_id, attempt, number, claim, runner_id, nonce, claimed_at,
             expires_at, counted, org_id, repo_id, estimate, acknowledged)
         SELECT u.*, 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
             $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
             $12::bigint[], $13::float8[]) AS u",
    );
    tx.write_all(sql, rows)?;
    Ok(())
}

/// Renews leases. One that somebody ends or changes at this moment is left to the next beat.
pub(super) async fn heartbeat(tx: &mut Tx<'_>, beats: &[Beat]) -> Result<Vec<Pulse>, StoreError> {
    let until = tx.now() + lease_lasts();
    let held = beats.iter().flat_map(|beat| {
        let runner = beat.runner.0;
        beat.held.iter().map(move |(job, claim)| {
            vec![job.0.into(), (*claim).into(), runner.into(), millis(until).into()]
        })
    });
    let held: Vec<Vec<Value>> = held.collect();
    let renew = Sql::of(
        "UPDATE leases SET expires_at = $4, acknowledged = 1
         WHERE job_id = $1 AND claim = $2 AND runner_id = $3",
        "UPDATE leases AS t SET expires_at = u.expires_at, acknowledged = 1
         FROM (
             SELECT l.job_id, u.expires_at
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
                 AS u (job_id, claim, runner_id, expires_at)
             JOIN leases AS l
                 ON l.job_id = u.job_id AND l.claim = u.claim AND l.runner_id = u.runner_id
                     AND l.job_id = ANY($1)
             FOR UPDATE OF l SKIP LOCKED
         ) AS u WHERE t.job_id = u.job_id AND t.job_id = ANY($1)",
    );
    tx.write_all(renew, held.clone())?;
    let commands = commands(tx, &held).await?;
    let answer = |beat: &Beat| {
        let held = beat.held.iter().map(|(job, claim)| (*job, *claim, beat.runner));
        held.map(|key| match commands.get(&key) {
            Some((until, command)) => Held::Renewed { until: *until, command: *command },
            None => Held::Gone,
        })
        .collect()
    };
    Ok(beats.iter().map(answer).collect())
}

type Holding = (JobId, u32, RunnerId);

/// The leases that there are, until when, and what their runners are told.
async fn commands(
    tx: &mut Tx<'_>,
    held: &[Vec<Value>],
) -> Result<HashMap<Holding, (Timestamp, Option<Command>)>, StoreError> {
    let sql = Sql::of(
        "SELECT job_id, claim, runner_id, command, expires_at FROM leases WHERE job_id = $1",
        "SELECT job_id, claim, runner_id, command, expires_at FROM leases WHERE job_id = ANY($1)",
    );
    let keys: Vec<Vec<Value>> = held.iter().map(|row| row[..1].to_vec()).collect();
    let lease = |row: &Row| {
        let command: Option<String> = row.get(3)?;
        let key = (JobId(row.get(0)?), row.get(1)?, RunnerId(row.get(2)?));
        let until = Timestamp(row.get::<i64>(4)?.unsigned_abs());
        Ok((key, (until, command.and_then(|word| Command::parse(&word)))))
    };
    tx.rows_all(sql, &keys).await?.iter().map(lease).collect()
}
