//! Processes and their whole trees: starting, reading, stopping, and leaving nothing behind.
//!
//! [`run`] blocks the thread of a job until a process has ended. It is one `poll` loop without helper
//! threads: output is passed to a [`Sink`] line by line, a [`Control`] stops the process from any
//! other thread, [`Limits`] bound it. Every process carries its [`Tree`]'s mark, by which
//! [`Tree::sweep`] finds also those that left their parent, their group and their session. A [`Guard`]
//! does the same when this process itself is killed.
//!
//! This is the one place that starts processes, and it assumes so: [`reap_orphans`] would take the
//! exit status of children that were started elsewhere.
//!
//! Where a writable cgroup v2 exists, `cgroup.kill` would do the sweep's work in one write; the mark
//! needs no privilege and works everywhere, so it came first. Control groups limit what a job uses: [`Cage`].
#![expect(
    clippy::disallowed_methods,
    reason = "processes are started here, and their limits are measured in real time"
)]

mod cage;
mod child;
mod command;
mod control;
mod guard;
mod lineage;
mod lines;
mod memory;
mod orphans;
mod program;
mod run;
mod stop;
mod sweep;
mod sys;
mod tree;

pub use cage::{Bounds, Cage};
pub use command::{Command, Ends, find_program};
pub use control::Control;
pub use guard::{Guard, guard_main};
pub use lineage::Leader;
pub use lines::{Ending, MAX_LINE, Sink, Stream};
pub use orphans::{become_subreaper, reap_orphans};
pub use program::let_go_of_start;
pub use run::{End, Limits, Outcome, Patience, run, run_between};
pub use stop::Ladder;
pub use sweep::{Swept, end_orphans};
pub use sys::{Usage, refuse_terminal};
pub use tree::{Tree, VARIABLE};
