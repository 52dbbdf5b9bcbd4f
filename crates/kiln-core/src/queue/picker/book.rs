//! What is known while a batch is shared out: heads, charges and what runs.
//!
//! Within a batch every rank only grows: use and load grow, and lanes lose their lowest keys. The tree
//! relies on that.

use std::collections::{HashMap, VecDeque};

use crate::id::{JobId, LaneId, OrgId, RepoId};
use crate::queue::class::Class;
use crate::queue::policy::{
    Policy, Rank, by_minutes, by_org, by_priority, by_repo, by_score, charged,
};
use crate::queue::usage::{estimate, sane};

use super::{Batch, Head, Lane, OrgShare, RepoShare};

/// A node of the tree of lanes; numbers are places in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Priority(i64),
    Org(usize),
    /// Below the organization, when shares decide.
    Repo(usize),
    /// Below the organization, when the score decides.
    Class(usize, Class),
    Lane(usize),
}

#[derive(Debug)]
pub(super) struct Book<T> {
    now: i64,
    pub(super) policy: Policy,
    /// By falling priority, then by organization, then by repository or class, as the tree needs it.
    lanes: Vec<KnownLane<T>>,
    by_id: HashMap<LaneId, usize>,
    orgs: Vec<(OrgId, OrgShare)>,
    repos: Vec<(RepoId, RepoShare)>,
}

#[derive(Debug)]
struct KnownLane<T> {
    lane: Lane,
    org: usize,
    repo: usize,
    heads: VecDeque<Head<T>>,
    last: Option<(i64, JobId)>,
    exhausted: bool,
}

impl<T> Book<T> {
    pub(super) fn new(batch: Batch) -> Self {
        let Batch { now, policy, mut lanes, orgs, repos, .. } = batch;
        lanes.sort_unstable_by_key(|lane| {
            let part = match policy {
                Policy::Fair => lane.repo.0,
                Policy::Score => lane.class as i64,
            };
            (!lane.priority, lane.org, part, lane.id)
        });
        let mut book = Self {
            now,
            policy,
            lanes: Vec::with_capacity(lanes.len()),
            by_id: HashMap::with_capacity(lanes.len()),
            orgs: Vec::new(),
            repos: Vec::new(),
        };
        let (mut org_places, mut repo_places) = (HashMap::new(), HashMap::new());
        for lane in lanes {
            if book.by_id.contains_key(&lane.id) {
                // Named twice: this one would never get heads.
                continue;
            }
            book.by_id.insert(lane.id, book.lanes.len());
            let org = *org_places.entry(lane.org).or_insert_with(|| {
                book.orgs.push((lane.org, orgs.get(&lane.org).copied().unwrap_or_default()));
                book.orgs.len() - 1
            });
            let repo = *repo_places.entry(lane.repo).or_insert_with(|| {
                let share = repos.get(&lane.repo).copied().unwrap_or_default();
                let estimate = estimate(Some(share.estimate));
                book.repos.push((lane.repo, RepoShare { estimate, ..share }));
                book.repos.len() - 1
            });
            let (heads, last, exhausted) = (VecDeque::new(), None, false);
            book.lanes.push(KnownLane { lane, org, repo, heads, last, exhausted });
        }
        book
    }

    pub(super) fn lane(&self, lane: usize) -> &Lane {
        &self.lanes[lane].lane
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = (usize, &Lane)> {
        self.lanes.iter().enumerate().map(|(number, known)| (number, &known.lane))
    }

    /// The way from the root to a lane.
    pub(super) fn path(&self, lane: usize) -> [Place; 4] {
        let KnownLane { lane: Lane { priority, class, .. }, org, repo, .. } = self.lanes[lane];
        let part = match self.policy {
            Policy::Fair => Place::Repo(repo),
            Policy::Score => Place::Class(org, class),
        };
        [Place::Priority(priority), Place::Org(org), part, Place::Lane(lane)]
    }

    pub(super) fn heads(&mut self, lane: LaneId, heads: Vec<Head<T>>, exhausted: bool) {
        let Some(&lane) = self.by_id.get(&lane) else { return };
        let lane = &mut self.lanes[lane];
        lane.exhausted = lane.exhausted || exhausted || heads.is_empty();
        if let Some(head) = heads.last() {
            lane.last = Some((head.key, head.job));
        }
        lane.heads.extend(heads);
    }

    pub(super) fn last(&self, lane: LaneId) -> Option<(i64, JobId)> {
        self.by_id.get(&lane).and_then(|&lane| self.lanes[lane].last)
    }

    /// Whether its next head is known.
    pub(super) fn is_known(&self, lane: usize) -> bool {
        !self.lanes[lane].heads.is_empty()
    }

    /// Whether it must be asked for its next head.
    pub(super) fn is_unknown(&self, lane: usize) -> bool {
        self.lanes[lane].heads.is_empty() && !self.lanes[lane].exhausted
    }

    /// Takes the head of a lane and charges for it; nothing if the head is unknown.
    pub(super) fn take(&mut self, lane: usize) -> Option<(Head<T>, f64)> {
        let lane = &mut self.lanes[lane];
        let head = lane.heads.pop_front()?;
        let (_, repo) = &mut self.repos[lane.repo];
        let (_, org) = &mut self.orgs[lane.org];
        repo.consumed = sane(repo.consumed) + repo.estimate;
        org.consumed = sane(org.consumed) + repo.estimate;
        org.running = org.running.saturating_add(1);
        Some((head, repo.estimate))
    }

    /// Whether an organization may have another job.
    pub(super) fn has_room(&self, org: usize) -> bool {
        let OrgShare { running, limit, .. } = self.orgs[org].1;
        limit.is_none_or(|limit| running < limit)
    }

    /// The rank of a lane: never above that of its next job, and nothing if there is none that has
    /// waited for `delay`.
    pub(super) fn lane_rank(&self, lane: usize, delay: i64) -> Option<Rank> {
        let known = &self.lanes[lane];
        let (key, job) = match known.heads.front() {
            Some(head) => (head.key, head.job.0),
            None if known.exhausted => return None,
            None => known.last.map_or((i64::MIN, i64::MIN), |(key, job)| (key, job.0)),
        };
        if self.is_too_early(lane, key, delay) {
            return None;
        }
        Some(match self.policy {
            Policy::Fair => (0, key, job),
            Policy::Score => by_minutes(self.now, self.queued_at(lane, key), key, job),
        })
    }

    fn is_too_early(&self, lane: usize, key: i64, delay: i64) -> bool {
        delay > 0 && self.queued_at(lane, key) > self.now.saturating_sub(delay)
    }

    /// When a job with this key came into the lane.
    fn queued_at(&self, lane: usize, key: i64) -> i64 {
        let known = &self.lanes[lane];
        key.saturating_add(self.repos[known.repo].1.head_starts.of(known.lane.class))
    }

    /// When the head of a lane will have waited for `delay`, if it is known and has not yet.
    pub(super) fn ripens(&self, lane: usize, delay: i64) -> Option<i64> {
        let key = self.lanes[lane].heads.front()?.key;
        let early = self.is_too_early(lane, key, delay);
        early.then(|| self.queued_at(lane, key).saturating_add(delay))
    }

    /// The rank of a place above the lanes, given the rank of the best thing in it.
    pub(super) fn rank(&self, place: Place, best: Rank) -> Rank {
        match place {
            Place::Priority(priority) => by_priority(priority),
            Place::Org(org) if self.policy == Policy::Fair => {
                let (id, share) = &self.orgs[org];
                by_org(share.consumed, share.shares, *id)
            }
            Place::Repo(repo) => {
                let (id, share) = &self.repos[repo];
                by_repo(share.consumed, share.shares, *id)
            }
            Place::Class(org, class) => {
                let (_, share) = &self.orgs[org];
                by_score(class, share.running, share.limit, best)
            }
            Place::Root | Place::Org(_) | Place::Lane(_) => best,
        }
    }

    /// The rank that an organization will have after a job of this repository.
    pub(super) fn rank_after(&self, rank: Rank, org: usize, part: Place) -> Rank {
        match part {
            Place::Repo(repo) => {
                charged(rank, self.repos[repo].1.estimate, self.orgs[org].1.shares)
            }
            _ => rank,
        }
    }
}
