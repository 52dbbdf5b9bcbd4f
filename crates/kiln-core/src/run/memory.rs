//! What is worth keeping of a run that ended, so that a later one can go on from it.
//!
//! A memory knows jobs by their ids, not by numbers of rows: it can be told to a plan that has changed
//! since. It holds no secrets, because rows hold none.

use crate::graph::Graph;
use crate::plan::{JobIndex, JobKind, Plan, WorkflowIndex};
use crate::time::Timestamp;
use crate::value::Object;

use super::{
    Conclusion, Leg, LegNo, LegState, Neighbourhood, NodeNo, NodeState, Run, RunState, ScopeNo,
    Tally,
};

/// A run that ended.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub attempt: u32,
    /// Those of the triggered workflow.
    pub jobs: Vec<PastJob>,
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct PastJob {
    pub id: String,
    pub conclusion: Conclusion,
    pub note: Option<String>,
    pub fail_fast: bool,
    pub max_parallel: Option<u32>,
    pub legs: Vec<PastLeg>,
}

#[derive(Debug, Clone)]
pub struct PastLeg {
    pub matrix: Object,
    pub conclusion: Conclusion,
    pub tolerated: bool,
    pub outputs: Vec<(String, String)>,
    pub ended: Option<Timestamp>,
    /// The workflow that it called.
    pub call: Option<PastCall>,
}

#[derive(Debug, Clone)]
pub struct PastCall {
    pub inputs: Object,
    pub jobs: Vec<PastJob>,
}

/// What the rows of a run say about its jobs. Whatever has not ended counts as cancelled.
pub fn remember(hood: &Neighbourhood) -> Memory {
    let jobs = hood.root().map(|root| past_jobs(hood, root)).unwrap_or_default();
    Memory { attempt: hood.run.attempt, jobs }
}

fn past_jobs(hood: &Neighbourhood, scope: ScopeNo) -> Vec<PastJob> {
    let past = |node: &NodeNo| {
        let row = &hood.nodes[node];
        PastJob {
            id: hood.job_of(*node).id.clone(),
            conclusion: match row.state {
                NodeState::Done(conclusion) => conclusion,
                _ => Conclusion::Cancelled,
            },
            note: row.note.clone(),
            fail_fast: row.fail_fast,
            max_parallel: row.max_parallel,
            legs: row.legs.iter().map(|leg| past_leg(hood, &hood.legs[leg])).collect(),
        }
    };
    hood.scopes[&scope].nodes.iter().map(past).collect()
}

fn past_leg(hood: &Neighbourhood, leg: &Leg) -> PastLeg {
    PastLeg {
        matrix: leg.matrix.clone(),
        conclusion: match leg.state {
            LegState::Done(conclusion) => conclusion,
            _ => Conclusion::Cancelled,
        },
        tolerated: leg.tolerated,
        outputs: leg.outputs.clone(),
        ended: leg.timings.ended,
        call: leg.scope.map(|scope| PastCall {
            inputs: hood.scopes[&scope].inputs.clone(),
            jobs: past_jobs(hood, scope),
        }),
    }
}

/// The rows of a run that ended as remembered. Jobs that the memory does not know, or that `fits` does
/// not find fit any more, are there as cancelled: [`again`](super::again) runs them with what failed.
pub fn recall(
    run: Run,
    memory: &Memory,
    fits: &dyn Fn(&Plan, WorkflowIndex, JobIndex) -> bool,
) -> Neighbourhood {
    let mut recall = Recall { hood: Neighbourhood::new(run), fits };
    recall.hood.run.attempt = memory.attempt;
    let root = recall.hood.add_scope(0, None, Object::new());
    let end = recall.scope(root, &memory.jobs);
    recall.hood.run.state = RunState::Done(end);
    recall.hood
}

struct Recall<'r> {
    hood: Neighbourhood,
    fits: &'r dyn Fn(&Plan, WorkflowIndex, JobIndex) -> bool,
}

impl Recall<'_> {
    /// Ends the jobs of a scope as they ended before.
    fn scope(&mut self, number: ScopeNo, jobs: &[PastJob]) -> Conclusion {
        let plan = self.hood.run.plan.clone();
        let workflow = self.hood.scopes[&number].workflow;
        let needs = plan.workflows[workflow].jobs.iter().map(|job| job.needs.clone()).collect();
        let order = Graph::new(needs).ok().and_then(|graph| graph.order().ok()).unwrap_or_default();
        let mut tally = Tally::default();
        for index in order {
            let node = self.hood.scopes[&number].nodes[index];
            let id = &plan.workflows[workflow].jobs[index].id;
            let past = jobs.iter().find(|job| job.id == *id);
            match past.filter(|_| (self.fits)(&plan, workflow, index)) {
                Some(past) => self.job(node, past),
                None => self.end(node, Conclusion::Cancelled),
            }
            self.ancestry(node);
            if let NodeState::Done(conclusion) = self.hood.nodes[&node].state {
                tally.add(conclusion);
            }
        }
        let scope = self.hood.scopes.get_mut(&number).expect("it was just added");
        scope.open = 0;
        scope.tally = tally;
        tally.conclude()
    }

    fn job(&mut self, number: NodeNo, past: &PastJob) {
        let (attempt, first) = (self.hood.run.attempt, self.hood.run.legs);
        let count = u32::try_from(past.legs.len()).unwrap_or(u32::MAX);
        self.hood.run.legs += count;
        for (leg, (index, past)) in (first..first + count).zip((0..).zip(&past.legs)) {
            let row = Leg::new(leg, number, index, past.matrix.clone(), attempt);
            self.hood.legs.insert(leg, row);
            self.leg(leg, past);
        }
        let node = self.hood.nodes.get_mut(&number).expect("it was just added");
        node.legs = (first..first + count).collect();
        node.fail_fast = past.fail_fast;
        node.max_parallel = past.max_parallel;
        node.note.clone_from(&past.note);
        let mut legs: Vec<&PastLeg> = past.legs.iter().collect();
        legs.sort_by_key(|leg| leg.ended);
        for leg in legs {
            node.add_outputs(&leg.outputs);
        }
        self.end(number, past.conclusion);
    }

    fn leg(&mut self, number: LegNo, past: &PastLeg) {
        let JobKind::Call(call) = &self.hood.job_of(self.hood.legs[&number].node).kind else {
            return self.end_leg(number, past, None);
        };
        let scope = call.workflow.zip(past.call.as_ref()).map(|(workflow, past)| {
            let scope = self.hood.add_scope(workflow, Some(number), past.inputs.clone());
            self.scope(scope, &past.jobs);
            scope
        });
        self.end_leg(number, past, scope);
    }

    fn end_leg(&mut self, number: LegNo, past: &PastLeg, scope: Option<ScopeNo>) {
        let leg = self.hood.legs.get_mut(&number).expect("it was just added");
        leg.state = LegState::Done(past.conclusion);
        leg.tolerated = past.tolerated;
        leg.outputs.clone_from(&past.outputs);
        leg.timings.ended = past.ended;
        leg.scope = scope;
    }

    fn end(&mut self, node: NodeNo, conclusion: Conclusion) {
        let node = self.hood.nodes.get_mut(&node).expect("it was just added");
        node.state = NodeState::Done(conclusion);
    }

    /// What is known of the jobs further up; those come first in the order.
    fn ancestry(&mut self, number: NodeNo) {
        let mut ancestry = super::Ancestry::default();
        for need in &self.hood.nodes[&number].needs {
            let need = &self.hood.nodes[need];
            if let NodeState::Done(conclusion) = need.state {
                ancestry.add(conclusion, need.ancestry);
            }
        }
        self.hood.nodes.get_mut(&number).expect("it was just added").ancestry = ancestry;
    }
}
