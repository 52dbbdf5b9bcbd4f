//! The claim itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kiln_core::id::{JobId, LaneId, OrgId, QueueId, RepoId, RunId};
use kiln_core::queue::{Asker, Batch, Head, Lane, Next, Pick, Picker, Policy};
use kiln_core::run;
use kiln_core::time::Timestamp;

use super::lanes::{self, Open, Place};
use super::shares::shares;
use super::{Asking, Claimed, Given, lease, lease_lasts};
use crate::events::{self, EventKind};
use crate::runs::{JobRow, Used, charge, job_rows, write_jobs};
use crate::sql::Value;
use crate::tx::millis;
use crate::{Signal, StoreError, Tx};

type Chosen = Pick<Place>;

pub(super) async fn claim(
    tx: &mut Tx<'_>,
    policy: Policy,
    asking: &[Asking],
) -> Result<Given, StoreError> {
    let wanting = asking.iter().filter(|asking| asking.want > 0);
    let queues: BTreeSet<QueueId> =
        wanting.flat_map(|asking| asking.queues.iter().map(|serving| serving.queue)).collect();
    let queues = queues.iter().map(|queue| vec![queue.0.into()]).collect();
    let questions = [(lease::ANSWERED, lease::nonces(asking)), (lanes::OPEN, queues)];
    let [answered, open] = tx.rows_together(questions).await?;
    let answers = lease::answered_before(asking, answered)?;
    let open = lanes::open_lanes(&open)?;
    let first = first_of_their_kind(asking);
    let is_new = |at: usize| answers[at].is_empty() && first[at] == at;
    let wants: Vec<u32> =
        asking.iter().enumerate().map(|(at, one)| if is_new(at) { one.want } else { 0 }).collect();
    let mut given = Given {
        jobs: answers,
        passed_over: false,
        legs: HashMap::new(),
        charges: 0,
        again: vec![None; asking.len()],
    };
    if wants.iter().any(|want| *want > 0) && !open.is_empty() {
        give(tx, policy, asking, &wants, &open, &mut given).await?;
    }
    for (at, first) in first.into_iter().enumerate() {
        if first != at {
            let (earlier, later) = given.jobs.split_at_mut(at);
            later[0].clone_from(&earlier[first]);
            given.again[at] = given.again[first];
        }
    }
    Ok(given)
}

/// For each question where it stands first: a runner that did not wait for its answer asks again.
fn first_of_their_kind(asking: &[Asking]) -> Vec<usize> {
    let mut first = HashMap::with_capacity(asking.len());
    let questions = asking.iter().enumerate();
    questions.map(|(at, one)| *first.entry((one.runner, &one.nonce)).or_insert(at)).collect()
}

/// Chooses for those who want something, and keeps the choice.
async fn give(
    tx: &mut Tx<'_>,
    policy: Policy,
    asking: &[Asking],
    wants: &[u32],
    open: &[Open],
    given: &mut Given,
) -> Result<(), StoreError> {
    let repos = open.iter().map(|open| (open.lane.org, open.lane.repo)).collect();
    let shares = shares(tx, &repos).await?;
    given.charges = shares.charges;
    let limits = shares.orgs.iter().filter(|(_, share)| share.limit.is_some());
    let limited: BTreeSet<OrgId> = limits.map(|(org, _)| *org).collect();
    let asker = |(asking, want): (&Asking, &u32)| Asker {
        queues: asking.queues.clone(),
        org: asking.org,
        want: *want,
        warm: asking.warm.clone(),
    };
    let batch = Batch {
        now: millis(tx.now()),
        policy,
        lanes: open.iter().map(|open| open.lane).collect(),
        orgs: shares.orgs,
        repos: shares.repos,
        askers: asking.iter().zip(wants).map(asker).collect(),
    };
    let mut picker = Picker::new(batch);
    let (picks, passed_over) = choose(tx, &mut picker, open).await?;
    for (number, again) in given.again.iter_mut().enumerate() {
        *again = picker.again(number).map(|at| Timestamp(at.unsigned_abs()));
    }
    let lanes: HashMap<LaneId, Lane> = open.iter().map(|open| (open.lane.id, open.lane)).collect();
    let picks = lease::within_limits(tx, picks, &lanes, &limited).await?;
    given.passed_over = passed_over;
    take(tx, asking, &picks, &lanes, &limited, given).await
}

/// Asks the picker until it is done, and brings the heads of lanes that it wants.
async fn choose(
    tx: &mut Tx<'_>,
    picker: &mut Picker<Place>,
    open: &[Open],
) -> Result<(Vec<Chosen>, bool), StoreError> {
    let floors: HashMap<LaneId, i64> = open.iter().map(|open| (open.lane.id, open.floor)).collect();
    let mut picks = Vec::new();
    // How many jobs were found in the lanes that were read to their end.
    let mut seen: BTreeMap<LaneId, (i64, bool)> = BTreeMap::new();
    loop {
        let wanted = match picker.next() {
            Next::Pick(pick) => {
                picks.push(pick);
                continue;
            }
            Next::Done if picker.wanted() == 0 => return Ok((picks, false)),
            Next::Done => {
                let ended = seen.iter().filter(|(_, (_, ended))| *ended);
                let seen: Vec<_> =
                    ended.map(|(lane, (count, _))| (*lane, floors[lane], *count)).collect();
                return Ok((picks, lanes::hold_more(tx, &seen).await?));
            }
            Next::Fetch(wanted) => wanted,
        };
        let behind = |lane: &LaneId| match picker.last(*lane) {
            Some((key, job)) => (*lane, (key, job.0)),
            None => (*lane, (floors[lane], -1)),
        };
        let after: Vec<_> = wanted.iter().map(behind).collect();
        let piece = picker.piece(wanted.len());
        let mut found: BTreeMap<LaneId, Vec<Head<Place>>> = BTreeMap::new();
        for (lane, head) in lanes::heads(tx, &after, piece).await? {
            found.entry(lane).or_default().push(head);
        }
        for lane in wanted {
            let heads = found.remove(&lane).unwrap_or_default();
            let exhausted = heads.len() < piece;
            let (count, ended) = seen.entry(lane).or_default();
            *count += i64::try_from(heads.len()).unwrap_or(i64::MAX);
            *ended = exhausted;
            picker.heads(lane, heads, exhausted);
        }
    }
}

/// Keeps what was chosen.
async fn take(
    tx: &mut Tx<'_>,
    asking: &[Asking],
    picks: &[Chosen],
    lanes: &HashMap<LaneId, Lane>,
    limited: &BTreeSet<OrgId>,
    given: &mut Given,
) -> Result<(), StoreError> {
    let places: Vec<_> =
        picks.iter().map(|pick| (pick.lane, pick.head.key, pick.head.job)).collect();
    lanes::remove(tx, &places)?;
    let keys: Vec<(RunId, u32, u32)> = picks
        .iter()
        .map(|pick| (pick.head.job.run(), pick.head.payload.attempt, pick.head.payload.number))
        .collect();
    let mut rows: HashMap<JobId, JobRow> =
        job_rows(tx, &keys).await?.into_iter().map(|row| (row.id(), row)).collect();
    let mut taken = Vec::with_capacity(picks.len());
    let mut changed = Vec::with_capacity(picks.len());
    for pick in picks {
        let runner = asking[pick.asker].runner;
        let Some(mut row) = rows.remove(&pick.head.job) else { continue };
        // A place in the queue whose job is not queued is a leftover: it has gone, and nothing else.
        if run::claim(&mut row.leg, runner.0.unsigned_abs(), tx.now()).is_err() {
            continue;
        }
        let lane = lanes[&pick.lane];
        let claimed = Claimed {
            job: pick.head.job,
            run: pick.head.job.run(),
            attempt: pick.head.payload.attempt,
            number: pick.head.payload.number,
            claim: row.leg.attempt,
            org: lane.org,
            repo: lane.repo,
            name: row.name().to_owned(),
            expires: tx.now() + lease_lasts(),
        };
        if tx.is_postgres() {
            given.legs.insert(claimed.job, row.leg.clone());
        }
        changed.push(row);
        taken.push((pick, claimed));
    }
    if taken.len() < picks.len() {
        let kept: HashSet<JobId> =
            taken.iter().map(|(_, claimed): &(_, Claimed)| claimed.job).collect();
        let left = picks.iter().filter(|pick| !kept.contains(&pick.head.job));
        let orgs = left.map(|pick| lanes[&pick.lane].org).filter(|org| limited.contains(org));
        lease::give_room_back(tx, orgs.collect()).await?;
    }
    write_jobs(tx, changed)?;
    lease::make(tx, asking, &taken, limited)?;
    record(tx, asking, &taken).await?;
    for (pick, claimed) in taken {
        given.jobs[pick.asker].push(claimed);
    }
    Ok(())
}

/// The event, and the charge in advance.
async fn record(
    tx: &mut Tx<'_>,
    asking: &[Asking],
    taken: &[(&Chosen, Claimed)],
) -> Result<(), StoreError> {
    let mut charged: BTreeMap<(OrgId, RepoId), Used> = BTreeMap::new();
    let mut heard = Vec::with_capacity(taken.len());
    for (pick, claimed) in taken {
        charged.entry((claimed.org, claimed.repo)).or_default().seconds += pick.estimate;
        let runner = asking[pick.asker].runner;
        heard.push(events::Event {
            org: claimed.org,
            repo: claimed.repo,
            run: claimed.run,
            attempt: claimed.attempt,
            job: Some(claimed.job),
            kind: EventKind::JobClaimed { runner, claim: claimed.claim },
        });
        tx.signal(Signal::Run(claimed.run));
    }
    charge(tx, &charged).await?;
    events::append(tx, &heard)
}

/// Rows of parameters for the leases of these claims.
pub(super) fn lease_rows(
    asking: &[Asking],
    taken: &[(&Chosen, Claimed)],
    limited: &BTreeSet<OrgId>,
    now: i64,
) -> Vec<Vec<Value>> {
    let row = |(pick, claimed): &(&Chosen, Claimed)| {
        let asking = &asking[pick.asker];
        vec![
            claimed.job.0.into(),
            claimed.run.0.into(),
            claimed.attempt.into(),
            claimed.number.into(),
            claimed.claim.into(),
            asking.runner.0.into(),
            (&asking.nonce).into(),
            now.into(),
            millis(claimed.expires).into(),
            limited.contains(&claimed.org).into(),
            claimed.org.0.into(),
            claimed.repo.0.into(),
            pick.estimate.into(),
        ]
    };
    taken.iter().map(row).collect()
}
