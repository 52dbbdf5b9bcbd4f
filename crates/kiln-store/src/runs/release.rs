//! The end of a lease: the runner's slot counts no more, and the time it took is charged.

use std::collections::BTreeMap;

use kiln_core::id::{JobId, OrgId, RepoId};
use kiln_core::run::{Effect, Leg, LegNo, LegState};

use super::open::{Batch, Open};
use crate::sql::{Sql, Value};
use crate::tx::millis;
use crate::{Signal, StoreError, Tx};

/// What an organization or a repository used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// Beyond what was charged in advance; negative when that was too much.
    pub(crate) seconds: f64,
    pub(crate) ended: u32,
    pub(crate) took: f64,
}

/// Ends the leases of legs that their runners hold no more, and tells runners to stop others.
pub(super) async fn end_leases(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut ended: BTreeMap<JobId, bool> = BTreeMap::new();
    for open in batch.runs.values() {
        let legs = open.changed_legs().filter(|leg| let_go(open, leg.number));
        let job = |leg: &Leg| (open.jobs[&leg.number].id, worked(open, leg.number, &leg.state));
        ended.extend(legs.map(job));
    }
    let keys: Vec<Vec<Value>> = ended.keys().map(|job| vec![job.0.into()]).collect();
    // On SQLite, two statements cost less than one that returns what it deletes.
    let sql = Sql::of(
        "SELECT job_id, org_id, repo_id, claimed_at, estimate, counted FROM leases WHERE job_id = $1",
        "DELETE FROM leases WHERE job_id = ANY($1)
         RETURNING job_id, org_id, repo_id, claimed_at, estimate, counted",
    );
    let now = millis(tx.now());
    let mut used: BTreeMap<(OrgId, RepoId), Used> = BTreeMap::new();
    let mut freed: BTreeMap<OrgId, i64> = BTreeMap::new();
    for row in tx.rows_all(sql, &keys).await? {
        let (org, repo) = (OrgId(row.get(1)?), RepoId(row.get(2)?));
        let worked = ended[&JobId(row.get(0)?)];
        let took = if worked { seconds(now - row.get::<i64>(3)?) } else { 0.0 };
        let sum = used.entry((org, repo)).or_default();
        sum.seconds += took - row.get::<f64>(4)?;
        if worked {
            sum.ended += 1;
            sum.took += took;
        }
        *freed.entry(org).or_default() += row.get::<i64>(5)?;
    }
    if !tx.is_postgres() {
        tx.write_all("DELETE FROM leases WHERE job_id = $1".into(), keys)?;
    }
    charge(tx, &used).await?;
    tell_to_stop(tx, batch)?;
    free(tx, &freed).await
}

fn seconds(millis: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a job does not run for 2^52 milliseconds")]
    let millis = millis.max(0) as f64;
    millis / 1000.0
}

/// Whether a runner held the leg and does not any more, or holds it anew.
pub(super) fn let_go(open: &Open, number: LegNo) -> bool {
    let leg = &open.hood.legs[&number];
    open.before.jobs.get(&number).is_some_and(|past| {
        past.leg.state.is_held() && (!leg.state.is_held() || past.leg.attempt != leg.attempt)
    })
}

/// A claim that goes back unused is not charged.
fn worked(open: &Open, number: LegNo, state: &LegState) -> bool {
    let past = &open.before.jobs[&number].leg;
    !matches!(past.state, LegState::Claimed { .. }) || state.is_done()
}

/// Adds to what was used lately; a task adds that up from time to time.
pub(crate) async fn charge(
    tx: &mut Tx<'_>,
    used: &BTreeMap<(OrgId, RepoId), Used>,
) -> Result<(), StoreError> {
    let now = millis(tx.now());
    let row = |((org, repo), used): (&(OrgId, RepoId), &Used)| {
        let (seconds, ended, took) = (used.seconds, used.ended, used.took);
        vec![org.0.into(), repo.0.into(), seconds.into(), ended.into(), took.into(), now.into()]
    };
    let mut rows: Vec<Vec<Value>> = used.iter().map(row).collect();
    if !tx.is_postgres() {
        rows = add_to_charges(tx, rows).await?;
    }
    let sql = Sql::of(
        "INSERT INTO usage_deltas (org_id, repo_id, seconds, ended, took, at)
         VALUES ($1, $2, $3, $4, $5, $6)",
        "INSERT INTO usage_deltas (org_id, repo_id, seconds, ended, took, at)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::float8[], $4::bigint[], $5::float8[],
             $6::bigint[])",
    );
    tx.write_all(sql, rows)?;
    Ok(())
}

/// Where there is one writer, what a repository used lately is one row, as old as the first charge in it: its time
/// has an index, which would have to change as well. Returns those that have none yet.
async fn add_to_charges(
    tx: &mut Tx<'_>,
    rows: Vec<Vec<Value>>,
) -> Result<Vec<Vec<Value>>, StoreError> {
    let sql = "UPDATE usage_deltas
               SET seconds = seconds + $3, ended = ended + $4, took = took + $5
               WHERE id = (SELECT id FROM usage_deltas WHERE repo_id = $2 AND org_id = $1 LIMIT 1)";
    let mut missing = Vec::new();
    for row in rows {
        if tx.execute(sql, &row[..5]).await? == 0 {
            missing.push(row);
        }
    }
    Ok(missing)
}

/// The runner hears it with its next heartbeat.
fn tell_to_stop(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut commands = Vec::new();
    for open in batch.runs.values() {
        for effect in &open.effects {
            let Effect::Stop { leg, attempt, forced } = effect else { continue };
            let command = if *forced { "kill" } else { "cancel" };
            commands.push(vec![open.jobs[leg].id.0.into(), (*attempt).into(), command.into()]);
            if let Some(runner) = open.jobs[leg].runner {
                tx.signal(Signal::Runner(kiln_core::id::RunnerId(runner)));
            }
        }
    }
    let sql = Sql::of(
        "UPDATE leases SET command = $3 WHERE job_id = $1 AND claim = $2",
        "UPDATE leases AS t SET command = u.command
         FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u (job_id, claim, command)
         WHERE t.job_id = u.job_id AND t.claim = u.claim",
    );
    tx.write_all(sql, commands)?;
    Ok(())
}

/// Room for other jobs of these organizations; in the order of ids, like everybody who counts them.
async fn free(tx: &mut Tx<'_>, freed: &BTreeMap<OrgId, i64>) -> Result<(), StoreError> {
    for (org, count) in freed.iter().filter(|(_, count)| **count > 0) {
        let sql = "UPDATE org_loads SET running = running - $2 WHERE org_id = $1
                   RETURNING running + $2 >= coalesce(job_limit, 0)";
        let sql = Sql::of(sql, sql);
        let full = tx.row(sql, &[org.0.into(), (*count).into()]).await?;
        // Only jobs of an organization that had no room left wait for this.
        if full.map_or(Ok(false), |row| row.get(0))? {
            tx.signal(Signal::Everything);
        }
    }
    Ok(())
}
