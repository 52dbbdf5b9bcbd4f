//! Whoever asks for work and gets none: was there really none?

use kiln_core::id::JobId;
use kiln_core::plan::JobKind;
use kiln_core::run::{LegNo, LegState};

use super::{Auditor, Step};
use crate::faults::kiln::{Asking, Done, Given, Offered, Rows, RunRows, Work};

impl Auditor {
    pub(super) fn offers(&mut self, step: &Step<'_>) {
        let (Work::Claim(asking), Done::Given(given)) = (step.work, step.done) else { return };
        self.held_back(step);
        for (question, offered) in asking.iter().zip(given) {
            // If it is asked twice at once, the first of them says how many jobs are wanted.
            let first = asking.iter().find(|first| first.repeats(question)).unwrap_or(question);
            self.same_again(step, first, offered);
        }
        self.spread(step, asking, given);
        let without = asking.iter().zip(given).filter(|(_, offered)| offered.jobs.is_empty());
        for (question, _) in without {
            if question.single_use && self.has_begun(question.runner) {
                continue;
            }
            // One for a single job, with a lease that it has not heard of yet, is not asking for another.
            let leased = || step.after.leases.values().any(|it| it.runner == question.runner);
            if question.single_use && leased() {
                continue;
            }
            if let Some(job) = withheld(step.after, question) {
                let text = format!("runner {} got nothing, and job {job} waits", question.runner);
                self.find("no work is withheld", text);
            }
        }
    }

    /// A server asks for its runners: for several jobs only while nobody else waits for such work.
    pub(in crate::faults) fn asked<'a>(
        &mut self,
        works: &[Work],
        sleepers: &(impl Iterator<Item = &'a Asking> + Clone),
    ) {
        let asking = works.iter().flat_map(|work| match work {
            Work::Claim(asking) => &asking[..],
            _ => &[],
        });
        for question in asking.filter(|question| question.want > 1) {
            if let Some(sleeper) = sleepers.clone().find(|sleeper| sleeper.meets(question)) {
                let (runner, want) = (question.runner, question.want);
                let text = format!("runner {runner} wants {want}, and {} sleeps", sleeper.runner);
                self.find("work spreads first", text);
            }
        }
    }

    /// The same question has the same answer, and what was kept of it is what was answered.
    fn same_again(&mut self, step: &Step<'_>, question: &Asking, offered: &Offered) {
        const RULE: &str = "the same question has the same answer";
        let kept = |rows: &Rows| -> Vec<(JobId, u32)> {
            let own = rows.leases.iter().filter(|(_, lease)| {
                (lease.runner, lease.nonce) == (question.runner, question.nonce)
            });
            own.map(|(job, lease)| (*job, lease.claim)).collect()
        };
        let (before, after) = (kept(step.before), kept(step.after));
        let mut given: Vec<_> = offered.jobs.iter().map(|job| (job.job, job.claim)).collect();
        given.sort_unstable();
        let name = || format!("runner {}, nonce {:x}", question.runner, question.nonce);
        if before.is_empty() {
            if after.len() > question.want as usize {
                let text = format!("{}: {after:?}, {} wanted", name(), question.want);
                self.find("nobody gets more than it asked for", text);
            }
            if after.iter().any(|kept| !given.contains(kept)) {
                let text = format!("{}: {given:?}, but it has {after:?}", name());
                self.find("what is leased is told of", text);
            }
            return;
        }
        if after != before || given != before {
            let text = format!("{} had {before:?}, and now {given:?} ({after:?})", name());
            self.find(RULE, text);
        }
    }

    /// Nobody gets several jobs while one that asks with it gets none, and could have had one of these.
    fn spread(&mut self, step: &Step<'_>, asking: &[Asking], given: &[Offered]) {
        let is_new = |job: &&Given| !step.before.leases.contains_key(&job.job);
        for (greedy, several) in asking.iter().zip(given) {
            let several: Vec<&Given> = several.jobs.iter().filter(is_new).collect();
            if several.len() < 2 {
                continue;
            }
            self.several_jobs += 1;
            let fits =
                |poor: &Asking, job: &Given| takes(poor, &step.after.runs[&job.run], job.leg);
            let poor = asking.iter().zip(given).find(|(poor, offered)| {
                let none = offered.may_have && offered.jobs.is_empty();
                none && several.iter().any(|job| fits(poor, job))
            });
            if let Some((poor, _)) = poor {
                let text = format!(
                    "runner {} got {} jobs, and runner {} none",
                    greedy.runner,
                    several.len(),
                    poor.runner
                );
                self.find("work spreads first", text);
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
        if !room {
            continue;
        }
        let queued = run.hood.legs.iter().filter(|(_, leg)| leg.state == LegState::Queued);
        for (number, _) in queued {
            if takes(question, run, *number) {
                return Some(run.jobs[number].id.0);
            }
        }
    }
    None
}

fn takes(question: &Asking, run: &RunRows, leg: LegNo) -> bool {
    let has = |label: String| question.capabilities.offer().labels.contains(&label);
    question.org.is_none_or(|org| org == run.org) && label(run, leg).is_some_and(has)
}

/// The label that a job wants; nothing for a call.
pub(super) fn label(run: &RunRows, leg: LegNo) -> Option<String> {
    let JobKind::Steps(steps) = &run.hood.job_of(run.hood.legs[&leg].node).kind else {
        return None;
    };
    steps.runs_on.constant()?.as_str().map(str::to_owned)
}
