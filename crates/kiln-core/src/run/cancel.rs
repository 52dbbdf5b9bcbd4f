//! Cancelling: a run, a leg, or what a group or a failed sibling pushes out.

use super::apply::Change;
use super::{
    Cancel, Conclusion, Effect, LegNo, LegState, Member, NodeState, Rejected, RunState, Step,
};

impl Change<'_> {
    /// Cancels the run. Legs whose condition still holds (`always()`, `cancelled()`) go on, unless it
    /// is forced.
    pub(super) fn cancel(
        &mut self,
        by: String,
        reason: String,
        forced: bool,
    ) -> Result<(), Rejected> {
        if matches!(self.hood.run.state, RunState::Done(_)) {
            return Err(Rejected::RunIsDone);
        }
        let again = self.hood.run.cancel.as_ref().is_some_and(|cancel| cancel.forced || !forced);
        if again {
            return Ok(());
        }
        self.hood.run.cancel = Some(Cancel { by, reason, forced, at: self.now });
        if !matches!(self.hood.run.state, RunState::Active) {
            self.end_unopened(Conclusion::Cancelled);
            return Ok(());
        }
        let open = self.hood.legs.values().filter(|leg| !leg.state.is_done());
        self.steps.extend(open.map(|leg| Step::Sweep(leg.number)));
        Ok(())
    }

    /// Ends a run that never opened. In a re-run there are jobs all the same, which end with it.
    pub(super) fn end_unopened(&mut self, conclusion: Conclusion) {
        self.run_done(conclusion);
        let reason = "the run ended before it could start";
        let legs: Vec<LegNo> = self.hood.legs.keys().copied().collect();
        for leg in legs {
            self.conclude_leg(leg, Conclusion::Cancelled, Some(reason.to_owned()));
        }
        let nodes: Vec<_> = self.hood.nodes.keys().copied().collect();
        for node in nodes {
            self.conclude_node(node, Conclusion::Cancelled, Some(reason.to_owned()));
        }
    }

    /// May this leg of a cancelled run go on?
    pub(super) fn sweep(&mut self, leg: LegNo) {
        let Some(cancel) = self.hood.run.cancel.clone() else { return };
        let Some(row) = self.hood.legs.get(&leg) else { return };
        let node = row.node;
        let holds = || self.evaluator.condition(&self.hood.context(node, None)).unwrap_or(false);
        if cancel.forced {
            self.stop(leg, &cancel.reason, true);
        } else if !matches!(row.state, LegState::Called(_)) && !holds() {
            // The jobs of a called workflow are asked one by one.
            self.stop(leg, &cancel.reason, false);
        }
    }

    pub(super) fn cancel_leg(&mut self, leg: LegNo, reason: &str) {
        self.stop(leg, reason, false);
    }

    fn stop(&mut self, leg: LegNo, reason: &str, forced: bool) {
        let row = self.leg_mut(leg);
        let (attempt, uncalled) = (row.attempt, row.scope);
        match row.state.clone() {
            LegState::Done(_) => {}
            LegState::Called(scope) => self.cancel_scope(scope, reason, forced),
            state if state.is_held() => {
                row.note.get_or_insert_with(|| reason.to_owned());
                if !row.cancelling || forced {
                    row.cancelling = true;
                    self.effects.push(Effect::Stop { leg, attempt, forced });
                }
                if forced {
                    self.conclude_leg(leg, Conclusion::Cancelled, Some(reason.to_owned()));
                }
            }
            state => {
                if state == LegState::Queued {
                    self.effects.push(Effect::Dequeue(leg));
                }
                if let Some(scope) = uncalled {
                    self.end_uncalled(scope, reason);
                }
                self.conclude_leg(leg, Conclusion::Cancelled, Some(reason.to_owned()));
            }
        }
    }

    /// A call is cancelled with all that runs in it; what has not started yet hears it when its turn
    /// comes.
    fn cancel_scope(&mut self, number: super::ScopeNo, reason: &str, forced: bool) {
        let Some(scope) = self.hood.scopes.get_mut(&number) else { return };
        scope.cancelled = true;
        for node in scope.nodes.clone() {
            if let NodeState::Active { .. } = self.hood.nodes[&node].state {
                for leg in self.hood.nodes[&node].legs.clone() {
                    self.stop(leg, reason, forced);
                }
            }
        }
    }

    /// A re-run has opened what a leg calls before it comes to it. If it never does, that ends with it.
    fn end_uncalled(&mut self, number: super::ScopeNo, reason: &str) {
        let Some(scope) = self.hood.scopes.get_mut(&number) else { return };
        scope.cancelled = true;
        for node in scope.nodes.clone() {
            for leg in self.hood.nodes[&node].legs.clone() {
                let row = &self.hood.legs[&leg];
                if let Some(scope) = row.scope.filter(|_| !row.state.is_done()) {
                    self.end_uncalled(scope, reason);
                }
                self.conclude_leg(leg, Conclusion::Cancelled, Some(reason.to_owned()));
            }
            self.conclude_node(node, Conclusion::Cancelled, Some(reason.to_owned()));
        }
    }

    /// A concurrency group pushes a member out.
    pub(super) fn cancel_member(&mut self, member: Member, reason: &str) {
        if member.run != self.hood.run.id {
            self.effects.push(Effect::CancelMember { member, reason: reason.to_owned() });
            return;
        }
        match member.leg {
            Some(leg) => self.cancel_leg(leg, reason),
            None => {
                // A run that has not ended cannot refuse; one that has left the group already.
                let _ = self.cancel("concurrency".to_owned(), reason.to_owned(), false);
            }
        }
    }
}
