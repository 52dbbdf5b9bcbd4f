//! The choice of jobs for a batch of claims, exact and without reading whole queues.
//!
//! The caller asks [`Picker::next`] until it is done, and answers [`Next::Fetch`] with the heads of
//! the lanes named there. Lanes whose heads are unknown are taken at their best: while such a lane
//! could hold the next job, its heads are asked for, and nothing is chosen. Every choice is charged at
//! once, so a batch is shared out as single claims would be.
//!
//! Askers that may take the same lanes form a group. Groups are served one after another, the one
//! with the fewest lanes first: what only few can do is not left over when others could have done
//! something else. Within a group each asker gets one job in turn, so that work spreads over runners; of
//! those whose turn has not come yet, one that has worked for the job's repository is preferred. That
//! changes who gets a job, never which jobs are chosen.
//!
//! A lane may be open to an asker only for jobs that have waited for a time. First in, first out: when the
//! head of a lane has not, nothing behind it has.

mod book;
mod group;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use indexmap::IndexSet;

use crate::id::{JobId, LaneId, OrgId, QueueId, RepoId};

use super::class::{Class, HeadStarts};
use super::policy::Policy;
use super::serving::Serving;
use super::usage::estimate;
use book::Book;
use group::Group;

/// The jobs of one repository, class and priority in one queue, first in, first out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    pub id: LaneId,
    pub queue: QueueId,
    pub priority: i64,
    pub org: OrgId,
    pub repo: RepoId,
    pub class: Class,
}

/// What an organization may have and has had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrgShare {
    pub shares: u32,
    /// Seconds, already decayed to now.
    pub consumed: f64,
    pub running: u32,
    /// How many of its jobs may run; none means any number.
    pub limit: Option<u32>,
}

impl Default for OrgShare {
    fn default() -> Self {
        Self { shares: 100, consumed: 0.0, running: 0, limit: None }
    }
}

/// What a repository may have and has had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepoShare {
    pub shares: u32,
    /// Seconds, already decayed to now.
    pub consumed: f64,
    /// Seconds that a claim is charged in advance; see [`estimate`].
    pub estimate: f64,
    /// With these the keys of its jobs were made.
    pub head_starts: HeadStarts,
}

impl Default for RepoShare {
    fn default() -> Self {
        Self {
            shares: 100,
            consumed: 0.0,
            estimate: estimate(None),
            head_starts: HeadStarts::default(),
        }
    }
}

/// A runner that waits for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Queues whose requirements it meets.
    pub queues: Vec<Serving>,
    /// Whose jobs it takes; a shared runner takes all.
    pub org: Option<OrgId>,
    pub want: u32,
    /// Repositories that it has worked for lately: their files may still be there.
    pub warm: Vec<RepoId>,
}

/// A waiting job at the front of its lane, with what the store needs to claim it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<T> {
    pub key: i64,
    pub job: JobId,
    pub payload: T,
}

/// Everything that the choice depends on. Organizations and repositories that are not named have the
/// default shares and have used nothing.
#[derive(Debug, Clone)]
pub struct Batch {
    pub now: i64,
    pub policy: Policy,
    pub lanes: Vec<Lane>,
    pub orgs: HashMap<OrgId, OrgShare>,
    pub repos: HashMap<RepoId, RepoShare>,
    pub askers: Vec<Asker>,
}

/// A job for an asker.
#[derive(Debug, Clone, PartialEq)]
pub struct Pick<T> {
    /// Its place in [`Batch::askers`].
    pub asker: usize,
    pub lane: LaneId,
    pub head: Head<T>,
    /// Seconds charged to its repository and organization.
    pub estimate: f64,
}

/// What the picker says.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<T> {
    Pick(Pick<T>),
    /// It needs the next heads of these lanes: the first one surely, the others likely. Never empty.
    Fetch(Vec<LaneId>),
    Done,
}

/// How many lanes it asks for at once.
const LANES_AT_ONCE: usize = 256;

/// How many repositories it asks about at least: a lane may turn out to be empty.
const LIKELY_AT_LEAST: usize = 4;

/// For how many groups it looks ahead.
const GROUPS_AHEAD: usize = 16;

/// Bounds of how many heads are asked for from one lane.
const SMALLEST_PIECE: usize = 4;
const LARGEST_PIECE: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Picker<T> {
    book: Book<T>,
    /// Those that are not served yet, in the order in which they will be.
    groups: VecDeque<Group>,
    /// Which askers have worked for a repository.
    warm: HashMap<RepoId, HashSet<usize>>,
    /// How many jobs those wanted for whom there was none.
    unserved: usize,
    /// From when on there may be a job for those who got too few.
    again: HashMap<usize, i64>,
}

impl<T> Picker<T> {
    pub fn new(mut batch: Batch) -> Self {
        let askers = mem::take(&mut batch.askers);
        let book = Book::new(batch);
        let groups = group::grouped(&askers, &book).into();
        let mut warm: HashMap<RepoId, HashSet<usize>> = HashMap::new();
        for (number, asker) in askers.iter().enumerate() {
            for repo in &asker.warm {
                warm.entry(*repo).or_default().insert(number);
            }
        }
        Self { book, groups, warm, unserved: 0, again: HashMap::new() }
    }

    /// The next job, or what must be known to name it. Without an answer it asks for the same again.
    #[expect(clippy::should_implement_trait, reason = "no iterator: it is given heads in between")]
    pub fn next(&mut self) -> Next<T> {
        while let Some(group) = self.groups.front_mut() {
            let best =
                if group.is_served() { None } else { group.lanes(&self.book).best(&self.book) };
            let Some(lane) = best else {
                self.dismiss();
                continue;
            };
            let Some((head, estimate)) = self.book.take(lane) else {
                return Next::Fetch(self.likely());
            };
            let lane = self.book.lane(lane);
            let asker = group.turn(self.warm.get(&lane.repo));
            return Next::Pick(Pick { asker, lane: lane.id, head, estimate });
        }
        Next::Done
    }

    /// There is nothing more for the first group, now.
    fn dismiss(&mut self) {
        let Some(mut group) = self.groups.pop_front() else { return };
        self.unserved += group.wanted();
        if group.wanted() > 0
            && let Some(at) = group.lanes(&self.book).ripens(&self.book)
        {
            self.again.extend(group.askers().map(|asker| (asker, at)));
        }
    }

    /// When an asker that got too few may take a job that waits for somebody else until then.
    pub fn again(&self, asker: usize) -> Option<i64> {
        self.again.get(&asker).copied()
    }

    /// Adds the next heads of a lane, in the order of key and job, after those it already has.
    /// `exhausted` says that no more follow; so does a piece without heads.
    pub fn heads(&mut self, lane: LaneId, heads: Vec<Head<T>>, exhausted: bool) {
        self.book.heads(lane, heads, exhausted);
    }

    /// The last head that was given for a lane: the next piece begins behind it.
    pub fn last(&self, lane: LaneId) -> Option<(i64, JobId)> {
        self.book.last(lane)
    }

    /// How many jobs are still wanted.
    pub fn wanted(&self) -> usize {
        self.unserved + self.groups.iter().map(Group::wanted).sum::<usize>()
    }

    /// How many heads of each lane to bring when so many lanes are asked for: twice what an even choice
    /// would take.
    pub fn piece(&self, lanes: usize) -> usize {
        (2 * self.wanted() / lanes.max(1)).clamp(SMALLEST_PIECE, LARGEST_PIECE)
    }

    /// Lanes without heads that the next choices will probably look at, the needed one first.
    fn likely(&mut self) -> Vec<LaneId> {
        let mut found = IndexSet::new();
        for group in self.groups.iter_mut().take(GROUPS_AHEAD) {
            let picks = group.wanted().max(LIKELY_AT_LEAST);
            group.lanes(&self.book).likely(&self.book, picks, LANES_AT_ONCE, &mut found);
        }
        found.into_iter().map(|lane| self.book.lane(lane).id).collect()
    }
}
