//! How many jobs a run has, as far as is known: a matrix that is not expanded yet counts as written.

use kiln_core::plan::{Job, JobKind, Plan, Strategy};
use kiln_core::run::{Leg, LegState, Neighbourhood, Node, NodeState};

/// All jobs that people will see of the run.
pub(super) fn jobs(hood: &Neighbourhood) -> usize {
    hood.nodes.values().map(|node| of_node(hood, node)).sum()
}

fn of_node(hood: &Neighbourhood, node: &Node) -> usize {
    let job = hood.job_of(node.number);
    match node.state {
        NodeState::Pending { .. } => of_job(&hood.run.plan, job),
        NodeState::Done(_) if node.legs.is_empty() => 1,
        _ => {
            let legs = node.legs.iter().filter_map(|leg| hood.legs.get(leg));
            legs.map(|leg| of_leg(&hood.run.plan, job, leg)).sum()
        }
    }
}

/// The jobs of a called workflow are nodes of their own once it is open.
fn of_leg(plan: &Plan, job: &Job, leg: &Leg) -> usize {
    match (&job.kind, &leg.state) {
        (JobKind::Steps(_), _) => 1,
        (JobKind::Call(_), LegState::Called(_)) => 0,
        (JobKind::Call(_), LegState::Done(_)) => usize::from(leg.note.is_some()),
        (JobKind::Call(_), _) => inside(plan, job),
    }
}

fn of_job(plan: &Plan, job: &Job) -> usize {
    let legs = match &job.strategy {
        Strategy::Legs { legs, .. } => legs.len().max(1),
        Strategy::Single | Strategy::Matrix { .. } | Strategy::Expr(_) => 1,
    };
    legs * inside(plan, job)
}

/// The jobs of one leg. Calls cannot be in a circle: the compiler has refused those.
fn inside(plan: &Plan, job: &Job) -> usize {
    match &job.kind {
        JobKind::Steps(_) => 1,
        JobKind::Call(call) => match call.workflow {
            Some(callee) => plan.workflows[callee].jobs.iter().map(|job| of_job(plan, job)).sum(),
            None => 1,
        },
    }
}
