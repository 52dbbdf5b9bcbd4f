//! Writes what changed: each table with one statement for all runs of the batch.

use std::collections::BTreeMap;

use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Group, Leg, LegNo, LegState, RunState, Wait};
use kiln_core::time::Timestamp;

use super::facts::Known;
use super::memory::Memorable;
use super::open::{Batch, Open, SharedGroup, Written};
use super::rows::{self, ATTEMPTS, JOBS, Job, NODES, SCOPES};
use super::{ends, enqueue, notes, recent, record, release};
use crate::sql::{Sql, Value};
use crate::table::Table;
use crate::tx::millis;
use crate::{Refusal, Signal, StoreError, Tx};

/// Writes all rows of the batch that are new or changed, and everything that follows from it.
pub(super) async fn save(
    tx: &mut Tx<'_>,
    known: &Known,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    for open in batch.runs.values_mut() {
        name_new_jobs(open)?;
        note_times(open, tx.now());
        open.find_changed();
    }
    enqueue::move_in_queue(tx, batch).await?;
    write_rows(tx, batch)?;
    write_timers(tx, batch)?;
    record::past_claims(tx, batch)?;
    release::end_leases(tx, batch).await?;
    ends::note(tx, batch)?;
    notes::write(tx, batch)?;
    write_groups(tx, batch)?;
    record::events_and_tasks(tx, batch)?;
    known.ready.note_queued(tx, batch);
    for (run, open) in &batch.runs {
        if open.written.attempt || !open.effects.is_empty() {
            tx.signal(Signal::Run(*run));
        }
    }
    remember(tx, known, std::mem::take(&mut batch.runs));
    Ok(())
}

fn remember(tx: &mut Tx<'_>, known: &Known, written: BTreeMap<RunId, Box<Open>>) {
    match tx.memory() {
        Some(memory) => {
            let memorable = written.into_values().filter_map(Memorable::of);
            memorable.for_each(|run| memory.keep(run));
        }
        None => known.recent.keep(tx, written),
    }
}

/// Gives legs that are new an id and a name.
fn name_new_jobs(open: &mut Open) -> Result<(), StoreError> {
    let new: Vec<LegNo> =
        open.hood.legs.keys().copied().filter(|leg| !open.jobs.contains_key(leg)).collect();
    for number in new {
        if open.attempt.jobs_made >= kiln_core::id::JOBS_PER_RUN {
            let most = kiln_core::id::JOBS_PER_RUN;
            return Err(Refusal::Conflict(format!("a run can make at most {most} jobs")).into());
        }
        let id = JobId::of(open.id(), open.attempt.jobs_made);
        open.attempt.jobs_made += 1;
        let name = name_of(open, number);
        open.jobs.insert(number, Job { id, name, lane: None, key: None, runner: None });
    }
    Ok(())
}

/// As GitHub shows it: the jobs of a called workflow stand behind the job that calls it.
fn name_of(open: &mut Open, number: LegNo) -> String {
    let node = open.hood.legs[&number].node;
    let context = open.hood.context(node, Some(number));
    // One that waits already was placed by the engine.
    if !open.placements.contains_key(&number) {
        let placement = open.facts.evaluator.placement(&context);
        open.placements.extend(placement.ok().map(|placement| (number, placement)));
    }
    let placement = open.placements.get(&number);
    let name = placement.map_or(&context.job.id, |placement| &placement.name);
    match context.scope.caller.and_then(|caller| open.jobs.get(&caller)) {
        Some(caller) => format!("{} / {name}", caller.name),
        None => name.clone(),
    }
}

/// When the attempt began to run, and when it ended; who has each job.
fn note_times(open: &mut Open, now: Timestamp) {
    let own = |leg: &&Leg| leg.run_attempt == open.hood.run.attempt;
    if open.attempt.started.is_none() {
        let begun = open.hood.legs.values().filter(own).filter_map(|leg| leg.timings.started);
        open.attempt.started = begun.min();
    }
    if open.attempt.ended.is_none() && matches!(open.hood.run.state, RunState::Done(_)) {
        open.attempt.ended = Some(now);
    }
}

/// Rows to be added and rows to be changed in one table.
#[derive(Debug, Default)]
struct Writes {
    new: Vec<Vec<Value>>,
    changed: Vec<Vec<Value>>,
}

impl Writes {
    /// Whether the row is as it was says `is_same`. Returns whether it is to be written.
    fn add<B>(
        &mut self,
        before: Option<B>,
        is_same: impl FnOnce(B) -> bool,
        row: impl FnOnce() -> Vec<Value>,
    ) -> bool {
        let rows = match before.map(is_same) {
            None => &mut self.new,
            Some(false) => &mut self.changed,
            Some(true) => return false,
        };
        rows.push(row());
        true
    }

    fn write(self, tx: &mut Tx<'_>, table: &'static Table) -> Result<(), StoreError> {
        tx.write_remembered(table.insert(), self.new)?;
        tx.write_remembered(table.update(), self.changed)?;
        Ok(())
    }
}

fn write_rows(tx: &mut Tx<'_>, batch: &mut Batch) -> Result<(), StoreError> {
    let mut attempts = Writes::default();
    let (mut scopes, mut nodes, mut jobs) =
        (Writes::default(), Writes::default(), Writes::default());
    let (mut runs, mut queued, mut moved, mut renewed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let version = recent::new_version();
    for open in batch.runs.values_mut() {
        let now = open.attempt_now();
        let (run, before) = (&open.hood.run, &open.before);
        // A new run was written as queued.
        let shown = before.attempt.as_ref().map_or_else(
            || run.attempt > 1 || run.state != RunState::Active,
            |before| before.shows_anew(&now),
        );
        if shown {
            runs.push(run_row(open));
        }
        let mut written = Written::default();
        for scope in open.hood.scopes.values() {
            let is_same = |before| rows::is_same_scope(before, scope);
            let before = before.scopes.get(&scope.number);
            if scopes.add(before, is_same, || rows::scope_row(run, scope)) {
                written.scopes.push(scope.number);
            }
        }
        for node in open.hood.nodes.values() {
            let is_same = |before| rows::is_same_node(before, node);
            let before = before.nodes.get(&node.number);
            if nodes.add(before, is_same, || rows::node_row(run, node)) {
                written.nodes.push(node.number);
            }
        }
        for leg in open.changed_legs() {
            let job = &open.jobs[&leg.number];
            let before = before.jobs.get(&leg.number);
            if before.is_some_and(|before| rows::is_same_job(before, leg, job)) {
                continue;
            }
            written.legs.push(leg.number);
            if before.is_none() && rows::has_just_come(leg) {
                queued.push(rows::queued_row(run, leg, job));
            } else if !tx.is_postgres()
                && before.is_some_and(|before| rows::has_only_moved(before, leg, job))
            {
                moved.push(rows::moved_row(leg, job));
            } else {
                jobs.add(before, |_| false, || rows::job_row(run, leg, job));
            }
        }
        let is_same = before.attempt.as_ref().map(|before| *before == now);
        written.attempt = is_same != Some(true);
        if tx.is_postgres() && written.any() {
            open.attempt.version = version;
            if !written.attempt {
                renewed.push(vec![open.id().0.into(), version.into()]);
            }
        }
        attempts.add(is_same, |is_same| is_same, || open.attempt_row());
        open.written = written;
    }
    attempts.write(tx, &ATTEMPTS)?;
    tx.write_all(rows::RENEW.into(), renewed)?;
    write_runs(tx, runs)?;
    scopes.write(tx, &SCOPES)?;
    nodes.write(tx, &NODES)?;
    tx.write_remembered(rows::QUEUE, queued)?;
    tx.write_remembered(rows::MOVE.into(), moved)?;
    jobs.write(tx, &JOBS)
}

/// What lists of runs show of the current attempt.
fn run_row(open: &Open) -> Vec<Value> {
    let (status, conclusion) = match (&open.hood.run.state, open.attempt.started) {
        (RunState::Gated(_), _) => ("pending", None),
        (RunState::Created, _) | (RunState::Active, None) => ("queued", None),
        (RunState::Active, Some(_)) => ("in_progress", None),
        (RunState::Done(conclusion), _) => ("completed", Some(conclusion.github())),
    };
    vec![
        open.id().0.into(),
        open.hood.run.attempt.into(),
        status.into(),
        conclusion.into(),
        open.attempt.started.map(millis).into(),
        open.attempt.ended.map(millis).into(),
    ]
}

fn write_runs(tx: &mut Tx<'_>, runs: Vec<Vec<Value>>) -> Result<(), StoreError> {
    let sql = Sql::of(
        "UPDATE runs SET attempt = $2, status = $3, conclusion = $4, started_at = $5, ended_at = $6
         WHERE id = $1",
        "UPDATE runs AS t SET attempt = u.attempt, status = u.status, conclusion = u.conclusion,
             started_at = u.started_at, ended_at = u.ended_at
         FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
             AS u (id, attempt, status, conclusion, started_at, ended_at)
         WHERE t.id = u.id",
    );
    tx.write_remembered(sql, runs)?;
    Ok(())
}

/// Legs that wait before they try again are woken by a timer.
fn write_timers(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let (mut set, mut cleared) = (Vec::new(), Vec::new());
    for open in batch.runs.values() {
        let run = &open.hood.run;
        let until = |state: &LegState| match state {
            LegState::Waiting(Wait::Backoff { until }) => Some(*until),
            _ => None,
        };
        for leg in open.changed_legs() {
            let before = open.before.jobs.get(&leg.number).and_then(|past| until(&past.leg.state));
            let key = || vec![open.id().0.into(), run.attempt.into(), leg.number.into()];
            match (before, until(&leg.state)) {
                (before, Some(at)) if before != Some(at) => {
                    set.push([key(), vec![millis(at).into()]].concat());
                }
                (Some(_), None) => cleared.push(key()),
                _ => {}
            }
        }
    }
    if !set.is_empty() {
        tx.signal(Signal::Timer);
    }
    let sql = Sql::of(
        "INSERT INTO timers (run_id, attempt, number, at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (run_id, attempt, number) DO UPDATE SET at = excluded.at",
        "INSERT INTO timers (run_id, attempt, number, at)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
         ON CONFLICT (run_id, attempt, number) DO UPDATE SET at = excluded.at",
    );
    tx.write_all(sql, set)?;
    let sql = Sql::of(
        "DELETE FROM timers WHERE run_id = $1 AND attempt = $2 AND number = $3",
        "DELETE FROM timers AS t USING unnest($1::bigint[], $2::bigint[], $3::bigint[])
             AS u (run_id, attempt, number)
         WHERE t.run_id = u.run_id AND t.attempt = u.attempt AND t.number = u.number",
    );
    tx.write_all(sql, cleared)?;
    Ok(())
}

fn write_groups(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let (mut kept, mut empty) = (Vec::new(), Vec::new());
    for ((repo, name), SharedGroup { before, now }) in &batch.groups {
        if now.is_empty() {
            // Also one that was made only to be locked.
            empty.push(vec![repo.0.into(), name.into()]);
        } else if now != before {
            kept.push(vec![repo.0.into(), name.into(), members(now).into()]);
        }
    }
    let sql = Sql::of(
        "INSERT INTO groups (repo_id, name, members) VALUES ($1, $2, $3)
         ON CONFLICT (repo_id, name) DO UPDATE SET members = excluded.members",
        "INSERT INTO groups (repo_id, name, members)
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
         ON CONFLICT (repo_id, name) DO UPDATE SET members = excluded.members",
    );
    tx.write_all(sql, kept)?;
    let sql = Sql::of(
        "DELETE FROM groups WHERE repo_id = $1 AND name = $2",
        "DELETE FROM groups AS t USING unnest($1::bigint[], $2::text[]) AS u (repo_id, name)
         WHERE t.repo_id = u.repo_id AND t.name = u.name",
    );
    tx.write_all(sql, empty)?;
    Ok(())
}

fn members(group: &Group) -> String {
    let members: Vec<_> =
        group.members().map(|member| (member.run, member.attempt, member.leg)).collect();
    serde_json::to_string(&members).expect("they are numbers")
}
