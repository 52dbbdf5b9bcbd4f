//! Lets go what is old, and makes room for what comes.

use std::time::Duration;

use kiln_store::retention::{Caretaker, Keep};

use super::driver::{Done, Duty, NOTHING, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Retention(Caretaker);

impl Retention {
    pub(super) fn new(keep: Keep) -> Self {
        Self(Caretaker::new(keep))
    }
}

impl Duty for Retention {
    fn plan(&self) -> Plan {
        Plan { name: "retention", every: Duration::from_mins(1), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let tended = self.0.tend(&app.store).await?;
            let report = match (tended.rows, tended.partitions) {
                (0, 0) => NOTHING.to_owned(),
                (rows, 0) => format!("{rows} rows removed"),
                (rows, parts) => format!("{rows} rows removed, {parts} partitions dropped"),
            };
            Ok(Done { report, more: tended.more })
        })
    }
}
