//! Which rows an event or a step touches.
//!
//! A store loads these before it lets the transition go on. What can be reached only through rows that
//! are not there yet is named once those have come, so a few rounds bring all. Naming too many costs
//! time; naming too few would be a wrong answer, which the comparison with the engine in memory finds.

use std::collections::{BTreeSet, VecDeque};

use super::{
    Evaluator, Event, Leg, LegNo, LegState, Member, Neighbourhood, Node, NodeNo, NodeState,
    RunState, Scope, ScopeNo, Step, Wait,
};

/// Rows that must be brought before a transition can go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub scopes: BTreeSet<ScopeNo>,
    pub nodes: BTreeSet<NodeNo>,
    /// Legs that may be changed. A queued one must be held, or a runner could claim it meanwhile.
    pub legs: BTreeSet<LegNo>,
    /// Legs that are only looked at; it does not matter if a queued one is claimed meanwhile.
    pub glances: BTreeSet<LegNo>,
    /// By lower-cased name.
    pub groups: BTreeSet<String>,
    /// All legs of the run that are not done.
    pub open_legs: bool,
    /// All rows of the run.
    pub whole: bool,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What the event wants, or the first few of these steps.
    pub(super) fn of(
        hood: &Neighbourhood,
        evaluator: &dyn Evaluator,
        event: Option<&Event>,
        steps: &VecDeque<Step>,
        ahead: usize,
    ) -> Self {
        let mut look = Look { hood, evaluator, wanted: Self::default(), seen: BTreeSet::new() };
        match event {
            Some(event) => look.event(event),
            None => steps.iter().take(ahead).for_each(|step| look.step(*step)),
        }
        look.wanted
    }
}

/// What a store has brought that the rows themselves do not show.
#[derive(Debug, Clone, Default)]
pub struct AtHand {
    pub whole: bool,
    pub open_legs: bool,
    /// Those that were looked for, whether they exist or not.
    pub groups: BTreeSet<String>,
    /// Legs that nobody else can change.
    pub legs: BTreeSet<LegNo>,
    /// Legs that were looked at.
    pub glances: BTreeSet<LegNo>,
}

impl AtHand {
    /// What is still missing.
    pub(super) fn lack(&self, mut wanted: Wanted) -> Wanted {
        wanted.groups.retain(|name| !self.groups.contains(name));
        wanted.legs.retain(|leg| !self.whole && !self.legs.contains(leg));
        let seen = |leg: &LegNo| self.legs.contains(leg) || self.glances.contains(leg);
        wanted.glances.retain(|leg| !self.whole && !seen(leg));
        wanted.open_legs &= !(self.open_legs || self.whole);
        wanted.whole &= !self.whole;
        wanted
    }
}

struct Look<'l> {
    hood: &'l Neighbourhood,
    evaluator: &'l dyn Evaluator,
    wanted: Wanted,
    /// Legs whose surroundings were named already.
    seen: BTreeSet<(LegNo, Reach)>,
}

/// How far a change of a leg can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// It ends, but not as a failure.
    Ends,
    /// It ends, and may take the other legs of its matrix with it.
    Fails,
    /// It is told to stop, with all that it calls.
    Stops,
}

impl<'l> Look<'l> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Start => self.start(),
            Event::Admitted(Member { attempt, .. }) if *attempt != self.hood.run.attempt => {}
            Event::Admitted(Member { leg: Some(leg), .. }) => self.step(Step::Admit(*leg)),
            Event::Admitted(Member { leg: None, .. }) => {
                let gated = matches!(self.hood.run.state, RunState::Gated(_));
                self.wanted.whole = gated && self.hood.run.nodes > 0;
            }
            Event::Claimed { leg, .. }
            | Event::Started { leg, .. }
            | Event::Uploading { leg, .. } => {
                self.change(*leg);
            }
            Event::Finished { leg, conclusion, .. } if !conclusion.is_failure() => {
                self.settle(*leg, Reach::Ends);
            }
            Event::Finished { leg, .. }
            | Event::Lost { leg, .. }
            | Event::Unsupported { leg, .. } => {
                self.settle(*leg, Reach::Fails);
            }
            Event::Skip { leg, .. } => self.settle(*leg, Reach::Ends),
            Event::Returned { leg, .. } | Event::Wake { leg } => {
                self.settle(*leg, Reach::Ends);
                // It is placed in the queue again, by its expressions.
                self.context_of(*leg);
            }
            Event::Cancel { .. } => self.cancel(),
            Event::CancelLeg { leg, .. } => self.halt(*leg),
            Event::Step(step) => self.step(*step),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ready(node) => self.context(node),
            Step::Refill(node) => {
                self.context(node);
                for leg in self.legs_of(node) {
                    self.settle(leg, Reach::Fails);
                }
            }
            Step::Told(number) => {
                let Some(node) = self.node(number) else { return };
                self.scope(node.scope);
                self.nodes(&node.dependents);
            }
            Step::Closed(scope) => self.closed(scope),
            Step::Sweep(leg) => {
                self.halt(leg);
                self.context_of(leg);
            }
            Step::Enter(leg) => self.enter(leg),
            Step::Admit(leg) => {
                self.settle(leg, Reach::Fails);
                self.called(leg);
            }
        }
    }

    /// A run that starts has no rows yet, unless it is a re-run.
    fn start(&mut self) {
        self.wanted.whole = self.hood.run.nodes > 0;
        if let Ok(Some(request)) = self.evaluator.run_group(&self.hood.run) {
            self.wanted.groups.insert(request.name.to_lowercase());
        }
    }

    fn cancel(&mut self) {
        match self.hood.run.state {
            RunState::Active => self.wanted.open_legs = true,
            _ => self.wanted.whole = self.hood.run.nodes > 0,
        }
        self.wanted.groups.extend(self.hood.run.group.clone());
    }

    fn closed(&mut self, number: ScopeNo) {
        let Some(scope) = self.scope(number) else { return };
        match scope.caller {
            None => self.wanted.groups.extend(self.hood.run.group.clone()),
            Some(caller) => {
                self.nodes(&scope.nodes);
                self.settle(caller, Reach::Fails);
            }
        }
    }

    /// The name of a group is known only when all that its expression sees is there.
    fn enter(&mut self, number: LegNo) {
        self.settle(number, Reach::Fails);
        self.called(number);
        let Some(leg) = self.hood.legs.get(&number).filter(|_| self.is_complete()) else { return };
        let context = self.hood.context(leg.node, Some(number));
        let Ok(Some(request)) = self.evaluator.group(&context) else { return };
        let name = request.name.to_lowercase();
        let members = self.hood.groups.get(&name).map(super::Group::members);
        let own = members.into_iter().flatten().filter(|other| other.run == self.hood.run.id);
        let own: Vec<LegNo> = own.filter_map(|other| other.leg).collect();
        self.wanted.groups.insert(name);
        for other in own {
            self.halt(other);
        }
    }

    /// What the expressions of a job see, and whether it may go on.
    fn context(&mut self, number: NodeNo) {
        let Some(node) = self.node(number) else { return };
        if let Some(caller) = self.scope(node.scope).and_then(|scope| scope.caller) {
            self.leg(caller);
        }
        self.nodes(&node.needs);
    }

    fn context_of(&mut self, leg: LegNo) {
        if let Some(leg) = self.hood.legs.get(&leg) {
            self.context(leg.node);
        }
    }

    /// A leg that may end here: its group and its job; what its job's expressions see if it may fail or
    /// make room for others, and its siblings if they may stop or go on with it.
    fn settle(&mut self, number: LegNo, reach: Reach) {
        if !self.seen.insert((number, reach)) {
            return;
        }
        let Some(leg) = self.change(number) else { return };
        self.wanted.groups.extend(leg.group.clone());
        self.inside(leg);
        let Some(node) = self.node(leg.node) else { return };
        self.scope(node.scope);
        let bounded = node.max_parallel.is_some();
        if reach == Reach::Fails || bounded {
            self.context(leg.node);
        }
        let trips = reach == Reach::Fails && node.fail_fast && !node.tripped;
        if !trips && !bounded {
            return;
        }
        for sibling in &node.legs {
            let Some(row) = self.leg(*sibling) else { continue };
            if row.state == LegState::Waiting(Wait::MaxParallel) {
                self.called(*sibling);
            }
            if trips && *sibling != number && !row.state.is_done() {
                self.halt(*sibling);
            }
        }
    }

    /// A leg that is told to stop, with all that runs in the workflow it calls.
    fn halt(&mut self, number: LegNo) {
        if !self.seen.insert((number, Reach::Stops)) {
            return;
        }
        self.settle(number, Reach::Ends);
        let Some(LegState::Called(scope)) = self.leg(number).map(|leg| &leg.state) else { return };
        let Some(scope) = self.scope(*scope) else { return };
        for node in &scope.nodes {
            let active =
                self.node(*node).is_some_and(|node| matches!(node.state, NodeState::Active { .. }));
            if active {
                for leg in self.legs_of(*node) {
                    self.halt(leg);
                }
            }
        }
    }

    /// What is open in a call that a re-run has not taken up again yet: it ends with the leg.
    fn inside(&mut self, leg: &Leg) {
        let Some(scope) = leg.scope.filter(|_| matches!(leg.state, LegState::Waiting(_))) else {
            return;
        };
        let Some(scope) = self.scope(scope) else { return };
        for node in &scope.nodes {
            let Some(node) = self.node(*node) else { continue };
            if matches!(node.state, NodeState::Done(_)) {
                continue;
            }
            for leg in &node.legs {
                if let Some(leg) = self.leg(*leg) {
                    self.inside(leg);
                }
            }
        }
    }

    /// The workflow that a re-run takes up again.
    fn called(&mut self, leg: LegNo) {
        let scope = self.leg(leg).and_then(|leg| leg.scope);
        let Some(scope) = scope.and_then(|scope| self.scope(scope)) else { return };
        self.nodes(&scope.nodes);
    }

    fn legs_of(&self, node: NodeNo) -> Vec<LegNo> {
        self.hood.nodes.get(&node).map(|node| node.legs.clone()).unwrap_or_default()
    }

    fn is_complete(&self) -> bool {
        let Wanted { scopes, nodes, legs, glances, .. } = &self.wanted;
        let there = |leg: &LegNo| self.hood.legs.contains_key(leg);
        scopes.is_empty() && nodes.is_empty() && glances.is_empty() && legs.iter().all(there)
    }

    fn leg(&mut self, number: LegNo) -> Option<&'l Leg> {
        let found = self.hood.legs.get(&number);
        if found.is_none() {
            self.wanted.glances.insert(number);
        }
        found
    }

    /// Only claims change a leg without the lock of its run, and they take queued ones alone.
    fn change(&mut self, number: LegNo) -> Option<&'l Leg> {
        let found = self.hood.legs.get(&number);
        if found.is_none_or(|leg| leg.state == LegState::Queued) {
            self.wanted.legs.insert(number);
        }
        found
    }

    fn node(&mut self, number: NodeNo) -> Option<&'l Node> {
        let found = self.hood.nodes.get(&number);
        if found.is_none() {
            self.wanted.nodes.insert(number);
        }
        found
    }

    fn nodes(&mut self, numbers: &[NodeNo]) {
        for number in numbers {
            self.node(*number);
        }
    }

    fn scope(&mut self, number: ScopeNo) -> Option<&'l Scope> {
        let found = self.hood.scopes.get(&number);
        if found.is_none() {
            self.wanted.scopes.insert(number);
        }
        found
    }
}
