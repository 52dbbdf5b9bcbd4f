//! Why a job waits, and for how long yet, in words that people understand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use super::usage::sane;

/// A runner that is there and could take the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// How long the job is left to runners that are preferred to this one.
    pub delay: Duration,
    pub slots: u32,
    /// How many jobs it has.
    pub busy: u32,
}

impl Candidate {
    fn is_free(&self) -> bool {
        self.busy < self.slots
    }
}

/// What is known about a waiting job. Times are in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Standing<'a> {
    pub now: i64,
    pub queued_at: i64,
    /// Who paused the server, its repository, or its queue, and why.
    pub server_paused: Option<&'a str>,
    pub repo_paused: Option<&'a str>,
    pub queue_paused: Option<&'a str>,
    /// How many jobs its organization may have, when it has as many.
    pub limit_reached: Option<u32>,
    pub candidates: &'a [Candidate],
    /// How many runners could take it if they were there.
    pub away: usize,
    /// Why no runner could take it, if none could; see [`why_nobody`](super::why_nobody).
    pub nobody: Option<String>,
    /// How many jobs are likely to be handed out before it, plus one.
    pub position: u64,
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    ServerPaused(String),
    RepositoryPaused(String),
    QueuePaused(String),
    LimitReached(u32),
    /// In words, why no runner can take it.
    NoRunner(String),
    /// So many runners could take it, and are not there.
    Away(usize),
    /// So many runners could take it, and have their hands full.
    Busy(usize),
    /// A runner is free, but those that the job prefers have it to themselves until then.
    Preferred(i64),
    First,
    /// So many jobs are likely to be handed out before it.
    Behind(u64),
}

/// The first thing that keeps a job from being handed out.
pub fn explain(standing: &Standing<'_>) -> Reason {
    let paused =
        |who: Option<&str>, reason: fn(String) -> Reason| who.map(str::to_owned).map(reason);
    paused(standing.server_paused, Reason::ServerPaused)
        .or_else(|| paused(standing.repo_paused, Reason::RepositoryPaused))
        .or_else(|| paused(standing.queue_paused, Reason::QueuePaused))
        .or_else(|| standing.limit_reached.map(Reason::LimitReached))
        .or_else(|| runners(standing))
        .unwrap_or_else(|| match standing.position.saturating_sub(1) {
            0 => Reason::First,
            before => Reason::Behind(before),
        })
}

/// What keeps the runners from taking it.
fn runners(standing: &Standing<'_>) -> Option<Reason> {
    if standing.candidates.is_empty() {
        return Some(match (standing.away, &standing.nobody) {
            (0, Some(nobody)) => Reason::NoRunner(nobody.clone()),
            (0, None) => Reason::NoRunner("no runner is there".to_owned()),
            (away, _) => Reason::Away(away),
        });
    }
    let free = standing.candidates.iter().filter(|candidate| candidate.is_free());
    let ripe = free.map(|candidate| {
        let delay = i64::try_from(candidate.delay.as_millis()).unwrap_or(i64::MAX);
        standing.queued_at.saturating_add(delay)
    });
    match ripe.min() {
        None => Some(Reason::Busy(standing.candidates.len())),
        Some(from) if from > standing.now => Some(Reason::Preferred(from)),
        Some(_) => None,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerPaused(why) => write!(f, "the server is paused ({why})"),
            Self::RepositoryPaused(why) => write!(f, "the repository is paused ({why})"),
            Self::QueuePaused(why) => write!(f, "its queue is paused ({why})"),
            Self::LimitReached(1) => f.write_str("the organization is at its limit of 1 job"),
            Self::LimitReached(limit) => {
                write!(f, "the organization is at its limit of {limit} jobs")
            }
            Self::NoRunner(why) => f.write_str(why),
            Self::Away(1) => f.write_str("the only runner that could take it is offline"),
            Self::Away(count) => write!(f, "all {count} runners that could take it are offline"),
            Self::Busy(1) => f.write_str("the only runner that could take it is busy"),
            Self::Busy(count) => write!(f, "all {count} runners that could take it are busy"),
            Self::Preferred(until) => {
                write!(f, "waits for a preferred runner until {} UTC", Clock(*until))
            }
            Self::First => f.write_str("first in line"),
            Self::Behind(1) => f.write_str("1 job is before it"),
            Self::Behind(count) => write!(f, "{count} jobs are before it"),
        }
    }
}

/// The time of day.
struct Clock(i64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000).rem_euclid(24 * 60 * 60);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// In how many seconds each of these jobs will start, one after the other, each on the slot that is free
/// first. `free` says for each slot in how many seconds that is; nothing starts without one.
pub fn forecast(free: &[f64], jobs: impl IntoIterator<Item = f64>) -> Vec<f64> {
    // Numbers that are not negative are ordered as their bits are.
    let mut slots: BinaryHeap<Reverse<u64>> =
        free.iter().map(|&seconds| Reverse(sane(seconds).to_bits())).collect();
    let mut starts = Vec::new();
    for takes in jobs {
        let Some(Reverse(slot)) = slots.pop() else { break };
        let start = f64::from_bits(slot);
        starts.push(start);
        slots.push(Reverse((start + sane(takes)).to_bits()));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(delay: u64, slots: u32, busy: u32) -> Candidate {
        Candidate { delay: Duration::from_secs(delay), slots, busy }
    }

    /// Noon of some day.
    const NOON: i64 = 1_000 * 24 * 60 * 60 * 1000 + 12 * 60 * 60 * 1000;

    /// A job that came a minute ago, and that one runner could take at once.
    fn standing(candidates: &[Candidate]) -> Standing<'_> {
        Standing {
            now: NOON,
            queued_at: NOON - 60_000,
            candidates,
            position: 1,
            ..Standing::default()
        }
    }

    /// S16, S22
    #[test]
    fn each_reason_has_a_sentence_and_the_first_one_counts() {
        let free = [candidate(0, 1, 0)];
        let check = |standing: Standing<'_>, expect: &str| {
            assert_eq!(explain(&standing).to_string(), expect);
        };
        let limit_reached = Some(4);
        let queue_paused = Some("ann: new disks");
        let repo_paused = Some("bob: a move");
        let server_paused = Some("cy: upgrade");
        let all =
            Standing { server_paused, repo_paused, queue_paused, limit_reached, ..standing(&[]) };
        check(all.clone(), "the server is paused (cy: upgrade)");
        let all = Standing { server_paused: None, ..all };
        check(all.clone(), "the repository is paused (bob: a move)");
        let all = Standing { repo_paused: None, ..all };
        check(all.clone(), "its queue is paused (ann: new disks)");
        let all = Standing { queue_paused: None, ..all };
        check(all.clone(), "the organization is at its limit of 4 jobs");
        let one = Some(1);
        check(
            Standing { limit_reached: one, ..all.clone() },
            "the organization is at its limit of 1 job",
        );
        let all = Standing { limit_reached: None, ..all };
        check(all.clone(), "no runner is there");
        let nobody = Some("no runner has the label `gpu`".to_owned());
        check(Standing { nobody: nobody.clone(), ..all.clone() }, "no runner has the label `gpu`");
        check(Standing { away: 1, ..all.clone() }, "the only runner that could take it is offline");
        check(Standing { away: 3, ..all.clone() }, "all 3 runners that could take it are offline");
        check(standing(&[candidate(0, 2, 2)]), "the only runner that could take it is busy");
        let busy = [candidate(0, 1, 1), candidate(90, 2, 3)];
        check(standing(&busy), "all 2 runners that could take it are busy");
        let later = [candidate(0, 1, 1), candidate(90, 2, 1), candidate(600, 1, 0)];
        check(standing(&later), "waits for a preferred runner until 12:00:30 UTC");
        let ripe = [candidate(60, 1, 0)];
        check(standing(&ripe), "first in line");
        check(Standing { nobody, ..standing(&free) }, "first in line");
        check(Standing { position: 2, ..standing(&free) }, "1 job is before it");
        check(Standing { position: 8, ..standing(&free) }, "7 jobs are before it");
    }

    #[test]
    fn times_are_those_of_a_day() {
        let check = |millis, expect| assert_eq!(Clock(millis).to_string(), expect);
        check(0, "00:00:00");
        check(NOON + 3_661_999, "13:01:01");
        check(-1000, "23:59:59");
        check(i64::MAX, &Clock(i64::MAX).to_string());
    }

    /// S16
    #[test]
    fn jobs_start_on_the_slot_that_is_free_first() {
        let check = |free: &[f64], jobs: &[f64], expect: &[f64]| {
            assert_eq!(forecast(free, jobs.iter().copied()), expect);
        };
        check(&[], &[10.0], &[]);
        check(&[0.0], &[10.0, 20.0, 5.0], &[0.0, 10.0, 30.0]);
        check(&[30.0, 0.0], &[10.0, 10.0, 10.0, 10.0], &[0.0, 10.0, 20.0, 30.0]);
        check(&[f64::NAN, -5.0], &[f64::INFINITY, 1.0, 1.0], &[0.0, 0.0, 0.0]);
    }
}
