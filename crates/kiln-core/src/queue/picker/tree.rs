//! The lanes that a group of askers may take, as a tree: priority, organization, repository, lane.
//!
//! Each node keeps its children by the rank they had when it last looked. Ranks only grow, so the
//! noted ones are never too high: when the first child's rank is still as noted, it is the best, and
//! else it is noted anew. A choice touches one path, however many lanes there are.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use indexmap::IndexSet;

use super::Lane;
use super::book::{Book, Place};
use crate::queue::policy::{Policy, Rank};

#[derive(Debug)]
pub(super) struct Tree {
    /// The first one is the root.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    place: Place,
    children: BTreeSet<(Rank, usize)>,
    /// How long jobs of this lane must have waited, in milliseconds; zero above the lanes.
    delay: i64,
}

const ROOT: usize = 0;

impl Tree {
    /// `takes` says how long the jobs of a lane must have waited, in milliseconds, if they are for this
    /// group at all.
    pub(super) fn new<T>(book: &Book<T>, takes: impl Fn(&Lane) -> Option<i64>) -> Self {
        let node = |place| Node { place, children: BTreeSet::new(), delay: 0 };
        let mut tree = Self { nodes: vec![node(Place::Root)] };
        let mut parents = vec![ROOT];
        // The book has its lanes in the order of the tree: what a lane shares with the one before is
        // the beginning of the path.
        let mut open = [ROOT; 4];
        for (lane, facts) in book.lanes() {
            let Some(delay) = takes(facts) else { continue };
            let mut parent = ROOT;
            let mut shared = true;
            for (depth, place) in book.path(lane).into_iter().enumerate() {
                shared = shared && tree.nodes[open[depth]].place == place;
                if !shared {
                    open[depth] = tree.nodes.len();
                    tree.nodes.push(node(place));
                    parents.push(parent);
                }
                parent = open[depth];
            }
            tree.nodes[parent].delay = delay;
        }
        tree.note_all(book, &parents);
        tree
    }

    /// Notes every node at its parent; children stand behind their parents.
    fn note_all<T>(&mut self, book: &Book<T>, parents: &[usize]) {
        for node in (ROOT + 1..self.nodes.len()).rev() {
            let Node { place, children, delay } = &self.nodes[node];
            let rank = match (*place, children.first()) {
                (Place::Lane(lane), _) => book.lane_rank(lane, *delay),
                (place, Some(&(best, _))) => Some(book.rank(place, best)),
                (_, None) => None,
            };
            if let Some(rank) = rank {
                self.nodes[parents[node]].children.insert((rank, node));
            }
        }
    }

    /// The lane that has the next job, if its head is known; else the lane that must be asked first.
    pub(super) fn best<T>(&mut self, book: &Book<T>) -> Option<usize> {
        self.settle(ROOT, book)?;
        let mut node = ROOT;
        loop {
            if let Place::Lane(lane) = self.nodes[node].place {
                return Some(lane);
            }
            (_, node) = *self.nodes[node].children.first()?;
        }
    }

    /// Brings the best path below a node up to date; its rank, or nothing if no job can come from it.
    fn settle<T>(&mut self, node: usize, book: &Book<T>) -> Option<Rank> {
        let Node { place, delay, .. } = self.nodes[node];
        match place {
            Place::Lane(lane) => return book.lane_rank(lane, delay),
            Place::Org(org) if !book.has_room(org) => return None,
            _ => {}
        }
        loop {
            let (noted, child) = *self.nodes[node].children.first()?;
            let rank = self.settle(child, book);
            if rank == Some(noted) {
                return Some(book.rank(place, noted));
            }
            let children = &mut self.nodes[node].children;
            children.pop_first();
            children.extend(rank.map(|rank| (rank, child)));
        }
    }

    /// When the first job that is known and has not waited long enough will have.
    pub(super) fn ripens<T>(&self, book: &Book<T>) -> Option<i64> {
        let ripens = |node: &Node| match node.place {
            Place::Lane(lane) => book.ripens(lane, node.delay),
            _ => None,
        };
        self.nodes.iter().filter_map(ripens).min()
    }

    /// Adds the lanes without heads that so many choices would look at, until there are `most`.
    ///
    /// It plays the choices through with the ranks as noted, as if every lane had a job. A wrong
    /// guess costs a look-up, never a wrong choice.
    pub(super) fn likely<T>(
        &self,
        book: &Book<T>,
        picks: usize,
        most: usize,
        found: &mut IndexSet<usize>,
    ) {
        // Scores can only be compared once all heads are known.
        let mut left = if book.policy == Policy::Score { usize::MAX } else { picks };
        for &(_, level) in &self.nodes[ROOT].children {
            let mut orgs: Vec<_> = self.orgs_with_room(level, book).take(left).collect();
            let mut turns: BinaryHeap<_> =
                orgs.iter().enumerate().map(|(at, &(rank, ..))| Reverse((rank, at))).collect();
            while left > 0
                && found.len() < most
                && let Some(Reverse((rank, at))) = turns.pop()
            {
                let (_, org, parts) = &mut orgs[at];
                let Some(&(_, part)) = parts.next() else { continue };
                self.unknown_lanes(part, book, most, found);
                turns.push(Reverse((book.rank_after(rank, *org, self.nodes[part].place), at)));
                left -= 1;
            }
        }
    }

    /// Organizations of a priority as noted, with their repositories or classes.
    fn orgs_with_room<'a, T>(
        &'a self,
        level: usize,
        book: &'a Book<T>,
    ) -> impl Iterator<Item = (Rank, usize, impl Iterator<Item = &'a (Rank, usize)>)> {
        self.nodes[level].children.iter().filter_map(move |&(rank, node)| {
            let Node { place: Place::Org(org), children, .. } = &self.nodes[node] else {
                return None;
            };
            book.has_room(*org).then(|| (rank, *org, children.iter()))
        })
    }

    /// Lanes that may come before the first one whose head is known.
    fn unknown_lanes<T>(
        &self,
        part: usize,
        book: &Book<T>,
        most: usize,
        found: &mut IndexSet<usize>,
    ) {
        let lanes = self.nodes[part].children.iter().filter_map(|&(_, node)| {
            let Place::Lane(lane) = self.nodes[node].place else { return None };
            Some(lane)
        });
        let unknown = lanes.take_while(|&lane| !book.is_known(lane));
        for lane in unknown.filter(|&lane| book.is_unknown(lane)) {
            if found.len() < most {
                found.insert(lane);
            }
        }
    }
}
