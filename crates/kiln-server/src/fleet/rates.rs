//! How much a runner may ask in a minute: buckets that fill up again.

use std::collections::HashMap;
use std::sync::Mutex;

use kiln_core::id::RunnerId;
use tokio::time::Instant;

use super::locked;

/// How much runners may ask of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Polls and heartbeats of a runner in a minute.
    pub polls: u32,
    /// Logs, events and words about jobs of a runner in a minute.
    pub uploads: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { polls: 1_200, uploads: 12_000 }
    }
}

/// What a runner does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    Poll,
    Upload,
}

/// Full buckets are forgotten when there are more than this.
const MOST: usize = 100_000;

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// The buckets of all runners of this server.
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashMap<(RunnerId, Use), Bucket>>);

impl Buckets {
    /// Takes one out, or says in how many seconds there is one.
    pub(super) fn take(
        &self,
        runner: RunnerId,
        using: Use,
        rates: Rates,
        now: Instant,
    ) -> Result<(), u64> {
        let most = f64::from(match using {
            Use::Poll => rates.polls,
            Use::Upload => rates.uploads,
        });
        let per_second = most / 60.0;
        let mut buckets = locked(&self.0);
        if buckets.len() > MOST {
            buckets.retain(|_, bucket| now.duration_since(bucket.at).as_secs() < 60);
        }
        let bucket = buckets.entry((runner, using)).or_insert(Bucket { left: most, at: now });
        let passed = now.duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * per_second).min(most);
        bucket.at = now;
        if bucket.left < 1.0 {
            let wait = ((1.0 - bucket.left) / per_second).ceil();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is between 1 and 60"
            )]
            return Err(wait.clamp(1.0, 60.0) as u64);
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// S24
    #[test]
    fn a_bucket_is_emptied_by_use_and_filled_by_time() {
        let (buckets, rates) = (Buckets::default(), Rates { polls: 60, uploads: 1 });
        let start = Instant::now();
        let poll = |runner| buckets.take(RunnerId(runner), Use::Poll, rates, start);
        for _ in 0..60 {
            assert_eq!(poll(1), Ok(()));
        }
        assert_eq!(poll(1), Err(1));
        assert_eq!(poll(2), Ok(()), "each runner has its own");
        let upload = || buckets.take(RunnerId(1), Use::Upload, rates, start);
        assert_eq!([upload(), upload()], [Ok(()), Err(60)]);
        let later = start + Duration::from_secs(2);
        let poll = || buckets.take(RunnerId(1), Use::Poll, rates, later);
        assert_eq!([poll(), poll(), poll()], [Ok(()), Ok(()), Err(1)]);
    }
}
