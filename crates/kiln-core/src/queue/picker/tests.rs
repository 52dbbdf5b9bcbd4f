//! The picker against a slow model that sorts the whole queue before each choice.

mod affinity;
mod fairness;
mod patience;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// The waiting jobs of each lane, as (key, job) in order.
type Waiting = BTreeMap<LaneId, Vec<(i64, JobId)>>;

/// An asker, the lane and the job it got.
type Given = (usize, LaneId, JobId);

#[derive(Debug, Default)]
struct Outcome {
    given: Vec<Given>,
    rounds: usize,
    heads_read: usize,
}

/// Answers a picker from the waiting jobs, `piece` heads at a time.
fn serve(batch: Batch, waiting: &Waiting, piece: usize) -> Outcome {
    let reach: BTreeSet<LaneId> = batch.lanes.iter().map(|lane| lane.id).collect();
    let mut picker = Picker::new(batch);
    let mut outcome = Outcome::default();
    let mut read: BTreeMap<LaneId, usize> = BTreeMap::new();
    let mut done: BTreeSet<LaneId> = BTreeSet::new();
    loop {
        match picker.next() {
            Next::Done => return outcome,
            Next::Pick(pick) => {
                assert_eq!(pick.head.payload, pick.head.job.0, "the payload travels along");
                outcome.given.push((pick.asker, pick.lane, pick.head.job));
            }
            Next::Fetch(lanes) => {
                outcome.rounds += 1;
                assert!(!lanes.is_empty() && lanes.len() <= LANES_AT_ONCE);
                for lane in lanes {
                    assert!(reach.contains(&lane) && !done.contains(&lane), "{lane} has no more");
                    let from = read.entry(lane).or_default();
                    let all = waiting.get(&lane).map_or(&[][..], Vec::as_slice);
                    let last = from.checked_sub(1).map(|last| all[last]);
                    assert_eq!(picker.last(lane), last);
                    let heads: Vec<_> = all[*from..]
                        .iter()
                        .take(piece)
                        .map(|&(key, job)| Head { key, job, payload: job.0 })
                        .collect();
                    *from += heads.len();
                    outcome.heads_read += heads.len();
                    // Half of the lanes only say that they are exhausted by an empty piece.
                    let exhausted = heads.len() < piece && lane.0 % 2 == 0;
                    if exhausted || heads.is_empty() {
                        done.insert(lane);
                    }
                    picker.heads(lane, heads, exhausted);
                }
            }
        }
    }
}

/// The same by brute force: all jobs that an asker could have are sorted for each single choice.
fn model(batch: &Batch, waiting: &Waiting) -> Vec<Given> {
    let mut left = waiting.clone();
    let (mut orgs, mut repos) = (batch.orgs.clone(), batch.repos.clone());
    let mut given = Vec::new();
    for group in groups_of_model(batch) {
        let most = group.iter().map(|&asker| batch.askers[asker].want).max().unwrap_or(0);
        'group: for number in 0..most {
            let wants_more = |&asker: &usize| batch.askers[asker].want > number;
            let mut round: Vec<usize> = group.iter().copied().filter(wants_more).collect();
            while !round.is_empty() {
                let first = &batch.askers[round[0]];
                let Some((lane, job)) = first_of_model(batch, first, &left, &orgs, &repos) else {
                    break 'group;
                };
                left.get_mut(&lane.id).unwrap().retain(|&(_, waiting)| waiting != job);
                let repo = repos.entry(lane.repo).or_default();
                let org = orgs.entry(lane.org).or_default();
                repo.consumed += repo.estimate;
                org.consumed += repo.estimate;
                org.running += 1;
                let is_warm = |&asker: &usize| batch.askers[asker].warm.contains(&lane.repo);
                let turn = round.iter().position(is_warm).unwrap_or(0);
                given.push((round.remove(turn), lane.id, job));
            }
        }
    }
    given
}

/// How long a job of the lane must have waited for the asker, in milliseconds.
fn may_take(asker: &Asker, lane: &Lane) -> Option<i64> {
    let own = asker.org.is_none_or(|org| org == lane.org);
    let servings = asker.queues.iter().filter(|serving| own && serving.queue == lane.queue);
    servings.map(Serving::millis).min()
}

fn groups_of_model(batch: &Batch) -> Vec<Vec<usize>> {
    let reach = |asker: &Asker| -> Vec<Option<i64>> {
        batch.lanes.iter().map(|lane| may_take(asker, lane)).collect()
    };
    let same = |left: &Asker, right: &Asker| left.org == right.org && reach(left) == reach(right);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, asker) in batch.askers.iter().enumerate().filter(|(_, asker)| asker.want > 0) {
        match groups.iter_mut().find(|group| same(&batch.askers[group[0]], asker)) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups.sort_by_key(|group| {
        let asker = &batch.askers[group[0]];
        let lanes = batch.lanes.iter().filter_map(|lane| Some((lane, may_take(asker, lane)?)));
        let delays: BTreeMap<_, _> = lanes.clone().map(|(lane, by)| (lane.queue, by)).collect();
        (lanes.count(), delays.into_values().sum::<i64>())
    });
    groups
}

fn first_of_model(
    batch: &Batch,
    asker: &Asker,
    left: &Waiting,
    orgs: &HashMap<OrgId, OrgShare>,
    repos: &HashMap<RepoId, RepoShare>,
) -> Option<(Lane, JobId)> {
    let mut all = Vec::new();
    for lane in &batch.lanes {
        let Some(delay) = may_take(asker, lane) else { continue };
        let org = orgs.get(&lane.org).copied().unwrap_or_default();
        let repo = repos.get(&lane.repo).copied().unwrap_or_default();
        if org.limit.is_some_and(|limit| org.running >= limit) {
            continue;
        }
        for &(key, job) in left.get(&lane.id).into_iter().flatten() {
            let queued_at = key + repo.head_starts.of(lane.class);
            if delay > 0 && queued_at > batch.now - delay {
                continue;
            }
            let figures = match batch.policy {
                Policy::Fair => vec![
                    org.consumed / f64::from(org.shares),
                    exact(lane.org.0),
                    repo.consumed / f64::from(repo.shares),
                    exact(lane.repo.0),
                ],
                Policy::Score => {
                    let minutes = exact(((batch.now - queued_at) / 60_000).max(0));
                    let quota = org.limit.map(|limit| f64::from(limit.max(1)));
                    let load = quota.map_or(0.0, |quota| f64::from(org.running) / quota);
                    let weight = match lane.class {
                        Class::Urgent => 3.0,
                        Class::High => 2.0,
                        Class::Normal => 1.0,
                        Class::Low => 0.5,
                    };
                    vec![-(weight * (1.5 - load).max(0.5) * (1.0 + 0.1 * minutes))]
                }
            };
            all.push((Reverse(lane.priority), figures, key, job, *lane));
        }
    }
    all.sort_by(|left, right| {
        let figures = left.1.partial_cmp(&right.1).unwrap();
        left.0.cmp(&right.0).then(figures).then((left.2, left.3).cmp(&(right.2, right.3)))
    });
    all.first().map(|&(.., job, lane)| (lane, job))
}

fn exact(number: i64) -> f64 {
    f64::from(i32::try_from(number).unwrap())
}

const NOW: i64 = 10_000_000;

fn any_lanes() -> impl Strategy<Value = Vec<Lane>> {
    let parts = (0..4_i64, 0..4_i64, 0..8_i64, prop::sample::select(Class::ALL.to_vec()));
    prop::collection::btree_set(parts, 0..24).prop_map(|parts| {
        let lane = |(id, (queue, priority, repo, class)): (usize, (i64, i64, i64, Class))| Lane {
            id: LaneId(i64::try_from(id).unwrap()),
            queue: QueueId(queue),
            priority: [0, 0, 5, 100][usize::try_from(priority).unwrap()],
            org: OrgId(repo % 3),
            repo: RepoId(repo),
            class,
        };
        parts.into_iter().enumerate().map(lane).collect()
    })
}

fn any_org() -> impl Strategy<Value = OrgShare> {
    let consumed = prop::sample::select(vec![0.0, 100.0, 250.0]);
    (1..4_u32, consumed, 0..4_u32, prop::option::of(0..8_u32)).prop_map(
        |(shares, consumed, running, limit)| OrgShare {
            shares: shares * 100,
            consumed,
            running,
            limit,
        },
    )
}

fn any_repo() -> impl Strategy<Value = RepoShare> {
    let consumed = prop::sample::select(vec![0.0, 100.0, 250.0]);
    let estimate = prop::sample::select(vec![1.0, 33.3, 60.0, 900.0]);
    (1..4_u32, consumed, estimate, any::<bool>()).prop_map(|(shares, consumed, estimate, off)| {
        let head_starts = if off { HeadStarts::OFF } else { HeadStarts::default() };
        RepoShare { shares: shares * 100, consumed, estimate, head_starts }
    })
}

fn any_asker() -> impl Strategy<Value = Asker> {
    let delay = prop::sample::select(vec![0, 0, 0, 3, 11]);
    let serving = (0..5_i64, delay).prop_map(|(queue, minutes)| Serving {
        queue: QueueId(queue),
        delay: Duration::from_secs(60 * minutes),
    });
    let queues = prop::collection::vec(serving, 0..4);
    let warm = prop::collection::vec((0..8_i64).prop_map(RepoId), 0..3);
    (queues, prop::option::of((0..3_i64).prop_map(OrgId)), 0..12_u32, warm)
        .prop_map(|(queues, org, want, warm)| Asker { queues, org, want, warm })
}

prop_compose! {
    fn any_batch()(
        policy in prop::sample::select(Policy::ALL.to_vec()),
        lanes in any_lanes(),
        // Some are left out, and have the defaults.
        orgs in prop::collection::hash_map((0..3_i64).prop_map(OrgId), any_org(), 0..4),
        repos in prop::collection::hash_map((0..8_i64).prop_map(RepoId), any_repo(), 0..8),
        askers in prop::collection::vec(any_asker(), 0..6),
    ) -> Batch {
        Batch { now: NOW, policy, lanes, orgs, repos, askers }
    }
}

/// Keys in minutes, so that many are equal; job ids of all lanes are mixed.
fn any_waiting() -> impl Strategy<Value = Waiting> {
    let lanes = prop::collection::vec(prop::collection::vec((0..12_i64, 0..1000_i64), 0..9), 24);
    lanes.prop_map(|lanes| {
        let sorted = |(lane, jobs): (usize, Vec<(i64, i64)>)| {
            let lane = i64::try_from(lane).unwrap();
            let jobs: BTreeSet<_> = jobs
                .into_iter()
                .map(|(minutes, job)| (NOW - minutes * 60_000, JobId(job * 24 + lane)))
                .collect();
            let mut seen = BTreeSet::new();
            let once = jobs.into_iter().filter(|&(_, job)| seen.insert(job)).collect();
            (LaneId(lane), once)
        };
        lanes.into_iter().enumerate().map(sorted).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// S4, S8, S15, S20
    #[test]
    fn every_choice_is_that_of_the_sorted_queue(
        batch in any_batch(),
        waiting in any_waiting(),
        piece in 1..5_usize,
    ) {
        let expect = model(&batch, &waiting);
        let outcome = serve(batch, &waiting, piece);
        prop_assert_eq!(outcome.given, expect);
    }
}

/// One that takes the jobs of all, and is warm for nothing.
fn asker(queues: &[i64], want: u32) -> Asker {
    let queues = queues.iter().map(|&queue| QueueId(queue).into()).collect();
    Asker { queues, org: None, want, warm: Vec::new() }
}

/// Lanes of repositories of organizations, one queue, all with the same number of jobs.
fn even(orgs: i64, repos_each: i64, jobs: i64, want: u32) -> (Batch, Waiting) {
    let lane = |repo: i64| Lane {
        id: LaneId(repo),
        queue: QueueId(1),
        priority: 0,
        org: OrgId(repo % orgs),
        repo: RepoId(repo),
        class: Class::Normal,
    };
    let lanes: Vec<Lane> = (0..orgs * repos_each).map(lane).collect();
    let waiting = lanes
        .iter()
        .map(|lane| {
            (lane.id, (0..jobs).map(|job| (job, JobId(lane.id.0 + job * 10_000))).collect())
        })
        .collect();
    let askers = vec![asker(&[1], want)];
    let (orgs, repos) = (HashMap::new(), HashMap::new());
    (Batch { now: NOW, policy: Policy::Fair, lanes, orgs, repos, askers }, waiting)
}

/// S4
#[test]
fn what_is_read_does_not_depend_on_how_many_jobs_wait() {
    for policy in Policy::ALL {
        let read = |jobs| {
            let (batch, waiting) = even(5, 4, jobs, 64);
            let outcome = serve(Batch { policy, ..batch }, &waiting, 8);
            assert_eq!(outcome.given.len(), 64);
            (outcome.rounds, outcome.heads_read)
        };
        assert_eq!(read(100), read(5_000));
    }
}

/// S4
#[test]
fn a_batch_needs_few_rounds() {
    let check = |orgs, repos_each, want, most_rounds, most_heads| {
        let (batch, waiting) = even(orgs, repos_each, 100, want);
        let outcome = serve(batch, &waiting, 8);
        assert_eq!(outcome.given.len(), want as usize);
        assert!(outcome.rounds <= most_rounds, "{} rounds", outcome.rounds);
        assert!(outcome.heads_read <= most_heads, "{} heads", outcome.heads_read);
    };
    check(20, 1, 64, 1, 20 * 8);
    check(1, 20, 64, 1, 20 * 8);
    check(1, 1, 64, 8, 64);
    check(200, 10, 1, 1, 4 * 8);
    check(200, 10, 64, 1, 64 * 8);
    check(20, 100, 256, 1, 256 * 8);
}

/// S4: one organization is far behind the others, so all jobs come from its repositories.
#[test]
fn a_batch_for_one_organization_needs_few_rounds() {
    let (mut batch, waiting) = even(100, 20, 100, 64);
    batch.orgs = (1..100)
        .map(|org| (OrgId(org), OrgShare { consumed: 1e9, ..OrgShare::default() }))
        .collect();
    let outcome = serve(batch, &waiting, 8);
    assert!(outcome.given.iter().all(|(_, lane, _)| lane.0 % 100 == 0));
    assert!(outcome.rounds <= 2, "{} rounds", outcome.rounds);
}

#[test]
fn a_batch_of_nothing_is_done_at_once() {
    let check = |change: fn(&mut Batch)| {
        let (mut batch, _) = even(2, 2, 1, 4);
        change(&mut batch);
        assert_eq!(Picker::<()>::new(batch).next(), Next::Done);
    };
    check(|batch| batch.askers.clear());
    check(|batch| batch.lanes.clear());
    check(|batch| batch.askers[0].want = 0);
    check(|batch| batch.askers[0].queues = vec![QueueId(9).into()]);
    check(|batch| batch.askers[0].org = Some(OrgId(9)));
}

#[test]
fn it_asks_again_until_it_is_answered() {
    let (batch, _) = even(1, 1, 1, 2);
    let mut picker = Picker::new(batch);
    assert_eq!(picker.next(), Next::Fetch(vec![LaneId(0)]));
    assert_eq!(picker.next(), Next::Fetch(vec![LaneId(0)]));
    picker.heads(LaneId(77), vec![Head { key: 1, job: JobId(1), payload: () }], true);
    assert_eq!(picker.next(), Next::Fetch(vec![LaneId(0)]), "an unknown lane is no answer");
    let head = Head { key: 1, job: JobId(1), payload: () };
    picker.heads(LaneId(0), vec![head.clone()], false);
    assert_eq!((picker.wanted(), picker.piece(1), picker.piece(0)), (2, 4, 4));
    assert_eq!(picker.next(), Next::Pick(Pick { asker: 0, lane: LaneId(0), head, estimate: 60.0 }));
    assert_eq!(picker.wanted(), 1);
    assert_eq!(picker.next(), Next::Fetch(vec![LaneId(0)]));
    picker.heads(LaneId(0), Vec::new(), false);
    assert_eq!(picker.next(), Next::Done, "an empty piece ends a lane");
}

#[test]
fn figures_that_make_no_sense_do_no_harm() {
    let (mut batch, waiting) = even(3, 2, 5, 30);
    batch.lanes.extend(batch.lanes.clone());
    for (org, consumed) in [(0, f64::NAN), (1, -5.0), (2, f64::INFINITY)] {
        let share = OrgShare { shares: 0, consumed, running: u32::MAX, limit: None };
        batch.orgs.insert(OrgId(org), share);
    }
    for (repo, estimate) in [(0, f64::NAN), (1, -60.0), (2, f64::INFINITY), (3, f64::MAX)] {
        batch.repos.insert(RepoId(repo), RepoShare { estimate, shares: 0, ..RepoShare::default() });
    }
    for policy in Policy::ALL {
        let outcome = serve(Batch { policy, ..batch.clone() }, &waiting, 2);
        let jobs: BTreeSet<JobId> = outcome.given.iter().map(|&(.., job)| job).collect();
        assert_eq!(jobs.len(), 30, "every job once, though every lane is named twice");
    }
}
