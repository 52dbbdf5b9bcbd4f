//! How a graph of jobs goes, computed anew from the ends of its parts, slowly and without counters.

use kiln_core::plan::{JobKind, Strategy};
use kiln_core::run::{Conclusion, Leg, LegState, NodeNo, NodeState, ScopeNo, Status};

use crate::faults::kiln::RunRows;
use crate::faults::kiln::evaluator::{holds, is_true};

/// A whole from its parts: a failure outweighs a cancellation, that a timeout, that a success.
pub(super) fn conclude(parts: &[Conclusion]) -> Conclusion {
    let any = |wanted: &[Conclusion]| parts.iter().any(|part| wanted.contains(part));
    if any(&[Conclusion::Failure, Conclusion::StartupFailure]) {
        Conclusion::Failure
    } else if any(&[Conclusion::Cancelled]) {
        Conclusion::Cancelled
    } else if any(&[Conclusion::TimedOut]) {
        Conclusion::TimedOut
    } else if any(&[Conclusion::Success]) {
        Conclusion::Success
    } else {
        Conclusion::Skipped
    }
}

/// A run to be asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Graph<'g>(pub(super) &'g RunRows);

impl Graph<'_> {
    fn end(self, node: NodeNo) -> Option<Conclusion> {
        match self.0.hood.nodes.get(&node)?.state {
            NodeState::Done(end) => Some(end),
            _ => None,
        }
    }

    /// All that a job needs, and what those need.
    fn ancestors(self, node: NodeNo) -> Vec<NodeNo> {
        let mut found = Vec::new();
        let mut open = self.0.hood.nodes[&node].needs.clone();
        while let Some(need) = open.pop() {
            if !found.contains(&need) {
                found.push(need);
                open.extend(&self.0.hood.nodes[&need].needs);
            }
        }
        found
    }

    /// The first need that is not done.
    pub(super) fn open_need(self, node: NodeNo) -> Option<NodeNo> {
        self.ancestors(node).into_iter().find(|need| self.end(*need).is_none())
    }

    pub(super) fn is_cancelled(self, node: NodeNo) -> bool {
        let scope = self.0.hood.nodes[&node].scope;
        self.0.hood.run.cancel.is_some() || self.0.hood.scopes[&scope].cancelled
    }

    /// Whether the condition of a job holds, when it is cancelled or not.
    pub(super) fn runs(self, node: NodeNo, cancelled: bool) -> bool {
        let ends: Vec<Conclusion> =
            self.ancestors(node).into_iter().filter_map(|need| self.end(need)).collect();
        let failed = ends.iter().any(|end| end.is_failure());
        let good = ends.iter().all(|end| *end == Conclusion::Success);
        let status =
            Status { success: good && !cancelled, failure: failed && !cancelled, cancelled };
        holds(&self.0.hood.job_of(node).condition.text, status).unwrap_or(false)
    }

    /// How a leg counts for its job.
    pub(super) fn counted(self, leg: &Leg) -> Option<Conclusion> {
        let LegState::Done(end) = leg.state else { return None };
        let tolerant = match &self.0.hood.job_of(leg.node).kind {
            JobKind::Steps(steps) => steps.continue_on_error.as_ref().is_some_and(is_true),
            JobKind::Call(_) => false,
        };
        Some(if tolerant && end.is_failure() { Conclusion::Success } else { end })
    }

    /// Whether the first failure of the job's matrix ends the rest.
    pub(super) fn fails_fast(self, node: NodeNo) -> bool {
        match &self.0.hood.job_of(node).strategy {
            Strategy::Legs { fail_fast, .. } => fail_fast.as_ref().is_none_or(is_true),
            _ => true,
        }
    }

    /// How a job with legs ended, from those; nothing while one is open.
    pub(super) fn of_legs(self, node: NodeNo) -> Option<Conclusion> {
        let legs = &self.0.hood.nodes[&node].legs;
        let ends: Option<Vec<Conclusion>> =
            legs.iter().map(|leg| self.counted(self.0.hood.legs.get(leg)?)).collect();
        ends.map(|ends| conclude(&ends))
    }

    /// How a workflow ended, from its jobs.
    pub(super) fn of_scope(self, scope: ScopeNo) -> Option<Conclusion> {
        let nodes = &self.0.hood.scopes.get(&scope)?.nodes;
        let ends: Option<Vec<Conclusion>> = nodes.iter().map(|node| self.end(*node)).collect();
        ends.map(|ends| conclude(&ends))
    }

    /// The number of tries that a job may have.
    pub(super) fn most_tries(self, node: NodeNo) -> u32 {
        1 + self.0.hood.job_of(node).retry.as_ref().map_or(0, |retry| retry.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P7: the slow model and the engine agree about wholes and parts.
    #[test]
    fn a_whole_ends_as_the_engine_says() {
        let all = [
            Conclusion::Success,
            Conclusion::Skipped,
            Conclusion::Cancelled,
            Conclusion::TimedOut,
            Conclusion::Failure,
        ];
        for first in all {
            for second in all {
                for third in all {
                    let parts = [first, second, third];
                    assert_eq!(conclude(&parts), kiln_core::run::conclude(parts), "{parts:?}");
                }
            }
        }
        assert_eq!(conclude(&[]), Conclusion::Skipped);
    }
}
