//! What moves jobs on: the queue, leases, timers, groups, tasks.

use super::rows::{Attempt, JobRow, Piece, Tasks};
use super::{Report, Rule};
use kiln_core::id::JOBS_PER_RUN;
use kiln_core::run::Step;

impl Piece {
    pub(super) fn work(&self, attempt: &Attempt, tasks: &Tasks, report: &mut Report) {
        for (number, job) in &attempt.jobs {
            self.job(attempt, *number, job, report);
            if let Some(group) = &job.group {
                self.membership(attempt, Some(*number), group, tasks, report);
            }
            if job.state == "group" {
                self.waits_for_group(attempt, *number, job, tasks, report);
            }
        }
        if let Some(group) = &attempt.group {
            self.membership(attempt, None, group, tasks, report);
        }
        if attempt.state == "gated" {
            let holds = attempt.group.as_ref().is_some_and(|group| {
                self.members(attempt, group).first() == Some(&(attempt.run, None))
            });
            if (attempt.group.is_none() || holds) && !tasks.admit.contains(&None) {
                let text = "it waits for a group that nobody else holds";
                report.find(Rule::Stuck, attempt.name(), text);
            }
        }
        self.moves_at_all(attempt, tasks, report);
    }

    fn job(&self, attempt: &Attempt, number: i64, job: &JobRow, report: &mut Report) {
        let mut find = |rule, text: String| report.find(rule, attempt.job_name(number), text);
        if job.state == "queued" && !self.placed.contains(&job.id) {
            find(Rule::QueuedJob, "it is queued, and has no place in the queue".to_owned());
        }
        let timer = self.timers.get(&(attempt.run, attempt.number, number));
        if job.state == "backoff" && (timer.is_none() || timer.copied() != job.wake_at) {
            let text = format!("it waits for {:?}, and its timer rings at {timer:?}", job.wake_at);
            find(Rule::WaitingJob, text);
        }
        if job.is_held() && !self.leases.contains_key(&job.id) {
            find(Rule::HeldJob, format!("runner {:?} has it without a lease", job.runner));
        }
    }

    pub(super) fn leases_and_timers(&self, report: &mut Report) {
        for (id, lease) in &self.leases {
            report.leases += 1;
            let run = id.div_euclid(JOBS_PER_RUN);
            let job = self.attempts.get(&(run, lease.attempt));
            let job = job.and_then(|attempt| attempt.jobs.get(&lease.number));
            let held = job.is_some_and(|job| {
                job.id == *id
                    && job.is_held()
                    && (job.claim, job.runner) == (lease.claim, Some(lease.runner))
            });
            if !held {
                let subject = format!("the lease of job {id}");
                let text = format!(
                    "claim {} of runner {} is not how the job stands: {job:?}",
                    lease.claim, lease.runner
                );
                report.find(Rule::Lease, subject, text);
            }
        }
        for ((run, attempt, number), at) in &self.timers {
            let job = self.attempts.get(&(*run, *attempt));
            let job = job.and_then(|attempt| attempt.jobs.get(number));
            if !job.is_some_and(|job| job.state == "backoff" && job.wake_at == Some(*at)) {
                let subject = format!("the timer of run {run}, attempt {attempt}, job {number}");
                report.find(Rule::Timer, subject, format!("no such job waits for {at}"));
            }
        }
    }

    fn members(&self, attempt: &Attempt, group: &str) -> &[super::rows::Member] {
        let key = (attempt.repo, group.to_owned());
        self.groups.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whoever was pushed out of a group says so until a task tells it.
    fn membership(
        &self,
        attempt: &Attempt,
        leg: Option<i64>,
        group: &str,
        tasks: &Tasks,
        report: &mut Report,
    ) {
        let member = self.members(attempt, group).contains(&(attempt.run, leg));
        if !member && !tasks.cancel.contains(&leg) {
            let subject = leg.map_or_else(|| attempt.name(), |leg| attempt.job_name(leg));
            let text = format!("it is in the group `{group}`, which does not know it");
            report.find(Rule::Membership, subject, text);
        }
    }

    fn waits_for_group(
        &self,
        attempt: &Attempt,
        number: i64,
        job: &JobRow,
        tasks: &Tasks,
        report: &mut Report,
    ) {
        let step = |step: fn(u32) -> Step| {
            u32::try_from(number).is_ok_and(|leg| tasks.has(attempt, step(leg)))
        };
        let moved = match &job.group {
            None => step(Step::Enter),
            Some(group) => {
                let holds =
                    self.members(attempt, group).first() == Some(&(attempt.run, Some(number)));
                !holds || tasks.admit.contains(&Some(number)) || step(Step::Admit)
            }
        };
        if !moved {
            let text = "it waits for a group that nobody else holds";
            report.find(Rule::Stuck, attempt.job_name(number), text);
        }
    }

    /// Nothing waits for ever without somebody who will come.
    fn moves_at_all(&self, attempt: &Attempt, tasks: &Tasks, report: &mut Report) {
        let current = self.runs.get(&attempt.run).is_none_or(|run| run.attempt == attempt.number);
        if attempt.is_done() || !current || tasks.any || attempt.state == "gated" {
            return;
        }
        let moves = |job: &JobRow| {
            job.is_held() || matches!(job.state.as_str(), "queued" | "backoff" | "group")
        };
        if !attempt.jobs.values().any(moves) {
            let given_up = &tasks.given_up;
            let text = format!(
                "it is open, and nothing will move it; tasks that were given up: {given_up:?}"
            );
            report.find(Rule::Stuck, attempt.name(), text);
        }
    }
}
