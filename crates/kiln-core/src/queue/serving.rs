//! Which queues a runner can serve, and how long their jobs are left to runners that are preferred.
//!
//! A preference list needs no timer: a runner of a later entry may take a job once it has waited long
//! enough, and that is a comparison with its place in the queue.

use std::time::Duration;

use crate::id::QueueId;
use crate::plan::Preference;

use super::matching::matches;
use super::requirements::{Capabilities, Offer, Requirements};

/// A queue that a runner can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serving {
    pub queue: QueueId,
    /// How long a job waits before this runner may take it.
    pub delay: Duration,
}

impl From<QueueId> for Serving {
    fn from(queue: QueueId) -> Self {
        Self { queue, delay: Duration::ZERO }
    }
}

impl Serving {
    /// In milliseconds, as keys are.
    pub(super) fn millis(&self) -> i64 {
        i64::try_from(self.delay.as_millis()).unwrap_or(i64::MAX)
    }
}

/// How long a job must have waited before the runner may take it: nothing when it can never, zero when
/// it is among the first that are preferred, and the sum of all patience when it is not preferred.
pub fn serves(requirements: &Requirements, capabilities: &Capabilities) -> Option<Duration> {
    if !matches(requirements, capabilities) {
        return None;
    }
    let mut delay = Duration::ZERO;
    for entry in &requirements.demand().prefer {
        if is_preferred(entry, capabilities.offer()) {
            break;
        }
        delay += Duration::from_secs(entry.after_seconds.into());
    }
    Some(delay)
}

/// The queues that a runner can serve.
pub fn serving(queues: &[(QueueId, Requirements)], capabilities: &Capabilities) -> Vec<Serving> {
    let serving = |(queue, requirements): &(QueueId, Requirements)| {
        let delay = serves(requirements, capabilities)?;
        Some(Serving { queue: *queue, delay })
    };
    queues.iter().filter_map(serving).collect()
}

/// Both sides are in the form of [`Requirements`]: labels in lower case, sorted.
fn is_preferred(entry: &Preference, has: &Offer) -> bool {
    entry.labels.iter().all(|label| has.labels.binary_search(label).is_ok())
        && entry.pool.as_ref().is_none_or(|pool| has.pool.as_ref() == Some(pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Demand;

    fn words(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn entry(labels: &str, pool: Option<&str>, after_seconds: u32) -> Preference {
        Preference { labels: words(labels), pool: pool.map(str::to_owned), after_seconds }
    }

    fn needs(labels: &str, prefer: Vec<Preference>) -> Requirements {
        Requirements::new(Demand { labels: words(labels), prefer, ..Demand::default() }).unwrap()
    }

    fn runner(labels: &str, pool: &str) -> Capabilities {
        let (labels, pool) = (words(labels), Some(pool.to_owned()));
        Capabilities::new(Offer { labels, pool, ..Offer::default() }).unwrap()
    }

    /// S20
    #[test]
    fn each_entry_adds_its_patience_for_those_behind_it() {
        let list = needs(
            "linux",
            vec![entry("Warm", None, 60), entry("spot", Some("cheap"), 15), entry("", None, 0)],
        );
        let check = |labels, pool, expect: Option<u64>| {
            let delay = serves(&list, &runner(labels, pool));
            assert_eq!(delay, expect.map(Duration::from_secs), "{labels} in {pool}");
        };
        check("linux warm spot", "cheap", Some(0));
        check("linux WARM", "big", Some(0));
        check("linux spot", "cheap", Some(60));
        check("linux spot", "big", Some(75));
        check("linux", "cheap", Some(75));
        check("warm", "big", None);
        assert_eq!(serves(&needs("linux", vec![]), &runner("linux", "p")), Some(Duration::ZERO));
    }

    /// S20
    #[test]
    fn a_runner_serves_the_queues_whose_requirements_it_meets() {
        let queues = [
            (QueueId(1), needs("linux", vec![])),
            (QueueId(2), needs("gpu", vec![])),
            (QueueId(3), needs("linux", vec![entry("gpu", None, 30)])),
        ];
        let later = Serving { queue: QueueId(3), delay: Duration::from_secs(30) };
        assert_eq!(serving(&queues, &runner("linux", "p")), [QueueId(1).into(), later]);
        assert_eq!(serving(&queues, &runner("mac", "p")), []);
    }

    /// S20: a list as long and patient as can be does no harm.
    #[test]
    fn patience_adds_up_without_end() {
        let list = needs("linux", vec![entry("warm", None, u32::MAX); 16]);
        let delay = serves(&list, &runner("linux", "p")).unwrap();
        assert_eq!(delay.as_secs(), 16 * u64::from(u32::MAX));
        assert!(Serving { queue: QueueId(1), delay }.millis() > 0);
    }
}
