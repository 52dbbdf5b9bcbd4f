//! How much one address may ask, and how often it may fail to say who it is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::Instant;

use crate::config::Limits;
use crate::http::error::Failure;

const MINUTE: Duration = Duration::from_mins(1);
/// When there are more addresses than this, those of earlier minutes are forgotten.
const ADDRESSES: usize = 10_000;

/// Counts for each address, minute by minute.
#[derive(Debug)]
pub(crate) struct Rates {
    requests: u32,
    failed_logins: u32,
    addresses: Mutex<HashMap<IpAddr, Count>>,
}

/// What an address may still ask in this minute; handlers find it among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) limit: u32,
    pub(crate) used: u32,
    /// Until the next minute begins.
    pub(crate) seconds: u64,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    requests: u32,
    failed_logins: u32,
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { requests, failed_logins, .. } = *limits;
        Self { requests, failed_logins, addresses: Mutex::default() }
    }

    /// Refuses an address that asked too much in this minute. Who never failed costs nothing unless all
    /// requests are counted.
    pub(crate) fn admit(&self, address: IpAddr, now: Instant) -> Result<Option<Budget>, Failure> {
        if self.requests > 0 {
            self.count(address, now, |count| count.requests += 1);
        }
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = addresses.get(&address) else { return Ok(None) };
        let left = MINUTE.saturating_sub(now.duration_since(count.since));
        if left.is_zero() {
            return Ok(None);
        }
        let seconds = left.as_secs().max(1);
        if self.requests > 0 && count.requests > self.requests {
            let detail = format!("more than {} requests in a minute", self.requests);
            return Err(Failure::too_many(seconds, detail));
        }
        if self.failed_logins > 0 && count.failed_logins >= self.failed_logins {
            let detail = "too many requests from this address failed to say who makes them";
            return Err(Failure::too_many(seconds, detail));
        }
        let budget = Budget { limit: self.requests, used: count.requests, seconds };
        Ok(Some(budget).filter(|_| self.requests > 0))
    }

    pub(crate) fn answered(&self, address: IpAddr, now: Instant, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED && self.failed_logins > 0 {
            self.count(address, now, |count| count.failed_logins += 1);
        }
    }

    fn count(&self, address: IpAddr, now: Instant, add: impl Fn(&mut Count)) {
        let new = Count { since: now, requests: 0, failed_logins: 0 };
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= ADDRESSES && !addresses.contains_key(&address) {
            addresses.retain(|_, count| now.duration_since(count.since) < MINUTE);
            if addresses.len() >= ADDRESSES {
                addresses.clear();
            }
        }
        let count = addresses.entry(address).or_insert(new);
        if now.duration_since(count.since) >= MINUTE {
            *count = new;
        }
        add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn rates(requests: u32, failed_logins: u32) -> Rates {
        let limits = Config::in_folder(std::path::Path::new("/")).limits;
        Rates::new(&Limits { requests, failed_logins, ..limits })
    }

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn who_guesses_tokens_is_stopped_for_a_minute_and_others_are_not() {
        let (rates, now) = (rates(0, 3), Instant::now());
        for _ in 0..3 {
            assert!(rates.admit(ONE, now).is_ok());
            rates.answered(ONE, now, StatusCode::UNAUTHORIZED);
            rates.answered(TWO, now, StatusCode::NOT_FOUND);
        }
        assert_eq!(rates.admit(ONE, now).unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(rates.admit(TWO, now).is_ok());
        assert!(rates.admit(ONE, now + MINUTE).is_ok());
    }

    #[test]
    fn requests_are_counted_where_that_is_wanted() {
        let (rates, now) = (rates(2, 0), Instant::now());
        assert!(rates.admit(ONE, now).is_ok() && rates.admit(ONE, now).is_ok());
        assert!(rates.admit(ONE, now).is_err() && rates.admit(TWO, now).is_ok());
        assert!(rates.admit(ONE, now + MINUTE).is_ok());
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory() {
        let (rates, now) = (rates(1, 0), Instant::now());
        for at in 0..20_000_u32 {
            assert!(rates.admit(IpAddr::V4(at.into()), now).is_ok());
        }
        assert!(rates.addresses.lock().unwrap().len() <= ADDRESSES);
    }
}
