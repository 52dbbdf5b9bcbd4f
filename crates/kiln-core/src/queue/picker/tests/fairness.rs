//! What the choice means for those who wait: shares, priorities, classes, limits, and who is served.

use super::*;
use crate::queue::class::key;
use crate::queue::usage::Usage;

const MINUTE: i64 = 60_000;

/// A batch that is described lane by lane, each with its jobs.
struct Scene {
    batch: Batch,
    waiting: Waiting,
    jobs: i64,
}

impl Scene {
    fn new(policy: Policy) -> Self {
        let (orgs, repos) = (HashMap::new(), HashMap::new());
        let (lanes, askers) = (Vec::new(), Vec::new());
        Self {
            batch: Batch { now: 0, policy, lanes, orgs, repos, askers },
            waiting: BTreeMap::new(),
            jobs: 0,
        }
    }

    /// A lane of a repository that has the number of its lane, with jobs queued at these times.
    fn lane(&mut self, org: i64, class: Class, queued_at: &[i64]) -> &mut Lane {
        let number = i64::try_from(self.batch.lanes.len()).unwrap();
        let keys = queued_at.iter().map(|&at| key(at, class, &HeadStarts::default()));
        let jobs = keys.zip(self.jobs..).map(|(key, job)| (key, JobId(job))).collect();
        self.jobs += i64::try_from(queued_at.len()).unwrap();
        self.waiting.insert(LaneId(number), jobs);
        let (id, queue) = (LaneId(number), QueueId(0));
        let (org, repo) = (OrgId(org), RepoId(number));
        self.batch.lanes.push(Lane { id, queue, priority: 0, org, repo, class });
        self.batch.lanes.last_mut().unwrap()
    }

    fn org(&mut self, org: i64, share: OrgShare) {
        self.batch.orgs.insert(OrgId(org), share);
    }

    fn asker(&mut self, queues: &[i64], org: Option<i64>, want: u32) {
        self.batch.askers.push(Asker { org: org.map(OrgId), ..asker(queues, want) });
    }

    /// The asker and the lane of each choice.
    fn choices(&self) -> Vec<(usize, i64)> {
        let given = serve(self.batch.clone(), &self.waiting, 3).given;
        given.into_iter().map(|(asker, lane, _)| (asker, lane.0)).collect()
    }

    fn lanes_chosen(&self) -> Vec<i64> {
        self.choices().into_iter().map(|(_, lane)| lane).collect()
    }
}

/// S8: the table of the design, once as organizations and once as repositories of one.
#[test]
fn who_has_used_least_of_its_share_goes_first() {
    let table = [(200, 4000.0), (100, 1500.0), (300, 9000.0)];
    let mut orgs = Scene::new(Policy::Fair);
    let mut repos = Scene::new(Policy::Fair);
    for (number, (shares, consumed)) in (0..).zip(table) {
        orgs.lane(number, Class::Normal, &[0]);
        orgs.org(number, OrgShare { shares, consumed, ..OrgShare::default() });
        repos.lane(7, Class::Normal, &[0]);
        let share = RepoShare { shares, consumed, ..RepoShare::default() };
        repos.batch.repos.insert(RepoId(number), share);
    }
    for mut scene in [orgs, repos] {
        scene.asker(&[0], None, 3);
        assert_eq!(scene.lanes_chosen(), [1, 0, 2]);
    }
}

/// S8
#[test]
fn a_batch_does_not_all_go_to_one() {
    let mut scene = Scene::new(Policy::Fair);
    scene.lane(0, Class::Normal, &[0; 20]);
    scene.lane(1, Class::Normal, &[1000; 20]);
    scene.lane(1, Class::Normal, &[2000; 20]);
    scene.asker(&[0], None, 8);
    assert_eq!(
        scene.lanes_chosen(),
        [0, 1, 0, 2, 0, 1, 0, 2],
        "each organization, each repository"
    );
}

/// S8
#[test]
fn twice_the_shares_get_twice_the_time() {
    let shares = [200, 100];
    let mut used = [0.0, 0.0];
    let mut usage = [Usage::default(); 2];
    let mut now = 0;
    for round in 0_u32..5000 {
        let mut scene = Scene::new(Policy::Fair);
        scene.batch.now = now;
        for org in 0..2 {
            scene.lane(i64::try_from(org).unwrap(), Class::Normal, &[0; 3]);
            let consumed = usage[org].at(now);
            let share = OrgShare { shares: shares[org], consumed, ..OrgShare::default() };
            scene.org(i64::try_from(org).unwrap(), share);
        }
        scene.asker(&[0], None, 3);
        for lane in scene.lanes_chosen() {
            // The jobs of the second are twice as long; the estimate of 60 is wrong for both.
            let took = if lane == 0 { 100.0 } else { 200.0 } + f64::from(round % 7);
            let org = usize::try_from(lane).unwrap();
            used[org] += took;
            usage[org].add(60.0, now);
            usage[org].add(took - 60.0, now);
        }
        now += 2 * MINUTE;
    }
    let times = used[0] / used[1];
    assert!((times - 2.0).abs() < 0.04, "{times} times the time");
}

/// S8
#[test]
fn priority_100_goes_before_all_fairness() {
    for policy in Policy::ALL {
        let mut scene = Scene::new(policy);
        scene.lane(0, Class::Urgent, &[-90 * MINUTE]);
        scene.lane(1, Class::Low, &[0, 0]).priority = 100;
        scene.lane(1, Class::Low, &[0]).priority = 1;
        let (consumed, limit) = (1e9, Some(10));
        scene.org(1, OrgShare { consumed, running: 5, limit, ..OrgShare::default() });
        scene.asker(&[0], None, 4);
        assert_eq!(scene.lanes_chosen(), [1, 1, 2, 0]);
    }
}

/// S8
#[test]
fn no_organization_gets_more_than_its_limit() {
    for policy in Policy::ALL {
        let mut scene = Scene::new(policy);
        for (org, running, limit) in
            [(0, 1, Some(3)), (1, 7, Some(5)), (2, 0, Some(0)), (3, 9, None)]
        {
            scene.lane(org, Class::Normal, &[0; 5]).priority = 100 * (org % 2);
            scene.lane(org, Class::Urgent, &[0; 5]).queue = QueueId(1);
            scene.org(org, OrgShare { running, limit, ..OrgShare::default() });
        }
        scene.asker(&[0], None, 50);
        scene.asker(&[0, 1], None, 50);
        let chosen = scene.lanes_chosen();
        let of_org = |org| chosen.iter().filter(|&&lane| lane / 2 == org).count();
        assert_eq!([of_org(0), of_org(1), of_org(2), of_org(3)], [2, 0, 0, 10]);
    }
}

/// S8
#[test]
fn ageing_needs_no_update() {
    let mut scene = Scene::new(Policy::Fair);
    let queued = [(Class::Low, 0), (Class::Normal, 6), (Class::High, 9), (Class::Urgent, 21)];
    for (class, minutes) in queued {
        scene.lane(0, class, &[minutes * MINUTE]).repo = RepoId(1);
    }
    scene.asker(&[0], None, 4);
    for now in [30, 60, 100_000] {
        scene.batch.now = now * MINUTE;
        assert_eq!(scene.lanes_chosen(), [2, 0, 1, 3], "as of {now} minutes");
    }
}

/// When a low job of minute 0 is served, while an urgent one comes each minute and one is served.
fn minute_in_which_low_is_served(policy: Policy) -> i64 {
    let starts = HeadStarts::default();
    let low = (key(0, Class::Low, &starts), JobId(0));
    let mut urgent = vec![(key(0, Class::Urgent, &starts), JobId(1))];
    for minute in 0..1000 {
        let now = minute * MINUTE;
        urgent.push((key(now, Class::Urgent, &starts), JobId(minute + 2)));
        let mut scene = Scene::new(policy);
        scene.batch.now = now;
        for class in [Class::Low, Class::Urgent] {
            scene.lane(0, class, &[]).repo = RepoId(1);
        }
        scene.waiting.insert(LaneId(0), vec![low]);
        scene.waiting.insert(LaneId(1), urgent.clone());
        scene.asker(&[0], None, 1);
        if scene.lanes_chosen() == [0] {
            return minute;
        }
        urgent.remove(0);
    }
    panic!("low was starved")
}

/// S8
#[test]
fn low_is_never_starved() {
    // 15 minutes of head start and 5 of holding back.
    assert_eq!(minute_in_which_low_is_served(Policy::Fair), 21);
    // 0.5 * (1 + 0.1 * minutes) passes 3 * 1.1 after 56 minutes.
    assert_eq!(minute_in_which_low_is_served(Policy::Score), 56);
}

/// S8
#[test]
fn the_score_weighs_class_load_and_waiting() {
    let mut scene = Scene::new(Policy::Score);
    scene.batch.now = 10 * MINUTE;
    let now = 10 * MINUTE;
    scene.lane(0, Class::Urgent, &[now]); // 3 * 1.0 = 3.0, then 2.4 and so on
    scene.lane(1, Class::Normal, &[now - 10 * MINUTE]); // 1 * 1.5 * 2 = 3.0, of the later key
    scene.lane(2, Class::High, &[now]); // 2 * 1.5 = 3.0, of the latest key
    scene.lane(3, Class::Low, &[now - 9 * MINUTE]); // 0.5 * 1.5 * 1.9 = 1.4
    scene.org(0, OrgShare { running: 1, limit: Some(2), ..OrgShare::default() });
    scene.asker(&[0], None, 4);
    assert_eq!(scene.lanes_chosen(), [0, 1, 2, 3]);
}

/// S2, S8
#[test]
fn the_most_constrained_asker_is_served_first() {
    let mut scene = Scene::new(Policy::Fair);
    scene.lane(0, Class::Normal, &[0, 0]);
    scene.lane(1, Class::Normal, &[9, 9]).queue = QueueId(1);
    scene.asker(&[0, 1], None, 2);
    scene.asker(&[0], None, 2);
    assert_eq!(scene.choices(), [(1, 0), (1, 0), (0, 1), (0, 1)], "nobody goes away empty");
}

/// S8
#[test]
fn equal_askers_get_one_job_each_in_turn() {
    let mut scene = Scene::new(Policy::Fair);
    scene.lane(0, Class::Normal, &[0; 5]);
    scene.asker(&[0, 3], None, 4);
    scene.asker(&[3, 0, 3], None, 1);
    scene.asker(&[0, 3], None, 4);
    let askers: Vec<usize> = scene.choices().into_iter().map(|(asker, _)| asker).collect();
    assert_eq!(askers, [0, 1, 2, 0, 2]);
}

/// S2
#[test]
fn a_runner_of_an_organization_takes_only_its_jobs() {
    let mut scene = Scene::new(Policy::Fair);
    scene.lane(0, Class::Urgent, &[0, 0]).priority = 100;
    scene.lane(1, Class::Low, &[0, 0]);
    scene.asker(&[0], Some(1), 5);
    assert_eq!(scene.lanes_chosen(), [1, 1]);
}
