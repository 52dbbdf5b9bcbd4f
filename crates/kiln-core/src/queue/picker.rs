//! The choice of jobs for a batch of claims, exact and without reading whole queues.
//!
//! The caller asks [`Picker::next`] until it is done, and answers [`Next::Fetch`] with the heads of
//! the lanes named there. Lanes whose heads are unknown are taken at their best: while such a lane
//! could hold the next job, its heads are asked for, and nothing is chosen. Every choice is charged at
//! once, so a batch is shared out as single claims would be.
//!
//! Askers that may take the same lanes form a group. Groups are served one after another, the one
//! with the fewest lanes first: what only few can do is not left over when others could have done
//! something else. Within a group each asker gets one job in turn, so that work spreads over runners.

mod book;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::mem;

use indexmap::{IndexMap, IndexSet};

use crate::id::{JobId, LaneId, OrgId, QueueId, RepoId};

use super::class::{Class, HeadStarts};
use super::policy::Policy;
use super::usage::estimate;
use book::Book;
use tree::Tree;

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
    pub queues: Vec<QueueId>,
    /// Whose jobs it takes; a shared runner takes all.
    pub org: Option<OrgId>,
    pub want: u32,
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
}

/// Askers that may take the same lanes.
#[derive(Debug)]
struct Group {
    reach: Reach,
    /// Who gets the next job, and how many more each wants.
    turns: VecDeque<(usize, u32)>,
    /// Made when its turn is near: with many groups, most trees would lie about for long.
    lanes: Option<Tree>,
}

/// The queues with lanes that an asker may take, in order, and whose.
type Reach = (Vec<QueueId>, Option<OrgId>);

impl Group {
    fn wanted(&self) -> usize {
        self.turns.iter().map(|&(_, want)| want as usize).sum()
    }

    fn lanes<T>(&mut self, book: &Book<T>) -> &mut Tree {
        let (queues, org) = &self.reach;
        self.lanes.get_or_insert_with(|| {
            Tree::new(book, |lane| {
                org.is_none_or(|org| org == lane.org) && queues.binary_search(&lane.queue).is_ok()
            })
        })
    }
}

impl<T> Picker<T> {
    pub fn new(mut batch: Batch) -> Self {
        let askers = mem::take(&mut batch.askers);
        let book = Book::new(batch);
        let groups = grouped(&askers, &lane_counts(&book)).into();
        Self { book, groups }
    }

    /// The next job, or what must be known to name it. Without an answer it asks for the same again.
    #[expect(clippy::should_implement_trait, reason = "no iterator: it is given heads in between")]
    pub fn next(&mut self) -> Next<T> {
        while let Some(group) = self.groups.front_mut() {
            let best = group.lanes(&self.book).best(&self.book);
            match best.zip(group.turns.pop_front()) {
                None => {
                    self.groups.pop_front();
                }
                Some((lane, (asker, want))) => match self.book.take(lane) {
                    None => {
                        group.turns.push_front((asker, want));
                        return Next::Fetch(self.likely());
                    }
                    Some((head, estimate)) => {
                        if want > 1 {
                            group.turns.push_back((asker, want - 1));
                        }
                        let lane = self.book.lane(lane).id;
                        return Next::Pick(Pick { asker, lane, head, estimate });
                    }
                },
            }
        }
        Next::Done
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
        self.groups.iter().map(Group::wanted).sum()
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

/// How many lanes each queue has, in all and of each organization.
fn lane_counts<T>(book: &Book<T>) -> HashMap<(QueueId, Option<OrgId>), usize> {
    let mut counts = HashMap::new();
    for (_, lane) in book.lanes() {
        *counts.entry((lane.queue, None)).or_default() += 1;
        *counts.entry((lane.queue, Some(lane.org))).or_default() += 1;
    }
    counts
}

/// Askers by what they may take, the most constrained first, then in the order in which they asked.
fn grouped(askers: &[Asker], counts: &HashMap<(QueueId, Option<OrgId>), usize>) -> Vec<Group> {
    let mut groups: IndexMap<Reach, VecDeque<(usize, u32)>> = IndexMap::new();
    for (number, asker) in askers.iter().enumerate().filter(|(_, asker)| asker.want > 0) {
        let with_lanes = |queue: &&QueueId| counts.contains_key(&(**queue, asker.org));
        let mut queues: Vec<QueueId> = asker.queues.iter().filter(with_lanes).copied().collect();
        queues.sort_unstable();
        queues.dedup();
        groups.entry((queues, asker.org)).or_default().push_back((number, asker.want));
    }
    let mut groups: Vec<Group> =
        groups.into_iter().map(|(reach, turns)| Group { reach, turns, lanes: None }).collect();
    groups.sort_by_cached_key(|Group { reach: (queues, org), .. }| {
        queues.iter().filter_map(|&queue| counts.get(&(queue, *org))).sum::<usize>()
    });
    groups
}
