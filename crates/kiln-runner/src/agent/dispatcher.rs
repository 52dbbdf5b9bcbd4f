//! What the agent does next: events in, decisions out. No I/O happens here.
//!
//! A job goes through `Preparing → Running → Delivering` and is gone: in the first two it has a slot, in
//! the third only the lease and what is still to be told.

use std::collections::BTreeMap;

use kiln_proto::job::JobRef;
use kiln_proto::runner::Command;

/// How much of a hurry there is to stop. It only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    #[default]
    No,
    /// Take no new jobs, and go when the last is done.
    Drain,
    /// Give back what has not begun, cancel the rest, and go when that is told.
    HandBack,
    /// End everything at once.
    Kill,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Preparing,
    Running,
    Delivering,
}

/// What is to be done with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Run {
        job: JobRef,
        slot: usize,
    },
    /// It was taken although it is not wanted.
    GiveBack(JobRef),
    /// Stop before the first step, or cancel when it is too late for that.
    HandBack(JobRef),
    Cancel(JobRef),
    Kill(JobRef),
    /// End it, and say nothing more about it.
    Abandon(JobRef),
}

/// What those who talk to the server must know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mood {
    /// There is a free slot, and nothing against filling it.
    pub(super) wants_work: bool,
    /// How many slots are free.
    pub(super) free: u32,
    pub(super) jobs: Vec<JobRef>,
    pub(super) draining: bool,
    pub(super) trouble: Option<String>,
}

impl Mood {
    /// Whether the server must hear of this runner besides its claims. It has to know when a runner
    /// that takes no jobs does so again.
    pub(super) fn must_be_heard(&self, told_leaving: bool) -> bool {
        !self.jobs.is_empty() || self.trouble.is_some() || told_leaving != self.is_leaving()
    }

    /// Whether the server should give it nothing more.
    pub(super) fn is_leaving(&self) -> bool {
        self.draining || self.trouble.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Dispatcher {
    slots: Vec<Option<JobRef>>,
    jobs: BTreeMap<JobRef, Phase>,
    stop: Stop,
    trouble: Option<String>,
    /// Takes one job and no other.
    once: bool,
    given_back: u64,
}

impl Dispatcher {
    pub(super) fn new(slots: usize, once: bool) -> Self {
        let slots = if once { 1 } else { slots.max(1) };
        Self {
            slots: vec![None; slots],
            jobs: BTreeMap::new(),
            stop: Stop::No,
            trouble: None,
            once,
            given_back: 0,
        }
    }

    /// What an earlier process left to be told.
    pub(super) fn recovered(&mut self, job: JobRef) {
        self.jobs.insert(job, Phase::Delivering);
    }

    /// The server gave us a job.
    pub(super) fn claimed(&mut self, job: JobRef) -> Order {
        let free = self.slots.iter().position(Option::is_none);
        match free.filter(|_| self.stop == Stop::No && !self.jobs.contains_key(&job)) {
            Some(slot) => {
                self.slots[slot] = Some(job);
                self.jobs.insert(job, Phase::Preparing);
                if self.once {
                    self.stop = Stop::Drain;
                }
                Order::Run { job, slot }
            }
            None => {
                self.given_back += 1;
                Order::GiveBack(job)
            }
        }
    }

    pub(super) fn started(&mut self, job: JobRef) {
        if let Some(phase) = self.jobs.get_mut(&job) {
            *phase = Phase::Running;
        }
    }

    /// Its processes are gone, and its slot is free.
    pub(super) fn finished(&mut self, job: JobRef) {
        for slot in self.slots.iter_mut().filter(|slot| **slot == Some(job)) {
            *slot = None;
        }
        if let Some(phase) = self.jobs.get_mut(&job) {
            *phase = Phase::Delivering;
        }
    }

    /// There is nothing more to say about it.
    pub(super) fn ended(&mut self, job: JobRef, given_back: bool) {
        self.finished(job);
        // One that was never taken was counted when it came.
        let was_ours = self.jobs.remove(&job).is_some();
        self.given_back += u64::from(given_back && was_ours);
    }

    /// A command of the server. One about a job that is gone comes too late.
    pub(super) fn command(&mut self, command: &Command) -> Vec<Order> {
        let (job, order) = match command {
            Command::Drain => return self.stop(Stop::Drain),
            Command::Cancel(job) => (job, Order::Cancel(*job)),
            Command::Kill(job) => (job, Order::Kill(*job)),
            Command::Abandon(job) => (job, Order::Abandon(*job)),
        };
        let is_abandon = matches!(command, Command::Abandon(_));
        match self.jobs.get(job) {
            None => Vec::new(),
            Some(Phase::Delivering) if !is_abandon => Vec::new(),
            Some(_) => vec![order],
        }
    }

    pub(super) fn stop(&mut self, stop: Stop) -> Vec<Order> {
        if stop <= self.stop {
            return Vec::new();
        }
        self.stop = stop;
        let order = |(job, phase): (&JobRef, &Phase)| match (stop, phase) {
            (Stop::No | Stop::Drain, _) | (_, Phase::Delivering) => None,
            (Stop::HandBack, Phase::Preparing) => Some(Order::HandBack(*job)),
            (Stop::HandBack, Phase::Running) => Some(Order::Cancel(*job)),
            (Stop::Kill, _) => Some(Order::Kill(*job)),
        };
        self.jobs.iter().filter_map(order).collect()
    }

    pub(super) fn trouble(&mut self, trouble: Option<String>) {
        self.trouble = trouble;
    }

    pub(super) fn mood(&self) -> Mood {
        let free = self.slots.iter().filter(|slot| slot.is_none()).count();
        Mood {
            wants_work: free > 0 && self.stop == Stop::No && self.trouble.is_none(),
            free: u32::try_from(free).unwrap_or(u32::MAX),
            jobs: self.jobs.keys().copied().collect(),
            draining: self.stop > Stop::No,
            trouble: self.trouble.clone(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Whether there is nothing left to do, and nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.stop > Stop::No && self.jobs.is_empty()
    }

    /// Whether all that is left of it is to be told.
    pub(super) fn is_delivering(&self, job: JobRef) -> bool {
        self.jobs.get(&job) == Some(&Phase::Delivering)
    }

    pub(super) fn stopping(&self) -> Stop {
        self.stop
    }

    /// How many jobs are still to be told.
    pub(super) fn untold(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn given_back(&self) -> u64 {
        self.given_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobRef = JobRef { job_id: 1, attempt: 1 };
    const B: JobRef = JobRef { job_id: 2, attempt: 1 };
    const C: JobRef = JobRef { job_id: 3, attempt: 1 };

    /// S17
    #[test]
    fn it_asks_for_work_while_a_slot_is_free_and_nothing_is_wrong() {
        let mut dispatcher = Dispatcher::new(2, false);
        assert!(dispatcher.mood().wants_work && !dispatcher.mood().must_be_heard(false));
        assert_eq!(dispatcher.claimed(A), Order::Run { job: A, slot: 0 });
        assert_eq!(dispatcher.claimed(B), Order::Run { job: B, slot: 1 });
        assert!(!dispatcher.mood().wants_work);
        assert_eq!(dispatcher.claimed(C), Order::GiveBack(C));
        dispatcher.ended(C, true);
        assert_eq!(dispatcher.given_back(), 1, "it is counted once");
        dispatcher.finished(A);
        assert!(dispatcher.mood().wants_work, "what is only to be told needs no slot");
        assert_eq!(dispatcher.mood().jobs, [A, B]);
        dispatcher.trouble(Some("the disk is full".to_owned()));
        assert!(!dispatcher.mood().wants_work && dispatcher.mood().must_be_heard(true));
        dispatcher.trouble(None);
        dispatcher.ended(A, false);
        assert_eq!(dispatcher.claimed(C), Order::Run { job: C, slot: 0 });
        assert!(!dispatcher.is_over());
    }

    /// S12
    #[test]
    fn it_drains_then_hands_back_then_kills_and_never_the_other_way() {
        let mut dispatcher = Dispatcher::new(3, false);
        for job in [A, B, C] {
            dispatcher.claimed(job);
        }
        dispatcher.started(B);
        dispatcher.finished(C);
        assert_eq!(dispatcher.command(&Command::Drain), []);
        assert!(dispatcher.mood().draining && !dispatcher.mood().wants_work);
        assert_eq!(dispatcher.stop(Stop::HandBack), [Order::HandBack(A), Order::Cancel(B)]);
        assert_eq!(dispatcher.stop(Stop::Drain), []);
        assert_eq!(dispatcher.stop(Stop::HandBack), []);
        assert_eq!(dispatcher.stop(Stop::Kill), [Order::Kill(A), Order::Kill(B)]);
        dispatcher.ended(A, true);
        dispatcher.ended(B, false);
        assert!(!dispatcher.is_over(), "one is still to be told");
        dispatcher.ended(C, false);
        assert!(dispatcher.is_over() && dispatcher.given_back() == 1);
    }

    #[test]
    fn commands_about_jobs_that_are_gone_come_too_late() {
        let mut dispatcher = Dispatcher::new(1, false);
        assert_eq!(dispatcher.command(&Command::Cancel(A)), []);
        dispatcher.claimed(A);
        assert_eq!(dispatcher.command(&Command::Cancel(A)), [Order::Cancel(A)]);
        assert_eq!(dispatcher.command(&Command::Kill(A)), [Order::Kill(A)]);
        let older = JobRef { attempt: 0, ..A };
        assert_eq!(dispatcher.command(&Command::Abandon(older)), [], "another claim is meant");
        dispatcher.finished(A);
        assert_eq!(dispatcher.command(&Command::Cancel(A)), []);
        assert_eq!(dispatcher.command(&Command::Abandon(A)), [Order::Abandon(A)]);
    }

    #[test]
    fn a_runner_for_one_job_takes_one() {
        let mut dispatcher = Dispatcher::new(8, true);
        assert_eq!(dispatcher.claimed(A), Order::Run { job: A, slot: 0 });
        assert_eq!(dispatcher.claimed(B), Order::GiveBack(B));
        dispatcher.ended(A, false);
        assert!(dispatcher.is_over() && !dispatcher.mood().wants_work);
    }

    #[test]
    fn what_an_earlier_process_left_keeps_its_lease_but_needs_no_slot() {
        let mut dispatcher = Dispatcher::new(1, false);
        dispatcher.recovered(A);
        assert!(dispatcher.mood().wants_work && dispatcher.mood().must_be_heard(false));
        assert_eq!(dispatcher.claimed(A), Order::GiveBack(A), "it is at hand already");
    }
}
