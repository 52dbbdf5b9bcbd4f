//! What runs without a request: leases that ran out, timers, tasks of the outbox.

use std::time::Duration;

use kiln_core::id::{JobId, QueueId};
use kiln_core::queue::matches;
use kiln_core::run::{Event, LegNo, LegState};

use super::{Order, Task, Tx, What};
use crate::faults::bug::Bug;

/// How much is done in one transaction.
const PIECE: usize = 64;
/// How long another server leaves a task to the one that took it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a job waits for a runner that could take it.
const HOPE: Duration = Duration::from_secs(90);

impl Tx<'_> {
    pub(super) fn expired(&self) -> Vec<JobId> {
        let expired = self.rows.leases.iter().filter(|(_, lease)| lease.expires <= self.now);
        expired.map(|(job, _)| *job).take(PIECE).collect()
    }

    /// Ends leases that were found to have run out, unless they were renewed meanwhile.
    pub(super) fn reap(&mut self, jobs: &[JobId]) {
        for job in jobs {
            let run = job.run().0.unsigned_abs();
            let Some(rows) = self.rows.runs.get(&run) else { continue };
            let Some(leg) = rows.leg_of(*job) else { continue };
            let row = &rows.hood.legs[&leg];
            let (attempt, claimed) = (row.attempt, matches!(row.state, LegState::Claimed { .. }));
            let lease = self.rows.leases.get(job);
            let renewed =
                lease.is_some_and(|lease| lease.claim == attempt && lease.expires > self.now);
            if renewed && !self.rules.has(Bug::ReaperRace) {
                continue;
            }
            let unheard = claimed && lease.is_some_and(|lease| !lease.acknowledged);
            let event = if unheard {
                Event::Returned { leg, attempt }
            } else {
                let reason = "its runner was not heard of for too long".to_owned();
                Event::Lost { leg, attempt, reason }
            };
            if self.change(run, event).is_err()
                && self.rows.leases.get(job).is_some_and(|lease| lease.expires <= self.now)
            {
                // A lease without a job that is held is of no use to anybody.
                self.rows.leases.remove(job);
            }
        }
    }

    /// Wakes legs whose time has come.
    pub(super) fn ring(&mut self) {
        let due = self.rows.timers.iter().filter(|(_, at)| **at <= self.now);
        let due: Vec<_> = due.map(|(name, _)| *name).take(PIECE).collect();
        for (run, attempt, leg) in due {
            if self.rows.runs[&run].hood.run.attempt == attempt {
                // A wake-up is never refused.
                let _ = self.change(run, Event::Wake { leg });
            }
            let name = (run, attempt, leg);
            if self.rows.timers.get(&name).is_some_and(|at| *at <= self.now) {
                self.rows.timers.remove(&name);
            }
        }
    }

    /// Fails jobs that have waited for long, and for which there is no runner at all.
    pub(super) fn give_up(&mut self) {
        let serves = |queue: &QueueId| {
            let needs = self.rows.queues.iter().find(|(id, _)| id == queue).map(|(_, needs)| needs);
            needs.is_none_or(|needs| self.rows.fleet.iter().any(|runner| matches(needs, runner)))
        };
        let hopeless = self.rows.queue.iter().filter(|(lane, _)| !serves(&lane.0));
        let places = hopeless.flat_map(|(_, places)| places.iter());
        let jobs: Vec<(JobId, LegNo)> =
            places.map(|((_, job), leg)| (*job, *leg)).take(PIECE).collect();
        for (job, leg) in jobs {
            let run = job.run().0.unsigned_abs();
            let queued = self.rows.runs[&run].hood.legs[&leg].timings.queued;
            if queued.is_some_and(|queued| self.now.since(queued) > HOPE) {
                let reason = "no runner could ever take it".to_owned();
                // One that was cancelled with another one of these is queued no more.
                let _ = self.change(run, Event::Unsupported { leg, reason });
            }
        }
    }

    /// Takes what is due. Nobody else gets it before the patience is over.
    pub(super) fn take_tasks(&mut self) -> Vec<Task> {
        let due = self.rows.outbox.values().filter(|task| task.due <= self.now);
        let due: Vec<u64> = due.map(|task| task.id).take(PIECE).collect();
        let mut taken = Vec::new();
        for id in due {
            let Some(task) = self.rows.outbox.get_mut(&id) else { continue };
            task.tries += 1;
            task.due = self.now + PATIENCE;
            taken.push(task.clone());
            if self.rules.has(Bug::LostTask) {
                self.rows.outbox.remove(&id);
            }
        }
        taken
    }

    /// Does a task and removes it, unless somebody else has it by now.
    pub(super) fn do_task(&mut self, task: &Task) {
        let mine = self.rows.outbox.get(&task.id).is_some_and(|row| row.tries == task.tries);
        if !mine && !self.rules.has(Bug::LostTask) {
            return;
        }
        self.rows.outbox.remove(&task.id);
        let order = &task.order;
        if self.rows.runs[&order.run].hood.run.attempt == order.attempt {
            // What is refused has ended since.
            let _ = self.change(order.run, order.event());
        }
        if self.rules.has(Bug::EvictsAdmitted)
            && let What::Admit { leg } = order.what
        {
            let reason = "a newer one entered the concurrency group".to_owned();
            self.put(Order { what: What::Cancel { leg, reason }, ..order.clone() });
        }
    }
}
