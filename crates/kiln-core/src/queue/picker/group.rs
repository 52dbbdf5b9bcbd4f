//! Askers that may take the same lanes, and whose turn it is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use indexmap::IndexMap;

use super::book::Book;
use super::tree::Tree;
use super::{Asker, Lane};
use crate::id::{OrgId, QueueId};
use crate::queue::serving::Serving;

/// The queues with lanes that an asker may take, in order, and whose.
type Reach = (Vec<Serving>, Option<OrgId>);

/// An asker, and how many more jobs it wants.
type Turn = (usize, u32);

#[derive(Debug)]
pub(super) struct Group {
    reach: Reach,
    /// Who has not got a job in this round.
    round: VecDeque<Turn>,
    /// Who has, and wants more.
    later: Vec<Turn>,
    /// Made when its turn is near: with many groups, most trees would lie about for long.
    lanes: Option<Tree>,
}

impl Group {
    pub(super) fn wanted(&self) -> usize {
        self.round.iter().chain(&self.later).map(|&(_, want)| want as usize).sum()
    }

    /// Whether everybody has got what they wanted.
    pub(super) fn is_served(&self) -> bool {
        self.round.is_empty() && self.later.is_empty()
    }

    /// Who still wants something.
    pub(super) fn askers(&self) -> impl Iterator<Item = usize> {
        self.round.iter().chain(&self.later).map(|&(asker, _)| asker)
    }

    /// Who gets a job: the first one in the round that is warm for it, or else the first one.
    pub(super) fn turn(&mut self, warm: Option<&HashSet<usize>>) -> usize {
        if self.round.is_empty() {
            let mut later = mem::take(&mut self.later);
            later.sort_unstable();
            self.round = later.into();
        }
        let place =
            warm.and_then(|warm| self.round.iter().position(|(asker, _)| warm.contains(asker)));
        let turn = self.round.remove(place.unwrap_or(0));
        let (asker, want) = turn.expect("a group that is served has no turn");
        if want > 1 {
            self.later.push((asker, want - 1));
        }
        asker
    }

    pub(super) fn lanes<T>(&mut self, book: &Book<T>) -> &mut Tree {
        let (queues, org) = &self.reach;
        self.lanes.get_or_insert_with(|| {
            Tree::new(book, |lane| {
                if org.is_none_or(|org| org == lane.org) { delay(queues, lane) } else { None }
            })
        })
    }
}

/// How long the jobs of a lane must have waited, if its queue is among these.
fn delay(queues: &[Serving], lane: &Lane) -> Option<i64> {
    let place = queues.binary_search_by_key(&lane.queue, |serving| serving.queue).ok()?;
    Some(queues[place].millis())
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

/// Askers by what they may take: the most constrained first, then those that are preferred, then in the
/// order in which they asked.
pub(super) fn grouped<T>(askers: &[Asker], book: &Book<T>) -> Vec<Group> {
    let counts = lane_counts(book);
    let mut groups: IndexMap<Reach, VecDeque<Turn>> = IndexMap::new();
    for (number, asker) in askers.iter().enumerate().filter(|(_, asker)| asker.want > 0) {
        let has_lanes = |serving: &&Serving| counts.contains_key(&(serving.queue, asker.org));
        let mut queues: Vec<Serving> = asker.queues.iter().filter(has_lanes).copied().collect();
        queues.sort_unstable();
        // Of a queue that is named twice, the shorter delay counts.
        queues.dedup_by_key(|serving| serving.queue);
        groups.entry((queues, asker.org)).or_default().push_back((number, asker.want));
    }
    let group = |(reach, round)| Group { reach, round, later: Vec::new(), lanes: None };
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    groups.sort_by_cached_key(|Group { reach: (queues, org), .. }| {
        let lanes = queues.iter().filter_map(|serving| counts.get(&(serving.queue, *org)));
        let delays = queues.iter().map(|serving| serving.delay.as_millis());
        (lanes.sum::<usize>(), delays.sum::<u128>())
    });
    groups
}
