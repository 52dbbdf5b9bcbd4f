//! What others hear of a change: events for readers, tasks for the outbox, claims that came to nothing.

use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::{Cancel, Effect, Event, Leg, LegNo, LegState, Member, RunState, Step, Wait};
use serde::{Deserialize, Serialize};

use super::open::{Batch, Open, PastJob};
use super::release::let_go;
use crate::events::{self, EventKind};
use crate::outbox::{self, Kind, Message};
use crate::sql::{Sql, Value};
use crate::tx::millis;
use crate::{StoreError, Tx};

/// What a task of the outbox asks of a run.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Order {
    /// What is asked of an attempt that was followed by another one is out of date.
    pub(crate) attempt: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Admit { leg: Option<LegNo> },
    Cancel { leg: Option<LegNo>, reason: String },
    Continue { step: Step },
}

impl Order {
    /// The event that carries it out.
    pub(super) fn event(self, run: u64) -> Event {
        match self.what {
            What::Admit { leg } => Event::Admitted(Member { run, attempt: self.attempt, leg }),
            What::Cancel { leg: Some(leg), reason } => Event::CancelLeg { leg, reason },
            What::Cancel { leg: None, reason } => {
                Event::Cancel { by: "concurrency".to_owned(), reason, forced: false }
            }
            What::Continue { step } => Event::Step(step),
        }
    }
}

/// Keeps the claims that did not end their job.
pub(super) fn past_claims(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for open in batch.runs.values() {
        for leg in open.changed_legs() {
            if !leg.state.is_done() && let_go(open, leg.number) {
                let past = &open.before.jobs[&leg.number];
                rows.push(past_claim(open, leg, past, millis(tx.now())));
            }
        }
    }
    let sql = Sql::of(
        "INSERT INTO job_claims (run_id, attempt, number, claim, runner_id, outcome, reason,
             queued_at, claimed_at, prepared_at, started_at, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        "INSERT INTO job_claims (run_id, attempt, number, claim, runner_id, outcome, reason,
             queued_at, claimed_at, prepared_at, started_at, ended_at)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
             $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
             $12::bigint[])",
    );
    tx.write_all(sql, rows)?;
    Ok(())
}

fn past_claim(open: &Open, leg: &Leg, past: &PastJob, now: i64) -> Vec<Value> {
    let timings = past.leg.timings;
    let runner = match past.leg.state {
        LegState::Claimed { runner }
        | LegState::Running { runner }
        | LegState::Uploading { runner } => i64::try_from(runner).unwrap_or_default(),
        _ => 0,
    };
    vec![
        open.id().0.into(),
        open.hood.run.attempt.into(),
        leg.number.into(),
        past.leg.attempt.into(),
        runner.into(),
        how_it_ended(leg, &past.leg).into(),
        open.reasons.get(&leg.number).map(String::as_str).into(),
        timings.queued.map(millis).into(),
        timings.claimed.map(millis).into(),
        timings.prepared.map(millis).into(),
        timings.started.map(millis).into(),
        now.into(),
    ]
}

fn how_it_ended(leg: &Leg, past: &Leg) -> &'static str {
    if leg.losses > past.losses {
        "lost"
    } else if leg.retries > past.retries {
        "retried"
    } else {
        "returned"
    }
}

/// Writes what happened, and what must be done next.
pub(super) fn events_and_tasks(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), StoreError> {
    let (mut heard, mut tasks) = (Vec::new(), Vec::new());
    for open in batch.runs.values() {
        let event = |(job, kind): (Option<JobId>, EventKind)| events::Event {
            org: open.attempt.org,
            repo: open.attempt.repo,
            run: open.id(),
            attempt: open.hood.run.attempt,
            job,
            kind,
        };
        heard.extend(run_events(open).into_iter().map(|kind| (None, kind)).map(event));
        heard.extend(job_events(open).into_iter().map(event));
        heard.extend(end_event(open).map(|kind| (None, kind)).map(event));
        tasks.extend(open.effects.iter().filter_map(|effect| task_of(open, effect)));
    }
    events::append(tx, &heard)?;
    outbox::put(tx, &tasks)
}

fn run_events(open: &Open) -> Vec<EventKind> {
    let mut events = Vec::new();
    let Some(before) = &open.before.attempt else {
        return vec![EventKind::RunCreated];
    };
    if let Some(Cancel { by, reason, forced, .. }) = open.hood.run.cancel.clone()
        && before.cancel.as_ref().is_none_or(|before| forced && !before.forced)
    {
        events.push(EventKind::CancelAsked { by, reason, forced });
    }
    if open.attempt.started.is_some() && before.started.is_none() {
        events.push(EventKind::RunStarted);
    }
    events
}

fn end_event(open: &Open) -> Option<EventKind> {
    let RunState::Done(conclusion) = open.hood.run.state else { return None };
    let past = open.before.attempt.as_ref();
    let new = past.is_none_or(|past| !matches!(past.state, RunState::Done(_)));
    new.then_some(EventKind::RunDone { conclusion })
}

fn job_events(open: &Open) -> Vec<(Option<JobId>, EventKind)> {
    let mut events = Vec::new();
    for leg in open.changed_legs() {
        let number = &leg.number;
        let past = open.before.jobs.get(number).map(|past| &past.leg);
        if past.is_some_and(|past| past.state == leg.state && past.attempt == leg.attempt) {
            continue;
        }
        let mut add = |kind| events.push((Some(open.jobs[number].id), kind));
        if let Some(past) = past.filter(|_| let_go(open, *number))
            && !leg.state.is_done()
        {
            given_up(open, leg, past).into_iter().for_each(&mut add);
        }
        // Also of a job that started and ended in the same transaction.
        if leg.timings.started.is_some() && past.is_none_or(|past| past.timings.started.is_none()) {
            add(EventKind::JobStarted);
        }
        match &leg.state {
            LegState::Queued => add(EventKind::JobQueued),
            LegState::Claimed { runner } => {
                let runner = RunnerId(i64::try_from(*runner).unwrap_or_default());
                add(EventKind::JobClaimed { runner, claim: leg.attempt });
            }
            LegState::Uploading { .. } => add(EventKind::JobUploading),
            LegState::Waiting(Wait::Backoff { until }) => add(EventKind::JobRetry { at: until.0 }),
            LegState::Done(conclusion) => {
                add(EventKind::JobDone { conclusion: *conclusion, note: leg.note.clone() });
            }
            LegState::Running { .. } | LegState::Waiting(_) | LegState::Called(_) => {}
        }
    }
    events
}

/// How a claim ended that did not end its job. A declared retry tells of itself when it waits.
fn given_up(open: &Open, leg: &Leg, past: &Leg) -> Option<EventKind> {
    let reason = open.reasons.get(&leg.number).cloned().unwrap_or_default();
    match how_it_ended(leg, past) {
        "lost" => Some(EventKind::JobLost { reason }),
        "retried" => None,
        _ => Some(EventKind::JobReturned { reason }),
    }
}

fn task_of(open: &Open, effect: &Effect) -> Option<Message> {
    let (kind, member, what) = match effect {
        Effect::Admit(member) => (Kind::Admit, *member, What::Admit { leg: member.leg }),
        Effect::CancelMember { member, reason } => {
            let what = What::Cancel { leg: member.leg, reason: reason.clone() };
            (Kind::CancelMember, *member, what)
        }
        Effect::Continue(step) => {
            (Kind::Continue, open.hood.run.member(None), What::Continue { step: *step })
        }
        _ => return None,
    };
    let run = kiln_core::id::RunId(i64::try_from(member.run).unwrap_or_default());
    let order = Order { attempt: member.attempt, what };
    let payload = serde_json::to_string(&order).expect("an order is texts and numbers");
    Some(Message::at_once(kind, run, payload))
}
