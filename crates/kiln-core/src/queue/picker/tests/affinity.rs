//! Who gets a job of those that may have it: one that is warm for its repository, if that is fair.

use super::*;

fn jobs(given: &[Given]) -> Vec<JobId> {
    given.iter().map(|&(.., job)| job).collect()
}

fn shares(given: &[Given]) -> BTreeMap<usize, usize> {
    let mut shares = BTreeMap::new();
    for &(asker, ..) in given {
        *shares.entry(asker).or_default() += 1;
    }
    shares
}

/// How many jobs are with an asker that is warm for their repository.
fn fit(batch: &Batch, given: &[Given]) -> usize {
    let repos: HashMap<LaneId, RepoId> = batch.lanes.iter().map(|l| (l.id, l.repo)).collect();
    given.iter().filter(|(asker, lane, _)| batch.askers[*asker].warm.contains(&repos[lane])).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// S15
    #[test]
    fn affinity_changes_who_gets_a_job_and_nothing_else(
        batch in any_batch(),
        waiting in any_waiting(),
    ) {
        let mut cold = batch.clone();
        cold.askers.iter_mut().for_each(|asker| asker.warm.clear());
        let with = serve(batch.clone(), &waiting, 3).given;
        let without = serve(cold, &waiting, 3).given;
        prop_assert_eq!(jobs(&with), jobs(&without), "the same jobs in the same order");
        prop_assert!(fit(&batch, &with) >= fit(&batch, &without), "never a worse fit");
        let (most, least) = (shares(&with), shares(&without));
        // Work spreads as before: a round is a round, whoever has which turn in it.
        for (number, asker) in batch.askers.iter().enumerate() {
            let had = least.get(&number).copied().unwrap_or(0);
            let has = most.get(&number).copied().unwrap_or(0);
            prop_assert!(has.abs_diff(had) <= 1, "{number} has {has}, had {had}: {asker:?}");
        }
    }
}

/// S15
#[test]
fn a_job_goes_to_the_runner_that_worked_for_its_repository() {
    let (mut batch, waiting) = even(1, 3, 2, 0);
    let warm = |repo| Asker { warm: vec![RepoId(repo)], ..asker(&[1], 2) };
    batch.askers = vec![warm(2), warm(0), warm(1)];
    let given = serve(batch, &waiting, 3).given;
    let who: Vec<_> = given.iter().map(|&(asker, lane, _)| (asker, lane.0)).collect();
    assert_eq!(who, [(1, 0), (2, 1), (0, 2), (1, 0), (2, 1), (0, 2)]);
}

/// S15: all jobs are of one repository, and one runner is warm for it.
#[test]
fn a_warm_runner_does_not_get_more_than_its_turn() {
    let (mut batch, waiting) = even(1, 1, 4, 0);
    batch.askers = vec![asker(&[1], 2), Asker { warm: vec![RepoId(0)], ..asker(&[1], 2) }];
    let who: Vec<_> = serve(batch, &waiting, 3).given.iter().map(|given| given.0).collect();
    assert_eq!(who, [1, 0, 1, 0]);
}
