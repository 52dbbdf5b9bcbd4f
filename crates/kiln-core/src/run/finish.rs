//! What runners report, and how an end goes down the graph.

use std::time::Duration;

use crate::plan::{Retry, RetryOn};
use crate::time::Timestamp;

use super::apply::Change;
use super::{
    Conclusion, Effect, Leg, LegNo, LegState, Need, NodeNo, NodeState, Rejected, RunState, ScopeNo,
    Step, Wait,
};

/// How many runners a leg may lose before it fails for good.
const MAX_LOSSES: u32 = 3;

/// Gives a queued leg to a runner. A claim touches nothing else, so a store that claims many at once
/// does not load the rows around them.
pub fn claim(leg: &mut Leg, runner: u64, now: Timestamp) -> Result<(), Rejected> {
    if leg.state != LegState::Queued {
        return Err(Rejected::WrongState { leg: leg.number, event: "claimed" });
    }
    leg.attempt += 1;
    leg.state = LegState::Claimed { runner };
    leg.timings.claimed = Some(now);
    Ok(())
}

impl Change<'_> {
    pub(super) fn claimed(&mut self, leg: LegNo, runner: u64) -> Result<(), Rejected> {
        self.leg(leg)?;
        let now = self.now;
        claim(self.leg_mut(leg), runner, now)
    }

    /// Ends a leg that nobody has taken. Where runners can still come it fails; where none ever will, it
    /// is skipped, so that `fail-fast` does not end the legs that can run.
    pub(super) fn drop_queued(
        &mut self,
        leg: LegNo,
        conclusion: Conclusion,
        reason: String,
    ) -> Result<(), Rejected> {
        if self.leg(leg)?.state != LegState::Queued {
            return Err(Rejected::WrongState { leg, event: "dropped" });
        }
        self.effects.push(Effect::Dequeue(leg));
        self.conclude_leg(leg, conclusion, Some(reason));
        Ok(())
    }

    pub(super) fn started(
        &mut self,
        leg: LegNo,
        attempt: u32,
        preparing: Option<Duration>,
    ) -> Result<(), Rejected> {
        match self.current(leg, attempt)? {
            _ if self.leg(leg)?.is_called_off() => Ok(()),
            LegState::Claimed { runner } => {
                let now = self.now;
                let row = self.leg_mut(leg);
                row.state = LegState::Running { runner };
                row.timings.started = Some(now);
                // Counted from the claim, so that the clock of the runner plays no part.
                let prepared = row.timings.claimed.zip(preparing).map(|(from, took)| from + took);
                row.timings.prepared = prepared.map(|at| at.min(now));
                Ok(())
            }
            LegState::Running { .. } => Ok(()),
            _ => Err(Rejected::WrongState { leg, event: "started" }),
        }
    }

    pub(super) fn uploading(&mut self, leg: LegNo, attempt: u32) -> Result<(), Rejected> {
        match self.current(leg, attempt)? {
            _ if self.leg(leg)?.is_called_off() => Ok(()),
            LegState::Running { runner } | LegState::Uploading { runner } => {
                self.leg_mut(leg).state = LegState::Uploading { runner };
                Ok(())
            }
            _ => Err(Rejected::WrongState { leg, event: "uploading" }),
        }
    }

    /// The state of a leg, if the word is about its current attempt.
    fn current(&self, leg: LegNo, attempt: u32) -> Result<LegState, Rejected> {
        let row = self.leg(leg)?;
        if row.attempt != attempt {
            return Err(Rejected::Stale { leg, current: row.attempt });
        }
        Ok(row.state.clone())
    }

    /// A runner's last word about an attempt. Repeating one that was accepted changes nothing.
    pub(super) fn reported(
        &mut self,
        leg: LegNo,
        attempt: u32,
        conclusion: Conclusion,
        outputs: Vec<(String, String)>,
    ) -> Result<(), Rejected> {
        match self.current(leg, attempt)? {
            _ if self.leg(leg)?.is_called_off() => {
                self.conclude_leg(leg, Conclusion::Cancelled, None);
                return Ok(());
            }
            state if state.is_held() => {}
            LegState::Done(_) => return Ok(()),
            _ => return Err(Rejected::WrongState { leg, event: "finished" }),
        }
        if self.tries_again(leg, conclusion) {
            return Ok(());
        }
        self.give_outputs(leg, outputs);
        self.conclude_leg(leg, conclusion, None);
        Ok(())
    }

    fn give_outputs(&mut self, leg: LegNo, outputs: Vec<(String, String)>) {
        let node = self.hood.legs[&leg].node;
        self.node_mut(node).add_outputs(&outputs);
        self.leg_mut(leg).outputs = outputs;
    }

    /// Whether a declared retry takes this end back.
    fn tries_again(&mut self, leg: LegNo, conclusion: Conclusion) -> bool {
        let row = &self.hood.legs[&leg];
        let (node, retries) = (row.node, row.retries);
        let Some(retry) = self.hood.job_of(node).retry.clone() else { return false };
        if row.cancelling || retries >= retry.max || !covers(&retry, conclusion) {
            return false;
        }
        let wait = u64::from(retry.backoff_seconds) << retries.min(16);
        let until = self.now + Duration::from_secs(wait);
        self.leg_mut(leg).retries += 1;
        if wait == 0 {
            self.enqueue(leg);
        } else {
            self.leg_mut(leg).state = LegState::Waiting(Wait::Backoff { until });
            self.effects.push(Effect::WakeAt { leg, at: until });
        }
        true
    }

    pub(super) fn wake(&mut self, leg: LegNo) {
        let due = self.hood.legs.get(&leg).is_some_and(|row| {
            matches!(row.state, LegState::Waiting(Wait::Backoff { until }) if until <= self.now)
        });
        if due {
            self.enqueue(leg);
        }
    }

    /// The work of a lost runner goes back to the queue, but not for ever.
    pub(super) fn lost(&mut self, leg: LegNo, attempt: u32, reason: &str) -> Result<(), Rejected> {
        if !self.current(leg, attempt)?.is_held() {
            return Err(Rejected::WrongState { leg, event: "lost" });
        }
        let row = self.leg_mut(leg);
        row.losses += 1;
        if row.cancelling {
            self.conclude_leg(leg, Conclusion::Cancelled, None);
        } else if row.losses > MAX_LOSSES {
            let note = format!("lost {} times: {reason}", MAX_LOSSES + 1);
            self.conclude_leg(leg, Conclusion::Failure, Some(note));
        } else {
            self.enqueue(leg);
        }
        Ok(())
    }

    pub(super) fn returned(&mut self, leg: LegNo, attempt: u32) -> Result<(), Rejected> {
        let LegState::Claimed { .. } = self.current(leg, attempt)? else {
            return Err(Rejected::WrongState { leg, event: "given back" });
        };
        if self.leg_mut(leg).cancelling {
            self.conclude_leg(leg, Conclusion::Cancelled, None);
        } else {
            self.enqueue(leg);
        }
        Ok(())
    }

    /// Ends a leg: its slot is free, its siblings and its node hear of it, all in this one change.
    pub(super) fn conclude_leg(
        &mut self,
        leg: LegNo,
        conclusion: Conclusion,
        note: Option<String>,
    ) {
        let now = self.now;
        let row = self.leg_mut(leg);
        if row.state.is_done() {
            return;
        }
        let unopened = row.scope.filter(|_| !matches!(row.state, LegState::Called(_)));
        row.state = LegState::Done(conclusion);
        row.timings.ended = Some(now);
        row.note = note.or_else(|| row.note.take());
        let (node, group) = (row.node, row.group.take());
        self.effects.push(Effect::LegDone { leg, conclusion });
        if let Some(scope) = unopened {
            self.abandon(scope);
        }
        if let Some(group) = group {
            let member = self.hood.run.member(Some(leg));
            self.leave(&group, member);
        }
        let tolerated = conclusion.is_failure()
            && self
                .evaluator
                .tolerates_failure(&self.hood.context(node, Some(leg)))
                .unwrap_or(false);
        let counted = if tolerated { Conclusion::Success } else { conclusion };
        self.leg_mut(leg).tolerated = tolerated;
        if counted.is_failure() {
            self.fail_fast(node, leg);
        }
        let NodeState::Active { open_legs, tally } = &mut self.node_mut(node).state else { return };
        *open_legs -= 1;
        tally.add(counted);
        if *open_legs == 0 {
            let conclusion = tally.conclude();
            self.conclude_node(node, conclusion, None);
        } else if self.hood.nodes[&node].max_parallel.is_some() {
            // Without a bound nobody waits for this leg to end.
            self.admit_more(node);
        }
    }

    /// The first failure of a matrix ends its other legs, unless it says otherwise.
    fn fail_fast(&mut self, node: NodeNo, failed: LegNo) {
        let row = self.node_mut(node);
        if !row.fail_fast || row.tripped {
            return;
        }
        row.tripped = true;
        for leg in row.legs.clone() {
            if leg != failed {
                self.cancel_leg(leg, "another leg of its matrix failed");
            }
        }
    }

    pub(super) fn conclude_node(
        &mut self,
        node: NodeNo,
        conclusion: Conclusion,
        note: Option<String>,
    ) {
        let row = self.node_mut(node);
        if matches!(row.state, NodeState::Done(_)) {
            return;
        }
        row.state = NodeState::Done(conclusion);
        row.note = note;
        self.effects.push(Effect::NodeDone { node, conclusion });
        self.steps.push_back(Step::Told(node));
    }

    /// Dependents count down; whoever reaches zero is ready.
    pub(super) fn told(&mut self, node: NodeNo) {
        let row = &self.hood.nodes[&node];
        let NodeState::Done(conclusion) = row.state else { return };
        let (scope, ancestry, dependents) = (row.scope, row.ancestry, row.dependents.clone());
        for dependent in dependents {
            let row = self.node_mut(dependent);
            row.ancestry.add(conclusion, ancestry);
            if let NodeState::Pending { needs_remaining } = &mut row.state {
                *needs_remaining -= 1;
                if *needs_remaining == 0 {
                    self.steps.push_back(Step::Ready(dependent));
                }
            }
        }
        let scope =
            self.hood.scopes.get_mut(&scope).expect("a node's scope is in its neighbourhood");
        scope.tally.add(conclusion);
        scope.open -= 1;
        if scope.open == 0 {
            let number = scope.number;
            self.steps.push_back(Step::Closed(number));
        }
    }

    /// All jobs of a workflow are done: the run is, or the leg that called it.
    pub(super) fn closed(&mut self, number: ScopeNo) {
        let scope = &self.hood.scopes[&number];
        let conclusion = scope.tally.conclude();
        let Some(caller) = scope.caller else {
            let conclusion = match conclusion {
                Conclusion::Skipped if scope.nodes.is_empty() => Conclusion::Success,
                other => other,
            };
            return self.run_done(conclusion);
        };
        if self.hood.legs[&caller].state.is_done() {
            return;
        }
        let jobs: Vec<Need<'_>> =
            scope.nodes.iter().filter_map(|node| self.hood.need(*node)).collect();
        let outputs = self.evaluator.call_outputs(&self.hood.run, scope, &jobs);
        match outputs {
            Ok(outputs) => {
                self.give_outputs(caller, outputs);
                self.conclude_leg(caller, conclusion, None);
            }
            Err(message) => self.conclude_leg(caller, Conclusion::Failure, Some(message)),
        }
    }

    pub(super) fn run_done(&mut self, conclusion: Conclusion) {
        if matches!(self.hood.run.state, RunState::Done(_)) {
            return;
        }
        let member = self.hood.run.member(None);
        self.hood.run.state = RunState::Done(conclusion);
        self.effects.push(Effect::RunDone(conclusion));
        if let Some(group) = self.hood.run.group.take() {
            self.leave(&group, member);
        }
    }
}

fn covers(retry: &Retry, conclusion: Conclusion) -> bool {
    match retry.on {
        RetryOn::Failure => conclusion == Conclusion::Failure,
        RetryOn::Timeout => conclusion == Conclusion::TimedOut,
        RetryOn::Any => matches!(conclusion, Conclusion::Failure | Conclusion::TimedOut),
    }
}
