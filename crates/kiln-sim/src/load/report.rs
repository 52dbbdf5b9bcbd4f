//! How long who waited, and how even that was.

use serde::Serialize;

use super::fairness::{Part, jain};
use super::fleet::Fleet;
use super::jobs::Load;
use super::numbers::{count, float, seconds};
use super::policy::Policy;
use super::simulate::Outcome;

/// Waiting times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Waits {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrganizationReport {
    pub name: String,
    pub jobs: usize,
    /// Seconds that runners worked for it.
    pub work: f64,
    pub wait: Waits,
    /// How many runners it had while there were too few, compared with an even division: 1 is what it
    /// was due. Nothing when there were always enough.
    pub of_its_share: Option<f64>,
}

/// What a policy made of a load. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    #[serde(serialize_with = "word")]
    pub policy: Policy,
    pub jobs: usize,
    pub wait: Waits,
    /// Jain's index of what organizations had of their shares: 1 is even.
    pub jain: f64,
    /// From the first submission to the last end.
    pub makespan: f64,
    /// How much of that time runners worked: 1 is always.
    pub utilization: f64,
    pub organizations: Vec<OrganizationReport>,
    /// The wait that 0, 0.5, 1 … 100 percent of the jobs did not exceed.
    #[serde(skip)]
    pub curve: Vec<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn word<S: serde::Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(policy.word())
}

impl Report {
    pub fn new(load: &Load, fleet: &Fleet, policy: Policy, outcome: &Outcome) -> Self {
        let jobs = load.jobs.iter().zip(&outcome.started);
        let mut waits: Vec<i64> = jobs.clone().map(|(job, start)| start - job.submitted).collect();
        waits.sort_unstable();
        let end = jobs.map(|(job, start)| start + i64::from(job.millis)).max();
        let makespan = load.span().zip(end).map_or(0, |((first, _), end)| end - first);
        let possible = float(makespan) * f64::from(fleet.runners());
        let organizations = organizations(load, outcome);
        Self {
            policy,
            jobs: load.jobs.len(),
            wait: Waits::of(&waits),
            jain: jain(organizations.iter().filter_map(|organization| organization.of_its_share)),
            makespan: seconds(makespan),
            utilization: if possible > 0.0 { float(load.work()) / possible } else { 0.0 },
            organizations,
            curve: curve(&waits),
        }
    }
}

fn organizations(load: &Load, outcome: &Outcome) -> Vec<OrganizationReport> {
    let mut waits = vec![Vec::new(); load.organizations.len()];
    let mut work = vec![0_i64; load.organizations.len()];
    for (job, start) in load.jobs.iter().zip(&outcome.started) {
        let organization = load.lanes[job.lane as usize].organization as usize;
        waits[organization].push(start - job.submitted);
        work[organization] += i64::from(job.millis);
    }
    let report = |(number, mut waits): (usize, Vec<i64>)| {
        waits.sort_unstable();
        OrganizationReport {
            name: load.organizations[number].name.clone(),
            jobs: waits.len(),
            work: seconds(work[number]),
            wait: Waits::of(&waits),
            of_its_share: of_its_share(&outcome.parts[number]),
        }
    };
    waits.into_iter().enumerate().map(report).collect()
}

fn of_its_share(part: &Part) -> Option<f64> {
    (part.due > 0.0).then(|| part.got / part.due)
}

impl Waits {
    /// Of milliseconds that are sorted.
    fn of(sorted: &[i64]) -> Self {
        let Some(&max) = sorted.last() else { return Self::default() };
        Self {
            mean: seconds(sorted.iter().sum()) / count(sorted.len()),
            p50: seconds(percentile(sorted, 500)),
            p95: seconds(percentile(sorted, 950)),
            p99: seconds(percentile(sorted, 990)),
            max: seconds(max),
        }
    }
}

/// The least value that so many of a thousand values do not exceed.
fn percentile(sorted: &[i64], permille: usize) -> i64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn curve(sorted: &[i64]) -> Vec<f64> {
    (0..=1000).step_by(5).map(|permille| seconds(percentile(sorted, permille))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// S19
    #[test]
    fn percentiles_are_those_of_counting() {
        let mut random = Random::new(5);
        for length in [1, 2, 3, 19, 20, 21, 99, 100, 101, 1000] {
            let mut values: Vec<i64> =
                (0..length).map(|_| i64::try_from(random.below(50)).unwrap()).collect();
            values.sort_unstable();
            for percent in [1, 50, 95, 99, 100] {
                // The least value such that at least so many percent are not above it.
                let counted = values.iter().find(|&&value| {
                    let below = values.iter().filter(|&&other| other <= value).count();
                    below * 100 >= percent * values.len()
                });
                let found = percentile(&values, percent * 10);
                assert_eq!(Some(&found), counted, "{percent} % of {values:?}");
            }
        }
        assert_eq!(percentile(&[], 500), 0);
        assert_eq!(Waits::of(&[]), Waits::default());
    }

    #[test]
    fn a_mean_counts_every_wait() {
        let waits = Waits::of(&[0, 0, 1_000, 3_000]);
        assert!((waits.mean - 1.0).abs() < 1e-9 && (waits.max - 3.0).abs() < 1e-9);
        assert!((waits.p50 - 0.0).abs() < 1e-9 && (waits.p95 - 3.0).abs() < 1e-9);
    }
}
