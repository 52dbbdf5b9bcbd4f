//! What actors say to each other, and what an actor does when it is spoken to.

use kiln_core::id::{JobId, RepoId};
use kiln_core::run::{Again, Conclusion};
use kiln_core::time::Timestamp;

use super::kiln::{Asking, Command, Done, Given, News, Signal, Work};
use super::workload::Asked;

/// Somebody in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Actor {
    People,
    Server(usize),
    Runner(usize),
    Database,
}

#[derive(Debug, Clone)]
pub(super) enum Message {
    Request {
        id: u64,
        ask: Ask,
    },
    Response {
        id: u64,
        answer: Answer,
    },
    /// Nobody listens at that address.
    Refused {
        id: u64,
    },
    /// All of it happens with one commit.
    Transact {
        ticket: u64,
        works: Vec<Work>,
    },
    Transacted {
        ticket: u64,
        done: Vec<Done>,
    },
    Notify(Vec<Signal>),
    /// A server asks to lead, or to go on leading; it says when it asked, by its own clock.
    Lead {
        asked: u64,
    },
    Led {
        asked: u64,
    },
}

/// A request to a server.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Trigger {
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
    Pause {
        repo: RepoId,
        on: bool,
    },
    Drain {
        runner: u64,
        on: bool,
    },
    Again {
        run: u64,
        what: Again,
    },
    Claim(Asking),
    Beat {
        runner: u64,
        held: Vec<(JobId, u32)>,
    },
    News(News),
    /// Jobs that ended together.
    Ends(Vec<News>),
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Created(u64),
    Attempt(u32),
    Accepted,
    /// What the server remembers of an end that it heard before.
    Ended(Conclusion),
    /// To each of several ends; nothing to one that is to be told alone.
    Together(Vec<Option<Answer>>),
    Refused(String),
    /// Something is wrong, and may be better later. It may have happened all the same.
    Unavailable,
    Jobs(Vec<Given>),
    Held(Vec<Option<(Timestamp, Option<Command>)>>),
}

/// What an actor set itself as a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// A request, or a transaction, was not answered in time.
    Overdue(u64),
    /// A server: asks to lead.
    Lead,
    /// A server: looks for leases that ran out, for timers, for tasks, for work, for jobs without hope.
    Reap,
    ReapFound,
    Ring,
    Outbox,
    Look,
    GiveUp,
    /// A server: a long poll is over.
    PollEnds(u64),
    /// A runner: asks for work.
    Ask,
    /// A runner: gives the next job of an answer its place.
    Place,
    Beat,
    /// A runner: a job is through, or has been cancelled for long enough.
    Finish(JobId, u32),
    /// A runner: tells how a job ended, with others or alone.
    Deliver(JobId, u32),
    /// A runner: tells of all that have come by then.
    Tell,
    /// People: the next thing to do, by its place in the list.
    Act(usize),
}

/// What a runner did, as seen from outside of Kiln.
#[derive(Debug, Clone)]
pub(super) enum Mark {
    Began(Given),
    /// It came to its end, in this way; `None` when it was broken off.
    Ended {
        job: JobId,
        claim: u32,
        conclusion: Option<Conclusion>,
    },
    /// Kiln said that it has heard how the job ended.
    Heard {
        job: JobId,
        claim: u32,
        conclusion: Conclusion,
    },
    /// Kiln said that this is so from now on.
    Promised(Promise),
}

/// Something that Kiln answered, and that must be so for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    Created { key: u64, run: u64 },
    Cancelled { run: u64 },
    Attempt { run: u64, attempt: u32 },
}

/// What an actor does in answer to something.
#[derive(Debug)]
pub(super) struct Out {
    /// By the actor's own clock.
    pub(super) now: u64,
    pub(super) sends: Vec<(Actor, Message)>,
    pub(super) timers: Vec<(u64, Timer)>,
    pub(super) marks: Vec<Mark>,
}

impl Out {
    pub(super) fn new(now: u64) -> Self {
        Self { now, sends: Vec::new(), timers: Vec::new(), marks: Vec::new() }
    }

    pub(super) fn send(&mut self, to: Actor, message: Message) {
        self.sends.push((to, message));
    }

    pub(super) fn after(&mut self, millis: u64, timer: Timer) {
        self.timers.push((millis, timer));
    }
}
