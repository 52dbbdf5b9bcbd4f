//! Fails jobs that no runner there is could ever take, after a time of grace.

use std::time::Duration;

use super::driver::{Duty, Pass, Plan};
use super::timers::report;
use crate::app::App;

#[derive(Debug)]
pub(super) struct Unsupported {
    pub(super) grace: Duration,
}

impl Duty for Unsupported {
    fn plan(&self) -> Plan {
        // A short grace, which tests have, is looked at often enough.
        let every = Duration::from_mins(5).min(self.grace / 2).max(Duration::from_millis(100));
        Plan { name: "unsupported jobs", every, wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let chore = app.runs.fail_unsupported(self.grace).await?;
            report(&chore, "job that no runner can take", "jobs that no runner can take")
        })
    }
}
