//! Faults that tests ask of a program from outside, by its environment.
//!
//! | variable | what |
//! |---|---|
//! | `KILN_FAULT=store.before-commit:17` | the process dies when it passes this [`Point`] for the 17th time |
//! | `KILN_FAULT_HOLD=runner.claimed:FILE` | whoever passes this point waits there as long as there is the file |
//! | `KILN_FAULT_CLOCK=FILE` | the clock is wrong by as many milliseconds as the file says, now |
//! | `KILN_FAULT_LEASE=6000` | leases last so many milliseconds |
//!
//! Debug builds alone look at them. In a release build a point is nothing and times are what they are.

use std::time::Duration;

#[cfg(debug_assertions)]
mod asked;

/// A place in the code at which a process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A transaction has done its work, and nothing of it is durable.
    BeforeCommit,
    /// It is durable, and nobody was told.
    AfterCommit,
    /// A job has a lease, and its runner was not told.
    ServerClaimed,
    /// A piece of a log is on the disk, and the runner was not told.
    ServerLogged,
    /// The end of a job is in the database, and the runner was not told.
    ServerCompleted,
    /// A piece of what a manifest owned is gone, and the rest is not.
    DutyCleaned,
    /// Rows of bytes that nobody uses are gone, and the bytes are not.
    DutySwept,
    /// A runner was given a job, and has written nothing of it down.
    RunnerClaimed,
    /// All steps have ended, and how is not written down.
    RunnerEnded,
    /// The server has the whole log and all events, and was not told how the job ended.
    RunnerDelivered,
    /// The server has everything, and the runner still has it written down.
    RunnerCompleted,
}

impl Point {
    pub const ALL: [Self; 11] = [
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::ServerClaimed,
        Self::ServerLogged,
        Self::ServerCompleted,
        Self::DutyCleaned,
        Self::DutySwept,
        Self::RunnerClaimed,
        Self::RunnerEnded,
        Self::RunnerDelivered,
        Self::RunnerCompleted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeCommit => "store.before-commit",
            Self::AfterCommit => "store.after-commit",
            Self::ServerClaimed => "server.claimed",
            Self::ServerLogged => "server.logged",
            Self::ServerCompleted => "server.completed",
            Self::DutyCleaned => "duty.cleaned",
            Self::DutySwept => "duty.swept",
            Self::RunnerClaimed => "runner.claimed",
            Self::RunnerEnded => "runner.ended",
            Self::RunnerDelivered => "runner.delivered",
            Self::RunnerCompleted => "runner.completed",
        }
    }

    /// Passes the point. The process dies or waits here if that was asked.
    #[inline]
    pub fn pass(self) {
        #[cfg(debug_assertions)]
        asked::die_at(self);
        #[cfg(debug_assertions)]
        asked::hold_at(self);
    }
}

/// What the clock shows, in milliseconds, when the right time is this.
#[inline]
pub fn clock(right: u64) -> u64 {
    #[cfg(debug_assertions)]
    let right = asked::shifted(right);
    right
}

/// How long leases last when they usually last for this.
#[inline]
pub fn lease(usual: Duration) -> Duration {
    #[cfg(debug_assertions)]
    let usual = asked::lease().unwrap_or(usual);
    usual
}
