//! What runners say about jobs that they have, each word under its claim.

use kiln_core::run::{Event, LegState, Rejected};

use super::{News, Refused, Tx, Word};
use crate::faults::bug::Bug;

impl Tx<'_> {
    pub(super) fn news(&mut self, news: &News) -> Result<(), Refused> {
        let run = news.job.run().0.unsigned_abs();
        let rows = self.rows.runs.get(&run).ok_or(Refused::NoSuchJob)?;
        if let Some(past) = rows.past.get(&news.job) {
            return about_the_past(past, news);
        }
        let leg = rows.leg_of(news.job).ok_or(Refused::NoSuchJob)?;
        let (row, holder) = (&rows.hood.legs[&leg], rows.jobs[&leg].runner);
        let unfenced =
            self.rules.has(Bug::StaleCompletion) && matches!(news.word, Word::Finished(_));
        let attempt = if unfenced { row.attempt } else { news.claim };
        // A stale word is refused as such by the engine, whoever says it.
        if attempt == row.attempt && holder != Some(news.runner) && !unfenced {
            return Err(Refused::NotYours);
        }
        let event = match news.word {
            Word::Started => Event::Started { leg, attempt, preparing: None },
            Word::Finished(conclusion) => {
                Event::Finished { leg, attempt, conclusion, outputs: Vec::new() }
            }
            Word::Lost => {
                Event::Lost { leg, attempt, reason: "the runner was restarted".to_owned() }
            }
            Word::Returned => Event::Returned { leg, attempt },
        };
        Ok(self.change(run, event)?)
    }
}

/// A job of an earlier attempt of its run never changes; repeating its last word does no harm.
fn about_the_past((claim, state): &(u32, LegState), news: &News) -> Result<(), Refused> {
    let finished = matches!(news.word, Word::Finished(_));
    if finished && news.claim == *claim && state.is_done() {
        return Ok(());
    }
    Err(Rejected::Stale { leg: 0, current: *claim }.into())
}
