//! `kiln status`: what runs, what waits and why, what broke since yesterday, how workflows did lately.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::api::{Run, Waiting};
use kiln_proto::held::Held;
use serde::Serialize;

use super::record::Record;
use super::words::{file_name, lasted, short_ref, standing};
use super::{print_json, queue};
use crate::Outcome;
use crate::cli::StatusArgs;
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, room, whole};
use crate::output::text::QUIET;
use crate::output::time::{self, ago, between};

/// How many runs and jobs each part shows.
const SHOWN: usize = 10;
/// Among how many of the latest runs workflows are looked for, and how many of them are shown.
const LATEST: usize = 150;
const WORKFLOWS: usize = 9;
const DAY: Duration = Duration::from_hours(24);

/// All of it, as programs read it.
#[derive(Debug, Serialize)]
struct Status {
    running: Vec<Run>,
    waiting: Vec<Waiting>,
    /// What concurrency groups hold.
    held: Vec<Held>,
    /// What ended badly since yesterday, the newest first.
    broke: Vec<Run>,
    /// Those that ran lately.
    workflows: Vec<Record>,
}

pub(super) async fn run(args: &StatusArgs, console: &mut Console) -> Result<Outcome> {
    let (client, repo) = Client::open_named(&args.server, args.repo.as_deref()).await?;
    let status = look(&client, repo.as_deref(), time::now()).await?;
    if args.server.json {
        print_json(console, &status)?;
    } else {
        console.print(&text(&status, time::now(), room()))?;
    }
    Ok(Outcome::Clean)
}

async fn look(client: &Client, repo: Option<&str>, now: Timestamp) -> Result<Status> {
    let runs = || client.get(&["runs"]).query_if("repo", repo);
    let running = runs().query("status", "in_progress").list(SHOWN).await?;
    let waiting = client.get(&["queue"]).query_if("repo", repo).list(SHOWN).await?;
    let held = queue::held(client, repo, SHOWN).await?;
    let yesterday = Timestamp(now.0.saturating_sub(DAY.as_millis().try_into().unwrap_or(u64::MAX)));
    let mut broke: Vec<Run> = Vec::new();
    for bad in ["failure", "timed_out", "startup_failure"] {
        let found: Vec<Run> = runs().query("conclusion", bad).list(SHOWN).await?;
        let ended = |run: &Run| run.ended_at.as_deref().and_then(time::parse);
        broke.extend(found.into_iter().filter(|run| ended(run).is_some_and(|at| at >= yesterday)));
    }
    broke.sort_by_key(|run| std::cmp::Reverse(run.id));
    broke.truncate(SHOWN);
    let latest: Vec<Run> = runs().list(LATEST).await?;
    let mut seen = BTreeSet::new();
    let mut workflows = Vec::new();
    for run in latest {
        if workflows.len() < WORKFLOWS && seen.insert((run.repo.clone(), run.workflow.clone())) {
            workflows.extend(Record::of(client, &run.repo, &run.workflow).await?);
        }
    }
    Ok(Status { running, waiting, held, broke, workflows })
}

fn text(status: &Status, now: Timestamp, room: Option<usize>) -> String {
    let Status { running, waiting, held, broke, workflows } = status;
    let nothing_waits = waiting.is_empty() && held.is_empty();
    if workflows.is_empty() && nothing_waits {
        return "nothing has run yet; `kiln trigger --add` starts the workflows of the repository around you\n"
            .to_owned();
    }
    let part = |title: &str, text: String| format!("{QUIET}── {title}{QUIET:#}\n{text}\n");
    let or = |nothing: &str, empty: bool, text: String| {
        if empty { format!("{nothing}\n") } else { text }
    };
    let running = or("all is quiet", running.is_empty(), runs(running, now).within(room));
    let waiting =
        or("no job waits for a runner", nothing_waits, queue::all(waiting, held, now, room));
    let broke = or("nothing", broke.is_empty(), runs(broke, now).within(room));
    let workflows = or("none ran lately", workflows.is_empty(), records(workflows).within(room));
    [
        part("running", running),
        part("waiting", waiting),
        part("broke since yesterday", broke),
        part("workflows", workflows),
    ]
    .concat()
}

fn runs(runs: &[Run], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("STATUS"),
        cut("TITLE", 10),
        cut("REPOSITORY", 8),
        cut("WORKFLOW", 6),
        cut("BRANCH", 6),
        whole("AGE"),
        whole("TIME"),
        whole("RUN"),
    ]);
    for run in runs {
        let took = between(run.started_at.as_deref(), run.ended_at.as_deref(), now);
        table.row([
            standing(&run.status, run.conclusion.as_deref()).cell(),
            Cell::from(&run.title),
            Cell::from(&run.repo),
            Cell::from(file_name(&run.workflow)),
            Cell::from(short_ref(&run.reference)),
            Cell::from(ago(&run.created_at, now)),
            Cell::from(lasted(took)),
            Cell::from(&run.slug),
        ]);
    }
    table
}

fn records(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        cut("WORKFLOW", 8),
        cut("REPOSITORY", 8),
        whole("GREEN"),
        whole("USUAL TIME"),
        whole("LAST RUNS"),
    ]);
    for record in records {
        let green = record.green.map_or_else(|| "-".to_owned(), |green| format!("{green} %"));
        table.row([
            Cell::from(&record.name),
            Cell::from(&record.repo),
            Cell::from(green),
            Cell::from(lasted(record.median_seconds.map(Duration::from_secs))),
            Cell::from(record.signs()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::samples::run;
    use super::*;

    #[test]
    fn every_part_says_so_when_it_is_empty() {
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let record = Record {
            repo: "me/app".to_owned(),
            workflow: ".github/workflows/ci.yml".to_owned(),
            name: "CI".to_owned(),
            runs: 2,
            green: Some(50),
            median_seconds: Some(72),
            last: vec!["failure".to_owned(), "success".to_owned()],
        };
        let bare =
            |status: &Status| anstream::adapter::strip_str(&text(status, now, None)).to_string();
        let quiet = Status {
            running: Vec::new(),
            waiting: Vec::new(),
            held: Vec::new(),
            broke: vec![run("completed", Some("failure"))],
            workflows: vec![record],
        };
        let text = bare(&quiet);
        for words in ["all is quiet", "no job waits", "✗ failed", "50 %", "1m 12s", "✓✗"] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
        let nothing = Status { broke: Vec::new(), workflows: Vec::new(), ..quiet };
        assert!(bare(&nothing).contains("kiln trigger --add"));
    }
}
