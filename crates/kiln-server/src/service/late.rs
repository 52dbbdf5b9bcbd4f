//! Jobs that are to begin at one of their steps.

use std::ops::Range;

use kiln_core::plan::{JobKind, Step, StepsJob};
use kiln_core::run::{Again, Neighbourhood, NodeNo};
use kiln_store::runs::StepView;

use crate::http::error::{Answer, Failure};

/// The number of the step that is named, in the job that is to run again.
pub(super) fn step(hood: &Neighbourhood, what: Again, named: &str) -> Answer<u32> {
    let node = match what {
        Again::Node(node) => Some(node),
        Again::Leg(leg) => hood.legs.get(&leg).map(|leg| leg.node),
        Again::All | Again::Failed => None,
    };
    let node = node.ok_or_else(|| Failure::not_found("job"))?;
    let job = steps_of(hood, node).ok_or_else(|| {
        let message = "the job calls a workflow and has no steps; name one of the jobs of that";
        Failure::invalid(message)
    })?;
    job.step_named(named).map_err(|refused| Failure::invalid(refused.to_string()))
}

/// Which of the steps that a runner told of are those of the workflow: what actions do before the first and after the
/// last has numbers, too.
pub(super) fn own_steps(hood: &Neighbourhood, node: NodeNo, told: &[StepView]) -> Range<u32> {
    let Some(job) = steps_of(hood, node) else { return 0..0 };
    let most = told.iter().take_while(|step| step.name.starts_with("Pre ")).count();
    let first = job.steps.first().and_then(Step::known_name);
    let is_first = |at: &usize| told.get(*at).map(|step| &step.name) == first.as_ref();
    let before = (0..most).find(is_first).unwrap_or(most);
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    before..before.saturating_add(job.step_count())
}

fn steps_of(hood: &Neighbourhood, node: NodeNo) -> Option<&StepsJob> {
    match &hood.job_of(node).kind {
        JobKind::Steps(job) => Some(job),
        JobKind::Call(_) => None,
    }
}
