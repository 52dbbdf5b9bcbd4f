//! The auditor: it looks at every step, and believes nobody.
//!
//! Safety is checked after each transaction, on the rows before and after it (`steps.rs`, `rows.rs`), with a
//! slow model of how a graph of jobs goes (`reference.rs`) and with the marks that runners leave outside of
//! Kiln. What was answered as done must be there after every crash. Liveness is checked when faults have
//! ceased and nothing moves any more (`ends.rs`).

mod choice;
mod ends;
mod excuses;
mod ledger;
mod reference;
mod rows;
mod steps;

use std::collections::BTreeMap;
use std::fmt;

use kiln_core::id::JobId;
use kiln_core::plan::JobKind;
use kiln_core::run::{Conclusion, LegState, RunState};
use kiln_core::time::Timestamp;

use super::kiln::{Done, Given, Rows, RunRows, Work};
use super::message::{Mark, Promise};
use super::workload::Spec;

pub(super) use ends::Idle;
pub(super) use ledger::Ledger;

/// Something that must hold and does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which promise was broken.
    pub rule: &'static str,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// A job that a runner began, as its mark says.
#[derive(Debug)]
struct Execution {
    runner: usize,
    end: End,
}

/// How what a runner began went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    BrokenOff,
    Came(Conclusion),
}

#[derive(Debug, Default)]
pub(super) struct Auditor {
    executions: BTreeMap<(JobId, u32), Execution>,
    heard: Vec<(JobId, u32, Conclusion)>,
    promises: Vec<Promise>,
    findings: Vec<Finding>,
    several_jobs: usize,
    idle: Idle,
}

/// One transaction, as the auditor sees it.
#[derive(Debug)]
pub(super) struct Step<'s> {
    pub(super) before: &'s Rows,
    pub(super) after: &'s Rows,
    pub(super) work: &'s Work,
    pub(super) done: &'s Done,
    /// The database's time.
    pub(super) now: Timestamp,
}

impl Auditor {
    pub(super) fn executions(&self) -> usize {
        self.executions.len()
    }

    pub(super) fn several_jobs(&self) -> usize {
        self.several_jobs
    }

    pub(super) fn finding(&self) -> Option<&Finding> {
        self.findings.first()
    }

    fn find(&mut self, rule: &'static str, text: impl Into<String>) {
        self.findings.push(Finding { rule, text: text.into() });
    }

    /// A runner left a mark, or somebody had an answer.
    pub(super) fn marked(&mut self, mark: &Mark, runner: Option<(usize, &Spec)>, rows: &Rows) {
        match (mark, runner) {
            (Mark::Began(given), Some((runner, spec))) => self.began(given, runner, spec, rows),
            (Mark::Ended { job, claim, conclusion }, _) => {
                if let Some(execution) = self.executions.get_mut(&(*job, *claim)) {
                    execution.end = conclusion.map_or(End::BrokenOff, End::Came);
                }
            }
            (Mark::Heard { job, claim, conclusion }, _) => {
                self.heard.push((*job, *claim, *conclusion));
                self.is_heard(rows, *job, *claim, *conclusion);
            }
            (Mark::Promised(promise), _) => {
                self.promises.push(*promise);
                self.is_kept(rows, *promise);
            }
            (Mark::Began(_), None) => {}
        }
    }

    fn began(&mut self, given: &Given, runner: usize, spec: &Spec, rows: &Rows) {
        let name = (given.job, given.claim);
        if let Some(other) = self.executions.get(&name) {
            let text = format!(
                "runners {} and {runner} both began claim {} of job {}",
                other.runner, given.claim, given.job
            );
            self.find("two runners never hold one attempt", text);
        }
        let earlier = self.executions.values().filter(|other| other.runner == runner).count();
        if spec.single_use && earlier > 0 {
            let text = format!("runner {runner} began job {}", given.job);
            self.find("a runner for a single job has no other", text);
        }
        self.executions.insert(name, Execution { runner, end: End::Open });
        let Some(run) = rows.runs.get(&given.run) else {
            let text = format!("job {} of run {} was begun", given.job, given.run);
            return self.find("what was answered is there", text);
        };
        let job = &run.hood.run.plan.workflows[given.workflow].jobs[given.position];
        let JobKind::Steps(steps) = &job.kind else {
            return self.find("runners run steps", format!("job {} is a call", given.job));
        };
        let label = steps.runs_on.constant();
        let label = label.as_ref().and_then(|label| label.as_str()).unwrap_or_default();
        if !spec.labels.contains(&label) || spec.org.is_some_and(|org| org != run.org) {
            let text = format!("runner {runner} began job {}, which wants `{label}`", given.job);
            self.find("a runner gets only what it can do", text);
        }
    }

    /// A transaction was carried out. The ledger is the auditor's own part of the rows.
    pub(super) fn performed(&mut self, step: &Step<'_>, ledger: &mut Ledger) {
        ledger.note(step);
        for (run, after) in &step.after.runs {
            let before = step.before.runs.get(run);
            if before.is_some_and(|before| std::rc::Rc::ptr_eq(before, after)) {
                continue;
            }
            ledger.note_run(step, before.map(|before| &**before), after);
            self.run_changed(step, ledger, *run, before.map(|before| &**before), after);
        }
        if step.after.runs.len() < step.before.runs.len() {
            self.find("no accepted job is lost", "a run is gone");
        }
        self.refused_again(step);
        self.offers(step);
        self.tables(step.after);
    }

    /// The database came back: all that was answered must be there.
    pub(super) fn recovered(&mut self, rows: &Rows) {
        for promise in self.promises.clone() {
            self.is_kept(rows, promise);
        }
        for (job, claim, conclusion) in self.heard.clone() {
            self.is_heard(rows, job, claim, conclusion);
        }
    }

    fn is_kept(&mut self, rows: &Rows, promise: Promise) {
        let run = |run: u64| rows.runs.get(&run).map(|rows| &rows.hood.run);
        let kept = match promise {
            Promise::Created { key, run } => {
                rows.triggers.get(&key) == Some(&run) && rows.runs.contains_key(&run)
            }
            Promise::Cancelled { run: number } => run(number).is_some_and(|run| {
                let done = matches!(run.state, RunState::Done(_));
                run.cancel.is_some() || done || run.attempt > 1
            }),
            Promise::Attempt { run: number, attempt } => {
                run(number).is_some_and(|run| run.attempt >= attempt)
            }
        };
        if !kept {
            self.find("what was answered is there", format!("{promise:?} is not so"));
        }
    }

    /// A runner was told that its last word counts.
    fn is_heard(&mut self, rows: &Rows, job: JobId, claim: u32, conclusion: Conclusion) {
        let run: Option<&RunRows> = rows.runs.get(&job.run().0.unsigned_abs()).map(|run| &**run);
        let state = run.and_then(|run| {
            let past = run.past.get(&job).cloned();
            past.or_else(|| {
                let leg = &run.hood.legs[&run.leg_of(job)?];
                Some((leg.attempt, leg.state.clone()))
            })
        });
        let good = match &state {
            None => false,
            Some((current, _)) if *current != claim => *current > claim,
            Some((_, LegState::Done(end))) => {
                let accepted = rows.ledger.accepted.get(&(job, claim));
                // One that was to be tried again can be cancelled before it is.
                let same = |accepted: &Conclusion| {
                    *accepted == conclusion && [conclusion, Conclusion::Cancelled].contains(end)
                };
                accepted.is_none_or(same)
            }
            Some((_, state)) => !state.is_held(),
        };
        if !good {
            let text = format!("claim {claim} of job {job} ended with {conclusion:?}: {state:?}");
            self.find("what was answered is there", text);
        }
    }
}
