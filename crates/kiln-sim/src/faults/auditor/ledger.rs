//! What the auditor writes down of transactions, beside the rows.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::id::{JobId, RepoId};
use kiln_core::run::{Conclusion, LegNo, LegState, Member};
use kiln_core::time::Timestamp;

use super::Step;
use crate::faults::kiln::{Done, LEASE, News, RunRows, Word, Work};

#[derive(Debug, Clone, Default)]
pub(in crate::faults) struct Ledger {
    /// Until when each claim was said to be good.
    pub(super) until: BTreeMap<(JobId, u32), Timestamp>,
    /// Last words of runners that changed something.
    pub(super) accepted: BTreeMap<(JobId, u32), Conclusion>,
    /// How often each job was lost.
    pub(super) losses: BTreeMap<JobId, u32>,
    /// Who asked for a concurrency group, in the order in which they did.
    pub(super) entered: BTreeMap<(RepoId, String), Vec<Member>>,
    /// What people cancelled: runs with their attempt, and legs of them.
    pub(super) cancels: BTreeSet<(u64, u32, Option<LegNo>)>,
}

impl Ledger {
    pub(super) fn note(&mut self, step: &Step<'_>) {
        match (step.work, step.done) {
            (Work::Claim(_), Done::Given(given)) => {
                let until = Timestamp(step.now.0 + LEASE);
                for given in given.iter().flat_map(|offered| &offered.jobs) {
                    self.until.entry((given.job, given.claim)).or_insert(until);
                }
            }
            (Work::Beat { held, .. }, Done::Held(answers)) => {
                for (name, answer) in held.iter().zip(answers) {
                    if let Some((until, _)) = answer {
                        self.until.insert(*name, *until);
                    }
                }
            }
            (Work::Cancel { run, .. }, Done::Accepted) => self.cancel(step, *run, None),
            (Work::CancelLeg { run, leg }, Done::Accepted) => self.cancel(step, *run, Some(*leg)),
            _ => {}
        }
    }

    fn cancel(&mut self, step: &Step<'_>, run: u64, leg: Option<LegNo>) {
        let attempt = step.before.runs.get(&run).map_or(1, |rows| rows.hood.run.attempt);
        self.cancels.insert((run, attempt, leg));
    }

    /// What changed in a run.
    pub(super) fn note_run(&mut self, step: &Step<'_>, before: Option<&RunRows>, after: &RunRows) {
        let run = &after.hood.run;
        let before = before.filter(|before| before.hood.run.attempt == run.attempt);
        let mut entered = Vec::new();
        let past = before.and_then(|before| before.hood.run.group.as_ref());
        if past.is_none() {
            entered.extend(run.group.clone().map(|group| (group, run.member(None))));
        }
        for (number, leg) in &after.hood.legs {
            let past = before.and_then(|before| before.hood.legs.get(number));
            if past.is_none_or(|past| past.group.is_none()) {
                entered.extend(leg.group.clone().map(|group| (group, run.member(Some(*number)))));
            }
            let Some(past) = past.filter(|past| past.state.is_held()) else { continue };
            if leg.state.is_held() && leg.attempt == past.attempt {
                continue;
            }
            let claimed = matches!(past.state, LegState::Claimed { .. });
            self.note_end(step, after.jobs[number].id, past.attempt, claimed);
        }
        for (group, member) in entered {
            self.entered.entry((after.repo, group)).or_default().push(member);
        }
    }

    fn note_end(&mut self, step: &Step<'_>, job: JobId, claim: u32, claimed: bool) {
        self.until.remove(&(job, claim));
        if let Work::News(News { job: told, word: Word::Finished(conclusion), .. }) = step.work
            && *told == job
        {
            self.accepted.insert((job, claim), *conclusion);
        }
        let heard = step.before.leases.get(&job).is_some_and(|lease| lease.acknowledged);
        let lost = match step.work {
            Work::News(News { word, .. }) => *word == Word::Lost,
            // A claim that was never acknowledged goes back, and nobody is to blame.
            Work::Reap(_) => heard || !claimed,
            _ => false,
        };
        if lost {
            *self.losses.entry(job).or_default() += 1;
        }
    }
}
