//! `kiln sim record`: what a server did lately, as a trace.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kiln_core::queue::Class;
use kiln_proto::api::{Repo, Run};
use kiln_proto::github::{self, Jobs};
use kiln_sim::load::trace::Line;

use crate::Outcome;
use crate::cli::RecordArgs;
use crate::client::Client;
use crate::output::{Console, time};

/// Jobs of one answer; the server gives no more.
const PAGE: usize = 100;
/// A run has fewer pages than this; a server that leads in circles must not keep us for ever.
const MOST_PAGES: usize = 1_000;
/// Far more repositories than a server shows at once.
const MOST_REPOSITORIES: usize = 10_000;

pub(super) fn run(args: &RecordArgs, console: &mut Console) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let mut lines = runtime.block_on(record(args))?;
    runtime.shutdown_background();
    if lines.is_empty() {
        console.note_line("no job has ended yet; there is nothing to record");
    }
    lines.sort_by(|left, right| left.submitted.total_cmp(&right.submitted));
    for line in &lines {
        let text = serde_json::to_string(line).context("cannot write JSON")?;
        console.print_raw(&format!("{text}\n"))?;
        if console.is_closed() {
            break;
        }
    }
    Ok(Outcome::Clean)
}

async fn record(args: &RecordArgs) -> Result<Vec<Line>> {
    let client = Client::open(&args.server)?;
    let last = usize::try_from(args.last).unwrap_or(usize::MAX);
    let runs = client.get(&["runs"]).query("status", "completed");
    let runs: Vec<Run> = runs.query_if("repo", args.repo.as_ref()).list(last).await?;
    let repos: Vec<Repo> = client.get(&["repos"]).list(MOST_REPOSITORIES).await?;
    let branches: HashMap<String, String> = repos
        .into_iter()
        .map(|repo| (format!("{}/{}", repo.owner, repo.name), repo.default_branch))
        .collect();
    let mut lines = Vec::new();
    for run in &runs {
        let class = class(run, branches.get(&run.repo).map(String::as_str));
        for job in jobs(&client, run).await? {
            lines.extend(line(run, class, job));
        }
    }
    Ok(lines)
}

async fn jobs(client: &Client, run: &Run) -> Result<Vec<github::Job>> {
    let (owner, name) = run.repo.split_once('/').unwrap_or(("", &run.repo));
    let (id, mut jobs) = (run.id.to_string(), Vec::new());
    for page in 1..=MOST_PAGES {
        let answer: Jobs = client
            .github(&["repos", owner, name, "actions", "runs", &id, "jobs"])
            .query("per_page", &PAGE.to_string())
            .query("page", &page.to_string())
            .json()
            .await?;
        let is_last = answer.jobs.len() < PAGE;
        jobs.extend(answer.jobs);
        if is_last {
            break;
        }
    }
    Ok(jobs)
}

/// The class that a server gave the jobs of a run. That some had an environment is not known here.
fn class(run: &Run, default_branch: Option<&str>) -> Class {
    let branch = run.reference.strip_prefix("refs/heads/");
    let is_default = branch.is_some() && branch == default_branch;
    Class::of(false, is_default, run.event == "schedule")
}

/// Nothing for a job that never ran.
fn line(run: &Run, class: Class, job: github::Job) -> Option<Line> {
    let submitted = time::parse(&job.created_at)?;
    let started = time::parse(job.started_at.as_deref()?)?;
    let ended = time::parse(job.completed_at.as_deref()?)?;
    let (owner, name) = run.repo.split_once('/')?;
    Some(Line {
        submitted: Duration::from_millis(submitted.0).as_secs_f64(),
        seconds: ended.since(started).as_secs_f64(),
        organization: owner.to_owned(),
        repository: name.to_owned(),
        labels: job.labels,
        class: class.word().to_owned(),
        priority: 0,
    })
}
