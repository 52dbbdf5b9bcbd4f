//! The rows of a run as the database has them, and back.

use std::sync::{Arc, LazyLock};

use kiln_core::id::{JobId, OrgId, RepoId, RunId};
use kiln_core::run::{
    Ancestry, Cancel, Conclusion, Leg, LegState, Node, NodeNo, NodeState, Run, RunState, Scope,
    Tally, Timings, Wait,
};
use kiln_core::time::Timestamp;
use kiln_core::value::Object;

use super::facts::Plan;
use super::open::PastJob;
use crate::directory::documents::Hash;
use crate::sql::{Row, Sql, Value};
use crate::table::Kind::{Bytes, Int, Text};
use crate::table::{Column, Table};
use crate::tx::millis;
use crate::{Refusal, StoreError};

const NUMBERED: &[Column] = &[("run_id", Int), ("attempt", Int), ("number", Int)];

pub(super) static ATTEMPTS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(
        "run_attempts",
        &[("run_id", Int), ("attempt", Int)],
        &[
            ("org_id", Int),
            ("repo_id", Int),
            ("plan", Bytes),
            ("context", Bytes),
            ("actor", Text),
            ("trust", Text),
            ("class", Text),
            ("priority", Int),
            ("created_at", Int),
            ("from_node", Int),
            ("from_step", Int),
        ],
        &[
            ("state", Text),
            ("conclusion", Text),
            ("group_name", Text),
            ("cancelled_by", Text),
            ("cancel_reason", Text),
            ("cancel_forced", Int),
            ("cancelled_at", Int),
            ("scopes", Int),
            ("nodes", Int),
            ("legs", Int),
            ("jobs_made", Int),
            ("started_at", Int),
            ("ended_at", Int),
            ("version", Int),
        ],
    )
});

pub(super) static SCOPES: LazyLock<Table> = LazyLock::new(|| {
    Table::new(
        "run_scopes",
        NUMBERED,
        &[("workflow", Int), ("caller", Int), ("inputs", Text), ("first_node", Int)],
        &[
            ("open", Int),
            ("succeeded", Int),
            ("failed", Int),
            ("cancelled", Int),
            ("timed_out", Int),
            ("skipped", Int),
            ("stopped", Int),
        ],
    )
});

pub(super) static NODES: LazyLock<Table> = LazyLock::new(|| {
    Table::new(
        "run_nodes",
        NUMBERED,
        &[("scope", Int), ("job", Int), ("origin_attempt", Int)],
        &[
            ("state", Text),
            ("conclusion", Text),
            ("needs_remaining", Int),
            ("above_failed", Int),
            ("above_cancelled", Int),
            ("above_skipped", Int),
            ("first_leg", Int),
            ("leg_count", Int),
            ("open_legs", Int),
            ("succeeded", Int),
            ("failed", Int),
            ("cancelled", Int),
            ("timed_out", Int),
            ("skipped", Int),
            ("fail_fast", Int),
            ("max_parallel", Int),
            ("tripped", Int),
            ("outputs", Text),
            ("note", Text),
        ],
    )
});

pub(super) static JOBS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(
        "jobs",
        NUMBERED,
        &[
            ("id", Int),
            ("node", Int),
            ("leg_index", Int),
            ("origin_attempt", Int),
            ("name", Text),
            ("matrix", Text),
        ],
        &[
            ("state", Text),
            ("conclusion", Text),
            ("runner_id", Int),
            ("claim", Int),
            ("retries", Int),
            ("losses", Int),
            ("cancelling", Int),
            ("tolerated", Int),
            ("group_name", Text),
            ("scope", Int),
            ("lane_id", Int),
            ("queue_key", Int),
            ("wake_at", Int),
            ("queued_at", Int),
            ("claimed_at", Int),
            ("prepared_at", Int),
            ("started_at", Int),
            ("ended_at", Int),
            ("outputs", Text),
            ("note", Text),
        ],
    )
});

/// Where the columns of an attempt stand that are looked at by themselves.
const STATE: usize = 13;
const JOBS_MADE: usize = 23;
const STARTED_AT: usize = 24;
const ENDED_AT: usize = 25;
const VERSION: usize = 26;

/// One job of an attempt begins at one of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FromStep {
    pub node: NodeNo,
    /// From 1, as [`step_named`](kiln_core::plan::StepsJob::step_named) counts.
    pub step: u32,
}

impl FromStep {
    /// From two columns that are both there, or neither.
    pub(super) fn of(node: Option<u32>, step: Option<u32>) -> Option<Self> {
        node.zip(step).map(|(node, step)| Self { node, step })
    }
}

/// Gives attempts on PostgreSQL another version, the same for all: they are locked, and their rows were changed.
pub(super) const RENEW: &str = "UPDATE run_attempts SET version = ($2::bigint[])[1]
    WHERE run_id = ANY($1) AND state <> 'done'";

/// What the database knows of an attempt beyond what the engine does.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) org: OrgId,
    pub(super) repo: RepoId,
    pub(super) plan: Hash,
    pub(super) context: Hash,
    pub(super) actor: String,
    pub(super) trust: String,
    pub(super) class: String,
    pub(super) priority: i64,
    pub(super) created: Timestamp,
    /// The job that begins late.
    pub(super) from: Option<FromStep>,
    pub(super) jobs_made: i64,
    pub(super) started: Option<Timestamp>,
    pub(super) ended: Option<Timestamp>,
    /// Another one after each change of its rows, on PostgreSQL: see [`Recent`](super::recent::Recent).
    pub(super) version: i64,
}

/// What the database knows of a leg beyond what the engine does.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) name: String,
    /// Where it waits, or waited last.
    pub(super) lane: Option<i64>,
    pub(super) key: Option<i64>,
    /// Who has it, or had it last.
    pub(super) runner: Option<i64>,
}

/// Reads the columns of a row one after the other.
struct Reader<'r> {
    row: &'r Row,
    at: usize,
}

impl Reader<'_> {
    fn next<T: crate::FromValue>(&mut self) -> Result<T, StoreError> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    fn word(&mut self) -> Result<Arc<str>, StoreError> {
        self.next()
    }

    fn conclusion(&mut self) -> Result<Option<Conclusion>, StoreError> {
        let word: Option<Arc<str>> = self.next()?;
        let known =
            |word: Arc<str>| Conclusion::of_github(&word).ok_or_else(|| odd("a conclusion", &word));
        word.map(known).transpose()
    }

    fn time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let time: Option<i64> = self.next()?;
        Ok(time.map(|time| Timestamp(time.unsigned_abs())))
    }

    fn tally(&mut self) -> Result<Tally, StoreError> {
        Ok(Tally {
            success: self.next()?,
            failure: self.next()?,
            cancelled: self.next()?,
            timed_out: self.next()?,
            skipped: self.next()?,
        })
    }

    fn outputs(&mut self) -> Result<Vec<(String, String)>, StoreError> {
        let text: Option<Arc<str>> = self.next()?;
        outputs_of(text.as_deref())
    }
}

pub(super) fn outputs_of(text: Option<&str>) -> Result<Vec<(String, String)>, StoreError> {
    text.map_or(Ok(Vec::new()), |text| parse(text, "outputs"))
}

fn odd(what: &str, found: &str) -> StoreError {
    StoreError::Database(format!("`{found}` is not {what} that this Kiln knows"))
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Database(format!("the {what} in a row: {error}")))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("rows hold only texts and numbers")
}

fn time(time: Option<Timestamp>) -> Value {
    time.map(millis).into()
}

/// How many characters of a note are kept.
const LONGEST_NOTE: usize = 2_000;

/// What people read about how something ended. It may quote what a workflow has made, and PostgreSQL
/// cannot keep the character 0.
pub(super) fn note(text: Option<&str>) -> Value {
    let plain = |one: char| if one == '\0' { '\u{fffd}' } else { one };
    text.map(|text| text.chars().take(LONGEST_NOTE).map(plain).collect::<String>()).into()
}

fn small(number: usize) -> Result<u32, StoreError> {
    u32::try_from(number).map_err(|_| Refusal::Invalid("a plan is too big".to_owned()).into())
}

pub(super) fn attempt_of(row: &Row, plan: Arc<kiln_core::plan::Plan>) -> Result<Run, StoreError> {
    let mut read = Reader { row, at: 0 };
    let (id, attempt): (i64, u32) = (read.next()?, read.next()?);
    read.at = STATE;
    let (state, conclusion) = (read.word()?, read.conclusion()?);
    let group: Option<String> = read.next()?;
    let state = match (&*state, conclusion) {
        ("created", None) => RunState::Created,
        ("gated", None) => RunState::Gated(group.clone().unwrap_or_default()),
        ("active", None) => RunState::Active,
        ("done", Some(conclusion)) => RunState::Done(conclusion),
        (other, _) => return Err(odd("a state of a run", other)),
    };
    let (by, reason, forced, at) = (
        read.next::<Option<String>>()?,
        read.next::<Option<String>>()?,
        read.next()?,
        read.time()?,
    );
    let cancel =
        by.zip(at).map(|(by, at)| Cancel { by, reason: reason.unwrap_or_default(), forced, at });
    Ok(Run {
        id: id.unsigned_abs(),
        attempt,
        plan,
        state,
        cancel,
        group,
        scopes: read.next()?,
        nodes: read.next()?,
        legs: read.next()?,
    })
}

/// Whether this attempt is over, and another one may have followed.
pub(super) fn has_ended(row: &Row) -> Result<bool, StoreError> {
    Ok(&*row.get::<Arc<str>>(STATE)? == "done")
}

pub(super) fn attempt_facts(row: &Row) -> Result<(RunId, u32, Attempt), StoreError> {
    let mut read = Reader { row, at: 0 };
    let (run, number) = (RunId(read.next()?), read.next()?);
    let attempt = Attempt {
        org: OrgId(read.next()?),
        repo: RepoId(read.next()?),
        plan: read.next()?,
        context: read.next()?,
        actor: read.next()?,
        trust: read.next()?,
        class: read.next()?,
        priority: read.next()?,
        created: read.time()?.unwrap_or_default(),
        from: FromStep::of(read.next()?, read.next()?),
        jobs_made: row.get(JOBS_MADE)?,
        started: Reader { row, at: STARTED_AT }.time()?,
        ended: Reader { row, at: ENDED_AT }.time()?,
        version: row.get(VERSION)?,
    };
    Ok((run, number, attempt))
}

/// All columns of the table, in its order.
pub(super) fn attempt_row(run: &Run, attempt: &Attempt) -> Vec<Value> {
    let (state, conclusion) = match &run.state {
        RunState::Created => ("created", None),
        RunState::Gated(_) => ("gated", None),
        RunState::Active => ("active", None),
        RunState::Done(conclusion) => ("done", Some(conclusion.github())),
    };
    let cancel = run.cancel.as_ref();
    vec![
        Value::Int(i64::try_from(run.id).unwrap_or(i64::MAX)),
        run.attempt.into(),
        attempt.org.0.into(),
        attempt.repo.0.into(),
        attempt.plan.into(),
        attempt.context.into(),
        (&attempt.actor).into(),
        (&attempt.trust).into(),
        (&attempt.class).into(),
        attempt.priority.into(),
        millis(attempt.created).into(),
        attempt.from.map(|from| from.node).into(),
        attempt.from.map(|from| from.step).into(),
        Value::Word(state),
        conclusion.map_or(Value::Null, Value::Word),
        run.group.as_deref().into(),
        cancel.map(|cancel| cancel.by.as_str()).into(),
        cancel.map(|cancel| cancel.reason.as_str()).into(),
        cancel.is_some_and(|cancel| cancel.forced).into(),
        time(cancel.map(|cancel| cancel.at)),
        run.scopes.into(),
        run.nodes.into(),
        run.legs.into(),
        attempt.jobs_made.into(),
        time(attempt.started),
        time(attempt.ended),
        attempt.version.into(),
    ]
}

pub(super) fn scope_of(row: &Row, plan: &Plan) -> Result<Scope, StoreError> {
    let mut read = Reader { row, at: 2 };
    let (number, workflow) = (read.next()?, read.next::<u32>()? as usize);
    let caller = read.next()?;
    let inputs: Object = parse(&read.word()?, "inputs")?;
    let first: u32 = read.next()?;
    let jobs = plan.plan.workflows.get(workflow).ok_or_else(|| odd("a workflow", "its number"))?;
    let count = small(jobs.jobs.len())?;
    Ok(Scope {
        number,
        workflow,
        caller,
        inputs,
        nodes: (first..first + count).collect(),
        open: read.next()?,
        tally: read.tally()?,
        cancelled: read.next()?,
    })
}

fn tally_into(row: &mut Vec<Value>, tally: Tally) {
    let counts = [tally.success, tally.failure, tally.cancelled, tally.timed_out, tally.skipped];
    row.extend(counts.map(Value::from));
}

pub(super) fn scope_row(run: &Run, scope: &Scope) -> Vec<Value> {
    let mut row = numbered(run, scope.number);
    row.extend([
        Value::Int(i64::try_from(scope.workflow).unwrap_or(i64::MAX)),
        scope.caller.into(),
        json(&scope.inputs).into(),
        scope.nodes.first().copied().unwrap_or(0).into(),
        scope.open.into(),
    ]);
    tally_into(&mut row, scope.tally);
    row.push(scope.cancelled.into());
    row
}

fn numbered(run: &Run, number: u32) -> Vec<Value> {
    let id = i64::try_from(run.id).unwrap_or(i64::MAX);
    let mut row = Vec::with_capacity(32);
    row.extend([Value::Int(id), run.attempt.into(), number.into()]);
    row
}

/// The scope must be known: needs and dependents are counted from its first job.
pub(super) fn node_of(row: &Row, plan: &Plan, workflow: usize) -> Result<Node, StoreError> {
    let mut node = bare_node_of(row)?;
    let links = plan.links(workflow, node.job)?;
    let first = node.number - small(node.job)?;
    let from_first = |jobs: &[u32]| jobs.iter().map(|job| first + job).collect();
    node.needs = from_first(&links.needs);
    node.dependents = from_first(&links.dependents);
    Ok(node)
}

/// A node that knows nothing of its neighbours.
pub(super) fn bare_node_of(row: &Row) -> Result<Node, StoreError> {
    let mut read = Reader { row, at: 2 };
    let (number, scope): (u32, u32) = (read.next()?, read.next()?);
    let job: u32 = read.next()?;
    let run_attempt = read.next()?;
    let (word, conclusion) = (read.word()?, read.conclusion()?);
    let needs_remaining = read.next()?;
    let ancestry =
        Ancestry { failed: read.next()?, cancelled: read.next()?, skipped: read.next()? };
    let (first, count): (Option<u32>, u32) = (read.next()?, read.next()?);
    let open_legs = read.next()?;
    let tally = read.tally()?;
    let state = match (&*word, conclusion) {
        ("pending", None) => NodeState::Pending { needs_remaining },
        ("active", None) => NodeState::Active { open_legs, tally },
        ("done", Some(conclusion)) => NodeState::Done(conclusion),
        (other, _) => return Err(odd("a state of a job", other)),
    };
    Ok(Node {
        number,
        scope,
        job: job as usize,
        needs: Vec::new(),
        dependents: Vec::new(),
        ancestry,
        state,
        legs: first.map(|first| (first..first + count).collect()).unwrap_or_default(),
        fail_fast: read.next()?,
        max_parallel: read.next()?,
        tripped: read.next()?,
        outputs: read.outputs()?,
        note: read.next()?,
        run_attempt,
    })
}

/// The scope of a node, before the rest of it can be understood.
pub(super) fn scope_number_of(row: &Row) -> Result<u32, StoreError> {
    row.get(3)
}

pub(super) fn node_row(run: &Run, node: &Node) -> Vec<Value> {
    let (state, conclusion, needs_remaining, open_legs, tally) = match &node.state {
        NodeState::Pending { needs_remaining } => {
            ("pending", None, *needs_remaining, 0, Tally::default())
        }
        NodeState::Active { open_legs, tally } => ("active", None, 0, *open_legs, *tally),
        NodeState::Done(conclusion) => ("done", Some(conclusion.github()), 0, 0, Tally::default()),
    };
    let mut row = numbered(run, node.number);
    row.extend([
        node.scope.into(),
        Value::Int(i64::try_from(node.job).unwrap_or(i64::MAX)),
        node.run_attempt.into(),
        Value::Word(state),
        conclusion.map_or(Value::Null, Value::Word),
        needs_remaining.into(),
        node.ancestry.failed.into(),
        node.ancestry.cancelled.into(),
        node.ancestry.skipped.into(),
        node.legs.first().copied().into(),
        Value::Int(i64::try_from(node.legs.len()).unwrap_or(i64::MAX)),
        open_legs.into(),
    ]);
    tally_into(&mut row, tally);
    row.extend([
        node.fail_fast.into(),
        node.max_parallel.into(),
        node.tripped.into(),
        outputs(&node.outputs),
        note(node.note.as_deref()),
    ]);
    row
}

fn outputs(outputs: &[(String, String)]) -> Value {
    if outputs.is_empty() { Value::Null } else { json(&outputs).into() }
}

pub(super) fn job_of(row: &Row) -> Result<(Leg, Job), StoreError> {
    let mut read = Reader { row, at: 2 };
    let number = read.next()?;
    let id = JobId(read.next()?);
    let (node, index, run_attempt) = (read.next()?, read.next()?, read.next()?);
    let name = read.next()?;
    let matrix: Option<Arc<str>> = read.next()?;
    let (word, conclusion) = (read.word()?, read.conclusion()?);
    let last_runner: Option<i64> = read.next()?;
    let (attempt, retries, losses) = (read.next()?, read.next()?, read.next()?);
    let (cancelling, tolerated) = (read.next()?, read.next()?);
    let (group, scope) = (read.next()?, read.next()?);
    let (lane, key) = (read.next()?, read.next()?);
    let wake = read.time()?;
    let timings = Timings {
        queued: read.time()?,
        claimed: read.time()?,
        prepared: read.time()?,
        started: read.time()?,
        ended: read.time()?,
    };
    let runner = last_runner.unwrap_or_default().unsigned_abs();
    let state = match (&*word, conclusion, scope) {
        ("held_back", None, _) => LegState::Waiting(Wait::MaxParallel),
        ("group", None, _) => LegState::Waiting(Wait::Group),
        ("backoff", None, _) => {
            LegState::Waiting(Wait::Backoff { until: wake.unwrap_or_default() })
        }
        ("queued", None, _) => LegState::Queued,
        ("claimed", None, _) => LegState::Claimed { runner },
        ("running", None, _) => LegState::Running { runner },
        ("uploading", None, _) => LegState::Uploading { runner },
        ("called", None, Some(scope)) => LegState::Called(scope),
        ("done", Some(conclusion), _) => LegState::Done(conclusion),
        (other, ..) => return Err(odd("a state of a job", other)),
    };
    let leg = Leg {
        number,
        node,
        index,
        matrix: matrix.map_or(Ok(Object::new()), |text| parse(&text, "matrix"))?,
        state,
        group,
        scope,
        attempt,
        retries,
        losses,
        cancelling,
        timings,
        tolerated,
        outputs: read.outputs()?,
        run_attempt,
        note: read.next()?,
    };
    Ok((leg, Job { id, name, lane, key, runner: last_runner }))
}

pub(super) fn job_row(run: &Run, leg: &Leg, job: &Job) -> Vec<Value> {
    let mut row = job_fixed(run, leg, job);
    row.extend(job_changing(leg, job));
    row
}

/// What never changes of a job.
fn job_fixed(run: &Run, leg: &Leg, job: &Job) -> Vec<Value> {
    let mut row = numbered(run, leg.number);
    row.extend([
        job.id.0.into(),
        leg.node.into(),
        leg.index.into(),
        leg.run_attempt.into(),
        (&job.name).into(),
        if leg.matrix.is_empty() { Value::Null } else { json(&leg.matrix).into() },
    ]);
    row
}

/// A job that waits for its first runner. What is not named is empty.
pub(super) const QUEUE: Sql = Sql::of(
    "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, matrix, lane_id,
         queue_key, queued_at, state, claim, retries, losses, cancelling, tolerated)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'queued', 0, 0, 0, 0, 0)",
    "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, matrix, lane_id,
         queue_key, queued_at, state, claim, retries, losses, cancelling, tolerated)
     SELECT u.*, 'queued', 0, 0, 0, 0, 0
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                 $7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[]) AS u",
);

/// Whether [`QUEUE`] says all that is to be said of a job that is new.
pub(super) fn has_just_come(leg: &Leg) -> bool {
    let Timings { queued: _, claimed, prepared, started, ended } = leg.timings;
    let counts = (leg.attempt, leg.retries, leg.losses);
    leg.state == LegState::Queued
        && counts == (0, 0, 0)
        && !leg.cancelling
        && !leg.tolerated
        && [claimed, prepared, started, ended].iter().all(Option::is_none)
        && leg.group.is_none()
        && leg.scope.is_none()
        && leg.outputs.is_empty()
        && leg.note.is_none()
}

pub(super) fn queued_row(run: &Run, leg: &Leg, job: &Job) -> Vec<Value> {
    let mut row = job_fixed(run, leg, job);
    row.extend([job.lane.into(), job.key.into(), time(leg.timings.queued)]);
    row
}

/// Who has a job, or had it when it ended.
pub(super) fn last_runner(leg: &Leg, job: &Job) -> Option<i64> {
    let (.., runner, _) = leg_state(&leg.state);
    runner.or_else(|| job.runner.filter(|_| leg.state.is_done()))
}

// Whether two rows of the same thing are equal in all columns that can change.

pub(super) fn is_same_scope(before: &Scope, now: &Scope) -> bool {
    (before.open, before.tally, before.cancelled) == (now.open, now.tally, now.cancelled)
}

pub(super) fn is_same_node(before: &Node, now: &Node) -> bool {
    let changing = |node: &Node| {
        let legs = (node.legs.first().copied(), node.legs.len());
        (node.ancestry, legs, node.fail_fast, node.max_parallel, node.tripped)
    };
    changing(before) == changing(now)
        && before.state == now.state
        && before.outputs == now.outputs
        && before.note == now.note
}

pub(super) fn is_same_job(before: &PastJob, leg: &Leg, job: &Job) -> bool {
    let past = &before.leg;
    past.state == leg.state
        && (past.attempt, past.timings) == (leg.attempt, leg.timings)
        && before.runner == job.runner
        && has_only_moved(before, leg, job)
}

/// Whether a job is as it was in all that [`moved_row`] leaves out.
pub(super) fn has_only_moved(before: &PastJob, leg: &Leg, job: &Job) -> bool {
    let past = &before.leg;
    let rare = |leg: &Leg| {
        let flags = (leg.cancelling, leg.tolerated);
        (leg.retries, leg.losses, flags, leg.scope, leg.timings.queued)
    };
    let waits = |leg: &Leg| matches!(leg.state, LegState::Waiting(_));
    (before.lane, before.key) == (job.lane, job.key)
        && rare(past) == rare(leg)
        // Until when it waits is in a column of its own.
        && waits(past) == waits(leg) && (!waits(past) || past.state == leg.state)
        && past.group == leg.group
        && past.outputs == leg.outputs
        && past.note == leg.note
}

/// What a job writes on its usual way from the queue to its end, on SQLite. On PostgreSQL it would be a join, which may read all jobs by a plan
/// that was made when there were few.
pub(super) const MOVE: &str = "UPDATE jobs SET state = $2, conclusion = $3, runner_id = $4,
    claim = $5, claimed_at = $6, prepared_at = $7, started_at = $8, ended_at = $9 WHERE id = $1";

pub(super) fn moved_row(leg: &Leg, job: &Job) -> Vec<Value> {
    let (state, conclusion, ..) = leg_state(&leg.state);
    vec![
        job.id.0.into(),
        Value::Word(state),
        conclusion.map_or(Value::Null, Value::Word),
        last_runner(leg, job).into(),
        leg.attempt.into(),
        time(leg.timings.claimed),
        time(leg.timings.prepared),
        time(leg.timings.started),
        time(leg.timings.ended),
    ]
}

fn job_changing(leg: &Leg, job: &Job) -> [Value; 20] {
    let (state, conclusion, _, wake) = leg_state(&leg.state);
    [
        Value::Word(state),
        conclusion.map_or(Value::Null, Value::Word),
        last_runner(leg, job).into(),
        leg.attempt.into(),
        leg.retries.into(),
        leg.losses.into(),
        leg.cancelling.into(),
        leg.tolerated.into(),
        leg.group.as_deref().into(),
        leg.scope.into(),
        job.lane.into(),
        job.key.into(),
        time(wake),
        time(leg.timings.queued),
        time(leg.timings.claimed),
        time(leg.timings.prepared),
        time(leg.timings.started),
        time(leg.timings.ended),
        outputs(&leg.outputs),
        note(leg.note.as_deref()),
    ]
}

/// The word of a state, and what it carries.
fn leg_state(
    state: &LegState,
) -> (&'static str, Option<&'static str>, Option<i64>, Option<Timestamp>) {
    let id = |runner: &u64| i64::try_from(*runner).ok();
    match state {
        LegState::Waiting(Wait::MaxParallel) => ("held_back", None, None, None),
        LegState::Waiting(Wait::Group) => ("group", None, None, None),
        LegState::Waiting(Wait::Backoff { until }) => ("backoff", None, None, Some(*until)),
        LegState::Queued => ("queued", None, None, None),
        LegState::Claimed { runner } => ("claimed", None, id(runner), None),
        LegState::Running { runner } => ("running", None, id(runner), None),
        LegState::Uploading { runner } => ("uploading", None, id(runner), None),
        LegState::Called(_) => ("called", None, None, None),
        LegState::Done(conclusion) => ("done", Some(conclusion.github()), None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_where_they_are_looked_for() {
        let columns = ATTEMPTS.columns();
        let columns: Vec<&str> = columns.split(", ").collect();
        let expected = [
            (STATE, "t.state"),
            (JOBS_MADE, "t.jobs_made"),
            (STARTED_AT, "t.started_at"),
            (ENDED_AT, "t.ended_at"),
            (VERSION, "t.version"),
        ];
        for (at, name) in expected {
            assert_eq!(columns[at], name);
        }
    }
}
