//! `kiln logs`: what a job printed, or prints.

mod choose;
mod history;
mod print;

use std::time::Duration;

use anyhow::Result;
use kiln_core::id::{JOBS_PER_RUN, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::api::{Job, RunDetail};

use super::interrupt::Interrupts;
use super::named_or_latest;
use super::words::{count, is_bad, standing, tried, waits};
use crate::Outcome;
use crate::cli::LogsArgs;
use crate::client::Client;
use crate::client::error::{self, Kind};
use crate::client::events::listen;
use crate::client::log::{Choice, Grep, Log};
use crate::client::target::{Target, What};
use crate::output::{Console, one_line};
use print::{Form, Printer};

/// How often a job that waits is looked at when nothing is heard of it.
const LOOK: Duration = Duration::from_secs(2);

pub(super) async fn run(args: &LogsArgs, console: &mut Console) -> Result<Outcome> {
    if args.all {
        return history::run(args, console).await;
    }
    let (client, target) = named_or_latest(args.target.as_deref(), &args.server).await?;
    let args = &with_address(args, &target);
    if !args.follow {
        return show(args, &client, &target, console).await;
    }
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        outcome = show(args, &client, &target, console) => outcome,
        () = interrupts.next() => Ok(Outcome::Cancelled),
    }
}

/// What was typed, with what a pasted address says besides.
fn with_address(args: &LogsArgs, target: &Target) -> LogsArgs {
    let all = !args.follow && !args.failed && args.tail.is_none();
    LogsArgs {
        claim: args.claim.or(target.claim),
        lines: args.lines.or_else(|| target.lines.filter(|_| all)),
        ..args.clone()
    }
}

async fn show(
    args: &LogsArgs,
    client: &Client,
    target: &Target,
    console: &mut Console,
) -> Result<Outcome> {
    let (detail, wanted) = find(args, client, target).await?;
    if args.failed {
        return failed(args, client, &detail, wanted.as_deref(), console).await;
    }
    if args.grep.is_some() && wanted.is_none() && !args.follow {
        return everywhere(args, client, target, detail, console).await;
    }
    let job = match choose::job(&detail, wanted.as_deref()) {
        Ok(job) => job,
        Err(why) => return Ok(nothing(&why, console)),
    };
    if wanted.is_none() && detail.jobs.len() > 1 {
        let name = one_line(&job.name);
        let all = count(detail.jobs.len(), "job");
        console.note_line(&format!("`{name}` of {all}; `--job NAME` shows another"));
    }
    let typed = args.step.clone().or_else(|| target.step.map(|step| step.to_string()));
    if args.follow {
        return follow(args, client, job, typed.as_deref(), console).await;
    }
    one(args, client, job, typed.as_deref(), console).await
}

/// The run, and which of its jobs was named.
async fn find(
    args: &LogsArgs,
    client: &Client,
    target: &Target,
) -> Result<(RunDetail, Option<String>)> {
    let attempt = args.attempt.or(target.attempt);
    let of_job = async |id: i64| -> Result<(RunDetail, Option<String>)> {
        let job = client.job(&id.to_string()).await?;
        let attempt = attempt.or(Some(job.run_attempt));
        let detail = client.run(&job.run_id.to_string(), attempt).await?;
        Ok((detail, Some(id.to_string())))
    };
    match target.what {
        What::Job(job) => of_job(job.0).await,
        What::Run(run) => match client.run(&run.to_string(), attempt).await {
            // A large number may be that of a job.
            Err(failed) if is_missing(&failed) && run.0 >= JOBS_PER_RUN => {
                of_job(run.0).await.map_err(|_| failed)
            }
            found => Ok((found?, args.job.clone())),
        },
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    error::kind(error) == Some(Kind::NotFound)
}

/// There is nothing to show, and why.
fn nothing(why: &str, console: &mut Console) -> Outcome {
    console.error(&anyhow::anyhow!("{why}"));
    Outcome::Errors
}

fn form(args: &LogsArgs) -> Form {
    match (args.raw, args.server.json) {
        (true, _) => Form::Raw,
        (_, true) => Form::Json,
        _ => Form::People { timestamps: args.timestamps },
    }
}

/// The number of a step.
fn only(job: &Job, step: Option<&str>) -> Result<Vec<u32>, String> {
    let Some(step) = step else { return Ok(Vec::new()) };
    choose::step(job, step).map(|step| vec![step.number])
}

/// Which lines of these steps are wanted.
fn choice(args: &LogsArgs, steps: Vec<u32>) -> Choice {
    let grep = args.grep.as_ref().map(|pattern| Grep {
        pattern: pattern.clone(),
        regex: args.regex,
        ignore_case: args.ignore_case,
    });
    let since = args.since.map(Timestamp::rfc3339);
    Choice { steps, since, grep, tail: args.tail, lines: args.lines }
}

/// The log of a job as it is.
async fn one(
    args: &LogsArgs,
    client: &Client,
    job: &Job,
    step: Option<&str>,
    console: &mut Console,
) -> Result<Outcome> {
    let only = match only(job, step) {
        Ok(only) => only,
        Err(why) => return Ok(nothing(&why, console)),
    };
    let claim = args.claim.unwrap_or(job.attempt);
    let Some((id, claim)) = job.id.zip(Some(claim).filter(|claim| *claim > 0)) else {
        return Ok(nothing(&no_log(job), console));
    };
    if let Some(past) = job.claims.last().filter(|_| args.claim.is_none()) {
        let last = past.attempt;
        console.note_line(&format!("{}; `--claim {last}` shows its log", tried(past)));
    }
    let mut log = Log::of(client, id, claim, choice(args, only));
    let mut printer = Printer::new(console, form(args), job).of_claim(claim);
    log.read(&mut printer).await?;
    if args.grep.is_some() || args.since.is_some() {
        return Ok(if printer.printed == 0 { Outcome::Errors } else { Outcome::Clean });
    }
    if printer.printed == 0 && !printer.console.is_closed() {
        let name = one_line(&job.name);
        if args.lines.is_some() {
            return Ok(nothing(&format!("the log of `{name}` has no such line"), console));
        }
        let ended = job.status == "completed";
        let hint = if ended { "" } else { "; `--follow` waits for it" };
        console.note_line(&format!("`{name}` has printed nothing{hint}"));
    }
    Ok(Outcome::Clean)
}

/// Why a job has no log.
fn no_log(job: &Job) -> String {
    let name = one_line(&job.name);
    let state = standing(&job.status, job.conclusion.as_deref()).word;
    let reason = one_line(&job.reason);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    if job.status == "completed" {
        format!("`{name}` has no log, it never ran ({state}{reason})")
    } else {
        format!("`{name}` has no log yet ({state}{reason}); `--follow` waits for it")
    }
}

/// The steps that failed, of all jobs or of one.
async fn failed(
    args: &LogsArgs,
    client: &Client,
    detail: &RunDetail,
    wanted: Option<&str>,
    console: &mut Console,
) -> Result<Outcome> {
    let mut jobs: Vec<&Job> =
        detail.jobs.iter().filter(|job| is_bad(job.conclusion.as_deref())).collect();
    if wanted.is_some() {
        match choose::job(detail, wanted) {
            Ok(job) => jobs.retain(|other| std::ptr::eq(*other, job)),
            Err(why) => return Ok(nothing(&why, console)),
        }
    }
    if jobs.is_empty() {
        let over = detail.run.status == "completed";
        let yet = if over { "" } else { " yet" };
        return Ok(nothing(&format!("no job of {} failed{yet}", detail.run.slug), console));
    }
    for job in jobs {
        let bad = job.steps.iter().filter(|step| is_bad(step.conclusion.as_deref()));
        let only: Vec<u32> = bad.map(|step| step.number).collect();
        if form(args) == (Form::People { timestamps: args.timestamps }) {
            console.print(&print::heading(job))?;
        }
        let Some(id) = job.id.filter(|_| job.attempt > 0) else {
            console.note_line(&no_log(job));
            continue;
        };
        let mut log = Log::of(client, id, job.attempt, choice(args, only));
        log.read(&mut Printer::new(console, form(args), job)).await?;
    }
    Ok(Outcome::Clean)
}

/// What is looked for, in the logs of all jobs: of every attempt unless one was named, each job where it ran.
async fn everywhere(
    args: &LogsArgs,
    client: &Client,
    target: &Target,
    last: RunDetail,
    console: &mut Console,
) -> Result<Outcome> {
    let mut found = false;
    if args.attempt.or(target.attempt).is_some() {
        found = in_jobs(args, client, last.jobs.iter(), last.run.attempt, console).await?;
    } else {
        let (run, attempts) = (last.run.id.to_string(), last.run.attempt);
        for attempt in 1..attempts {
            let earlier = client.run(&run, Some(attempt)).await?;
            let ran = earlier.jobs.iter().filter(|job| job.run_attempt == attempt);
            found |= in_jobs(args, client, ran, attempts, console).await?;
        }
        let ran = last.jobs.iter().filter(|job| job.run_attempt == attempts);
        found |= in_jobs(args, client, ran, attempts, console).await?;
    }
    Ok(if found { Outcome::Clean } else { Outcome::Errors })
}

/// Looks into the logs of these jobs, of all their claims unless one was named. Says whether something was found.
async fn in_jobs<'j>(
    args: &LogsArgs,
    client: &Client,
    jobs: impl Iterator<Item = &'j Job>,
    attempts: u32,
    console: &mut Console,
) -> Result<bool> {
    let mut found = false;
    for job in jobs {
        // A job may have no such step where another has.
        let steps = only(job, args.step.as_deref());
        let (Some(id), Ok(steps)) = (job.id, steps) else { continue };
        for claim in (1..=job.attempt).filter(|claim| args.claim.is_none_or(|one| one == *claim)) {
            let heading = print::heading_among(job, attempts, claim);
            let printer = Printer::new(console, form(args), job).of_claim(claim);
            let mut printer = printer.with_heading(heading);
            Log::of(client, id, claim, choice(args, steps.clone())).read(&mut printer).await?;
            found |= printer.printed > 0;
        }
    }
    Ok(found)
}

/// The log of a job as it grows, from claim to claim, until the job is over.
async fn follow(
    args: &LogsArgs,
    client: &Client,
    job: &Job,
    step: Option<&str>,
    console: &mut Console,
) -> Result<Outcome> {
    let mut job = started(client, job.clone(), 0, console).await?;
    let mut tail_first = args.tail;
    loop {
        let Some(id) = job.id.filter(|_| job.attempt > 0) else {
            return Ok(nothing(&no_log(&job), console));
        };
        // A step that has not begun has no name yet; by number it can be waited for.
        let only = match (only(&job, step), step.and_then(|step| step.parse::<u32>().ok())) {
            (Ok(only), _) => only,
            (Err(_), Some(number)) => vec![number],
            (Err(why), None) => return Ok(nothing(&why, console)),
        };
        let choice = Choice { tail: tail_first.take(), ..choice(args, only) };
        let claim = args.claim.unwrap_or(job.attempt);
        let mut log = Log::of(client, id, claim, choice);
        let known = job.clone();
        let mut printer = Printer::new(console, form(args), &known).of_claim(claim);
        let ended = log.follow(&mut printer).await?;
        if console.is_closed() || args.claim.is_some() {
            return Ok(Outcome::Clean);
        }
        if ended.status == "completed" {
            if form(args) == (Form::People { timestamps: args.timestamps }) {
                let end = standing(&ended.status, ended.conclusion.as_deref()).word;
                console.note_line(&format!("`{}` {end}", one_line(&ended.name)));
            }
            return Ok(Outcome::Clean);
        }
        console.note_line(&format!("`{}` begins again on another runner", one_line(&ended.name)));
        job = started(client, ended, job.attempt, console).await?;
    }
}

/// Waits until a job is claimed more often than `before`, or over. Says why it waits.
async fn started(client: &Client, mut job: Job, before: u32, console: &mut Console) -> Result<Job> {
    let mut heard = None;
    let mut told = String::new();
    while job.attempt <= before && job.status != "completed" {
        if job.reason != told {
            console.note_line(&format!("`{}` {}", one_line(&job.name), waits(&job.reason)));
            told.clone_from(&job.reason);
        }
        let run = RunId(job.run_id);
        let heard = heard.get_or_insert_with(|| listen(client.clone(), run));
        // An event, or nothing for a while: both are a reason to look.
        let _ = tokio::time::timeout(LOOK, heard.recv()).await;
        let detail = match client.run(&run.to_string(), Some(job.run_attempt)).await {
            Ok(detail) => detail,
            Err(failed) if matches!(error::kind(&failed), Some(Kind::Away | Kind::Busy)) => {
                continue;
            }
            Err(failed) => return Err(failed),
        };
        let by_id = detail.jobs.iter().find(|found| found.id.is_some() && found.id == job.id);
        let by_name = || detail.jobs.iter().find(|found| found.name == job.name);
        if let Some(found) = by_id.or_else(by_name) {
            job = found.clone();
        } else if detail.run.status == "completed" {
            "completed".clone_into(&mut job.status);
        }
    }
    Ok(job)
}
