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
    pub legs: BTreeSet<LegNo>,
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

    fn is_complete(&self) -> bool {
        self.scopes.is_empty() && self.nodes.is_empty() && self.legs.is_empty()
    }
}

/// What a store has brought that the rows themselves do not show.
#[derive(Debug, Clone, Default)]
pub struct AtHand {
    pub whole: bool,
    pub open_legs: bool,
    /// Those that were looked for, whether they exist or not.
    pub groups: BTreeSet<String>,
    pub legs: BTreeSet<LegNo>,
}

impl AtHand {
    /// What is still missing.
    pub(super) fn lack(&self, mut wanted: Wanted) -> Wanted {
        wanted.groups.retain(|name| !self.groups.contains(name));
        wanted.legs.retain(|leg| !self.whole && !self.legs.contains(leg));
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
            Event::Admitted(Member { leg: Some(leg), .. }) => self.step(Step::Admit(*leg)),
            Event::Admitted(Member { leg: None, .. }) => {
                self.wanted.whole = self.hood.run.nodes > 0;
            }
            Event::Claimed { leg, .. }
            | Event::Started { leg, .. }
            | Event::Uploading { leg, .. } => {
                self.leg(*leg);
            }
            Event::Wake { leg } => self.settle(*leg, Reach::Ends),
            Event::Finished { leg, conclusion, .. } if !conclusion.is_failure() => {
                self.settle(*leg, Reach::Ends);
            }
            Event::Finished { leg, .. }
            | Event::Lost { leg, .. }
            | Event::Unsupported { leg, .. } => {
                self.settle(*leg, Reach::Fails);
            }
            Event::Returned { leg, .. } | Event::Skip { leg, .. } => self.settle(*leg, Reach::Ends),
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
            Step::Sweep(leg) => self.halt(leg),
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
        let Some(leg) = self.hood.legs.get(&number).filter(|_| self.wanted.is_complete()) else {
            return;
        };
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

    /// A leg that may end here: its group, its siblings, its job.
    fn settle(&mut self, number: LegNo, reach: Reach) {
        if !self.seen.insert((number, reach)) {
            return;
        }
        let Some(leg) = self.leg(number) else { return };
        self.wanted.groups.extend(leg.group.clone());
        self.context(leg.node);
        let Some(node) = self.hood.nodes.get(&leg.node) else { return };
        let trips = reach == Reach::Fails && node.fail_fast && !node.tripped;
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
        let Some(leg) = self.leg(number) else { return };
        match (&leg.state, leg.scope) {
            (LegState::Called(scope), _) => self.halt_call(*scope),
            (LegState::Done(_), _) | (_, None) => {}
            (_, Some(scope)) => self.uncalled(scope),
        }
    }

    fn halt_call(&mut self, number: ScopeNo) {
        let Some(scope) = self.scope(number) else { return };
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

    /// All of a workflow that a re-run has not taken up again.
    fn uncalled(&mut self, number: ScopeNo) {
        let Some(scope) = self.scope(number) else { return };
        for node in &scope.nodes {
            self.node(*node);
            for leg in self.legs_of(*node) {
                self.settle(leg, Reach::Ends);
                if let Some(scope) = self.leg(leg).and_then(|leg| leg.scope) {
                    self.uncalled(scope);
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

    fn leg(&mut self, number: LegNo) -> Option<&'l Leg> {
        let found = self.hood.legs.get(&number);
        if found.is_none() {
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
