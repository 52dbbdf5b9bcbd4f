//! Whoever asks for work and gets none: was there really none?

use kiln_core::id::JobId;
use kiln_core::plan::JobKind;
use kiln_core::run::{LegNo, LegState};

use super::{Auditor, Step};
use crate::faults::kiln::{Asking, Done, Rows, RunRows, Work};

impl Auditor {
    pub(super) fn offers(&mut self, step: &Step<'_>) {
        let (Work::Claim(asking), Done::Given(given)) = (step.work, step.done) else { return };
        self.held_back(step);
        for (question, _) in asking.iter().zip(given).filter(|(_, given)| given.job.is_none()) {
            if question.single_use && self.has_begun(question.runner) {
                continue;
            }
            // One with a lease that it has not heard of yet is not asking for another.
            if step.after.leases.values().any(|lease| lease.runner == question.runner) {
                continue;
            }
            if let Some(job) = withheld(step.after, question) {
                let text = format!("runner {} got nothing, and job {job} waits", question.runner);
                self.find("no work is withheld", text);
            }
        }
    }

    /// What is paused is given to nobody, and who is drained gets nothing. What was given before may be said again.
    fn held_back(&mut self, step: &Step<'_>) {
        let Step { before, after, .. } = step;
        let is_new = |job: &JobId, claim: u32| {
            before.leases.get(job).is_none_or(|lease| lease.claim != claim)
        };
        for (job, lease) in after.leases.iter().filter(|(job, lease)| is_new(job, lease.claim)) {
            let repo = after.runs[&lease.given.run].repo;
            if before.paused.contains(&repo) {
                let text = format!("job {job} of repository {} was given away", repo.0);
                self.find("what is paused waits", text);
            }
            if before.drained.contains(&lease.runner) {
                let text = format!("runner {} got job {job}", lease.runner);
                self.find("who is drained gets nothing", text);
            }
        }
    }

    fn has_begun(&self, runner: u64) -> bool {
        self.executions.values().any(|execution| execution.runner as u64 == runner)
    }
}

/// A job that waits and that this runner could have had.
fn withheld(rows: &Rows, question: &Asking) -> Option<i64> {
    if rows.drained.contains(&question.runner) {
        return None;
    }
    for run in rows.runs.values().filter(|run| !rows.paused.contains(&run.repo)) {
        let load = rows.loads.get(&run.org).copied().unwrap_or_default();
        let room = load.limit.is_none_or(|limit| load.running < limit);
        if !room || question.org.is_some_and(|org| org != run.org) {
            continue;
        }
        let queued = run.hood.legs.iter().filter(|(_, leg)| leg.state == LegState::Queued);
        for (number, _) in queued {
            let has =
                |label: &str| question.capabilities.offer().labels.iter().any(|it| it == label);
            if label(run, *number).is_some_and(|label| has(&label)) {
                return Some(run.jobs[number].id.0);
            }
        }
    }
    None
}

/// The label that a job wants; nothing for a call.
pub(super) fn label(run: &RunRows, leg: LegNo) -> Option<String> {
    let JobKind::Steps(steps) = &run.hood.job_of(run.hood.legs[&leg].node).kind else {
        return None;
    };
    steps.runs_on.constant()?.as_str().map(str::to_owned)
}
