//! The runners: how many there are of each kind.

use std::fmt;

use kiln_core::queue::{self, Capabilities, Offer};

use super::jobs::Load;
use super::numbers::{float, whole};

/// More runners than this are refused.
const MOST_RUNNERS: u32 = 10_000_000;
const MOST_POOLS: usize = 1_000;

/// Runners that have the same labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    capabilities: Capabilities,
    count: u32,
}

impl Pool {
    pub fn new(labels: &[String], count: u32) -> Result<Self, NotAFleet> {
        let offer = Offer { labels: labels.to_vec(), ..Offer::default() };
        let capabilities =
            Capabilities::new(offer).map_err(|error| NotAFleet(error.to_string()))?;
        Ok(Self { capabilities, count })
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// In lower case, sorted.
    pub fn labels(&self) -> &[String] {
        &self.capabilities.offer().labels
    }
}

/// All runners, and which jobs of a load each can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    pools: Vec<Pool>,
    /// For each pool the kinds of jobs that it takes.
    serves: Vec<Vec<u32>>,
    /// For each kind of job the pools that take it.
    served_by: Vec<Vec<u32>>,
}

impl Fleet {
    /// Refuses a fleet in which nobody can take some of the jobs: they would wait for ever.
    pub fn new(pools: Vec<Pool>, load: &Load) -> Result<Self, NotAFleet> {
        let runners = pools.iter().map(|pool| u64::from(pool.count)).sum::<u64>();
        if runners > MOST_RUNNERS.into() || pools.len() > MOST_POOLS {
            return Err(NotAFleet(format!(
                "there are {runners} runners in {} pools; expected at most {MOST_RUNNERS} in \
                 {MOST_POOLS}",
                pools.len()
            )));
        }
        let pools: Vec<Pool> = pools.into_iter().filter(|pool| pool.count > 0).collect();
        let mut serves = vec![Vec::new(); pools.len()];
        let mut served_by = vec![Vec::new(); load.kinds.len()];
        for (kind, requirements) in load.kinds.iter().enumerate() {
            for (at, pool) in pools.iter().enumerate() {
                if queue::matches(requirements, &pool.capabilities) {
                    serves[at].push(super::numbers::number(kind));
                    served_by[kind].push(super::numbers::number(at));
                }
            }
            if served_by[kind].is_empty() {
                let runners: Vec<&Capabilities> =
                    pools.iter().map(|pool| &pool.capabilities).collect();
                let why = queue::why_nobody(requirements, &runners).unwrap_or_default();
                return Err(NotAFleet(format!(
                    "jobs for `{requirements}` would wait for ever: {why}"
                )));
            }
        }
        Ok(Self { pools, serves, served_by })
    }

    /// So many runners, divided among the kinds of jobs as their work is; each kind has one at least.
    pub fn for_load(load: &Load, runners: u32) -> Result<Self, NotAFleet> {
        let kinds = load.kinds.len();
        if (runners as usize) < kinds.max(1) {
            return Err(NotAFleet(format!(
                "{runners} runners are too few for {kinds} different sets of labels; expected at \
                 least one for each"
            )));
        }
        let mut work = vec![0_i64; kinds];
        for job in &load.jobs {
            work[load.lanes[job.lane as usize].kind as usize] += i64::from(job.millis);
        }
        let counts = divided(runners, &work);
        let pools = load.kinds.iter().zip(counts);
        let pools = pools.map(|(kind, count)| Pool::new(&kind.demand().labels, count));
        let pools = pools.collect::<Result<Vec<_>, _>>()?;
        let pools = if pools.is_empty() { vec![Pool::new(&[], runners)?] } else { pools };
        Self::new(pools, load)
    }

    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    pub fn runners(&self) -> u32 {
        self.pools.iter().map(|pool| pool.count).sum()
    }

    /// The kinds of jobs that a pool takes.
    pub fn serves(&self, pool: usize) -> &[u32] {
        &self.serves[pool]
    }

    /// The pools that take jobs of a kind.
    pub fn served_by(&self, kind: u32) -> &[u32] {
        &self.served_by[kind as usize]
    }
}

/// One for each, and the rest in proportion; what rounding leaves goes to those that lost most by it.
fn divided(runners: u32, work: &[i64]) -> Vec<u32> {
    let all = float(work.iter().sum::<i64>().max(1));
    let rest = f64::from(runners) - super::numbers::count(work.len());
    let exact: Vec<f64> = work.iter().map(|&work| float(work) / all * rest).collect();
    let mut counts: Vec<u32> =
        exact.iter().map(|&exact| 1 + u32::try_from(whole(exact)).unwrap_or(0)).collect();
    let mut order: Vec<usize> = (0..work.len()).collect();
    order.sort_by(|&left, &right| exact[right].fract().total_cmp(&exact[left].fract()));
    let given: u32 = counts.iter().sum();
    for &at in order.iter().cycle().take(runners.saturating_sub(given) as usize) {
        counts[at] += 1;
    }
    counts
}

/// Runners that cannot do the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAFleet(String);

impl fmt::Display for NotAFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAFleet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_divided_as_the_work_is() {
        let check = |runners, work: &[i64], expect: &[u32]| {
            assert_eq!(divided(runners, work), expect);
        };
        check(10, &[1], &[10]);
        check(10, &[700, 300], &[7, 3]);
        check(3, &[1_000_000, 1, 1], &[1, 1, 1]);
        check(100, &[0, 0], &[50, 50]);
        check(7, &[1, 1, 1], &[3, 2, 2]);
    }
}
