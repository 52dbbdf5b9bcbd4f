//! What was said here under claims, so that the next word needs no look at the database.
//!
//! It is never more than a hint: the transaction that a word leads to compares claim and runner anyhow, and
//! another server may have heard more. What is not known here is looked up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::Conclusion;

/// How many claims are remembered. A server with more jobs at once asks the database now and then.
const MOST: usize = 40_000;

#[derive(Debug, Default)]
pub(super) struct Spoken(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// What is known, with how often something was said before it was.
    claims: HashMap<(JobId, u32), (u64, What)>,
    said: u64,
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
        match self.what(job, claim)? {
            What::Heard { runner, number } if runner == by => Some(number),
            _ => None,
        }
    }

    /// How a claim ended, if that was heard here.
    pub(super) fn end(&self, job: JobId, claim: u32) -> Option<Conclusion> {
        match self.what(job, claim)? {
            What::Ended(conclusion) => Some(conclusion),
            What::Heard { .. } => None,
        }
    }

    /// A runner was heard up to this number. What is known to be more stays.
    pub(super) fn hear(&self, job: JobId, claim: u32, runner: RunnerId, number: u64) {
        let mut memory = self.memory();
        let is_news = match memory.claims.get(&(job, claim)) {
            Some((_, What::Ended(_))) => false,
            Some((_, What::Heard { runner: by, number: before })) => {
                *by != runner || *before < number
            }
            None => true,
        };
        if is_news {
            memory.keep(job, claim, What::Heard { runner, number });
        }
    }

    pub(super) fn ended(&self, job: JobId, claim: u32, conclusion: Conclusion) {
        self.memory().keep(job, claim, What::Ended(conclusion));
    }

    /// Somebody was refused under this claim: what is known of it is not so any more.
    pub(super) fn forget(&self, job: JobId, claim: u32) {
        self.memory().claims.remove(&(job, claim));
    }

    fn what(&self, job: JobId, claim: u32) -> Option<What> {
        self.memory().claims.get(&(job, claim)).map(|(_, what)| *what)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn keep(&mut self, job: JobId, claim: u32, what: What) {
        if self.claims.len() >= MOST {
            let mut ages: Vec<u64> = self.claims.values().map(|(at, _)| *at).collect();
            let (_, middle, _) = ages.select_nth_unstable(MOST / 2);
            let middle = *middle;
            self.claims.retain(|_, (at, _)| *at > middle);
        }
        self.said += 1;
        self.claims.insert((job, claim), (self.said, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(7);
    const RUNNER: RunnerId = RunnerId(1);

    #[test]
    fn a_claim_is_known_by_what_was_said_under_it() {
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

    #[test]
    fn the_oldest_half_is_forgotten_when_there_are_too_many() {
        let spoken = Spoken::default();
        let last = JobId(i64::try_from(MOST).unwrap());
        for number in 0..=last.0 {
            spoken.hear(JobId(number), 1, RUNNER, 1);
        }
        assert_eq!(spoken.heard(JobId(0), 1, RUNNER), None);
        assert_eq!(spoken.heard(last, 1, RUNNER), Some(1));
        assert_eq!(spoken.memory().claims.len(), MOST / 2);
    }
}
