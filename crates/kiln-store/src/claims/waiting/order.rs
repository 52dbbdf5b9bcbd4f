//! In which order jobs are likely to be handed out: the choice itself, played through.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_core::id::{JobId, LaneId, OrgId, QueueId};
use kiln_core::queue::{
    Asker, Batch, Head, Lane, Next, OrgShare, Picker, Policy, Serving, forecast, matches,
};

use super::crew::{Crew, Crews, different};
use super::scene::{Known, Scene};
use crate::claims::lanes::After;
use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// How many choices are played through.
const PICKS: usize = 1_000;
/// How many at least for one kind of job, and how many kinds there may be.
const PICKS_AT_LEAST: usize = 50;
const MOST_KINDS: usize = 20;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Order(BTreeMap<Kind, Line>);

/// Jobs that wait in one line: for the same runners, as places in the scene. Where there are none, those of a queue wait
/// for whoever comes.
type Kind = (Vec<usize>, Option<(QueueId, OrgId)>);

fn kind(live: &[usize], queue: QueueId, org: OrgId) -> Kind {
    (live.to_vec(), live.is_empty().then_some((queue, org)))
}

/// One line of jobs that wait for the same runners.
#[derive(Debug, Default)]
struct Line {
    /// The places of the first jobs, from 1 on, and in how many seconds they are likely to start.
    places: HashMap<JobId, (u64, Option<f64>)>,
    /// How many of them are of each lane.
    of_lane: HashMap<LaneId, u64>,
    /// When the last one of them starts, and how much later each one behind it.
    last: Option<f64>,
    step: f64,
    has_history: bool,
}

/// Where a job stands: its position, and in how many seconds it is likely to start.
pub(super) type Place = (u64, Option<f64>);

impl Order {
    /// Plays the choice through for all kinds of jobs that are shown.
    pub(super) async fn play(
        tx: &mut Tx<'_>,
        policy: Policy,
        scene: &Scene,
        crews: &Crews,
    ) -> Result<Self, StoreError> {
        let one = |(crew, queue, org): (&Crew, QueueId, OrgId)| {
            (kind(&crew.live, queue, org), (queue, org))
        };
        let lines: BTreeMap<Kind, (QueueId, OrgId)> = crews.lines().map(one).collect();
        let most = (PICKS / lines.len().max(1)).max(PICKS_AT_LEAST);
        let mut order = Self::default();
        for (kind, (queue, org)) in lines.into_iter().take(MOST_KINDS) {
            let line = Line::play(tx, policy, scene, (&kind.0, queue, org), most).await?;
            order.0.insert(kind, line);
        }
        Ok(order)
    }

    /// Where a job stands, before which `ahead` others are in its lane.
    pub(super) fn place(&self, crew: &Crew, lane: &Lane, job: JobId, ahead: u64) -> Place {
        let kind = kind(&crew.live, lane.queue, lane.org);
        let Some(line) = self.0.get(&kind) else { return (ahead + 1, None) };
        if let Some((position, start)) = line.places.get(&job) {
            return (*position, start.filter(|start| line.has_history || *start == 0.0));
        }
        let first = line.places.len() as u64;
        let behind = ahead.saturating_sub(line.of_lane.get(&lane.id).copied().unwrap_or(0)) + 1;
        #[expect(clippy::cast_precision_loss, reason = "nobody waits behind 2^53 jobs")]
        let start = line.last.map(|last| last + behind as f64 * line.step);
        (first + behind, start.filter(|_| line.has_history))
    }
}

impl Line {
    async fn play(
        tx: &mut Tx<'_>,
        policy: Policy,
        scene: &Scene,
        of: (&[usize], QueueId, OrgId),
        most: usize,
    ) -> Result<Self, StoreError> {
        let asker = asker(scene, of, most);
        let queues: BTreeSet<QueueId> = asker.queues.iter().map(|serving| serving.queue).collect();
        let takes = |known: &&Known| {
            let own = asker.org.is_none_or(|org| org == known.lane.org);
            own && known.is_open() && queues.contains(&known.lane.queue)
        };
        let known: Vec<&Known> = scene.lanes.values().filter(takes).collect();
        let floors: HashMap<LaneId, i64> =
            known.iter().map(|known| (known.lane.id, known.floor)).collect();
        let unlimited = |share: &OrgShare| OrgShare { limit: None, ..*share };
        let batch = Batch {
            now: scene.now,
            policy,
            lanes: known.iter().map(|known| known.lane).collect(),
            // A limit makes a job wait, but nobody knows which others pass it by until then.
            orgs: scene.shares.orgs.iter().map(|(org, share)| (*org, unlimited(share))).collect(),
            repos: scene.shares.repos.clone(),
            askers: vec![asker],
        };
        let picks = pick(tx, Picker::new(batch), &floors).await?;
        let mut line = Self::of(&picks, &free(scene, of.0));
        line.has_history = known.iter().any(|known| known.has_history);
        Ok(line)
    }

    fn of(picks: &[(LaneId, JobId, f64)], free: &[f64]) -> Self {
        let starts = forecast(free, picks.iter().map(|(.., takes)| *takes));
        let mut line = Self { last: starts.last().copied(), ..Self::default() };
        for (number, (lane, job, _)) in picks.iter().enumerate() {
            line.places.insert(*job, (number as u64 + 1, starts.get(number).copied()));
            *line.of_lane.entry(*lane).or_default() += 1;
        }
        let all: f64 = picks.iter().map(|(.., takes)| takes).sum();
        #[expect(clippy::cast_precision_loss, reason = "these are thousands")]
        let share = (picks.len().max(1) * free.len().max(1)) as f64;
        line.step = all / share;
        line
    }
}

/// One who takes all that the runners of a line could take.
fn asker(scene: &Scene, (live, queue, org): (&[usize], QueueId, OrgId), most: usize) -> Asker {
    let machines = || live.iter().map(|number| &scene.machines[*number]);
    let has = different(machines());
    let shared = machines().any(|machine| machine.org.is_none());
    let could = |needs| has.iter().any(|has| matches(needs, has));
    let queues = scene.queues.iter().filter(|(id, needs)| **id == queue || could(needs));
    Asker {
        queues: queues.map(|(id, _)| Serving::from(*id)).collect(),
        org: (!shared).then_some(org),
        want: u32::try_from(most).unwrap_or(u32::MAX),
        warm: Vec::new(),
    }
}

/// In how many seconds each slot of these runners is likely to be free.
fn free(scene: &Scene, live: &[usize]) -> Vec<f64> {
    let mut free = Vec::new();
    for machine in live.iter().map(|number| &scene.machines[*number]) {
        let busy = scene.busy(machine);
        let idle = (machine.slots as usize).saturating_sub(busy.len());
        free.extend(busy.iter().copied().chain(std::iter::repeat_n(0.0, idle)));
    }
    free
}

/// Asks the picker until it is done. Nothing is taken or locked.
async fn pick(
    tx: &mut Tx<'_>,
    mut picker: Picker<()>,
    floors: &HashMap<LaneId, i64>,
) -> Result<Vec<(LaneId, JobId, f64)>, StoreError> {
    let mut picks = Vec::new();
    loop {
        let wanted = match picker.next() {
            Next::Done => return Ok(picks),
            Next::Pick(pick) => {
                picks.push((pick.lane, pick.head.job, pick.estimate));
                continue;
            }
            Next::Fetch(wanted) => wanted,
        };
        let behind = |lane: &LaneId| match picker.last(*lane) {
            Some((key, job)) => (*lane, (key, job.0)),
            None => (*lane, (floors[lane], -1)),
        };
        let after: Vec<After> = wanted.iter().map(behind).collect();
        let piece = picker.piece(wanted.len());
        let mut found: BTreeMap<LaneId, Vec<Head<()>>> = BTreeMap::new();
        for seen in peek(tx, &after, piece).await? {
            let head = Head { key: seen.key, job: seen.job, payload: () };
            found.entry(seen.lane).or_default().push(head);
        }
        for lane in wanted {
            let heads = found.remove(&lane).unwrap_or_default();
            let exhausted = heads.len() < piece;
            picker.heads(lane, heads, exhausted);
        }
    }
}

/// A place in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) lane: LaneId,
    pub(super) key: i64,
    pub(super) job: JobId,
    pub(super) attempt: u32,
    pub(super) number: u32,
}

/// The next jobs of these lanes behind the given places, at most `piece` of each, whoever has them in
/// their hands.
pub(super) async fn peek(
    tx: &mut Tx<'_>,
    after: &[After],
    piece: usize,
) -> Result<Vec<Seen>, StoreError> {
    let sql = Sql::of(
        "SELECT lane_id, key, job_id, attempt, number FROM queue
         WHERE lane_id = $1 AND (key, job_id) > ($2, $3) ORDER BY key, job_id LIMIT $4",
        "SELECT h.lane_id, h.key, h.job_id, h.attempt, h.number
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
             AS u (lane_id, key, job_id, piece)
         CROSS JOIN LATERAL (
             SELECT q.lane_id, q.key, q.job_id, q.attempt, q.number FROM queue AS q
             WHERE q.lane_id = u.lane_id AND (q.key, q.job_id) > (u.key, u.job_id)
             ORDER BY q.key, q.job_id LIMIT u.piece
         ) AS h",
    );
    let piece = i64::try_from(piece).unwrap_or(i64::MAX);
    let row = |(lane, (key, job)): &After| {
        vec![lane.0.into(), (*key).into(), (*job).into(), piece.into()]
    };
    let rows: Vec<Vec<Value>> = after.iter().map(row).collect();
    let seen = |row: &Row| {
        Ok(Seen {
            lane: row.get(0)?,
            key: row.get(1)?,
            job: row.get(2)?,
            attempt: row.get(3)?,
            number: row.get(4)?,
        })
    };
    tx.rows_all(sql, &rows).await?.iter().map(seen).collect()
}
