//! Re-runs: a run that ended becomes a new attempt.
//!
//! The rows of the earlier attempt stay as they are; [`again`] makes new ones in which all that does
//! not run again is done already, with its conclusion and outputs. [`Event::Start`](super::Event)
//! then starts the attempt like any run, its concurrency group included.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{
    Ancestry, Leg, LegNo, LegState, Neighbourhood, Node, NodeNo, NodeState, RunState, ScopeNo,
    Tally,
};

/// What runs again. Everything that depends on it does, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    All,
    /// Legs that failed, ran out of time or were cancelled; failures that count for nothing do not.
    Failed,
    /// One job with all its legs.
    Node(NodeNo),
    /// One leg of a job.
    Leg(LegNo),
}

/// Why there is no new attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    NotDone,
    NothingFailed,
    NoSuchJob,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDone => "the run has not ended; cancel it or wait before it is run again",
            Self::NothingFailed => "nothing failed, so there is nothing to run again",
            Self::NoSuchJob => "the run has no such job",
        })
    }
}

impl std::error::Error for Refused {}

/// The rows of a new attempt, about to start. All rows of the run must be at hand.
pub fn again(earlier: &Neighbourhood, what: Again) -> Result<Neighbourhood, Refused> {
    if !matches!(earlier.run.state, RunState::Done(_)) {
        return Err(Refused::NotDone);
    }
    let mut hood = earlier.clone();
    hood.run.attempt += 1;
    hood.run.state = RunState::Created;
    hood.run.cancel = None;
    hood.run.group = None;
    if what == Again::All {
        // Numbers count on, so that a late word about the earlier attempt finds no leg.
        hood.scopes.clear();
        hood.nodes.clear();
        hood.legs.clear();
        return Ok(hood);
    }
    let mut redo = Redo { hood, what };
    match (redo.hood.root(), what) {
        (Some(root), _) if redo.scope(root) => Ok(redo.hood),
        // It ended before any job was there.
        (None, Again::Failed) => Ok(redo.hood),
        (_, Again::Node(_) | Again::Leg(_)) => Err(Refused::NoSuchJob),
        _ => Err(Refused::NothingFailed),
    }
}

struct Redo {
    hood: Neighbourhood,
    what: Again,
}

/// How much of a job runs again.
enum Part {
    Nothing,
    Legs(Vec<LegNo>),
    /// Its condition and its matrix are asked again.
    Whole,
}

impl Redo {
    /// Opens a scope again for what must run in it. Returns whether there is anything.
    fn scope(&mut self, number: ScopeNo) -> bool {
        let nodes = self.hood.scopes[&number].nodes.clone();
        let mut anew = BTreeSet::new();
        let mut partly = BTreeMap::new();
        for node in &nodes {
            match self.part(*node) {
                Part::Nothing => {}
                Part::Legs(legs) => {
                    partly.insert(*node, legs);
                }
                Part::Whole => {
                    anew.insert(*node);
                }
            }
        }
        self.add_dependents(&mut anew, partly.keys().copied());
        partly.retain(|node, _| !anew.contains(node));
        if anew.is_empty() && partly.is_empty() {
            return false;
        }
        let again = |node: &NodeNo| anew.contains(node) || partly.contains_key(node);
        let kept: Vec<NodeNo> = nodes.iter().copied().filter(|node| !again(node)).collect();
        for node in &anew {
            self.start_anew(*node, &kept);
        }
        for (node, legs) in &partly {
            self.reopen(*node, legs);
        }
        let mut tally = Tally::default();
        for node in &kept {
            if let NodeState::Done(conclusion) = self.hood.nodes[node].state {
                tally.add(conclusion);
            }
        }
        let scope = self.hood.scopes.get_mut(&number).expect("it was found before");
        scope.open = u32::try_from(anew.len() + partly.len()).unwrap_or(u32::MAX);
        scope.tally = tally;
        scope.cancelled = false;
        true
    }

    fn part(&mut self, number: NodeNo) -> Part {
        let node = &self.hood.nodes[&number];
        let bare = node.legs.is_empty();
        let good = matches!(node.state, NodeState::Done(end) if !end.wants_another_try());
        match self.what {
            Again::Node(chosen) if chosen == number => return Part::Whole,
            Again::Failed if bare && !good => return Part::Whole,
            _ => {}
        }
        let mut legs = node.legs.clone();
        legs.retain(|leg| self.runs_again(*leg));
        if legs.is_empty() { Part::Nothing } else { Part::Legs(legs) }
    }

    /// Whether a leg runs again: as a whole, or something in the workflow that it calls.
    fn runs_again(&mut self, number: LegNo) -> bool {
        let leg = &self.hood.legs[&number];
        let chosen = self.what == Again::Leg(number);
        if let Some(scope) = leg.scope.filter(|_| !chosen)
            && self.scope(scope)
        {
            return true;
        }
        let leg = &self.hood.legs[&number];
        let failed = leg.counted().is_none_or(super::Conclusion::wants_another_try);
        let whole = chosen || (self.what == Again::Failed && failed);
        if let Some(scope) = leg.scope.filter(|_| whole) {
            self.drop_scope(scope);
            self.hood.legs.get_mut(&number).expect("it was found before").scope = None;
        }
        whole
    }

    fn add_dependents(&self, anew: &mut BTreeSet<NodeNo>, partly: impl Iterator<Item = NodeNo>) {
        let dependents = |node: NodeNo| self.hood.nodes[&node].dependents.clone();
        let mut open: Vec<NodeNo> =
            anew.iter().copied().chain(partly).flat_map(dependents).collect();
        while let Some(node) = open.pop() {
            if anew.insert(node) {
                open.extend(dependents(node));
            }
        }
    }

    /// A job whose needs may answer differently now forgets all it had.
    fn start_anew(&mut self, number: NodeNo, kept: &[NodeNo]) {
        for leg in std::mem::take(&mut self.node(number).legs) {
            self.drop_leg(leg);
        }
        let node = &self.hood.nodes[&number];
        let mut ancestry = Ancestry::default();
        let mut needs_remaining = 0;
        for need in &node.needs {
            match &self.hood.nodes[need] {
                Node { state: NodeState::Done(conclusion), ancestry: of, .. }
                    if kept.binary_search(need).is_ok() =>
                {
                    ancestry.add(*conclusion, *of);
                }
                _ => needs_remaining += 1,
            }
        }
        let fresh =
            Node::new(number, node.scope, node.job, node.needs.clone(), self.hood.run.attempt);
        let dependents = node.dependents.clone();
        let state = NodeState::Pending { needs_remaining };
        self.hood.nodes.insert(number, Node { dependents, ancestry, state, ..fresh });
    }

    /// Some legs of a job run again; the others keep their ends and their outputs.
    fn reopen(&mut self, number: NodeNo, again: &[LegNo]) {
        let attempt = self.hood.run.attempt;
        for leg in again {
            let old = &self.hood.legs[leg];
            let fresh = Leg::new(*leg, number, old.index, old.matrix.clone(), attempt);
            // The fencing token counts on: a late word about the earlier attempt is refused.
            let row = Leg { attempt: old.attempt, scope: old.scope, ..fresh };
            self.hood.legs.insert(*leg, row);
        }
        let legs = self.hood.nodes[&number].legs.iter().map(|leg| &self.hood.legs[leg]);
        let mut tally = Tally::default();
        let mut kept: Vec<Leg> = Vec::new();
        for leg in legs.filter(|leg| matches!(leg.state, LegState::Done(_))) {
            leg.counted().into_iter().for_each(|end| tally.add(end));
            kept.push(leg.clone());
        }
        kept.sort_by_key(|leg| leg.timings.ended);
        let node = self.node(number);
        node.state =
            NodeState::Active { open_legs: u32::try_from(again.len()).unwrap_or(u32::MAX), tally };
        node.tripped = false;
        node.note = None;
        node.run_attempt = attempt;
        node.outputs.clear();
        for leg in kept {
            node.add_outputs(&leg.outputs);
        }
    }

    fn drop_leg(&mut self, leg: LegNo) {
        if let Some(scope) = self.hood.legs.remove(&leg).and_then(|leg| leg.scope) {
            self.drop_scope(scope);
        }
    }

    fn drop_scope(&mut self, scope: ScopeNo) {
        let nodes = self.hood.scopes.remove(&scope).map(|scope| scope.nodes).unwrap_or_default();
        for node in nodes {
            let legs = self.hood.nodes.remove(&node).map(|node| node.legs).unwrap_or_default();
            for leg in legs {
                self.drop_leg(leg);
            }
        }
    }

    fn node(&mut self, number: NodeNo) -> &mut Node {
        self.hood.nodes.get_mut(&number).expect("scopes name nodes that exist")
    }
}
