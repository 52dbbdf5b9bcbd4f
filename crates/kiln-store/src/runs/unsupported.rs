//! Jobs that no runner there is could ever take. They are named so after a time of grace, in which one
//! may still come.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, QueueId};
use kiln_core::queue::{Capabilities, Requirements, why_nobody};

use super::Runs;
use super::tasks::{Chore, Part};
use crate::claims::{self, Machine, machines};
use crate::tx::millis;
use crate::{StoreError, Tx};

/// How many jobs of a lane fail in one transaction.
const PIECE: u32 = 256;

impl Runs {
    /// Fails queued jobs of lanes that no live runner could serve for `grace`. That time counts from when
    /// it was first seen here, so an outage, in which no runner is heard of, does not count.
    pub async fn fail_unsupported(&self, grace: Duration) -> Result<Chore, StoreError> {
        let look = async move |tx: &mut Tx<'_>| hopeless(tx, grace).await;
        let found = self.store.write(look).await?;
        self.each(found.into_iter().map(|(job, reason)| Part::Unsupported(job, reason)).collect())
            .await
    }
}

async fn hopeless(tx: &mut Tx<'_>, grace: Duration) -> Result<Vec<(JobId, String)>, StoreError> {
    let queues: BTreeMap<QueueId, Requirements> = claims::queues(tx).await?.into_iter().collect();
    let live = machines(tx).await?;
    let now = millis(tx.now());
    let before = now - i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    let sql = "SELECT id, queue_id, org_id, unserved_since FROM lanes WHERE active = 1";
    let mut found = Vec::new();
    for lane in tx.rows(sql, &[]).await? {
        let (id, queue, org): (i64, QueueId, OrgId) = (lane.get(0)?, lane.get(1)?, lane.get(2)?);
        let reason = queues.get(&queue).and_then(|needs| no_runner(needs, org, &live));
        let since: Option<i64> = lane.get(3)?;
        let unserved = reason.as_ref().map(|_| since.unwrap_or(now));
        if unserved != since {
            let sql = "UPDATE lanes SET unserved_since = $2 WHERE id = $1";
            tx.execute(sql, &[id.into(), unserved.into()]).await?;
        }
        if let Some(reason) = reason.filter(|_| unserved.is_some_and(|since| since <= before))
            && found.len() < PIECE as usize
        {
            found.extend(
                first_of(tx, id, before).await?.into_iter().map(|job| (job, reason.clone())),
            );
        }
    }
    Ok(found)
}

/// The first jobs of a lane that have waited since before then. Those behind them came later.
async fn first_of(tx: &mut Tx<'_>, lane: i64, before: i64) -> Result<Vec<JobId>, StoreError> {
    let sql = "SELECT q.job_id FROM (
                   SELECT job_id, attempt, number FROM queue WHERE lane_id = $1
                   ORDER BY key, job_id LIMIT $3
               ) AS q JOIN jobs AS j
                   ON j.run_id = q.job_id / 1048576 AND j.attempt = q.attempt AND j.number = q.number
               WHERE j.queued_at <= $2";
    let rows = tx.rows(sql, &[lane.into(), before.into(), PIECE.into()]).await?;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Why none of these runners could take a job of the organization, if none could.
fn no_runner(needs: &Requirements, org: OrgId, machines: &[Machine]) -> Option<String> {
    let may = machines.iter().filter(|machine| machine.is_live && machine.admits(org));
    let may: Vec<&Capabilities> = may.map(|machine| &*machine.has).collect();
    why_nobody(needs, &may).map(|nobody| format!("no runner could ever take it: {nobody}"))
}
