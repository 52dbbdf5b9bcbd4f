//! The attempts of a run side by side.

use anyhow::Result;
use kiln_proto::api::{Job, RunDetail};

use super::print_json;
use super::words::{job_took, lasted, standing};
use crate::Outcome;
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time;

/// More than these are not looked at: the last ones tell.
const MOST: u32 = 8;
/// Heads of columns, by their distance from the last attempt.
const HEADS: [&str; MOST as usize] =
    ["LAST", "1 BEFORE", "2 BEFORE", "3 BEFORE", "4 BEFORE", "5 BEFORE", "6 BEFORE", "7 BEFORE"];

/// A line for each attempt for programs; for people a line for each job.
pub(super) async fn show(
    client: &Client,
    last: RunDetail,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    let (run, newest) = (last.run.id.to_string(), last.run.attempt);
    let mut all = Vec::new();
    for attempt in newest.saturating_sub(MOST - 1).max(1)..newest {
        all.push(client.run(&run, Some(attempt)).await?);
    }
    all.push(last);
    if json {
        for attempt in &all {
            print_json(console, attempt)?;
        }
    } else {
        console.print(&table(&all).text())?;
    }
    Ok(Outcome::Clean)
}

fn table(all: &[RunDetail]) -> Table {
    let mut columns = vec![cut("JOB", 10)];
    columns.extend(HEADS[..all.len().min(HEADS.len())].iter().rev().copied().map(whole));
    let mut table = Table::new(&columns);
    let mut names: Vec<&str> = Vec::new();
    for job in all.iter().rev().flat_map(|attempt| &attempt.jobs) {
        if !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    let now = time::now();
    for name in names {
        let mut cells = vec![Cell::from(name)];
        for attempt in all {
            let job = attempt.jobs.iter().find(|job| job.name == name);
            cells.push(job.map_or_else(|| Cell::from(time::NOTHING), |job| cell(job, now)));
        }
        table.row(cells);
    }
    table
}

fn cell(job: &Job, now: kiln_core::time::Timestamp) -> Cell {
    let end = standing(&job.status, job.conclusion.as_deref());
    let took = job_took(job, now).map(|took| format!(" {}", lasted(Some(took))));
    Cell::styled(format!("{} {}{}", end.mark, end.word, took.unwrap_or_default()), end.style)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{detail, job};
    use super::*;

    #[test]
    fn each_job_has_a_line_and_each_attempt_a_column() {
        let first = detail(vec![
            job("lint", "completed", Some("success")),
            job("test", "completed", Some("failure")),
        ]);
        let second =
            detail(vec![job("test", "completed", Some("success")), job("deploy", "queued", None)]);
        let text = table(&[first, second]).within(None);
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0].split_whitespace().last(), Some("LAST"), "{text}");
        assert!(lines[1].contains("✗ failed 1m 12s") && lines[1].contains("✓ succeeded"), "{text}");
        assert!(lines[2].starts_with("deploy  -") && lines[2].contains("○ queued"), "{text}");
        assert!(lines[3].starts_with("lint") && lines[3].ends_with('-'), "{text}");
    }
}
