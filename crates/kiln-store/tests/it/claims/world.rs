//! Random queues, and who gets what of them according to core with everything in memory.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kiln_core::id::{JobId, LaneId, OrgId, QueueId, RepoId, RunId, RunnerId};
use kiln_core::queue::{
    Asker, Batch, Class, Head, HeadStarts, Lane, Next, OrgShare, Picker, Policy, RepoShare, key,
};
use kiln_store::claims::{Asking, Serving};
use kiln_store::{Store, StoreError, Tx};
use kiln_testkit::runs::add_repository;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// A value of a strategy; the same ones in every run of the suite.
pub(super) fn any<S: Strategy>(runner: &mut TestRunner, strategy: &S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// What a test knows about a queue without asking the database.
#[derive(Debug)]
pub(super) struct World {
    queues: Vec<QueueId>,
    orgs: Vec<OrgId>,
    batch: Batch,
    /// Lanes of queues and repositories that are not paused.
    waiting: BTreeMap<LaneId, Vec<(i64, JobId)>>,
    asked: u64,
}

/// A repository to be.
#[derive(Debug, Clone)]
struct NewRepo {
    share: (u32, u32, Option<u32>),
    priorities: Option<&'static str>,
    paused: bool,
}

#[derive(Debug, Clone)]
struct NewOrg {
    share: (u32, u32, Option<(u32, u32)>),
    repos: Vec<NewRepo>,
}

fn new_org() -> impl Strategy<Value = NewOrg> {
    let priorities = prop::sample::select(vec![None, Some("false"), Some(r#"{"urgent": 3600}"#)]);
    // Few different figures, so that ties are common.
    let share = (1..4_u32, 0..3_u32, prop::option::of(1..4_u32));
    let repo = (share, priorities, prop::bool::weighted(0.15));
    let repo = repo.prop_map(|(share, priorities, paused)| NewRepo { share, priorities, paused });
    let limit = prop::option::weighted(0.4, (0..3_u32, 1..7_u32));
    ((1..4_u32, 0..3_u32, limit), prop::collection::vec(repo, 1..4))
        .prop_map(|(share, repos)| NewOrg { share, repos })
}

/// Queue, class, priority and how long ago it was queued, in half minutes.
type NewJob = (usize, Class, i64, i64);

fn new_job() -> impl Strategy<Value = NewJob> {
    let priority = prop::sample::select(vec![0_i64, 0, 0, 5, 100]);
    (0..4_usize, prop::sample::select(Class::ALL.to_vec()), priority, 0..60_i64)
}

/// An hour that never comes: what was used by then is not decayed.
const NO_DECAY: i64 = 1 << 40;

impl World {
    pub(super) async fn new(store: &Store, runner: &mut TestRunner, policy: Policy) -> Self {
        let orgs = any(runner, &prop::collection::vec(new_org(), 1..5));
        let mut places = Vec::new();
        for (number, org) in orgs.iter().enumerate() {
            for (at, repo) in org.repos.iter().enumerate() {
                let name = (format!("org{number}"), format!("repo{at}"));
                let (org_id, repo_id, _) = add_repository(store, &name.0, &name.1).await;
                places.push((org_id, repo_id, org.clone(), repo.clone()));
            }
        }
        let paused_queue = any(runner, &(0..8_usize));
        let jobs = any(runner, &prop::collection::vec((0..places.len(), new_job()), 0..120));
        let make =
            async move |tx: &mut Tx<'_>| Self::make(tx, policy, &places, paused_queue, &jobs).await;
        store.write(make).await.unwrap()
    }

    async fn make(
        tx: &mut Tx<'_>,
        policy: Policy,
        places: &[(OrgId, RepoId, NewOrg, NewRepo)],
        paused_queue: usize,
        jobs: &[(usize, NewJob)],
    ) -> Result<Self, StoreError> {
        let now = i64::try_from(tx.now().0).unwrap();
        let mut batch = Batch {
            now,
            policy,
            lanes: Vec::new(),
            orgs: HashMap::new(),
            repos: HashMap::new(),
            askers: Vec::new(),
        };
        let mut queues = Vec::new();
        for number in 0..4_u8 {
            queues.push(make_queue(tx, number, usize::from(number) == paused_queue).await?);
        }
        for (org, repo, new_org, new_repo) in places {
            batch.orgs.insert(*org, make_org(tx, *org, new_org).await?);
            batch.repos.insert(*repo, make_repo(tx, (*org, *repo), new_repo).await?);
        }
        let mut world =
            Self { queues, orgs: Vec::new(), batch, waiting: BTreeMap::new(), asked: 0 };
        world.orgs = world.batch.orgs.keys().copied().collect();
        world.orgs.sort_unstable();
        let mut lanes = HashMap::new();
        for (count, (place, (queue, class, priority, ago))) in jobs.iter().enumerate() {
            let (org, repo, _, new_repo) = &places[*place];
            let lane = (world.queues[*queue], *priority, *org, *repo, *class);
            if let Entry::Vacant(vacant) = lanes.entry(lane) {
                vacant.insert(make_lane(tx, lane).await?);
            }
            let starts = new_repo.priorities.map(|text| HeadStarts::parse(text).unwrap());
            // Half a minute from the next whole one, which the score counts.
            let queued_at = now - ago * 60_000 - 30_000;
            let key = key(queued_at, *class, &starts.unwrap_or_default());
            let job = make_job(tx, i64::try_from(count).unwrap(), lanes[&lane], key).await?;
            if !new_repo.paused && *queue != paused_queue {
                world.waiting.entry(lanes[&lane].id).or_default().push((key, job));
            }
        }
        let served = |lane: &Lane| world.waiting.contains_key(&lane.id);
        world.batch.lanes = lanes.into_values().filter(served).collect();
        world.waiting.values_mut().for_each(|jobs| jobs.sort_unstable());
        Ok(world)
    }

    /// Empty lanes are closed.
    pub(super) fn tidy(&mut self) {
        self.batch.lanes.retain(|lane| !self.waiting[&lane.id].is_empty());
    }

    /// Questions of runners that differ in what they can do and whose they are.
    pub(super) fn questions(&mut self, runner: &mut TestRunner, most: usize) -> Vec<Asking> {
        let queues = prop::sample::subsequence(self.queues.clone(), 1..=4);
        // The jobs are half a minute from the next whole one, so that the time of a test changes nothing.
        let delays = prop::collection::vec(prop::sample::select(vec![0, 0, 0, 3, 20]), 4);
        let queues = (queues, delays).prop_map(|(queues, delays)| {
            let serving = |(queue, minutes): (QueueId, u64)| Serving {
                queue,
                delay: Duration::from_secs(60 * minutes),
            };
            queues.into_iter().zip(delays).map(serving).collect::<Vec<_>>()
        });
        let repos: Vec<RepoId> = self.batch.repos.keys().copied().collect();
        let org = prop::option::weighted(0.3, prop::sample::select(self.orgs.clone()));
        let repo = prop::sample::select(repos);
        let warm = prop::collection::vec(repo, 0..3);
        let asked = prop::collection::vec((queues, org, 0..4_u32, warm), 1..=most);
        let mut asking = Vec::new();
        for (queues, org, want, warm) in any(runner, &asked) {
            self.asked += 1;
            let runner = RunnerId(i64::try_from(self.asked % 7 + 1).unwrap());
            asking.push(Asking { runner, queues, org, want, nonce: self.asked.to_string(), warm });
        }
        asking
    }

    /// Who gets what, by core with all jobs at hand. The world then goes on from there.
    pub(super) fn expect(&mut self, asking: &[Asking]) -> Vec<Vec<JobId>> {
        let asker = |asking: &Asking| Asker {
            queues: asking.queues.clone(),
            org: asking.org,
            want: asking.want,
            warm: asking.warm.clone(),
        };
        let mut batch = self.batch.clone();
        batch.askers = asking.iter().map(asker).collect();
        let lanes: HashMap<LaneId, Lane> = batch.lanes.iter().map(|l| (l.id, *l)).collect();
        let mut picker = Picker::new(batch);
        for (lane, jobs) in &self.waiting {
            let head = |&(key, job): &(i64, JobId)| Head { key, job, payload: () };
            picker.heads(*lane, jobs.iter().map(head).collect(), true);
        }
        let mut expected = vec![Vec::new(); asking.len()];
        while let Next::Pick(pick) = picker.next() {
            expected[pick.asker].push(pick.head.job);
            let lane = lanes[&pick.lane];
            self.waiting.get_mut(&lane.id).unwrap().retain(|(_, job)| *job != pick.head.job);
            let org = self.batch.orgs.get_mut(&lane.org).unwrap();
            org.consumed += pick.estimate;
            org.running += u32::from(org.limit.is_some());
            self.batch.repos.get_mut(&lane.repo).unwrap().consumed += pick.estimate;
        }
        expected
    }
}

async fn make_queue(tx: &mut Tx<'_>, number: u8, paused: bool) -> Result<QueueId, StoreError> {
    let sql = "INSERT INTO queues (hash, requirements, paused, created_at, used_at)
               VALUES ($1, '[]', $2, 0, 0) RETURNING id";
    let paused = paused.then_some("for a test");
    Ok(QueueId(tx.one("queue", sql, &[vec![number; 32].into(), paused.into()]).await?.get(0)?))
}

async fn make_org(tx: &mut Tx<'_>, org: OrgId, new: &NewOrg) -> Result<OrgShare, StoreError> {
    let (shares, used, limit) = new.share;
    let (shares, consumed) = (100 * shares, f64::from(300 * used));
    let sql = "UPDATE organizations SET shares = $2 WHERE id = $1";
    tx.execute(sql, &[org.0.into(), shares.into()]).await?;
    make_usage(tx, (org, RepoId(0)), consumed, None).await?;
    if let Some((running, limit)) = limit {
        let sql = "INSERT INTO org_loads (org_id, running, job_limit) VALUES ($1, $2, $3)
                   ON CONFLICT (org_id) DO NOTHING";
        tx.execute(sql, &[org.0.into(), running.into(), limit.into()]).await?;
    }
    let (running, limit) = (limit.map_or(0, |limit| limit.0), limit.map(|limit| limit.1));
    Ok(OrgShare { shares, consumed, running, limit })
}

async fn make_repo(
    tx: &mut Tx<'_>,
    place: (OrgId, RepoId),
    new: &NewRepo,
) -> Result<RepoShare, StoreError> {
    let (shares, used, typical) = new.share;
    let (shares, consumed) = (100 * shares, f64::from(300 * used));
    let typical = typical.map(|minutes| f64::from(60 * minutes));
    let sql = "UPDATE repositories SET shares = $2, priorities = $3, paused = $4 WHERE id = $1";
    let paused = new.paused.then_some("for a test");
    let values = [place.1.0.into(), shares.into(), new.priorities.into(), paused.into()];
    tx.execute(sql, &values).await?;
    make_usage(tx, place, consumed, typical).await?;
    let head_starts = new.priorities.map(|text| HeadStarts::parse(text).unwrap());
    let estimate = typical.unwrap_or(60.0);
    Ok(RepoShare { shares, consumed, estimate, head_starts: head_starts.unwrap_or_default() })
}

async fn make_usage(
    tx: &mut Tx<'_>,
    (org, repo): (OrgId, RepoId),
    consumed: f64,
    typical: Option<f64>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO usage (org_id, repo_id, consumed, hour, typical)
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (org_id, repo_id) DO NOTHING";
    let values = [org.0.into(), repo.0.into(), consumed.into(), NO_DECAY.into(), typical.into()];
    tx.execute(sql, &values).await?;
    Ok(())
}

async fn make_lane(
    tx: &mut Tx<'_>,
    (queue, priority, org, repo, class): (QueueId, i64, OrgId, RepoId, Class),
) -> Result<Lane, StoreError> {
    let sql = "INSERT INTO lanes (queue_id, priority, org_id, repo_id, class, floor, active)
               VALUES ($1, $2, $3, $4, $5, 0, 1) RETURNING id";
    let values =
        [queue.0.into(), priority.into(), org.0.into(), repo.0.into(), class.word().into()];
    let id = LaneId(tx.one("lane", sql, &values).await?.get(0)?);
    Ok(Lane { id, queue, priority, org, repo, class })
}

/// Ids fall while times are random, so that neither follows from the other.
async fn make_job(tx: &mut Tx<'_>, count: i64, lane: Lane, key: i64) -> Result<JobId, StoreError> {
    let run = RunId(900_000 - count);
    let job = JobId::of(run, 0);
    let sql = "INSERT INTO queue (lane_id, key, job_id, attempt, number) VALUES ($1, $2, $3, 1, 0)";
    tx.execute(sql, &[lane.id.0.into(), key.into(), job.0.into()]).await?;
    let sql = "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name,
                   state, claim, retries, losses, cancelling, tolerated, lane_id, queue_key, queued_at)
               VALUES ($1, 1, 0, $2, 0, 0, 1, 'build', 'queued', 0, 0, 0, 0, 0, $3, $4, $4)";
    tx.execute(sql, &[run.0.into(), job.0.into(), lane.id.0.into(), key.into()]).await?;
    Ok(job)
}
