//! Makes one compressed object of each log that will not grow any more. Each server looks after the logs that it
//! keeps; of several that share a folder, whoever comes first does it.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::{Refusal, StoreError};

use super::driver::{Done, Duty, Fault, Pass, Plan};
use crate::app::App;
use crate::clock;
use crate::logs::LogId;
use crate::service::log::{Life, life_of};

/// Logs that were written to lately are not looked at: their jobs are mostly under way.
const QUIET: Duration = Duration::from_secs(5);
/// How many logs are looked at in a pass.
const PIECE: usize = 100;

/// Goes through all logs that are not archived, piece by piece, again and again.
#[derive(Debug, Default)]
pub(super) struct Archive {
    after: Option<LogId>,
}

impl Duty for Archive {
    fn plan(&self) -> Plan {
        Plan { name: "archive", every: Duration::from_secs(5), wakes: None, everywhere: true }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let quiet = u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
            let before = Timestamp(clock::now().0.saturating_sub(quiet));
            let logs = app.logs.growing(self.after, before, PIECE).await?;
            let more = logs.len() >= PIECE;
            self.after = logs.last().copied().filter(|_| more);
            let (mut done, mut fault) = (0, None);
            for log in logs {
                // One log that cannot be archived does not keep the others from it.
                match one(app, log).await {
                    Ok(archived) => done += usize::from(archived),
                    Err(error) => fault = Some(error),
                }
            }
            match fault {
                Some(fault) => Err(fault),
                None => Ok(Done::count(done, "log archived", "logs archived").and_more(more)),
            }
        })
    }
}

async fn one(app: &App, log: LogId) -> Result<bool, Fault> {
    let life = match life_of(app, log).await {
        // A run that is gone has nothing more to say. Its logs go when they are old enough.
        Err(StoreError::Refused(Refusal::NotFound(_))) => Life::Over,
        other => other?,
    };
    if life == Life::Over { Ok(app.logs.archive(log).await?) } else { Ok(false) }
}
