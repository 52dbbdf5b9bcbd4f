//! What a job was granted in words: by itself or its file, and by all who call that.

use super::{LegNo, Neighbourhood};
use crate::plan::{Job, Permissions, Workflow};

/// The file and the job that a leg is written in, and the leg that calls that file.
pub fn written<'w>(
    hood: &Neighbourhood,
    workflows: &'w [Workflow],
    leg: LegNo,
) -> Option<(&'w Workflow, &'w Job, Option<LegNo>)> {
    let node = hood.nodes.get(&hood.legs.get(&leg)?.node)?;
    let scope = hood.scopes.get(&node.scope)?;
    let workflow = workflows.get(scope.workflow)?;
    Some((workflow, workflow.jobs.get(node.job)?, scope.caller))
}

/// What the token of a leg may do; nothing when nobody said a word, and it has what tokens usually have. Along calls it
/// only becomes less: whoever is called has at most what its caller has.
pub fn granted(hood: &Neighbourhood, workflows: &[Workflow], leg: LegNo) -> Option<Permissions> {
    let mut granted: Option<Permissions> = None;
    let mut next = Some(leg);
    let mut has_word = false;
    while let Some(leg) = next {
        let (workflow, job, caller) = written(hood, workflows, leg)?;
        let said = job.permissions.as_ref().or(workflow.permissions.as_ref());
        granted = match (granted, said) {
            (Some(below), Some(said)) => Some(below.within(said)),
            (below, said) => below.or_else(|| said.cloned()),
        };
        has_word = said.is_some();
        next = caller;
    }
    if has_word {
        return granted;
    }
    // Who called first said nothing, and usually tokens read.
    granted.map(|granted| granted.within(&Permissions::read_all()))
}
