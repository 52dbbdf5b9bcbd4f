//! What a failed run leaves to say: the last lines of the steps that failed.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_proto::api::{Job, RunDetail};
use kiln_proto::log::Line;

use super::super::words::is_bad;
use crate::client::Client;
use crate::client::log::Log;
use crate::output::text::{BAD, QUIET, shown};
use crate::output::{Console, one_line};

/// How many jobs are shown, and how many of the last lines of each.
const JOBS: usize = 3;
const LINES: usize = 20;

pub(super) async fn show(client: &Client, detail: &RunDetail, console: &mut Console) -> Result<()> {
    let failed: Vec<&Job> =
        detail.jobs.iter().filter(|job| is_bad(job.conclusion.as_deref())).collect();
    for job in failed.iter().take(JOBS) {
        if let Some(text) = last_lines(client, job).await {
            console.print(&text)?;
        }
    }
    if !failed.is_empty() {
        let slug = &detail.run.slug;
        console.note_line(&format!("`kiln logs {slug} --failed` shows all of what failed"));
    }
    Ok(())
}

/// The end of the first step that failed. A log that cannot be read is no reason to fail as well.
async fn last_lines(client: &Client, job: &Job) -> Option<String> {
    let step = job.steps.iter().find(|step| is_bad(step.conclusion.as_deref()));
    let number = step.and_then(|step| step.number.checked_sub(1));
    let wanted = |line: &Line<'_>| number.is_none_or(|number| line.step == number);
    let mut log = Log::of(client, job.id?, job.attempt);
    let lines = log.tail(LINES, &wanted).await.ok()?;
    let mut text = format!("\n{BAD}{}{BAD:#}", one_line(&job.name));
    if let Some(step) = step {
        let _ = write!(text, " {QUIET}▸{QUIET:#} {}", one_line(&step.name));
    }
    text.push('\n');
    for line in lines {
        let line = Line::parse(&line).text.to_vec();
        if !line.starts_with(b"##[group]") && !line.starts_with(b"##[endgroup]") {
            let _ = writeln!(text, "  {}", shown(&line));
        }
    }
    Some(text)
}
