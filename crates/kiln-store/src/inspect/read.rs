//! Reads some runs with all that hangs on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_core::id::JOBS_PER_RUN;
use kiln_core::plan::Plan;
use kiln_core::run::Tally;

use super::rows::{
    Attempt, Counters, Event, JobRow, Lease, NodeRow, PastClaim, Piece, RunRow, ScopeRow, Tasks,
    members_of,
};
use super::{Report, Rule};
use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// How many runs are read at once.
const RUNS: i64 = 128;

/// Runs behind `after`, and the id of the last one if there may be more.
pub(super) async fn piece(
    tx: &mut Tx<'_>,
    after: i64,
    report: &mut Report,
) -> Result<(Piece, Option<i64>), StoreError> {
    let sql = "SELECT id, attempt, status, conclusion, started_at, ended_at
               FROM runs WHERE id > $1 ORDER BY id LIMIT $2";
    let mut piece = Piece::default();
    for row in tx.rows(sql, &[after.into(), RUNS.into()]).await? {
        let run = RunRow {
            id: row.get(0)?,
            attempt: row.get(1)?,
            status: row.get(2)?,
            conclusion: row.get(3)?,
            started: row.get(4)?,
            ended: row.get(5)?,
            tasks: Tasks::default(),
        };
        piece.runs.insert(run.id, run);
    }
    let full = i64::try_from(piece.runs.len()).is_ok_and(|count| count == RUNS);
    let last = piece.runs.keys().next_back().copied().filter(|_| full);
    // What lies between two runs, or behind the last one, must not be there and is found, too.
    let range = [after.into(), last.unwrap_or(i64::MAX).into()];
    piece.attempts(tx, &range, report).await?;
    piece.scopes(tx, &range, report).await?;
    piece.nodes(tx, &range, report).await?;
    piece.jobs(tx, &range, report).await?;
    piece.moves(tx, &range).await?;
    piece.tasks(tx, &range, report).await?;
    piece.group_rows(tx, report).await?;
    piece.story(tx, &range).await?;
    Ok((piece, last))
}

fn tally(row: &Row, at: usize) -> Result<Tally, StoreError> {
    Ok(Tally {
        success: row.get(at)?,
        failure: row.get(at + 1)?,
        cancelled: row.get(at + 2)?,
        timed_out: row.get(at + 3)?,
        skipped: row.get(at + 4)?,
    })
}

impl Piece {
    async fn attempts(
        &mut self,
        tx: &mut Tx<'_>,
        range: &[Value],
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let sql = "SELECT t.run_id, t.attempt, t.repo_id, t.plan, t.state, t.conclusion, t.group_name,
                       t.cancelled_at, t.scopes, t.nodes, t.legs, t.jobs_made, t.started_at, t.ended_at,
                       d.hash
                   FROM run_attempts AS t LEFT JOIN documents AS d ON d.hash = t.context
                   WHERE t.run_id > $1 AND t.run_id <= $2";
        let mut plans = BTreeMap::new();
        for row in tx.rows(sql, range).await? {
            let hash: Vec<u8> = row.get(3)?;
            let mut attempt = attempt_of(&row)?;
            if row.get::<Option<Vec<u8>>>(14)?.is_none() {
                report.find(Rule::Document, attempt.name(), "its context is not there");
            }
            if !plans.contains_key(&hash) {
                plans.insert(hash.clone(), plan(tx, &hash).await?);
            }
            match &plans[&hash] {
                Ok(plan) => attempt.plan = Some(plan.clone()),
                Err(problem) => report.find(Rule::Document, attempt.name(), problem),
            }
            if !self.runs.contains_key(&attempt.run) {
                report.find(Rule::Orphan, attempt.name(), "its run does not exist");
            }
            self.attempts.insert((attempt.run, attempt.number), attempt);
        }
        Ok(())
    }

    fn owner(&mut self, row: &Row, what: &str, report: &mut Report) -> Option<&mut Attempt> {
        let (run, attempt, number): (i64, i64, i64) =
            (row.get(0).ok()?, row.get(1).ok()?, row.get(2).ok()?);
        let found = self.attempts.get_mut(&(run, attempt));
        if found.is_none() {
            let subject = format!("run {run}, attempt {attempt}, {what} {number}");
            report.find(Rule::Orphan, subject, "its attempt does not exist");
        }
        found
    }

    async fn scopes(
        &mut self,
        tx: &mut Tx<'_>,
        range: &[Value],
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let sql = "SELECT run_id, attempt, number, workflow, caller, first_node, open, stopped,
                       succeeded, failed, cancelled, timed_out, skipped
                   FROM run_scopes WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            let scope = ScopeRow {
                workflow: row.get(3)?,
                caller: row.get(4)?,
                first_node: row.get(5)?,
                open: row.get(6)?,
                stopped: row.get(7)?,
                tally: tally(&row, 8)?,
            };
            if let Some(attempt) = self.owner(&row, "scope", report) {
                attempt.scopes.insert(row.get(2)?, scope);
            }
        }
        Ok(())
    }

    async fn nodes(
        &mut self,
        tx: &mut Tx<'_>,
        range: &[Value],
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let sql = "SELECT run_id, attempt, number, scope, job, state, conclusion, needs_remaining,
                       above_failed, above_cancelled, above_skipped, first_leg, leg_count, open_legs,
                       succeeded, failed, cancelled, timed_out, skipped, max_parallel, tripped
                   FROM run_nodes WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            let node = NodeRow {
                scope: row.get(3)?,
                job: row.get(4)?,
                state: row.get(5)?,
                conclusion: row.get(6)?,
                needs_remaining: row.get(7)?,
                above: (row.get(8)?, row.get(9)?, row.get(10)?),
                first_leg: row.get(11)?,
                leg_count: row.get(12)?,
                open_legs: row.get(13)?,
                tally: tally(&row, 14)?,
                max_parallel: row.get(19)?,
                tripped: row.get(20)?,
            };
            if let Some(attempt) = self.owner(&row, "node", report) {
                attempt.nodes.insert(row.get(2)?, node);
            }
        }
        Ok(())
    }

    async fn jobs(
        &mut self,
        tx: &mut Tx<'_>,
        range: &[Value],
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let sql =
            "SELECT run_id, attempt, number, id, node, leg_index, state, conclusion, runner_id,
                       claim, tolerated, group_name, scope, wake_at
                   FROM jobs WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            let job = JobRow {
                id: row.get(3)?,
                node: row.get(4)?,
                leg_index: row.get(5)?,
                state: row.get(6)?,
                conclusion: row.get(7)?,
                runner: row.get(8)?,
                claim: row.get(9)?,
                tolerated: row.get(10)?,
                group: row.get(11)?,
                scope: row.get(12)?,
                wake_at: row.get(13)?,
            };
            if let Some(attempt) = self.owner(&row, "job", report) {
                attempt.jobs.insert(row.get(2)?, job);
            }
        }
        Ok(())
    }

    /// What moves jobs: places in the queue, leases, timers.
    async fn moves(&mut self, tx: &mut Tx<'_>, range: &[Value]) -> Result<(), StoreError> {
        let sql = "SELECT j.id FROM jobs AS j JOIN queue AS q
                       ON q.lane_id = j.lane_id AND q.key = j.queue_key AND q.job_id = j.id
                       AND q.attempt = j.attempt AND q.number = j.number
                   WHERE j.run_id > $1 AND j.run_id <= $2 AND j.state = 'queued'";
        for row in tx.rows(sql, range).await? {
            self.placed.insert(row.get(0)?);
        }
        let sql = "SELECT job_id, attempt, number, claim, runner_id FROM leases
                   WHERE job_id >= $1 AND job_id < $2";
        let (Value::Int(after), Value::Int(last)) = (&range[0], &range[1]) else { return Ok(()) };
        let first_job = |run: i64| run.saturating_add(1).saturating_mul(JOBS_PER_RUN);
        for row in tx.rows(sql, &[first_job(*after).into(), first_job(*last).into()]).await? {
            let lease = Lease {
                attempt: row.get(1)?,
                number: row.get(2)?,
                claim: row.get(3)?,
                runner: row.get(4)?,
            };
            self.leases.insert(row.get(0)?, lease);
        }
        let sql =
            "SELECT run_id, attempt, number, at FROM timers WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            self.timers.insert((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?);
        }
        Ok(())
    }

    async fn tasks(
        &mut self,
        tx: &mut Tx<'_>,
        range: &[Value],
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let sql = "SELECT id, run_id, kind, payload, parked_at FROM outbox
                   WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            let (task, run, kind): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let subject = format!("task {task} of the outbox");
            let Some(run) = self.runs.get_mut(&run) else {
                report.find(Rule::Task, subject, format!("its run {run} does not exist"));
                continue;
            };
            let given_up = row.get::<Option<i64>>(4)?.is_some();
            if matches!(kind.as_str(), "admit" | "cancel_member" | "continue") {
                match serde_json::from_str(&row.get::<String>(3)?) {
                    Ok(order) => run.tasks.add(&order),
                    Err(error) => report.find(Rule::Task, subject, format!("unreadable: {error}")),
                }
                run.tasks.any |= !given_up;
            }
            if given_up {
                run.tasks.given_up.push(task);
            }
        }
        Ok(())
    }

    /// The groups that these runs say they are in.
    async fn group_rows(&mut self, tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
        let mut wanted = BTreeSet::new();
        for attempt in self.attempts.values() {
            let names = attempt.jobs.values().filter_map(|job| job.group.clone());
            wanted.extend(names.chain(attempt.group.clone()).map(|name| (attempt.repo, name)));
        }
        let sql = Sql::of(
            "SELECT repo_id, name, members FROM groups WHERE repo_id = $1 AND name = $2",
            "SELECT g.repo_id, g.name, g.members FROM unnest($1::bigint[], $2::text[])
                 AS u (repo_id, name) JOIN groups AS g USING (repo_id, name)",
        );
        let keys: Vec<_> =
            wanted.iter().map(|(repo, name)| vec![(*repo).into(), name.into()]).collect();
        for row in tx.rows_all(sql, &keys).await? {
            let (repo, name): (i64, String) = (row.get(0)?, row.get(1)?);
            match members_of(&row.get::<String>(2)?) {
                Ok(members) => {
                    self.groups.insert((repo, name), members);
                }
                Err(error) => {
                    let subject = format!("group `{name}` of repository {repo}");
                    report.find(Rule::Group, subject, format!("its members: {error}"));
                }
            }
        }
        Ok(())
    }

    /// In the order in which they were written: on PostgreSQL, that of transactions can differ from it
    /// for two that touched the same job.
    async fn story(&mut self, tx: &mut Tx<'_>, range: &[Value]) -> Result<(), StoreError> {
        let sql = "SELECT run_id, attempt, job_id, kind, payload FROM events
                   WHERE run_id > $1 AND run_id <= $2 AND kind IN ('run_created', 'run_started',
                       'run_done', 'job_queued', 'job_claimed', 'job_started', 'job_uploading',
                       'job_done', 'job_lost', 'job_returned', 'job_retry')
                   ORDER BY run_id, id";
        for row in tx.rows(sql, range).await? {
            self.events.push(Event {
                run: row.get(0)?,
                attempt: row.get(1)?,
                job: row.get(2)?,
                kind: row.get(3)?,
                payload: row.get(4)?,
            });
        }
        let sql = "SELECT run_id, attempt, number, claim FROM job_claims
                   WHERE run_id > $1 AND run_id <= $2";
        for row in tx.rows(sql, range).await? {
            let (run, attempt, number) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.claims.push(PastClaim { run, attempt, number, claim: row.get(3)? });
        }
        Ok(())
    }
}

fn attempt_of(row: &Row) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        run: row.get(0)?,
        number: row.get(1)?,
        repo: row.get(2)?,
        plan: None,
        state: row.get(4)?,
        conclusion: row.get(5)?,
        group: row.get(6)?,
        cancelled: row.get::<Option<i64>>(7)?.is_some(),
        counters: Counters {
            scopes: row.get(8)?,
            nodes: row.get(9)?,
            legs: row.get(10)?,
            jobs_made: row.get(11)?,
        },
        started: row.get(12)?,
        ended: row.get(13)?,
        scopes: BTreeMap::new(),
        nodes: BTreeMap::new(),
        jobs: BTreeMap::new(),
    })
}

async fn plan(tx: &mut Tx<'_>, hash: &[u8]) -> Result<Result<Arc<Plan>, String>, StoreError> {
    let sql = "SELECT body FROM documents WHERE hash = $1";
    let Some(row) = tx.row(sql, &[hash.into()]).await? else {
        return Ok(Err("its plan is not there".to_owned()));
    };
    let plan = serde_json::from_str(&row.get::<String>(0)?);
    Ok(plan.map(Arc::new).map_err(|error| format!("its plan cannot be read: {error}")))
}
