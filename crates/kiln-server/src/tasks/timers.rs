//! Wakes jobs whose time has come: those that wait before their next try.

use std::time::Duration;

use kiln_store::Signal;

use super::driver::{Done, Duty, Fault, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Timers;

impl Duty for Timers {
    fn plan(&self) -> Plan {
        Plan {
            name: "timers",
            every: Duration::from_secs(1),
            wakes: Some(Signal::Timer),
            everywhere: false,
        }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async { report(&app.runs.wake().await?, "job", "jobs") })
    }
}

/// What a chore of the store did. What it could not do is tried again by the store itself, later.
pub(super) fn report(
    chore: &kiln_store::runs::Chore,
    one: &str,
    many: &str,
) -> Result<Done, Fault> {
    if let Some(first) = chore.failed.first() {
        let text = format!("{} of {} failed, first {first}", chore.failed.len(), chore.taken);
        return Err(Fault { text, outage: false });
    }
    Ok(Done::count(chore.taken, one, many).and_more(chore.taken > 0))
}
