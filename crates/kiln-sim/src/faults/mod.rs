//! Faults, found by seed: servers, runners, a database and a network as actors in virtual time.
//!
//! Everything that a seed decides is drawn from it: what is asked, what goes wrong, how long each message
//! takes. The same seed gives the same history, line by line. An auditor looks at every transaction, and
//! compares what Kiln says with what was asked and with the marks that runners leave outside of it.
//!
//! `scripts/soak` tries many seeds; [`simulate`] is one.

mod auditor;
mod bug;
mod calamity;
mod database;
mod history;
mod kiln;
mod message;
mod network;
mod people;
mod runner;
mod server;
mod told;
mod workload;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use auditor::Finding;
pub use bug::Bug;

/// What is to be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub seed: u64,
    /// A mistake to plant.
    pub bug: Option<Bug>,
}

/// How a simulation went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub bug: Option<Bug>,
    /// The first thing that did not hold.
    pub finding: Option<Finding>,
    /// How long it was, in milliseconds of its own time.
    pub millis: u64,
    pub events: u64,
    pub runs: usize,
    /// How many jobs runners began.
    pub executions: usize,
    /// How many answers had several jobs, and how many said of several ends that they were heard.
    pub several_jobs: usize,
    pub several_ends: usize,
    /// Of the whole history.
    pub hash: u64,
    /// The last lines of it.
    pub history: Vec<String>,
}

/// How many lines of history a report has.
const SHOWN: usize = 60;

/// What a person needs who wants to know what went wrong: the finding, the last lines, and how to see it
/// again.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(finding) = &self.finding else {
            return write!(f, "seed {}: nothing was found", self.seed);
        };
        let from = self.history.len().saturating_sub(SHOWN);
        for line in &self.history[from..] {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}: {finding}", self.seed)?;
        let bug = self.bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
        write!(f, "reproduce it with: scripts/soak --from {} --seeds 1{bug}", self.seed)
    }
}

/// Runs one seed to its end, or to the first thing that does not hold.
pub fn simulate(setup: Setup) -> Outcome {
    let Setup { seed, bug } = setup;
    let run = || world::World::new(setup).run(seed);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no word");
        let finding = Finding { rule: "nothing panics", text: text.to_owned() };
        Outcome {
            seed,
            bug,
            finding: Some(finding),
            millis: 0,
            events: 0,
            runs: 0,
            executions: 0,
            several_jobs: 0,
            several_ends: 0,
            hash: 0,
            history: Vec::new(),
        }
    })
}
