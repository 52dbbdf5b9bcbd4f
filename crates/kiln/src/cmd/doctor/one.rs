//! `kiln doctor JOB|RUN|RUNNER`: why one thing stands as it does, and what to do.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use kiln_core::id::{RunId, RunnerId};
use kiln_core::time::Timestamp;
use kiln_proto::api::{Checkup, Job, RunDetail, Runner, Waiting};
use kiln_proto::held::Held;

use super::finding;
use crate::cli::ServerArgs;
use crate::client::Client;
use crate::client::error::{self, Kind};
use crate::client::here::pasted;
use crate::client::target::{Target, What};
use crate::cmd::client::{queue, runners};
use crate::output::one_line;
use crate::output::time::{self, lasted};

/// More jobs that wait are not looked at.
const MOST: usize = 500;
/// A runner that has a job and does not begin with it for so long is in trouble.
const BEGIN: Duration = Duration::from_secs(30);
/// How many names are listed.
const NAMES: usize = 5;

/// What is found out about a job, the open jobs of a run, or a runner.
pub(super) async fn examine(what: &str, args: &ServerArgs) -> Result<Vec<Checkup>> {
    if let Ok(target) = what.parse::<Target>()
        && !is_number(what)
    {
        let client = Client::open_for(args, &target)?;
        return jobs(&client, target.what).await;
    }
    let page = pasted(what);
    let client = Client::open_at(args, page.as_ref())?;
    let id = match &page {
        Some(page) => runners::of_page(page)?,
        None => runners::find(&client, what).await?,
    };
    let runner: Runner = client.get(&["runners", &id.to_string()]).json().await?;
    let waiting: Vec<Waiting> = client.get(&["queue"]).list(MOST).await?;
    Ok(of_runner(&runner, &waiting, time::now()))
}

/// A plain number may be anything; here it is the name of a runner.
fn is_number(text: &str) -> bool {
    text.trim().bytes().all(|byte| byte.is_ascii_digit())
}

async fn jobs(client: &Client, what: What) -> Result<Vec<Checkup>> {
    let found = match what {
        What::Job(job) => vec![client.job(&job.to_string()).await?],
        What::Run(run) => {
            let detail = client.run(&run.to_string(), None).await?;
            if detail.run.reason.is_some() {
                let held = client.get(&["queue", "held"]).query("run", &run.to_string());
                return Ok(vec![of_held(&detail, held.list(1).await?.first())]);
            }
            let open: Vec<Job> =
                detail.jobs.iter().filter(|job| job.status != "completed").cloned().collect();
            if open.is_empty() {
                let word = detail.run.conclusion.unwrap_or(detail.run.status);
                let text = format!("{} has no open job: {word}", detail.run.slug);
                return Ok(vec![finding("ok", "run", text, None)]);
            }
            open
        }
    };
    let run = what.run().to_string();
    let waiting: Vec<Waiting> = client.get(&["queue"]).query("run", &run).list(MOST).await?;
    let mut findings = Vec::new();
    for job in &found {
        let runner = match job.runner_id.filter(|_| job.status == "in_progress") {
            Some(id) => runner(client, RunnerId(id)).await?,
            None => None,
        };
        let place = waiting.iter().find(|one| Some(one.job_id) == job.id);
        findings.push(of_job(job, place, runner.as_ref(), time::now()));
    }
    Ok(findings)
}

/// A run that waits as a whole, and for whom.
fn of_held(detail: &RunDetail, held: Option<&Held>) -> Checkup {
    let run = &detail.run;
    let reason = held.map(queue::held_by).or_else(|| run.reason.as_deref().map(one_line));
    let text = format!("{} is {}: {}", run.slug, run.status, reason.unwrap_or_default());
    let holder =
        held.and_then(|held| held.holder.as_ref()).map(|holder| RunId(holder.run_id).slug());
    let advice = holder.map(|holder| {
        format!("`kiln watch {holder}` shows what it waits for, `kiln cancel {holder}` ends that")
    });
    Checkup { advice, ..finding("ok", "run", text, None) }
}

/// Those of others are not shown to everybody.
async fn runner(client: &Client, id: RunnerId) -> Result<Option<Runner>> {
    match client.get(&["runners", &id.to_string()]).json().await {
        Ok(runner) => Ok(Some(runner)),
        Err(failed) if error::kind(&failed) == Some(Kind::NotFound) => Ok(None),
        Err(failed) => Err(failed),
    }
}

fn of_job(job: &Job, place: Option<&Waiting>, runner: Option<&Runner>, now: Timestamp) -> Checkup {
    let name = one_line(&job.name);
    let slug = job.slug.clone().unwrap_or_default();
    let reason = one_line(&job.reason);
    let since = |at: &Option<String>| {
        at.as_deref().and_then(time::parse).map(|at| now.since(at)).unwrap_or_default()
    };
    let say = |level: &str, text: String, advice: Option<String>| Checkup {
        advice,
        ..finding(level, "job", format!("`{name}` {text}"), None)
    };
    match (job.status.as_str(), place) {
        ("completed", _) => {
            let word = job.conclusion.as_deref().unwrap_or("completed").replace('_', " ");
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let bad = !matches!(word.as_str(), "success" | "skipped" | "cancelled" | "neutral");
            let advice =
                bad.then(|| format!("`kiln logs {slug} --failed` shows the steps that failed"));
            say(if bad { "warning" } else { "ok" }, format!("has ended, {word}{why}"), advice)
        }
        ("in_progress", _) => running(job, runner, &say, &since),
        (_, Some(place)) => {
            let mut text = format!(
                "waits for {}, at position {}: {}",
                lasted(since(&job.queued_at)),
                place.position,
                one_line(&place.reason)
            );
            if place.runners.is_empty() {
                let advice = format!(
                    "a runner must have: {}; start one, resume what is paused (`kiln pause --list`), or change `runs-on`",
                    one_line(&place.requirements)
                );
                return say("error", text, Some(advice));
            }
            if let Some(seconds) = place.estimate {
                let _ =
                    write!(text, "; it starts in about {}", lasted(Duration::from_secs(seconds)));
            }
            let names: Vec<&str> = place.runners.iter().take(NAMES).map(String::as_str).collect();
            let _ = write!(text, "; could run on {}", one_line(&names.join(", ")));
            say("ok", text, None)
        }
        // Not a runner is missing, but something of its own run.
        (_, None) => say("ok", format!("waits: {reason}"), None),
    }
}

fn running(
    job: &Job,
    runner: Option<&Runner>,
    say: &dyn Fn(&str, String, Option<String>) -> Checkup,
    since: &dyn Fn(&Option<String>) -> Duration,
) -> Checkup {
    let on = one_line(job.runner.as_deref().unwrap_or("a runner"));
    if let Some(runner) = runner.filter(|runner| is_gone(runner)) {
        let silent = lasted(since(&Some(runner.last_seen_at.clone())));
        let text = format!("is on `{on}`, which was not heard of for {silent}");
        let advice = "it goes to another runner when its lease ends; look at the machine";
        return say("error", text, Some(advice.to_owned()));
    }
    if job.started_at.is_none() && since(&job.claimed_at) > BEGIN {
        let waited = lasted(since(&job.claimed_at));
        let text = format!("is on `{on}` for {waited} and has not begun");
        let advice = "look at the runner's log; the job goes back when its lease ends";
        return say("warning", text, Some(advice.to_owned()));
    }
    let step = job.steps.iter().find(|step| step.status == "in_progress");
    let at = step.map(|step| {
        let so_far = lasted(since(&step.started_at));
        format!(", step {} `{}` since {so_far}", step.number, one_line(&step.name))
    });
    let took = lasted(since(&job.started_at));
    let slug = job.slug.as_deref().unwrap_or_default();
    let advice = format!("`kiln logs {slug} --follow` shows what it prints");
    say("ok", format!("runs on `{on}` since {took}{}", at.unwrap_or_default()), Some(advice))
}

fn is_gone(runner: &Runner) -> bool {
    matches!(runner.status.as_str(), "offline" | "forgotten")
}

fn of_runner(runner: &Runner, waiting: &[Waiting], now: Timestamp) -> Vec<Checkup> {
    let name = one_line(&runner.name);
    let mut findings = Vec::new();
    let mut say = |level: &str, text: String, advice: Option<String>| {
        let found = finding(level, "runner", format!("`{name}` {text}"), None);
        findings.push(Checkup { advice, ..found });
    };
    if is_gone(runner) {
        let silent = time::parse(&runner.last_seen_at).map(|at| now.since(at)).unwrap_or_default();
        let advice = format!(
            "look at its machine and its log; if it is gone for good, `kiln runners remove {name}` forgets it"
        );
        say("error", format!("was not heard of for {}", lasted(silent)), Some(advice));
        return findings;
    }
    if let Some(trouble) = &runner.trouble {
        let text = format!("takes no jobs: {}", one_line(trouble));
        say("warning", text, Some("help its machine; it goes on by itself".to_owned()));
    }
    if runner.status == "draining" {
        let advice =
            format!("`kiln runners undrain {name}` lets it take jobs again, unless it is stopping");
        say("warning", "ends its jobs and takes no more".to_owned(), Some(advice));
    }
    let own = env!("CARGO_PKG_VERSION");
    if runner.version != own {
        let text = format!("is Kiln {}, this command line {own}", one_line(&runner.version));
        say("warning", text, Some("use the same version everywhere".to_owned()));
    }
    let load = format!("has {} of {} jobs", runner.jobs, runner.max_parallel);
    let fitting = waiting.iter().filter(|job| job.runners.contains(&runner.name)).count();
    if fitting == 0 && !waiting.is_empty() && runner.jobs < runner.max_parallel {
        let mut wanted: Vec<&str> = waiting.iter().map(|job| job.requirements.as_str()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(NAMES);
        let text = format!(
            "{load}; {} wait, none of them for it: they ask for {}; it has the labels {}",
            waiting.len(),
            one_line(&wanted.join("; ")),
            one_line(&runner.labels.join(", "))
        );
        let advice = "start it with the labels that are asked for: `kiln runner --label …`";
        say("warning", text, Some(advice.to_owned()));
    } else {
        say("ok", format!("{load}; {fitting} that wait could run on it"), None);
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn now() -> Timestamp {
        time::parse("2026-11-16T05:31:15.000Z").unwrap()
    }

    fn job(status: &str, reason: &str) -> Job {
        Job {
            id: Some(7),
            slug: Some("j-7".to_owned()),
            run_id: 1,
            run_attempt: 1,
            name: "test".to_owned(),
            status: status.to_owned(),
            conclusion: (status == "completed").then(|| "failure".to_owned()),
            reason: reason.to_owned(),
            attempt: 1,
            runner: Some("big".to_owned()),
            runner_id: Some(7),
            queued_at: Some("2026-11-16T05:28:15.000Z".to_owned()),
            claimed_at: Some("2026-11-16T05:30:15.000Z".to_owned()),
            prepared_at: None,
            started_at: None,
            ended_at: None,
            steps: Vec::new(),
            outputs: BTreeMap::new(),
            reused_from: None,
            used: None,
            allowed: None,
            deployment: None,
            claims: Vec::new(),
            node: 0,
            needs: Vec::new(),
        }
    }

    fn place(runners: &[&str]) -> Waiting {
        Waiting {
            job_id: 7,
            slug: "j-7".to_owned(),
            run_id: 1,
            repo: "me/app".to_owned(),
            name: "test".to_owned(),
            queue_id: 1,
            queued_at: "2026-11-16T05:28:15.000Z".to_owned(),
            class: "normal".to_owned(),
            priority: 0,
            requirements: "labels gpu".to_owned(),
            position: 2,
            reason: "no runner has gpu".to_owned(),
            estimate: Some(60),
            runners: runners.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn runner(status: &str) -> Runner {
        Runner {
            id: 7,
            slug: "n-7".to_owned(),
            name: "big".to_owned(),
            pool: "default".to_owned(),
            owner: None,
            status: status.to_owned(),
            labels: vec!["linux".to_owned()],
            os: "linux".to_owned(),
            architecture: "x64".to_owned(),
            cores: 8,
            memory_mb: 16_000,
            disk_mb: 100_000,
            max_parallel: 4,
            single_use: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            jobs: 0,
            completed: 0,
            failed: 0,
            speed: 1.0,
            last_seen_at: "2026-11-16T05:30:15.000Z".to_owned(),
            trouble: None,
        }
    }

    #[track_caller]
    fn check(found: &Checkup, level: &str, text: &str, advice: &str) {
        let said = found.advice.clone().unwrap_or_default();
        assert_eq!(found.level, level, "{found:?}");
        assert!(found.finding.contains(text) && said.contains(advice), "{found:?}");
    }

    /// O8
    #[test]
    fn a_job_says_why_it_does_not_go_on() {
        let of = |status: &str, place: Option<&Waiting>, runner: Option<&Runner>| {
            of_job(&job(status, "waits for `build`"), place, runner, now())
        };
        let nobody = of("queued", Some(&place(&[])), None);
        check(&nobody, "error", "for 3m 0s, at position 2: no runner has gpu", "labels gpu");
        let soon = of("queued", Some(&place(&["big", "huge"])), None);
        check(&soon, "ok", "starts in about 1m 0s; could run on big, huge", "");
        check(&of("waiting", None, None), "ok", "waits: waits for `build`", "");
        let gone = of("in_progress", None, Some(&runner("offline")));
        check(&gone, "error", "`big`, which was not heard of for 1m 0s", "lease");
        let idle = of("in_progress", None, Some(&runner("busy")));
        check(&idle, "warning", "for 1m 0s and has not begun", "runner's log");
        check(&of("completed", None, None), "warning", "has ended, failure", "kiln logs j-7");
        let begun = Job {
            started_at: Some("2026-11-16T05:31:00.000Z".to_owned()),
            ..job("in_progress", "")
        };
        check(&of_job(&begun, None, None, now()), "ok", "runs on `big` since 15s", "--follow");
    }

    /// O8
    #[test]
    fn a_runner_says_why_it_takes_no_jobs() {
        let of = |runner: &Runner, waiting: &[Waiting]| of_runner(runner, waiting, now());
        check(&of(&runner("offline"), &[])[0], "error", "not heard of for 1m 0s", "remove big");
        check(&of(&runner("draining"), &[])[0], "warning", "takes no more", "undrain big");
        let full = Runner { trouble: Some("its disk is full".to_owned()), ..runner("idle") };
        check(&of(&full, &[])[0], "warning", "takes no jobs: its disk is full", "machine");
        let old = Runner { version: "0.0.0-old".to_owned(), ..runner("idle") };
        check(&of(&old, &[])[0], "warning", "is Kiln 0.0.0-old", "same version");
        let other = of(&runner("idle"), &[place(&["huge"])]);
        check(&other[0], "warning", "they ask for labels gpu; it has the labels linux", "--label");
        let fits = of(&runner("idle"), &[place(&["big"])]);
        check(&fits[0], "ok", "has 0 of 4 jobs; 1 that wait could run on it", "");
    }
}
