//! Removes the logs of runs that are gone. Each server looks after the logs that it keeps.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_store::{Tx, runs};

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;
use crate::clock;

/// How many runs are looked up at a time.
const PIECE: usize = 500;

/// Goes through all logs, piece by piece, again and again.
#[derive(Debug)]
pub(super) struct OldLogs {
    after: RunId,
}

impl Default for OldLogs {
    fn default() -> Self {
        Self { after: RunId(0) }
    }
}

impl Duty for OldLogs {
    fn plan(&self) -> Plan {
        Plan { name: "logs", every: Duration::from_mins(10), wakes: None, everywhere: true }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            // Logs that no retention would remove are not removed either: a server that was given the wrong
            // database knows none of its runs.
            let keep = u64::try_from(app.config.keep.runs.as_millis()).unwrap_or(u64::MAX);
            let before = Timestamp(clock::now().0.saturating_sub(keep));
            let kept = app.logs.runs(self.after, before, PIECE).await?;
            let asked = kept.clone();
            let known = async move |tx: &mut Tx<'_>| runs::existing(tx, &asked).await;
            let known: BTreeSet<RunId> = app.store.read(known).await?.into_iter().collect();
            let mut removed = 0;
            for run in kept.iter().filter(|run| !known.contains(run)) {
                app.logs.forget(*run).await?;
                removed += 1;
            }
            let more = kept.len() >= PIECE;
            self.after = kept.last().copied().filter(|_| more).unwrap_or(RunId(0));
            let done = Done::count(removed, "run's logs removed", "runs' logs removed");
            Ok(done.and_more(more))
        })
    }
}
