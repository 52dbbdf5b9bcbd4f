//! What a failed run leaves to say: the last lines of the steps that failed.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_proto::api::{Job, RunDetail};

use super::super::words::is_bad;
use crate::client::Client;
use crate::client::log::{Choice, Gathered, Log};
use crate::output::text::{BAD, QUIET, shown};
use crate::output::{Console, one_line};

/// How many jobs are shown, and how many of the last lines of each.
const JOBS: usize = 3;
const LINES: u64 = 20;

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
    let steps = step.map(|step| step.number).into_iter().collect();
    let choice = Choice { steps, tail: Some(LINES), ..Choice::default() };
    let mut lines = Gathered::default();
    Log::of(client, job.id?, job.attempt, choice).read(&mut lines).await.ok()?;
    let mut text = format!("\n{BAD}{}{BAD:#}", one_line(&job.name));
    if let Some(step) = step {
        let _ = write!(text, " {QUIET}▸{QUIET:#} {}", one_line(&step.name));
    }
    text.push('\n');
    for line in lines.0 {
        if !line.starts_with(b"##[group]") && !line.starts_with(b"##[endgroup]") {
            let _ = writeln!(text, "  {}", shown(&line));
        }
    }
    Some(text)
}
