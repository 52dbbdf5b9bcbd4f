//! Kiln itself, small: rows as the store has them, and the transactions that servers ask for.
//!
//! What becomes of a run decides the real [`kiln_core::run`], who gets a job the real
//! [`kiln_core::queue`]. Around them stands what `kiln-store` does, in the same order and with the same
//! checks, on maps instead of tables.

mod change;
mod chores;
mod claim;
pub(super) mod evaluator;
mod news;
mod plant;
mod requests;
mod rows;
mod save;

use kiln_core::id::{JobId, RepoId};
use kiln_core::queue::Policy;
use kiln_core::run::{Again, Conclusion, Rejected};
use kiln_core::time::Timestamp;

use super::bug::Bug;
use super::workload::Asked;
use evaluator::Model;

pub(super) use claim::{Asking, Given, Offered};
pub(super) use rows::{Command, JobRow, Lane, Lease, Order, Rows, RunRows, Task, What};

/// How long a lease is good, in milliseconds.
pub(super) const LEASE: u64 = 60_000;

/// What is the same for all transactions of a simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) bug: Option<Bug>,
    /// Bring only the rows that a transition asks for, as the store does.
    pub(super) sparse: bool,
    /// How many steps of propagation a transaction takes before the outbox has to go on.
    pub(super) steps: usize,
    /// In how many transactions words that came together are heard: those of one run in the same.
    pub(super) ways: usize,
    /// Fail jobs that no runner could take, instead of letting them wait.
    pub(super) gives_up: bool,
    /// How the next job is chosen.
    pub(super) policy: Policy,
    /// Those who wait for work look by themselves now and then, as hints may get lost.
    pub(super) looks: bool,
}

impl Rules {
    pub(super) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// What a server asks of the database.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Create {
        key: u64,
        asked: Asked,
    },
    Cancel {
        run: u64,
        forced: bool,
    },
    CancelLeg {
        run: u64,
        leg: u32,
    },
    Again {
        run: u64,
        what: Again,
    },
    /// Holds the jobs of a repository back, or no longer.
    Pause {
        repo: RepoId,
        on: bool,
    },
    /// Lets a runner end what it has and gives it nothing more, or gives it work again.
    Drain {
        runner: u64,
        on: bool,
    },
    Claim(Vec<Asking>),
    Beat {
        runner: u64,
        held: Vec<(JobId, u32)>,
    },
    News(News),
    /// Which leases have run out?
    Expired,
    Reap(Vec<JobId>),
    Ring,
    TakeTasks,
    DoTask(Task),
    /// Fails what no runner there is could ever take.
    GiveUp,
}

/// What a runner says about a job that it has.
#[derive(Debug, Clone)]
pub(super) struct News {
    pub(super) job: JobId,
    pub(super) claim: u32,
    pub(super) runner: u64,
    pub(super) word: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Started,
    Finished(Conclusion),
    Lost,
    Returned,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(super) enum Done {
    Run(u64),
    Attempt(u32),
    Accepted,
    Refused(String),
    /// To each question.
    Given(Vec<Offered>),
    /// For each job that was named: until when, and what to do about it; nothing if it is gone.
    Held(Vec<Option<(Timestamp, Option<Command>)>>),
    Expired(Vec<JobId>),
    Tasks(Vec<Task>),
}

/// A hint that something changed; sent after the commit, and may get lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Signal {
    Work,
    Outbox,
    Timer,
}

/// One transaction: all of it happens at once.
#[derive(Debug)]
pub(super) struct Tx<'t> {
    pub(super) rows: &'t mut Rows,
    /// The database's time.
    pub(super) now: Timestamp,
    pub(super) rules: Rules,
    pub(super) signals: Vec<Signal>,
}

impl Tx<'_> {
    pub(super) fn perform(&mut self, work: &Work) -> Done {
        match work {
            Work::Create { key, asked } => Done::Run(self.create(*key, asked)),
            Work::Cancel { run, forced } => self.cancel(*run, *forced),
            Work::CancelLeg { run, leg } => self.cancel_leg(*run, *leg),
            Work::Again { run, what } => self.again(*run, *what),
            Work::Pause { repo, on } => self.pause(*repo, *on),
            Work::Drain { runner, on } => self.drain(*runner, *on),
            Work::Claim(asking) => Done::Given(self.claim(asking)),
            Work::Beat { runner, held } => Done::Held(self.beat(*runner, held)),
            Work::News(news) => answer(self.news(news)),
            Work::Expired => Done::Expired(self.expired()),
            Work::Reap(jobs) => {
                self.reap(jobs);
                Done::Accepted
            }
            Work::Ring => {
                self.ring();
                Done::Accepted
            }
            Work::TakeTasks => Done::Tasks(self.take_tasks()),
            Work::GiveUp => {
                self.give_up();
                Done::Accepted
            }
            Work::DoTask(task) => {
                self.do_task(task);
                Done::Accepted
            }
        }
    }

    fn model(&self) -> Model {
        Model { skips_are_fine: self.rules.has(Bug::SkipIsSuccess) }
    }

    fn signal(&mut self, signal: Signal) {
        if !self.signals.contains(&signal) {
            self.signals.push(signal);
        }
    }
}

/// Why a word was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refused {
    NoSuchJob,
    NotYours,
    Rejected(Rejected),
}

impl From<Rejected> for Refused {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

fn answer(result: Result<(), Refused>) -> Done {
    match result {
        Ok(()) => Done::Accepted,
        Err(Refused::NoSuchJob) => Done::Refused("there is no such job".to_owned()),
        Err(Refused::NotYours) => Done::Refused("another runner has this job".to_owned()),
        Err(Refused::Rejected(rejected)) => Done::Refused(rejected.to_string()),
    }
}
