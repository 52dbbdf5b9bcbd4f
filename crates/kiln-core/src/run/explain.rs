//! Why a job waits or ended as it did, in words. API, pages and command line all ask here.

use super::{Leg, LegNo, LegState, Neighbourhood, NodeNo, NodeState, RunState, Wait};

/// One sentence about a job.
pub fn explain(hood: &Neighbourhood, node: NodeNo) -> String {
    let Some(row) = hood.nodes.get(&node) else { return "there is no such job".to_owned() };
    if let Some(note) = &row.note {
        return note.clone();
    }
    match (&row.state, held_up(hood, node)) {
        (NodeState::Done(conclusion), _) => conclusion.word().to_owned(),
        (_, Some(reason)) => reason,
        (NodeState::Pending { .. }, None) => pending(hood, node),
        (NodeState::Active { .. }, None) => {
            let legs = row.legs.iter().filter_map(|leg| hood.legs.get(leg));
            let open: Vec<&Leg> = legs.filter(|leg| !leg.state.is_done()).collect();
            match open.as_slice() {
                [] => "all its legs are done".to_owned(),
                [leg] => explain_leg(hood, leg),
                legs => {
                    let running = legs.iter().filter(|leg| leg.state.is_held()).count();
                    format!("{} of its legs are open, {running} of them with a runner", legs.len())
                }
            }
        }
    }
}

/// One sentence about a leg of a job.
pub fn explain_one(hood: &Neighbourhood, leg: LegNo) -> String {
    let Some(leg) = hood.legs.get(&leg) else { return "there is no such job".to_owned() };
    if let Some(note) = &leg.note {
        return note.clone();
    }
    let held_up = if leg.state.is_done() { None } else { held_up(hood, leg.node) };
    held_up.unwrap_or_else(|| explain_leg(hood, leg))
}

/// Why a whole run waits, or one job of it, while another one has its group.
pub fn waits_for_group(group: &str, whole_run: bool) -> String {
    let who = if whole_run { "the run waits" } else { "waits" };
    format!("{who} for the concurrency group `{group}`")
}

/// What stands in the way of the whole run, or of the call that the job is part of. In a re-run the
/// jobs are there before that.
fn held_up(hood: &Neighbourhood, node: NodeNo) -> Option<String> {
    if let RunState::Gated(group) = &hood.run.state {
        return Some(waits_for_group(group, true));
    }
    let scope = hood.scopes.get(&hood.nodes.get(&node)?.scope)?;
    let caller = hood.legs.get(&scope.caller?)?;
    if let Some(reason) = held_up(hood, caller.node) {
        return Some(reason);
    }
    matches!(caller.state, LegState::Waiting(_)).then(|| explain_leg(hood, caller))
}

fn pending(hood: &Neighbourhood, node: NodeNo) -> String {
    let row = &hood.nodes[&node];
    let open = row.needs.iter().filter_map(|need| hood.nodes.get(need));
    let open = open.filter(|need| !matches!(need.state, NodeState::Done(_)));
    let names: Vec<String> = open.map(|need| format!("`{}`", job_id(hood, need.number))).collect();
    match names.as_slice() {
        [] => "it is about to start".to_owned(),
        names => format!("waits for {}", names.join(", ")),
    }
}

fn explain_leg(hood: &Neighbourhood, leg: &Leg) -> String {
    match &leg.state {
        LegState::Waiting(Wait::MaxParallel) => {
            "waits because `max-parallel` legs of its job are under way".to_owned()
        }
        LegState::Waiting(Wait::Group) => {
            waits_for_group(leg.group.as_deref().unwrap_or_default(), false)
        }
        LegState::Waiting(Wait::Backoff { .. }) => {
            format!("waits before try {}", leg.retries + 1)
        }
        LegState::Queued => "waits for a runner".to_owned(),
        LegState::Claimed { .. } | LegState::Running { .. } if leg.cancelling => {
            "is being cancelled".to_owned()
        }
        LegState::Claimed { .. } => "a runner prepares it".to_owned(),
        LegState::Running { .. } => "runs".to_owned(),
        LegState::Uploading { .. } => "its results are being stored".to_owned(),
        LegState::Called(scope) => {
            let open = hood.scopes.get(scope).map_or(0, |scope| scope.open);
            format!("{open} jobs of the called workflow are not done")
        }
        LegState::Done(conclusion) => conclusion.word().to_owned(),
    }
}

fn job_id(hood: &Neighbourhood, node: NodeNo) -> String {
    let row = &hood.nodes[&node];
    let workflow = hood.scopes[&row.scope].workflow;
    hood.run.plan.workflows[workflow].jobs[row.job].id.clone()
}
