//! Removes logs that are too old, and those of runs that are gone. Each server looks after the logs that it keeps.

use std::collections::HashMap;
use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_store::{StoreError, Tx, runs};

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
            let bounds =
                Bounds { of_logs: ago(app.config.keep_logs), of_runs: ago(app.config.keep.runs) };
            let before = bounds.of_logs.max(bounds.of_runs);
            let kept = app.logs.runs(self.after, before, PIECE).await?;
            let known = ends(app, kept.iter().map(|(run, _)| *run).collect()).await?;
            let mut removed = 0;
            for one in &kept {
                if !bounds.is_old(&known, one) {
                    continue;
                }
                // It took time to remove others, and somebody may have run this one again meanwhile.
                let run = one.0;
                if bounds.is_old(&ends(app, vec![run]).await?, one) {
                    app.logs.forget(run).await?;
                    removed += 1;
                }
            }
            let more = kept.len() >= PIECE;
            self.after = kept.last().filter(|_| more).map_or(RunId(0), |(run, _)| *run);
            let done = Done::count(removed, "run's logs removed", "runs' logs removed");
            Ok(done.and_more(more))
        })
    }
}

/// When each of these runs ended that are there, if it has.
type Ends = HashMap<RunId, Option<Timestamp>>;

async fn ends(app: &App, asked: Vec<RunId>) -> Result<Ends, StoreError> {
    let known = async move |tx: &mut Tx<'_>| runs::ends(tx, &asked).await;
    Ok(app.store.read(known).await?.into_iter().collect())
}

/// What is older goes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    of_logs: Timestamp,
    of_runs: Timestamp,
}

impl Bounds {
    fn is_old(self, known: &Ends, (run, written): &(RunId, Timestamp)) -> bool {
        match known.get(run) {
            // A run that has not ended has all its logs, however long ago they were written.
            Some(ended) => ended.is_some_and(|ended| ended.max(*written) < self.of_logs),
            // Logs that no retention would remove are not removed either: a server that was given the wrong
            // database knows none of its runs.
            None => *written < self.of_runs,
        }
    }
}

fn ago(time: Duration) -> Timestamp {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp(clock::now().0.saturating_sub(millis))
}
