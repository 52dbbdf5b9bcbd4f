//! Carries out what runs ask of themselves and each other.

use std::time::Duration;

use kiln_store::Signal;

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Outbox;

impl Duty for Outbox {
    fn plan(&self) -> Plan {
        Plan {
            name: "outbox",
            every: Duration::from_secs(5),
            wakes: Some(Signal::Outbox),
            // The server that put a task in has it done at once. Two never get the same.
            everywhere: true,
        }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let count = app.runs.carry_out().await?;
            // Only an empty outbox is certain to have no more: tasks make tasks.
            Ok(Done::count(count, "task", "tasks").and_more(count > 0))
        })
    }
}
