//! Jobs that no runner there is could ever take. They are named so after a time of grace, in which one
//! may still come.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, QueueId};
use kiln_core::queue::{Capabilities, Offer, Requirements, matches, why_not};

use super::change::{Happened, JobNews, Word};
use super::{Answer, Runs};
use crate::claims;
use crate::directory::runners::OFFLINE_AFTER;
use crate::tx::millis;
use crate::{Row, StoreError, Tx};

/// How many jobs fail in one transaction.
const PIECE: u32 = 256;

/// A runner that is there, as far as matching is concerned.
#[derive(Debug)]
struct Live {
    org: Option<OrgId>,
    has: Capabilities,
}

impl Runs {
    /// Fails queued jobs that have waited for `grace` and that no live runner could take. Returns how
    /// many there were; as many as a piece has means that there may be more.
    pub async fn fail_unsupported(&self, grace: Duration) -> Result<usize, StoreError> {
        let found = self.store.read(async move |tx: &mut Tx<'_>| hopeless(tx, grace).await).await?;
        let news = |(job, reason)| {
            let word = Word::Unsupported { reason };
            Happened::Job(JobNews { job, claim: None, runner: None, word })
        };
        let happened: Vec<Happened> = found.into_iter().map(news).collect();
        if happened.is_empty() {
            return Ok(0);
        }
        // One that a runner has taken meanwhile is refused, as it should be.
        let answers = self.happened(happened).await?;
        Ok(answers.into_iter().filter(|answer| *answer == Answer::Accepted).count())
    }
}

async fn hopeless(tx: &mut Tx<'_>, grace: Duration) -> Result<Vec<(JobId, String)>, StoreError> {
    let queues: BTreeMap<QueueId, Requirements> = claims::queues(tx).await?.into_iter().collect();
    let live = live_runners(tx).await?;
    let before = millis(tx.now()) - i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    let lanes = tx.rows("SELECT id, queue_id, org_id FROM lanes WHERE active = 1", &[]).await?;
    let mut found = Vec::new();
    for lane in &lanes {
        let (queue, org) = (lane.get(1)?, lane.get(2)?);
        let Some(reason) = queues.get(&queue).and_then(|needs| no_runner(needs, org, &live)) else {
            continue;
        };
        let sql = "SELECT q.job_id FROM queue AS q JOIN jobs AS j
                       ON j.run_id = q.job_id / 1048576 AND j.attempt = q.attempt AND j.number = q.number
                   WHERE q.lane_id = $1 AND j.queued_at <= $2 ORDER BY q.key, q.job_id LIMIT $3";
        let lane: i64 = lane.get(0)?;
        for row in tx.rows(sql, &[lane.into(), before.into(), PIECE.into()]).await? {
            found.push((row.get(0)?, reason.clone()));
        }
        if found.len() >= PIECE as usize {
            break;
        }
    }
    Ok(found)
}

async fn live_runners(tx: &mut Tx<'_>) -> Result<Vec<Live>, StoreError> {
    let since = millis(tx.now()) - i64::try_from(OFFLINE_AFTER.as_millis()).unwrap_or(0);
    let sql = "SELECT r.org_id, r.capabilities, p.name FROM runners AS r
               JOIN pools AS p ON p.id = r.pool_id
               WHERE r.unregistered_at IS NULL AND r.draining = 0 AND r.last_seen_at > $1";
    let runner = |row: &Row| {
        // What a runner says of itself was checked when it came; one that cannot be read has nothing.
        let offer = Capabilities::parse(&row.get::<String>(1)?).unwrap_or_default().offer().clone();
        let offer = Offer { pool: Some(row.get(2)?), ..offer };
        Ok(Live { org: row.get(0)?, has: Capabilities::new(offer).unwrap_or_default() })
    };
    tx.rows(sql, &[since.into()]).await?.iter().map(runner).collect()
}

/// Why none of these runners could take a job of the organization, if none could.
fn no_runner(needs: &Requirements, org: OrgId, live: &[Live]) -> Option<String> {
    let mut may: Vec<&Live> =
        live.iter().filter(|live| live.org.is_none_or(|own| own == org)).collect();
    if may.iter().any(|live| matches(needs, &live.has)) {
        return None;
    }
    // The one that has most of what is asked for says best what is missing.
    may.sort_by_key(|live| {
        let has = &live.has.offer().labels;
        needs.demand().labels.iter().filter(|label| !has.contains(label)).count()
    });
    let lacks = may.first().and_then(|live| why_not(needs, &live.has));
    Some(match lacks {
        Some(lacks) => format!("no runner could ever take it; the nearest one has {lacks}"),
        None => "no runner could ever take it: none is there".to_owned(),
    })
}
