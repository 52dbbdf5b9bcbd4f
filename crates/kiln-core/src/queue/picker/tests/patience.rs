//! Jobs that wait for runners that are preferred, and when others may have them.

use super::*;

const SECOND: i64 = 1000;

fn later(queue: i64, seconds: u64) -> Serving {
    Serving { queue: QueueId(queue), delay: Duration::from_secs(seconds) }
}

/// One lane with jobs that have waited for so many seconds.
fn waited(class: Class, seconds: &[i64], askers: Vec<Asker>) -> (Batch, Waiting) {
    let (mut batch, _) = even(1, 1, 0, 0);
    batch.lanes[0].class = class;
    batch.askers = askers;
    let start = HeadStarts::default().of(class);
    let jobs = seconds.iter().zip(1..).map(|(ago, job)| (NOW - ago * SECOND - start, JobId(job)));
    (batch, BTreeMap::from([(LaneId(0), jobs.collect())]))
}

/// S20
#[test]
fn a_job_waits_for_those_who_are_preferred() {
    for class in Class::ALL {
        let check = |seconds: &[i64], delay, expect: &[i64]| {
            let who = Asker { queues: vec![later(1, delay)], ..asker(&[], 5) };
            let (batch, waiting) = waited(class, seconds, vec![who]);
            for policy in Policy::ALL {
                let given = serve(Batch { policy, ..batch.clone() }, &waiting, 1).given;
                let jobs: Vec<_> = given.iter().map(|&(.., job)| job.0).collect();
                assert_eq!(jobs, expect, "{class:?} {policy:?}");
            }
        };
        check(&[29, 28], 30, &[]);
        check(&[30, 29], 30, &[1]);
        check(&[90, 31, 2, 1], 30, &[1, 2]);
        check(&[2, 1], 0, &[1, 2]);
    }
}

/// S20: it looks at the heads of such lanes, not at all that is behind them.
#[test]
fn what_waits_for_others_is_not_read_through() {
    let who = Asker { queues: vec![later(1, 30)], ..asker(&[], 5) };
    let (batch, waiting) = waited(Class::Normal, &[5; 500], vec![who]);
    let outcome = serve(batch, &waiting, 4);
    assert_eq!((outcome.given.len(), outcome.rounds, outcome.heads_read), (0, 1, 4));
}

/// S20: when both may have it, it goes to the one that the job prefers, whoever asked first.
#[test]
fn the_preferred_runner_comes_first_also_later() {
    let second = Asker { queues: vec![later(1, 30)], ..asker(&[], 1) };
    let (batch, waiting) = waited(Class::Normal, &[60], vec![second, asker(&[1], 1)]);
    assert_eq!(serve(batch, &waiting, 4).given, [(1, LaneId(0), JobId(1))]);
}

/// S20
#[test]
fn who_gets_nothing_hears_when_to_ask_again() {
    let third = Asker { queues: vec![later(1, 90)], ..asker(&[], 1) };
    let second = Asker { queues: vec![later(1, 30)], ..asker(&[], 4) };
    let none = asker(&[2], 1);
    let askers = vec![asker(&[1], 1), second, third, none];
    let (batch, waiting) = waited(Class::Urgent, &[80, 40, 20, 10], askers);
    let mut picker = Picker::new(batch);
    let head = |&(key, job): &(i64, JobId)| Head { key, job, payload: () };
    picker.heads(LaneId(0), waiting[&LaneId(0)].iter().map(head).collect(), true);
    let mut given = Vec::new();
    while let Next::Pick(pick) = picker.next() {
        given.push((pick.asker, pick.head.job.0));
    }
    assert_eq!(given, [(0, 1), (1, 2)]);
    assert_eq!(picker.wanted(), 3 + 1 + 1);
    let again = |asker| picker.again(asker).map(|at| (at - NOW) / SECOND);
    assert_eq!([again(0), again(1), again(2), again(3)], [None, Some(10), Some(70), None]);
}
