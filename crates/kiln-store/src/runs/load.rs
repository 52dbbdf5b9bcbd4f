//! Brings the rows that a transition wants.
//!
//! Locks are taken in one order everywhere, so that nobody waits in a circle: the attempts of runs by
//! id, the queue's rows of legs that wait there, concurrency groups, then what is written at the end.
//! The lock of the attempt protects all rows of the run but one change: a claim takes a queued leg
//! while it holds the leg's row in the queue. Whoever changes a queued leg therefore holds that, too.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kiln_core::id::{RepoId, RunId};
use kiln_core::run::{Group, LegNo, LegState, Member, Wanted};

use super::facts::Known;
use super::open::{Batch, Open, SharedGroup};
use super::rows::{self, ATTEMPTS, JOBS, NODES, SCOPES};
use crate::sql::{Row, Sql, Value};
use crate::table::Pair;
use crate::{StoreError, Tx};

static LOCK_CURRENT: LazyLock<Pair> = LazyLock::new(|| {
    let columns = ATTEMPTS.columns();
    Pair {
        sqlite: format!(
            "SELECT {columns} FROM runs AS r JOIN run_attempts AS t \
             ON t.run_id = r.id AND t.attempt = r.attempt WHERE r.id = $1"
        ),
        postgres: format!(
            "SELECT {columns} FROM unnest($1::bigint[]) AS u (id) CROSS JOIN LATERAL \
             (SELECT * FROM run_attempts AS t WHERE t.run_id = u.id \
             ORDER BY t.attempt DESC LIMIT 1 FOR NO KEY UPDATE) AS t"
        ),
    }
});

static OPEN_JOBS: LazyLock<Pair> = LazyLock::new(|| {
    let text = format!(
        "SELECT {} FROM jobs AS t WHERE t.run_id = $1 AND t.attempt = $2 AND t.state <> 'done'",
        JOBS.columns()
    );
    Pair { sqlite: text.clone(), postgres: text }
});

/// Locks the current attempts of these runs. Those that do not exist are left out.
pub(super) async fn lock(
    tx: &mut Tx<'_>,
    known: &Known,
    runs: &BTreeSet<RunId>,
) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    let mut unknown = BTreeSet::new();
    for run in runs {
        match tx.memory().and_then(|memory| memory.take(*run)) {
            Some(mut open) => {
                open.facts = known.facts(tx, *run, open.hood.run.attempt, &open.attempt).await?;
                batch.runs.insert(*run, open);
            }
            None => {
                unknown.insert(*run);
            }
        }
    }
    for row in lock_current(tx, &unknown).await? {
        let (id, number, attempt) = rows::attempt_facts(&row)?;
        let facts = known.facts(tx, id, number, &attempt).await?;
        let open = match known.recent.take(id, number, attempt.version) {
            Some(mut open) => {
                open.facts = facts;
                open
            }
            None => {
                let run = rows::attempt_of(&row, facts.plan.plan.clone())?;
                let mut open = Box::new(Open::new(run, attempt, facts));
                open.before.attempt = Some(open.attempt_now());
                open
            }
        };
        batch.runs.insert(id, open);
    }
    Ok(batch)
}

/// How often an attempt is looked for. It is found with the second look, or the third where somebody runs a run again meanwhile. What
/// is not found then is not there: a run whose current attempt has no row.
const MOST_LOOKS: u32 = 10;

/// Whoever waits for the lock of an attempt may find that another one has followed it meanwhile. Only
/// one that has ended can be followed, so others need no second look.
async fn lock_current(tx: &mut Tx<'_>, runs: &BTreeSet<RunId>) -> Result<Vec<Row>, StoreError> {
    let mut keys: Vec<Vec<Value>> = runs.iter().map(|run| vec![run.0.into()]).collect();
    let mut current = Vec::with_capacity(keys.len());
    for _ in 0..MOST_LOOKS {
        if keys.is_empty() {
            break;
        }
        let locked = tx.rows_all(LOCK_CURRENT.sql(), &std::mem::take(&mut keys)).await?;
        let mut ended = BTreeMap::new();
        for row in locked {
            if tx.is_postgres() && rows::has_ended(&row)? {
                ended.insert(row.get::<i64>(0)?, row);
            } else {
                current.push(row);
            }
        }
        for now in tx
            .rows_all(CURRENT, &ended.keys().map(|run| vec![(*run).into()]).collect::<Vec<_>>())
            .await?
        {
            let (run, attempt): (i64, i64) = (now.get(0)?, now.get(1)?);
            match ended.remove(&run) {
                Some(row) if row.get::<i64>(1)? == attempt => current.push(row),
                _ => keys.push(vec![run.into()]),
            }
        }
    }
    Ok(current)
}

const CURRENT: Sql = Sql::of(
    "SELECT id, attempt FROM runs WHERE id = $1",
    "SELECT id, attempt FROM runs WHERE id = ANY($1)",
);

/// Brings what these runs want.
pub(super) async fn bring(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    for (run, wanted) in wanted {
        if wanted.whole {
            whole(tx, batch, *run).await?;
        } else if wanted.open_legs {
            let key = key_of(batch, *run);
            let found = tx.rows(OPEN_JOBS.sql(), &key).await?;
            add_jobs(tx, batch, found).await?;
            batch.run(*run).at_hand.open_legs = true;
        }
    }
    legs(tx, batch, wanted).await?;
    glances(tx, batch, wanted).await?;
    scopes(tx, batch, wanted).await?;
    nodes(tx, batch, wanted).await?;
    groups(tx, batch, wanted).await
}

fn key_of(batch: &Batch, run: RunId) -> Vec<Value> {
    vec![run.0.into(), batch.runs[&run].hood.run.attempt.into()]
}

fn keys<'k>(
    batch: &Batch,
    wanted: impl Iterator<Item = (RunId, &'k BTreeSet<u32>)>,
) -> Vec<Vec<Value>> {
    let of_run = |(run, numbers): (RunId, &'k BTreeSet<u32>)| {
        let key = key_of(batch, run);
        numbers.iter().map(move |number| [&key[..], &[(*number).into()]].concat())
    };
    wanted.flat_map(of_run).collect()
}

async fn whole(tx: &mut Tx<'_>, batch: &mut Batch, run: RunId) -> Result<(), StoreError> {
    let key = key_of(batch, run);
    let found = tx.rows(SCOPES.of_run(), &key).await?;
    add_scopes(batch, found)?;
    let found = tx.rows(NODES.of_run(), &key).await?;
    add_nodes(batch, found)?;
    let found = tx.rows(JOBS.of_run(), &key).await?;
    add_jobs(tx, batch, found).await?;
    batch.run(run).at_hand.whole = true;
    Ok(())
}

async fn legs(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    // Those that were made in this transaction are nobody else's.
    let stored: Vec<(RunId, BTreeSet<LegNo>)> = wanted
        .iter()
        .map(|(run, wanted)| {
            let open = &batch.runs[run];
            (*run, wanted.legs.iter().copied().filter(|leg| !open.is_new(*leg)).collect())
        })
        .collect();
    let keys = keys(batch, stored.iter().map(|(run, legs)| (*run, legs)));
    let found = tx.rows_all(JOBS.select(), &keys).await?;
    add_jobs(tx, batch, found).await?;
    for (run, wanted) in wanted {
        batch.run(*run).at_hand.legs.extend(&wanted.legs);
    }
    Ok(())
}

/// Legs to be looked at need not be held.
async fn glances(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    let keys = keys(batch, wanted.iter().map(|(run, wanted)| (*run, &wanted.glances)));
    for row in tx.rows_all(JOBS.select(), &keys).await? {
        let (leg, job) = rows::job_of(&row)?;
        let open = batch.run(RunId(row.get(0)?));
        if leg.state == LegState::Queued {
            open.glance_at(leg, job);
        } else {
            open.hold(leg, job);
        }
    }
    for (run, wanted) in wanted {
        batch.run(*run).at_hand.glances.extend(&wanted.glances);
    }
    Ok(())
}

async fn scopes(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    let keys = keys(batch, wanted.iter().map(|(run, wanted)| (*run, &wanted.scopes)));
    add_scopes(batch, tx.rows_all(SCOPES.select(), &keys).await?)
}

/// A node is understood with its scope, which comes first if it is not there.
async fn nodes(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    let wanted_keys = keys(batch, wanted.iter().map(|(run, wanted)| (*run, &wanted.nodes)));
    let found = tx.rows_all(NODES.select(), &wanted_keys).await?;
    let mut missing: BTreeMap<RunId, BTreeSet<u32>> = BTreeMap::new();
    for row in &found {
        let (run, scope) = (RunId(row.get(0)?), rows::scope_number_of(row)?);
        if !batch.runs[&run].hood.scopes.contains_key(&scope) {
            missing.entry(run).or_default().insert(scope);
        }
    }
    let scope_keys = keys(batch, missing.iter().map(|(run, scopes)| (*run, scopes)));
    add_scopes(batch, tx.rows_all(SCOPES.select(), &scope_keys).await?)?;
    add_nodes(batch, found)
}

pub(super) fn add_scopes(batch: &mut Batch, found: Vec<Row>) -> Result<(), StoreError> {
    for row in found {
        let open = batch.run(RunId(row.get(0)?));
        let scope = rows::scope_of(&row, &open.facts.plan)?;
        open.add_scope(scope);
    }
    Ok(())
}

pub(super) fn add_nodes(batch: &mut Batch, found: Vec<Row>) -> Result<(), StoreError> {
    for row in found {
        let open = batch.run(RunId(row.get(0)?));
        let scope = rows::scope_number_of(&row)?;
        let workflow = open.hood.scopes.get(&scope).map(|scope| scope.workflow);
        let workflow = workflow
            .ok_or_else(|| StoreError::Database("a job lies in a scope that is gone".to_owned()))?;
        let node = rows::node_of(&row, &open.facts.plan, workflow)?;
        open.add_node(node);
    }
    Ok(())
}

/// Legs that wait in the queue are locked there first; one that was claimed meanwhile is read again.
pub(super) async fn add_jobs(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    found: Vec<Row>,
) -> Result<(), StoreError> {
    let mut queued: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    let mut legs = Vec::with_capacity(found.len());
    for row in &found {
        let run = RunId(row.get(0)?);
        let (leg, job) = rows::job_of(row)?;
        if batch.runs[&run].at_hand.legs.contains(&leg.number) {
            continue;
        }
        if tx.is_postgres() && leg.state == LegState::Queued {
            let place = vec![job.lane.into(), job.key.into(), job.id.0.into()];
            queued.insert(job.id.0, place);
        }
        legs.push((run, leg, job));
    }
    let locked = lock_queued(tx, &queued).await?;
    let mut again = Vec::new();
    for (run, leg, job) in legs {
        if queued.contains_key(&job.id.0) && !locked.contains(&job.id.0) {
            again.push([&key_of(batch, run)[..], &[leg.number.into()]].concat());
        } else {
            batch.run(run).hold(leg, job);
        }
    }
    for row in tx.rows_all(JOBS.select(), &again).await? {
        let (leg, job) = rows::job_of(&row)?;
        batch.run(RunId(row.get(0)?)).hold(leg, job);
    }
    Ok(())
}

async fn lock_queued(
    tx: &mut Tx<'_>,
    queued: &BTreeMap<i64, Vec<Value>>,
) -> Result<BTreeSet<i64>, StoreError> {
    let sql = Sql::of(
        "SELECT job_id FROM queue WHERE lane_id = $1 AND key = $2 AND job_id = $3",
        "SELECT q.job_id FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
         AS u (lane_id, key, job_id) JOIN queue AS q \
         ON q.lane_id = u.lane_id AND q.key = u.key AND q.job_id = u.job_id \
         ORDER BY q.job_id FOR UPDATE OF q",
    );
    let places: Vec<Vec<Value>> = queued.values().cloned().collect();
    tx.rows_all(sql, &places).await?.iter().map(|row| row.get(0)).collect()
}

/// Groups belong to the repository. One that does not exist is made, so that it can be locked.
async fn groups(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    wanted: &[(RunId, Wanted)],
) -> Result<(), StoreError> {
    let mut names: BTreeSet<(RepoId, &String)> = BTreeSet::new();
    for (run, wanted) in wanted {
        let open = batch.run(*run);
        names.extend(wanted.groups.iter().map(|name| (open.attempt.repo, name)));
        open.at_hand.groups.extend(wanted.groups.iter().cloned());
    }
    // By name, so that two who want the same ones do not wait for each other in a circle. What is wanted
    // in a later round can still do that; the database ends it, and the work is run again.
    for (repo, name) in names {
        if let Entry::Vacant(free) = batch.groups.entry((repo, name.clone())) {
            let group = lock_group(tx, repo, name).await?;
            free.insert(SharedGroup { before: group.clone(), now: group });
        }
    }
    Ok(())
}

async fn lock_group(tx: &mut Tx<'_>, repo: RepoId, name: &str) -> Result<Group, StoreError> {
    let key = [repo.0.into(), name.into()];
    let sql = Sql::of(
        "SELECT members FROM groups WHERE repo_id = $1 AND name = $2",
        "SELECT members FROM groups WHERE repo_id = $1 AND name = $2 FOR UPDATE",
    );
    loop {
        if tx.is_postgres() {
            let make = "INSERT INTO groups (repo_id, name, members) VALUES ($1, $2, '[]') \
                        ON CONFLICT DO NOTHING";
            tx.execute(make, &key).await?;
        }
        match tx.row(sql, &key).await? {
            Some(row) => return group_of(&row.get::<String>(0)?),
            None if !tx.is_postgres() => return Ok(Group::default()),
            // Its last member left between the two statements, and it went with it.
            None => {}
        }
    }
}

pub(super) fn group_of(members: &str) -> Result<Group, StoreError> {
    let members: Vec<(u64, u32, Option<u32>)> = serde_json::from_str(members)
        .map_err(|error| StoreError::Database(format!("a concurrency group: {error}")))?;
    Ok(Group::of(members.into_iter().map(|(run, attempt, leg)| Member { run, attempt, leg })))
}
