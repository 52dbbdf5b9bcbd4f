//! A job whose needs are done: does it run, how often, and may it start now?

use crate::plan::JobKind;

use super::apply::Change;
use super::{
    Conclusion, Effect, GroupRequest, Leg, LegNo, LegState, Legs, Node, NodeNo, NodeState,
    Placement, RunState, Step, Tally, Timings, Wait,
};

impl Change<'_> {
    /// Asks the node's condition, then makes its legs.
    pub(super) fn ready(&mut self, number: NodeNo) {
        let Some(node) = self.hood.nodes.get(&number) else { return };
        if node.state != (NodeState::Pending { needs_remaining: 0 }) || !self.is_open(number) {
            return;
        }
        let forced = self.hood.run.cancel.as_ref().is_some_and(|cancel| cancel.forced);
        let runs = if forced {
            Ok(false)
        } else {
            self.evaluator.condition(&self.hood.context(number, None))
        };
        match runs {
            Ok(true) => {}
            Ok(false) if self.hood.is_cancelled(number) => {
                return self.conclude_node(number, Conclusion::Cancelled, None);
            }
            Ok(false) => {
                let note = self.why_skipped(number);
                return self.conclude_node(number, Conclusion::Skipped, Some(note));
            }
            Err(message) => {
                return self.conclude_node(number, Conclusion::Failure, Some(message));
            }
        }
        match self.evaluator.legs(&self.hood.context(number, None)) {
            Ok(legs) if legs.legs.is_empty() => {
                let note = "its matrix has no combinations".to_owned();
                self.conclude_node(number, Conclusion::Skipped, Some(note));
            }
            Ok(legs) => self.expand(number, legs),
            Err(message) => self.conclude_node(number, Conclusion::Failure, Some(message)),
        }
    }

    /// In words: the need at fault, or the condition.
    fn why_skipped(&self, number: NodeNo) -> String {
        let node = &self.hood.nodes[&number];
        let culprit = node.needs.iter().filter_map(|need| self.hood.need(*need));
        let culprit = culprit.filter(|need| need.conclusion != Conclusion::Success);
        match culprit.max_by_key(|need| need.conclusion) {
            Some(need) if self.hood.job_of(number).condition.wants_success() => {
                format!("it needs `{}`, which {}", need.id, was(need.conclusion))
            }
            _ => "its condition is false".to_owned(),
        }
    }

    fn expand(&mut self, number: NodeNo, legs: Legs) {
        let first = self.hood.run.legs;
        let count = u32::try_from(legs.legs.len()).unwrap_or(u32::MAX);
        self.hood.run.legs += count;
        for (leg, (index, matrix)) in (first..first + count).zip((0..).zip(legs.legs)) {
            let row = Leg::new(leg, number, index, matrix, self.hood.run.attempt);
            self.hood.legs.insert(leg, row);
        }
        let node = self.node_mut(number);
        node.legs = (first..first + count).collect();
        node.fail_fast = legs.fail_fast;
        node.max_parallel = legs.max_parallel.map(|most| most.max(1));
        node.state = NodeState::Active { open_legs: count, tally: Tally::default() };
        self.admit_more(number);
    }

    /// Lets waiting legs of a node go on while `max-parallel` allows it.
    pub(super) fn admit_more(&mut self, number: NodeNo) {
        if !self.is_open(number) || self.is_swept(number) {
            return;
        }
        loop {
            let node = &self.hood.nodes[&number];
            let Some(leg) = self.next_held_back(node).filter(|_| !node.tripped) else { return };
            if node.max_parallel.is_some_and(|most| self.under_way(node) >= most) {
                return;
            }
            self.admit(leg);
        }
    }

    /// Whether the run and the call around a job have started. In a re-run, jobs are there before.
    fn is_open(&self, number: NodeNo) -> bool {
        let caller = self.hood.scopes[&self.hood.nodes[&number].scope].caller;
        let called = |leg: LegNo| matches!(self.hood.legs[&leg].state, LegState::Called(_));
        self.hood.run.state == RunState::Active && caller.is_none_or(called)
    }

    /// Whether the legs of a job are about to be cancelled. One that went on now would push others out
    /// of its group for nothing.
    fn is_swept(&self, number: NodeNo) -> bool {
        let forced = self.hood.run.cancel.as_ref().is_some_and(|cancel| cancel.forced);
        let holds = || self.evaluator.condition(&self.hood.context(number, None));
        self.hood.is_cancelled(number) && (forced || !holds().unwrap_or(false))
    }

    fn next_held_back(&self, node: &Node) -> Option<LegNo> {
        let waits =
            |leg: &&LegNo| self.hood.legs[leg].state == LegState::Waiting(Wait::MaxParallel);
        node.legs.iter().find(waits).copied()
    }

    fn under_way(&self, node: &Node) -> u32 {
        let legs = node.legs.iter().map(|leg| &self.hood.legs[leg].state);
        let counts =
            |state: &&LegState| !state.is_done() && **state != LegState::Waiting(Wait::MaxParallel);
        u32::try_from(legs.filter(counts).count()).unwrap_or(u32::MAX)
    }

    /// Past `max-parallel`: the concurrency group is next.
    fn admit(&mut self, leg: LegNo) {
        let node = self.hood.legs[&leg].node;
        if self.hood.job_of(node).concurrency.is_none() {
            return self.go(leg);
        }
        // A step of its own, because only now it can be told which group must be at hand.
        self.leg_mut(leg).state = LegState::Waiting(Wait::Group);
        self.steps.push_back(Step::Enter(leg));
    }

    /// Asks for the concurrency group of a leg that has none yet.
    pub(super) fn ask_group(&mut self, leg: LegNo) {
        let Some(row) = self.hood.legs.get(&leg) else { return };
        if row.state != LegState::Waiting(Wait::Group) || row.group.is_some() {
            return;
        }
        let node = row.node;
        match self.evaluator.group(&self.hood.context(node, Some(leg))) {
            Ok(None) => self.go(leg),
            Ok(Some(request)) => self.enter_group(leg, &request),
            Err(message) => self.conclude_leg(leg, Conclusion::Failure, Some(message)),
        }
    }

    fn enter_group(&mut self, leg: LegNo, request: &GroupRequest) {
        let member = self.hood.run.member(Some(leg));
        let row = self.leg_mut(leg);
        row.group = Some(request.name.to_lowercase());
        if self.enter(member, request) {
            self.go(leg);
        }
    }

    /// Nothing stands in the way any more.
    pub(super) fn go(&mut self, leg: LegNo) {
        let node = self.hood.legs[&leg].node;
        let job = self.hood.job_of(node);
        let JobKind::Call(call) = &job.kind else { return self.place(leg, node) };
        let (workflow, uses) = (call.workflow, call.uses.clone());
        if let Some(scope) = self.hood.legs[&leg].scope {
            // A re-run takes up the workflow where the earlier attempt left it.
            self.leg_mut(leg).state = LegState::Called(scope);
            return self.resume_scope(scope);
        }
        let inputs = self.evaluator.inputs(&self.hood.context(node, Some(leg)));
        match (workflow, inputs) {
            (Some(workflow), Ok(inputs)) => {
                let scope = self.open_scope(workflow, Some(leg), inputs);
                let row = self.leg_mut(leg);
                row.scope = Some(scope);
                row.state = LegState::Called(scope);
            }
            (None, _) => {
                let note = format!("the workflow `{uses}` is not at hand");
                self.conclude_leg(leg, Conclusion::Failure, Some(note));
            }
            (_, Err(message)) => self.conclude_leg(leg, Conclusion::Failure, Some(message)),
        }
    }

    /// A leg that no runner could be found for, because `runs-on` makes no sense, fails here and now.
    fn place(&mut self, leg: LegNo, node: NodeNo) {
        let placement = self.evaluator.placement(&self.hood.context(node, Some(leg)));
        match placement.and_then(|placement| placement.requirements().map(|_| placement)) {
            Ok(placement) => self.wait_for_runner(leg, Some(Box::new(placement))),
            Err(message) => self.conclude_leg(leg, Conclusion::Failure, Some(message)),
        }
    }

    pub(super) fn enqueue(&mut self, leg: LegNo) {
        self.wait_for_runner(leg, None);
    }

    fn wait_for_runner(&mut self, leg: LegNo, placement: Option<Box<Placement>>) {
        let now = self.now;
        let row = self.leg_mut(leg);
        row.state = LegState::Queued;
        row.timings = Timings { queued: Some(now), ..Timings::default() };
        self.effects.push(Effect::Enqueue { leg, placement });
    }
}

fn was(conclusion: Conclusion) -> String {
    match conclusion {
        Conclusion::Failure | Conclusion::TimedOut | Conclusion::StartupFailure => {
            conclusion.word().to_owned()
        }
        other => format!("was {}", other.word()),
    }
}
