//! `kiln runners show`: one runner, with what it has and what it did.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::api::Runner;
use kiln_proto::history::RunnerJob;
use serde::Serialize;

use super::words::{lasted, standing};
use super::{print_json, runners};
use crate::Outcome;
use crate::cli::RunnerShowArgs;
use crate::client::Client;
use crate::client::here::pasted;
use crate::output::table::{Cell, Table, cut, room, whole};
use crate::output::text::{BAD, QUIET};
use crate::output::time::{self, ago, between};
use crate::output::{Console, one_line};

/// A runner and what it did, as programs read it.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    runner: Runner,
    /// The newest first; those under way are `in_progress`.
    history: Vec<RunnerJob>,
}

pub(super) async fn show(args: &RunnerShowArgs, console: &mut Console) -> Result<Outcome> {
    let page = pasted(&args.runner);
    let client = Client::open_at(&args.server, page.as_ref())?;
    let id = match &page {
        Some(page) => runners::of_page(page)?,
        None => runners::find(&client, &args.runner).await?,
    };
    let id = id.to_string();
    let runner: Runner = client.get(&["runners", &id]).json().await?;
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let history = client.get(&["runners", &id, "jobs"]).list(most).await?;
    let shown = Shown { runner, history };
    if args.server.json {
        print_json(console, &shown)?;
    } else {
        console.print(&text(&shown, time::now(), room()))?;
    }
    Ok(Outcome::Clean)
}

fn text(shown: &Shown, now: Timestamp, room: Option<usize>) -> String {
    let Shown { runner, history } = shown;
    let owner = runner.owner.as_deref().map(|owner| format!(" of {}", one_line(owner)));
    let mut text = format!(
        "{} {QUIET}({}){QUIET:#} is {}: {} of {} jobs, seen {} ago\n",
        one_line(&runner.name),
        runner.slug,
        one_line(&runner.status),
        runner.jobs,
        runner.max_parallel,
        ago(&runner.last_seen_at, now),
    );
    if let Some(trouble) = &runner.trouble {
        let _ = writeln!(text, "{BAD}takes no jobs:{BAD:#} {}", one_line(trouble));
    }
    let _ = writeln!(
        text,
        "{}, {}, {} cores, {} GB of memory, pool {}{}, Kiln {}",
        one_line(&runner.os),
        one_line(&runner.architecture),
        runner.cores,
        runner.memory_mb / 1_024,
        one_line(&runner.pool),
        owner.unwrap_or_default(),
        one_line(&runner.version),
    );
    let _ = writeln!(text, "labels: {}", one_line(&runner.labels.join(", ")));
    let _ = writeln!(text, "{} jobs done, {} failed", runner.completed, runner.failed);
    if !history.is_empty() {
        let _ = write!(text, "\n{}", table(history, now).within(room));
    }
    text
}

fn table(history: &[RunnerJob], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("STATUS"),
        cut("JOB", 12),
        cut("REPOSITORY", 10),
        whole("TIME"),
        whole("BEGAN"),
        whole("SLUG"),
    ]);
    for job in history {
        let end = match job.outcome.as_str() {
            running @ "in_progress" => standing(running, None),
            outcome => standing("completed", Some(outcome)),
        };
        let began = job.started_at.as_deref().or(job.claimed_at.as_deref());
        table.row([
            end.cell(),
            Cell::from(&job.name),
            Cell::from(&job.repo),
            Cell::from(lasted(between(began, job.ended_at.as_deref(), now))),
            Cell::from(began.map(|began| ago(began, now)).unwrap_or_default()),
            Cell::from(&job.slug),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_shown_with_what_it_has_and_did() {
        let job = |name: &str, outcome: &str, ended: Option<&str>| RunnerJob {
            job_id: 7,
            slug: "j-7".to_owned(),
            run_id: 1,
            repo: "me/app".to_owned(),
            name: name.to_owned(),
            attempt: 1,
            outcome: outcome.to_owned(),
            reason: None,
            claimed_at: Some("2026-11-16T05:30:00.000Z".to_owned()),
            started_at: Some("2026-11-16T05:30:03.000Z".to_owned()),
            ended_at: ended.map(str::to_owned),
        };
        let shown = Shown {
            runner: runners::sample("big", "busy", Some("its disk is full")),
            history: vec![
                job("test", "in_progress", None),
                job("lint", "failure", Some("2026-11-16T05:31:03.000Z")),
                job("deploy", "lost", Some("2026-11-16T05:30:13.000Z")),
            ],
        };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = anstream::adapter::strip_str(&text(&shown, now, None)).to_string();
        for words in [
            "big (n-7) is busy: 2 of 4 jobs, seen 15s ago",
            "takes no jobs: its disk is full",
            "labels: self-hosted, linux, x64, ubuntu-latest",
            "● running  test",
            "✗ failed   lint    me/app      1m 0s",
            "? lost     deploy",
        ] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
    }
}
