//! What a runner says about a job that it has.
//!
//! Everything is said under a claim. Repeating what was heard is answered as before; what is said about a
//! claim that is over, because the job was given to another runner, is refused and changes nothing.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use kiln_core::id::{JobId, RunnerId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_fault::Point;
use kiln_proto::report::{
    Annotation, Complete, Completed, Ended, Ends, Event, Events, Heard, MOST_ENDS, MOST_EVENTS,
    Stored, Used, What,
};
use kiln_store::Tx;
use kiln_store::claims::Lease;
use kiln_store::events::{self, Level};
use kiln_store::runs::{
    self, Answer as Became, Deployed, EndNotes, Happened, JobNews, JobUse, Refused, Report,
    ReportAnswer, Reported, Said, Word,
};

use super::register;
use crate::app::App;
use crate::fleet::Use;
use crate::http::error::{Answer, Failure};
use crate::logs::{LogError, LogId};
use crate::token::JobAccess;

/// The bytes that all outputs of a job may have, as on GitHub.
const OUTPUTS: usize = 1 << 20;
/// The bytes that the address of a deployment may have; what is longer is no address.
const LONGEST_URL: usize = 4 << 10;

/// The lease under which something is said, if there still is one.
pub async fn lease(app: &App, access: JobAccess) -> Answer<Option<Lease>> {
    let lease = app.traffic.lease(access.job, access.claim).await?;
    Ok(lease.filter(|lease| lease.runner == access.runner))
}

fn lost() -> Failure {
    Failure::conflict("the job is not this runner's any more: its lease has ended; abandon it")
}

/// Adds to the log of a claim.
pub async fn append(app: &App, access: JobAccess, from: u64, bytes: Bytes) -> Answer<Stored> {
    let log = log_of(access);
    if lease(app, access).await?.is_none() {
        // Only what is there already can be said again.
        let length = app.logs.length(log).await.map_err(unkept)?;
        let end = from.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        return if end <= length && length > 0 {
            Ok(Stored { offset: length })
        } else {
            Err(lost())
        };
    }
    let offset = app.logs.append(log, from, bytes).await.map_err(unkept)?;
    Point::ServerLogged.pass();
    app.tails.grew(log.job);
    Ok(Stored { offset })
}

fn log_of(access: JobAccess) -> LogId {
    LogId { job: access.job, claim: access.claim }
}

fn unkept(error: LogError) -> Failure {
    match error {
        LogError::Gap { wanted } => {
            Failure::gap(wanted, format!("the log has {wanted} bytes; go on from there"))
        }
        LogError::Closed => lost(),
        LogError::Storage(reason) => {
            tracing::error!(%reason, "a log cannot be kept");
            Failure::unavailable("the log cannot be kept at the moment; try again")
        }
    }
}

/// Hears what happened in a job.
pub async fn events(app: &App, access: JobAccess, said: Events) -> Answer<Heard> {
    if said.events.len() > MOST_EVENTS {
        return Err(Failure::invalid(format!("events: expected {MOST_EVENTS} at most")));
    }
    let words: Vec<(u64, Word)> = said.events.iter().filter_map(word).collect();
    let events = said.events.into_iter().map(reported).collect::<Answer<Vec<_>>>()?;
    let in_order =
        events.windows(2).all(|pair| pair[0].sequence.checked_add(1) == Some(pair[1].sequence));
    if !in_order || events.first().is_some_and(|first| first.sequence == 0) {
        let detail = "events.sequence: expected numbers from 1 on, each one more than the last";
        return Err(Failure::invalid(detail));
    }
    let mut cancelling = false;
    if let Some(before) = heard_before(app, access, &events).await? {
        // What was heard before is said again because its answer got lost; it happened once.
        let new = words.into_iter().filter(|(sequence, _)| *sequence > before);
        let mut heard = before;
        for (sequence, word) in new {
            let follows = sequence == heard + 1;
            let number = follows.then_some(sequence);
            match happened(app, access, word, number).await? {
                Became::Refused(refused) => return Err(refusal(&refused)),
                became => cancelling |= became == Became::Unwanted,
            }
            heard = number.unwrap_or(heard);
        }
        let JobAccess { job, claim, runner, .. } = access;
        app.fleet.remember_heard(job, claim, runner, heard);
        if heard > before && events.last().is_some_and(|last| last.sequence == heard) {
            return Ok(Heard { sequence: heard, cancelling });
        }
    }
    let JobAccess { job, claim, runner, .. } = access;
    match app.traffic.report(Report { job, claim, runner, events }).await? {
        ReportAnswer::Heard(sequence) => {
            app.fleet.remember_heard(job, claim, runner, sequence);
            Ok(Heard { sequence, cancelling })
        }
        ReportAnswer::Gap { wanted } => Err(missing(wanted)),
        ReportAnswer::Refused(refused) => {
            app.fleet.forget_claim(job, claim);
            Err(refusal(&refused))
        }
    }
}

/// The number up to which the runner was heard under its claim, unless that is over. Words after a gap are
/// refused before any of them counts.
async fn heard_before(app: &App, access: JobAccess, events: &[Reported]) -> Answer<Option<u64>> {
    let follows = |heard: &u64| events.first().is_none_or(|first| first.sequence <= heard + 1);
    let JobAccess { job, claim, runner, .. } = access;
    // Another server may have heard more than this one knows.
    if let Some(heard) = app.fleet.heard(job, claim, runner).filter(follows) {
        return Ok(Some(heard));
    }
    let heard = lease(app, access).await?.map(|lease| lease.heard);
    match heard {
        Some(heard) if !follows(&heard) => Err(missing(heard + 1)),
        heard => Ok(heard),
    }
}

fn missing(wanted: u64) -> Failure {
    Failure::gap(wanted, format!("event {wanted} is missing; go on from there"))
}

/// The states of the job itself, which go another way than what happened in it.
fn word(event: &Event) -> Option<(u64, Word)> {
    let word = match event.what {
        What::Started { preparing_ms: None } => Word::Started,
        What::Started { preparing_ms: Some(took) } => {
            Word::Prepared { preparing: Duration::from_millis(took) }
        }
        What::Uploading => Word::Uploading,
        _ => return None,
    };
    Some((event.sequence, word))
}

fn reported(event: Event) -> Answer<Reported> {
    let what = match event.what {
        What::Started { .. } | What::Uploading => Said::Counted,
        What::StepStarted { step, name } => Said::StepStarted { step, name },
        What::StepRetried { step, failed_try } => Said::StepRetried { step, failed_try },
        What::StepFinished { step, outcome, conclusion, exit_code } => Said::StepFinished {
            step,
            outcome: ending("outcome", &outcome)?,
            conclusion: ending("conclusion", &conclusion)?,
            exit_code,
        },
        What::Annotation(annotation) => Said::Annotation(kept(annotation)?),
        What::Summary { step, markdown } => Said::Summary { step, text: markdown },
    };
    Ok(Reported { sequence: event.sequence, at: Timestamp(event.at), what })
}

fn kept(said: Annotation) -> Answer<events::Annotation> {
    let level = match said.severity.as_str() {
        "notice" => Level::Notice,
        "warning" => Level::Warning,
        "error" => Level::Error,
        other => {
            let detail = format!("severity: `{other}`; expected `notice`, `warning` or `error`");
            return Err(Failure::invalid(detail));
        }
    };
    Ok(events::Annotation {
        level,
        message: said.message,
        title: said.title,
        file: said.file,
        line: said.line,
        end_line: said.end_line,
        column: said.column,
        end_column: said.end_column,
        step: Some(said.step),
        code: said.code,
    })
}

fn ending(field: &str, word: &str) -> Answer<Conclusion> {
    let known = Conclusion::of_github(word).filter(|end| *end != Conclusion::StartupFailure);
    known.ok_or_else(|| {
        Failure::invalid(format!(
            "{field}: `{word}`; expected `success`, `failure`, `cancelled`, `skipped` or `timed_out`"
        ))
    })
}

/// The last word about a job. It counts when all that the runner said before has arrived.
pub async fn complete(app: &App, access: JobAccess, mut said: Complete) -> Answer<Completed> {
    let conclusion = ending("conclusion", &said.conclusion)?;
    let size: usize = said.outputs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > OUTPUTS {
        return Err(Failure::invalid(format!("outputs: {size} bytes; expected {OUTPUTS} at most")));
    }
    let JobAccess { job, claim, runner, .. } = access;
    if let Some(before) = app.fleet.end_of(job, claim) {
        return Ok(Completed { conclusion: before.github().to_owned() });
    }
    let start = hear_rest(app, access, &mut said).await?;
    check_complete(app, access, &said, start.is_some()).await?;
    let notes = end_notes(&said);
    let outputs = said.outputs.into_iter().collect();
    let word = match (said.transient, start) {
        (Some(reason), _) => Word::Lost { reason },
        (None, Some(preparing)) => Word::Ran { preparing, conclusion, outputs },
        (None, None) => Word::Finished { conclusion, outputs },
    };
    // At once, so that both can share a commit.
    let (became, kept) = tokio::join!(happened(app, access, word, None), keep(app, access, notes));
    let conclusion = match became? {
        Became::Accepted | Became::Unwanted => conclusion,
        // The server ended it before, by force or for good: that is what counts.
        Became::Otherwise(ended) => ended,
        Became::Refused(refused) => return Err(refusal(&refused)),
    };
    kept?;
    Point::ServerCompleted.pass();
    app.fleet.remember_end(job, claim, conclusion);
    leave_if_spent(app, runner).await;
    Ok(Completed { conclusion: conclusion.github().to_owned() })
}

/// The last words about jobs that ended together. One that is not heard is to be told alone, and hears then why.
pub async fn complete_all(app: &App, runner: RunnerId, said: Ends) -> Answer<Ended> {
    if said.ends.len() > MOST_ENDS {
        return Err(Failure::invalid(format!("ends: expected {MOST_ENDS} at most")));
    }
    let heard = said.ends.into_iter().map(async |end| {
        let access = app.signer.check_job(&end.token)?;
        let is_it = access.runner == runner
            && access.job == JobId(end.job_id)
            && access.claim == end.attempt;
        if !is_it || app.fleet.admit(runner, Use::Upload).is_err() {
            return None;
        }
        complete(app, access, end.complete).await.ok()
    });
    // At once, so that they share a commit.
    Ok(Ended { ended: join_all(heard).await })
}

/// Hears the events that come along with the end of a job. The start of one, if there is nothing else to hear, is told
/// with its end: how long it took to prepare.
async fn hear_rest(
    app: &App,
    access: JobAccess,
    said: &mut Complete,
) -> Answer<Option<Option<Duration>>> {
    let mut rest = std::mem::take(&mut said.events);
    let Some(last) = rest.last() else { return Ok(None) };
    if last.sequence != said.sequence {
        let detail = format!("events.sequence: expected {} at the end", said.sequence);
        return Err(Failure::invalid(detail));
    }
    let JobAccess { job, claim, runner, .. } = access;
    let known = match app.fleet.heard(job, claim, runner) {
        Some(heard) => heard,
        None => match lease(app, access).await? {
            Some(lease) => lease.heard,
            // It is over: the end itself says how.
            None => return Ok(None),
        },
    };
    rest.retain(|event| event.sequence > known);
    match rest[..] {
        [] => return Ok(None),
        // Anything but a success may be tried again, and then the start is told of a claim of its own.
        [Event { sequence: 1, what: What::Started { preparing_ms }, .. }]
            if said.transient.is_none() && said.conclusion == Conclusion::Success.github() =>
        {
            return Ok(Some(preparing_ms.map(Duration::from_millis)));
        }
        _ => {}
    }
    match events(app, access, Events { events: rest }).await {
        // It has ended meanwhile, by the same words said before for example: the end itself says how.
        Err(refused) if refused.is_conflict() => Ok(None),
        heard => heard.map(|_| None),
    }
}

/// What is kept besides how the job ended. A job that is tried elsewhere deployed nothing.
fn end_notes(said: &Complete) -> EndNotes {
    let Used { cpu_ms, memory_peak_kb, disk_mb } = said.used;
    let used = JobUse { cpu_ms, memory_peak_kb, disk_mb };
    let whole = |text: &str| text.len() <= LONGEST_URL && !text.contains(char::is_control);
    let deployed = said.deployment.as_ref().filter(|_| said.transient.is_none());
    let deployed = deployed.filter(|it| whole(&it.environment)).map(|it| Deployed {
        environment: it.environment.clone(),
        url: it.url.clone().filter(|url| whole(url)),
    });
    EndNotes {
        // A runner that measured nothing has nothing to say.
        used: (said.used != Used::default()).then_some(used),
        limits: said.allowed.as_ref().and_then(|allowed| serde_json::to_string(allowed).ok()),
        deployed,
    }
}

async fn keep(app: &App, access: JobAccess, notes: EndNotes) -> Answer<()> {
    if notes == EndNotes::default() {
        return Ok(());
    }
    let JobAccess { job, claim, runner, .. } = access;
    let work = async move |tx: &mut Tx<'_>| runs::note_end(tx, job, claim, runner, &notes).await;
    Ok(app.store.write(work).await?)
}

/// Whether all of the log and all events are here, unless the claim is over.
async fn check_complete(
    app: &App,
    access: JobAccess,
    said: &Complete,
    starts_now: bool,
) -> Answer<()> {
    let JobAccess { job, claim, runner, .. } = access;
    // Another server may have heard more than this one knows.
    let along = u64::from(starts_now);
    let enough = |heard: &u64| heard + along >= said.sequence;
    let known = app.fleet.heard(job, claim, runner).filter(enough);
    let heard = match known {
        Some(heard) => heard,
        None => match lease(app, access).await? {
            Some(lease) => lease.heard,
            None => return Ok(()),
        },
    };
    if !enough(&heard) {
        let wanted = heard + 1;
        return Err(Failure::gap(wanted, format!("events from {wanted} on have not arrived")));
    }
    if said.log_bytes > 0 {
        app.logs.append(log_of(access), said.log_bytes, Bytes::new()).await.map_err(unkept)?;
    }
    Ok(())
}

/// A runner for a single job has had it.
async fn leave_if_spent(app: &App, runner: RunnerId) {
    let Ok(member) = app.fleet.member(runner).await else { return };
    if member.runner.about.single_use
        && let Err(error) = register::unregister(app, runner).await
    {
        tracing::warn!(?error, %runner, "a runner for a single job could not be unregistered");
    }
}

/// The runner gives the job back before it began.
pub async fn give_back(app: &App, access: JobAccess, reason: &str) -> Answer<()> {
    match returned(app, access, reason).await? {
        Became::Accepted | Became::Unwanted | Became::Otherwise(_) => Ok(()),
        Became::Refused(refused) => Err(refusal(&refused)),
    }
}

/// The runner is not told of the job after all. One that was taken away meanwhile is not there to be given back.
pub async fn take_back(app: &App, access: JobAccess, reason: &str) -> Answer<()> {
    returned(app, access, reason).await.map(drop)
}

async fn returned(app: &App, access: JobAccess, reason: &str) -> Answer<Became> {
    tracing::info!(job = %access.job, runner = %access.runner, reason, "a job is given back");
    happened(app, access, Word::Returned, None).await
}

/// Says a word of a runner, and the number under which it was said if all before it was heard.
async fn happened(app: &App, access: JobAccess, word: Word, heard: Option<u64>) -> Answer<Became> {
    let JobAccess { job, claim, runner, .. } = access;
    let news = JobNews { job, claim: Some(claim), runner: Some(runner), word, heard };
    let became = app.traffic.happened(Happened::Job(news)).await?;
    if matches!(became, Became::Refused(_)) {
        app.fleet.forget_claim(job, claim);
    }
    Ok(became)
}

fn refusal(refused: &Refused) -> Failure {
    match refused {
        Refused::NoSuchRun | Refused::NoSuchJob => Failure::not_found("job"),
        Refused::NotYours => lost(),
        Refused::Rejected(rejected) => Failure::conflict(rejected.to_string()),
    }
}
