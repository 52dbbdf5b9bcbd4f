//! What holds for every simulation, tried on many small loads.

use kiln_core::queue::{self, Class};

use super::*;
use crate::random::Random;

const FAIR: Policy = Policy::Real(queue::Policy::Fair);

/// A load of a few organizations, with everything that a job can have; times are often equal.
fn any_load(random: &mut Random) -> Load {
    let mut builder = LoadBuilder::default();
    let labels: [&[&str]; 4] = [&[], &["linux"], &["linux", "gpu"], &["mac"]];
    let kinds = labels.map(|labels| {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        builder.kind(&labels).unwrap()
    });
    let spread = 1 + random.below(400);
    for _ in 0..random.below(150) {
        let organization = builder.organization(&format!("o{}", random.below(4))).unwrap();
        let repository = builder.repository(organization, &format!("r{}", random.below(3)));
        let priority = if random.chance(1, 20) { 100 } else { 0 };
        let class = *random.pick(&Class::ALL).unwrap();
        let kind = *random.pick(&kinds).unwrap();
        let lane = builder.lane(kind, priority, repository.unwrap(), class);
        let submitted = i64::try_from(random.below(spread)).unwrap() * 1000;
        let millis = u32::try_from(random.below(60)).unwrap() * 1000;
        builder.job(submitted, millis, lane).unwrap();
    }
    let mut load = builder.build();
    if random.chance(1, 3)
        && let Some(organization) = load.organizations.first_mut()
    {
        organization.limit = Some(2);
        organization.shares = 300;
    }
    load
}

fn any_fleet(load: &Load, random: &mut Random) -> Fleet {
    let mut pool = |labels: &[&str]| {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        Pool::new(&labels, u32::try_from(1 + random.below(4)).unwrap()).unwrap()
    };
    let pools = vec![pool(&["linux"]), pool(&["GPU", "linux"]), pool(&["mac"])];
    Fleet::new(pools, load).unwrap()
}

fn run(load: &Load, fleet: &Fleet, policy: Policy) -> (Outcome, Report) {
    let outcome = simulate(load, fleet, policy, &mut |_| {});
    let report = Report::new(load, fleet, policy, &outcome);
    (outcome, report)
}

/// Each load with its fleet and each policy.
fn many(check: impl Fn(&Load, &Fleet, Policy)) {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let load = any_load(&mut random);
        let fleet = any_fleet(&load, &mut random);
        for policy in Policy::ALL {
            check(&load, &fleet, policy);
        }
    }
}

/// The jobs that run at a moment, and those that wait, after all that happens at it.
fn at(load: &Load, outcome: &Outcome, now: i64) -> (Vec<usize>, Vec<usize>) {
    let running = |&job: &usize| {
        let (start, millis) = (outcome.started[job], i64::from(load.jobs[job].millis));
        start <= now && now < start + millis
    };
    let waits = |&job: &usize| load.jobs[job].submitted <= now && now < outcome.started[job];
    let all = 0..load.jobs.len();
    (all.clone().filter(running).collect(), all.filter(waits).collect())
}

/// All moments at which something happens.
fn moments(load: &Load, outcome: &Outcome) -> Vec<i64> {
    let starts = load.jobs.iter().zip(&outcome.started);
    let mut moments: Vec<i64> = starts
        .flat_map(|(job, &start)| [job.submitted, start, start + i64::from(job.millis)])
        .collect();
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// S19: every job runs once, after it came, on a runner that can do it; no runner has two.
#[test]
fn every_job_runs_once_where_it_can() {
    many(|load, fleet, policy| {
        let mut begun = 0;
        let outcome = simulate(load, fleet, policy, &mut |now| begun = now);
        assert_eq!(begun, load.jobs.len());
        assert_eq!(outcome.started.len(), load.jobs.len());
        for (number, job) in load.jobs.iter().enumerate() {
            assert!(outcome.started[number] >= job.submitted);
            let kind = load.lanes[job.lane as usize].kind;
            assert!(fleet.served_by(kind).contains(&outcome.pools[number]));
        }
        for now in moments(load, &outcome) {
            let (running, _) = at(load, &outcome, now);
            for (number, pool) in (0..).zip(fleet.pools()) {
                let busy = running.iter().filter(|&&job| outcome.pools[job] == number).count();
                assert!(busy <= pool.count() as usize, "{policy}: {busy} jobs at {now}");
            }
        }
    });
}

/// S19: no runner is idle while a job waits that it could do and that may run.
#[test]
fn nobody_is_idle_while_there_is_work() {
    many(|load, fleet, policy| {
        let (outcome, _) = run(load, fleet, policy);
        for now in moments(load, &outcome) {
            let (running, waiting) = at(load, &outcome, now);
            let organization_of =
                |job: usize| load.lanes[load.jobs[job].lane as usize].organization;
            for (number, pool) in (0_u32..).zip(fleet.pools()) {
                let busy = running.iter().filter(|&&job| outcome.pools[job] == number).count();
                let could = waiting.iter().find(|&&job| {
                    let lane = &load.lanes[load.jobs[job].lane as usize];
                    let limit = load.organizations[lane.organization as usize].limit;
                    let theirs =
                        running.iter().filter(|&&job| organization_of(job) == lane.organization);
                    fleet.served_by(lane.kind).contains(&number)
                        && limit.is_none_or(|limit| theirs.count() < limit as usize)
                });
                let idle = busy < pool.count() as usize;
                assert!(!idle || could.is_none(), "{policy}: {could:?} waits at {now}");
            }
        }
    });
}

/// S8, S19
#[test]
fn limits_hold_at_every_moment() {
    many(|load, fleet, policy| {
        let Some(limit) = load.organizations.first().and_then(|first| first.limit) else { return };
        let (outcome, _) = run(load, fleet, policy);
        for now in moments(load, &outcome) {
            let (running, _) = at(load, &outcome, now);
            let of_first = running
                .iter()
                .filter(|&&job| load.lanes[load.jobs[job].lane as usize].organization == 0);
            assert!(of_first.count() <= limit as usize, "{policy} at {now}");
        }
    });
}

/// S19
#[test]
fn figures_stay_within_their_bounds() {
    many(|load, fleet, policy| {
        let (outcome, report) = run(load, fleet, policy);
        assert!((0.0..=1.0 + 1e-9).contains(&report.utilization), "{report:?}");
        assert!(
            report.makespan * 1000.0 + 0.5
                >= numbers::float(load.makespan_at_least(fleet.runners()))
        );
        let organizations = numbers::count(load.organizations.len().max(1));
        assert!(report.jain <= 1.0 + 1e-9 && report.jain >= 1.0 / organizations - 1e-9);
        let jobs: usize = report.organizations.iter().map(|one| one.jobs).sum();
        assert_eq!(jobs, load.jobs.len());
        let work: f64 = report.organizations.iter().map(|one| one.work).sum();
        assert!((work * 1000.0 - numbers::float(load.work())).abs() < 1.0);
        let waits =
            load.jobs.iter().zip(&outcome.started).map(|(job, start)| start - job.submitted);
        let longest = waits.max().unwrap_or(0);
        assert!((report.wait.max * 1000.0 - numbers::float(longest)).abs() < 0.5);
        let wait = report.wait;
        assert!(wait.p50 <= wait.p95 && wait.p95 <= wait.p99 && wait.p99 <= wait.max);
        assert!(report.curve.is_sorted() && report.curve.len() == 201);
    });
}

/// S19
#[test]
fn the_same_load_gives_the_same_figures() {
    let (load, fleet) = generated(Shape::Burst, 0.9);
    for policy in Policy::ALL {
        assert_eq!(run(&load, &fleet, policy), run(&load, &fleet, policy));
    }
}

/// S19: one organization with one repository, class and kind of job leaves nothing to decide.
#[test]
fn a_single_line_is_first_in_first_out_with_every_policy() {
    let mut random = Random::new(11);
    let mut builder = LoadBuilder::default();
    let organization = builder.organization("only").unwrap();
    let repository = builder.repository(organization, "one").unwrap();
    let kind = builder.kind(&[]).unwrap();
    let lane = builder.lane(kind, 0, repository, Class::Normal);
    for _ in 0..500 {
        let submitted = i64::try_from(random.below(1_000_000)).unwrap();
        builder.job(submitted, u32::try_from(random.below(20_000)).unwrap(), lane).unwrap();
    }
    let load = builder.build();
    let fleet = Fleet::for_load(&load, 3).unwrap();
    let starts = Policy::ALL.map(|policy| run(&load, &fleet, policy).0.started);
    assert!(starts[0].is_sorted(), "in the order in which they came");
    assert_eq!(starts[0], starts[1]);
    assert_eq!(starts[0], starts[2]);
}

fn generated(shape: Shape, load: f64) -> (Load, Fleet) {
    let wanted = Wanted { jobs: 2_000, organizations: 6, shape, load, runners: 30, seed: 1 };
    let load = generate(&wanted);
    let fleet = Fleet::for_load(&load, wanted.runners).unwrap();
    (load, fleet)
}

/// S8, S19
#[test]
fn fair_shares_hold_a_greedy_organization_back() {
    for offered in [0.8, 1.3] {
        let (load, fleet) = generated(Shape::Greedy, offered);
        let [fair, _, fifo] = Policy::ALL.map(|policy| run(&load, &fleet, policy).1);
        assert!(fair.jain > fifo.jain + 0.1, "{} is not above {}", fair.jain, fifo.jain);
        let others = |report: &Report| {
            let others = report.organizations[1..].iter().map(|one| one.wait.mean);
            others.fold(0.0, f64::max)
        };
        assert!(others(&fair) < others(&fifo) / 2.0, "{} and {}", others(&fair), others(&fifo));
    }
}

/// S8, S19: shares decide who gets how much while everybody wants more.
#[test]
fn twice_the_shares_are_twice_the_runners() {
    let mut builder = LoadBuilder::default();
    let kind = builder.kind(&[]).unwrap();
    for name in ["one", "two"] {
        let organization = builder.organization(name).unwrap();
        let repository = builder.repository(organization, "r").unwrap();
        let lane = builder.lane(kind, 0, repository, Class::Normal);
        for _ in 0..3_000 {
            builder.job(0, 60_000, lane).unwrap();
        }
    }
    let mut load = builder.build();
    load.organization_mut("two").unwrap().shares = 200;
    let fleet = Fleet::for_load(&load, 30).unwrap();
    let (_, report) = run(&load, &fleet, FAIR);
    assert!(report.jain > 0.999, "{}", report.jain);
    let [one, two] = [&report.organizations[0], &report.organizations[1]];
    assert!(two.wait.mean < one.wait.mean * 0.8, "{report:?}");
}

/// S8, S19
#[test]
fn who_waits_in_person_does_not_wait_long() {
    let (load, fleet) = generated(Shape::Steady, 1.3);
    let mean = |policy, priority| {
        let (outcome, _) = run(&load, &fleet, policy);
        let jobs = load.jobs.iter().zip(outcome.started);
        let jobs = jobs.filter(|(job, _)| load.lanes[job.lane as usize].priority == priority);
        let waits: Vec<i64> = jobs.map(|(job, start)| start - job.submitted).collect();
        numbers::float(waits.iter().sum()) / numbers::count(waits.len())
    };
    for policy in queue::Policy::ALL {
        let policy = Policy::Real(policy);
        assert!(mean(policy, 100) < mean(policy, 0) / 5.0, "{policy}");
    }
}

#[test]
fn jobs_that_nobody_can_do_are_named() {
    let check = |labels: &[&str], expect: &str| {
        let mut builder = LoadBuilder::default();
        let organization = builder.organization("o").unwrap();
        let repository = builder.repository(organization, "r").unwrap();
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let kind = builder.kind(&labels).unwrap();
        let lane = builder.lane(kind, 0, repository, Class::Normal);
        builder.job(0, 1, lane).unwrap();
        let load = builder.build();
        let linux = Pool::new(&["linux".to_owned()], 1).unwrap();
        let nobody = Pool::new(&labels, 0).unwrap();
        let error = Fleet::new(vec![linux, nobody], &load).unwrap_err().to_string();
        assert_eq!(error, expect);
    };
    check(&["gpu"], "jobs for `gpu` would wait for ever: no runner has the label `gpu`");
    let (load, _) = generated(Shape::Steady, 1.0);
    let error = Fleet::for_load(&load, 2).unwrap_err().to_string();
    assert!(error.starts_with("2 runners are too few for 3 different sets"), "{error}");
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let load = Load::default();
    let fleet = Fleet::for_load(&load, 5).unwrap();
    for policy in Policy::ALL {
        let (_, report) = run(&load, &fleet, policy);
        assert_eq!((report.jobs, report.wait), (0, Waits::default()));
        assert!((report.jain - 1.0).abs() < 1e-9 && report.utilization.abs() < 1e-9);
    }
}
