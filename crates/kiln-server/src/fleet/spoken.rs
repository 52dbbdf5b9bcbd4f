//! What was said here under claims, so that the next word needs no look at the database.
//!
//! It is never more than a hint: the transaction that a word leads to compares claim and runner anyhow, and
//! another server may have heard more. What is not known here is looked up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::Conclusion;
use tokio::time::Instant;

/// How many claims are remembered. A server with more jobs at once asks the database now and then.
const MOST: usize = 40_000;

#[derive(Debug, Default)]
pub(super) struct Spoken(Mutex<HashMap<(JobId, u32), Known>>);

#[derive(Debug)]
struct Known {
    at: Instant,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// All up to this number was heard of this runner.
    Heard {
        runner: RunnerId,
        number: u64,
    },
    Ended(Conclusion),
}

impl Spoken {
    /// The number up to which a runner was heard under a claim, if that is known.
    pub(super) fn heard(&self, job: JobId, claim: u32, by: RunnerId) -> Option<u64> {
        match self.map().get(&(job, claim))?.what {
            What::Heard { runner, number } if runner == by => Some(number),
            _ => None,
        }
    }

    /// How a claim ended, if that was heard here.
    pub(super) fn end(&self, job: JobId, claim: u32) -> Option<Conclusion> {
        match self.map().get(&(job, claim))?.what {
            What::Ended(conclusion) => Some(conclusion),
            What::Heard { .. } => None,
        }
    }

    /// A runner was heard up to this number. What is known to be more stays.
    pub(super) fn hear(&self, job: JobId, claim: u32, runner: RunnerId, number: u64) {
        let known = self.heard(job, claim, runner);
        if self.end(job, claim).is_none() && known.is_none_or(|before| before < number) {
            self.keep(job, claim, What::Heard { runner, number });
        }
    }

    pub(super) fn ended(&self, job: JobId, claim: u32, conclusion: Conclusion) {
        self.keep(job, claim, What::Ended(conclusion));
    }

    /// Somebody was refused under this claim: what is known of it is not so any more.
    pub(super) fn forget(&self, job: JobId, claim: u32) {
        self.map().remove(&(job, claim));
    }

    fn keep(&self, job: JobId, claim: u32, what: What) {
        let at = Instant::now();
        let mut map = self.map();
        if map.len() >= MOST {
            let mut times: Vec<Instant> = map.values().map(|known| known.at).collect();
            let (_, middle, _) = times.select_nth_unstable(MOST / 2);
            let middle = *middle;
            map.retain(|_, known| known.at > middle);
        }
        map.insert((job, claim), Known { at, what });
    }

    fn map(&self) -> MutexGuard<'_, HashMap<(JobId, u32), Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(7);
    const RUNNER: RunnerId = RunnerId(1);

    #[tokio::test]
    async fn a_claim_is_known_by_what_was_said_under_it() {
        let spoken = Spoken::default();
        assert_eq!(spoken.heard(JOB, 1, RUNNER), None);
        spoken.hear(JOB, 1, RUNNER, 0);
        spoken.hear(JOB, 1, RUNNER, 3);
        spoken.hear(JOB, 1, RUNNER, 2);
        assert_eq!(spoken.heard(JOB, 1, RUNNER), Some(3), "numbers only grow");
        assert_eq!(spoken.heard(JOB, 1, RunnerId(2)), None, "another runner knows nothing");
        assert_eq!(spoken.heard(JOB, 2, RUNNER), None, "neither does another claim");
        spoken.ended(JOB, 1, Conclusion::Failure);
        spoken.hear(JOB, 1, RUNNER, 9);
        assert_eq!(spoken.heard(JOB, 1, RUNNER), None, "nothing comes after the end");
        assert_eq!(spoken.end(JOB, 1), Some(Conclusion::Failure));
        spoken.forget(JOB, 1);
        assert_eq!(spoken.end(JOB, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_half_is_forgotten_when_there_are_too_many() {
        let spoken = Spoken::default();
        for number in 0..=i64::try_from(MOST).unwrap() {
            spoken.hear(JobId(number), 1, RUNNER, 1);
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(spoken.heard(JobId(0), 1, RUNNER), None);
        assert_eq!(spoken.heard(JobId(i64::try_from(MOST).unwrap()), 1, RUNNER), Some(1));
        assert!(spoken.map().len() <= MOST / 2 + 1, "{}", spoken.map().len());
    }
}
