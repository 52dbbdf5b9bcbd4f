//! What must be so when faults have ceased: work is taken soon, and in the end all of it is done.

use std::collections::BTreeMap;

use kiln_core::id::{JobId, OrgId, RepoId};
use kiln_core::run::{LegNo, LegState, RunState, Wait};

use super::Auditor;
use super::choice::label;
use crate::faults::kiln::{Rows, RunRows};
use crate::faults::workload::Spec;

/// How long a job may wait for a runner that waits for a job: twice what it takes until those who heard of nothing look
/// by themselves, and less than it takes until they ask anew.
const SOON: u64 = 20_000;

/// Since when things are as they are.
#[derive(Debug, Default)]
pub(in crate::faults) struct Idle {
    queued: BTreeMap<(JobId, u32), u64>,
    /// When an organization was last seen without room.
    full: BTreeMap<OrgId, u64>,
    /// When a repository was last seen paused.
    paused: BTreeMap<RepoId, u64>,
    /// When a runner was last seen that must have nothing: it is drained, or has a lease, of which it may never have heard.
    /// The lease lasts longer than usual if the database's clock went back.
    barred: BTreeMap<u64, u64>,
}

impl Auditor {
    /// Nobody waits for a job that waits for somebody. Runners come with the time since when they are free.
    pub(in crate::faults) fn nobody_sleeps(
        &mut self,
        now: u64,
        rows: &Rows,
        free: &[(usize, u64, &Spec)],
    ) {
        for (org, load) in &rows.loads {
            if load.limit.is_some_and(|limit| load.running >= limit) {
                self.idle.full.insert(*org, now);
            }
        }
        self.idle.paused.extend(rows.paused.iter().map(|repo| (*repo, now)));
        let leased = |runner: u64| rows.leases.values().any(|lease| lease.runner == runner);
        let single = free.iter().filter(|(_, _, spec)| spec.single_use).map(|one| one.0 as u64);
        let barred = rows.drained.iter().copied().chain(single.filter(|one| leased(*one)));
        self.idle.barred.extend(barred.map(|runner| (runner, now)));
        let barred = |runner: usize| self.idle.barred.get(&(runner as u64)).copied().unwrap_or(0);
        let mut queued = BTreeMap::new();
        let mut late = Vec::new();
        for run in rows.runs.values() {
            for (number, leg) in &run.hood.legs {
                if leg.state != LegState::Queued {
                    continue;
                }
                let name = (run.jobs[number].id, leg.attempt);
                let since = self.idle.queued.get(&name).copied().unwrap_or(now);
                queued.insert(name, since);
                let full = self.idle.full.get(&run.org).copied().unwrap_or(0);
                let paused = self.idle.paused.get(&run.repo).copied().unwrap_or(0);
                let ready = since.max(full).max(paused);
                let taker = free.iter().find(|(runner, since, spec)| {
                    let free = ready.max(*since).max(barred(*runner));
                    now.saturating_sub(free) > SOON && can_take(spec, run, *number)
                });
                if let Some((runner, ..)) = taker {
                    late.push(format!("job {} and runner {runner} wait for each other", name.0));
                }
            }
        }
        self.idle.queued = queued;
        for text in late {
            self.find("work is taken soon", text);
        }
    }

    /// Nothing moves any more: all that was asked for has ended, or waits for a true reason.
    pub(in crate::faults) fn at_the_end(&mut self, rows: &Rows, fleet: &[&Spec], unasked: usize) {
        const RULE: &str = "in the end nothing is left over";
        self.recovered(rows);
        if unasked > 0 {
            self.find("everybody gets an answer", format!("{unasked} requests had none"));
        }
        for (job, lease) in &rows.leases {
            self.find(RULE, format!("runner {} still has job {job}", lease.runner));
        }
        for task in rows.outbox.values() {
            self.find(RULE, format!("the task {:?}", task.order));
        }
        for timer in rows.timers.keys() {
            self.find(RULE, format!("the timer {timer:?}"));
        }
        for (number, run) in &rows.runs {
            if matches!(run.hood.run.state, RunState::Done(_)) {
                continue;
            }
            if let Some(text) = stuck(run, fleet) {
                self.find(
                    "every job ends, or waits for a true reason",
                    format!("run {number}: {text}"),
                );
            }
        }
    }
}

/// Why a run that has not ended should have moved; nothing when all it waits for is truly missing.
fn stuck(run: &RunRows, fleet: &[&Spec]) -> Option<String> {
    let mut waits = matches!(run.hood.run.state, RunState::Gated(_));
    for (number, leg) in &run.hood.legs {
        match &leg.state {
            LegState::Queued => {
                if fleet.iter().any(|spec| can_take(spec, run, *number)) {
                    return Some(format!("leg {number} is queued, and there are runners for it"));
                }
                waits = true;
            }
            // The auditor has seen to it that the holder of the group is open.
            LegState::Waiting(Wait::Group) => waits = true,
            LegState::Waiting(Wait::Backoff { .. }) => {
                return Some(format!("leg {number} was never woken"));
            }
            state if state.is_held() => return Some(format!("leg {number} is {state:?}")),
            _ => {}
        }
    }
    (!waits).then(|| "nothing moves it".to_owned())
}

fn can_take(spec: &Spec, run: &RunRows, leg: LegNo) -> bool {
    let fits = label(run, leg).is_some_and(|label| spec.labels.contains(&label.as_str()));
    fits && spec.org.is_none_or(|org| org == run.org)
}
