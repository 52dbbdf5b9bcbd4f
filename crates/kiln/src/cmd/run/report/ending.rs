//! What is said when a run is over: what went wrong and where, how each job ended, where the logs are.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::job::Annotation;
use kiln_runner::job::annotations::Severity;
use kiln_runner::local::{JobSummary, Summary};

use super::watch::{FailedStep, Watch, Watched};
use crate::output::frame::Size;
use crate::output::one_line;
use crate::output::text::{BAD, QUIET, column, fit, is_bad, said, shown, size, style, took, width};

/// The widest name of a job in the table.
const NAME_COLUMNS: usize = 60;
/// How many places of errors are named for each job.
const MAX_PLACES: usize = 5;

/// What the end of a run is told from.
pub(super) struct Ending<'e> {
    pub(super) summary: &'e Summary,
    pub(super) watch: &'e Watch,
    pub(super) directory: &'e Path,
    /// Jobs whose failure can still be seen above.
    pub(super) visible: &'e HashSet<LegNo>,
    /// If a person has watched live.
    pub(super) terminal: Option<Size>,
}

impl Ending<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = String::from("\n");
        for job in &self.summary.jobs {
            if let Some(watched) = job.leg.and_then(|leg| self.watch.job(leg)) {
                self.job(&mut text, job, watched);
            }
        }
        self.table(&mut text);
        if self.summary.jobs.len() > 1 {
            let _ = writeln!(text, "{}", counts(self.summary));
        }
        self.artifacts(&mut text);
        let _ = writeln!(text, "{QUIET}logs: {}{QUIET:#}", self.directory.join("logs").display());
        text
    }

    /// What the jobs left for others, and where it is.
    fn artifacts(&self, text: &mut String) {
        for left in &self.summary.artifacts {
            let name = one_line(&left.name);
            let (size, place) = (size(left.size), left.path.display());
            let _ = writeln!(text, "artifact {name}  {QUIET}{size}  {place}{QUIET:#}");
        }
    }

    /// What one job leaves to say; nothing for most.
    fn job(&self, text: &mut String, job: &JobSummary, watched: &Watched) {
        let before = text.len();
        let name = one_line(&job.name);
        let repeated =
            is_bad(job.conclusion) && job.leg.is_none_or(|leg| !self.visible.contains(&leg));
        if repeated {
            let _ = writeln!(text, "{BAD}{name} {}{BAD:#}", job.conclusion.word());
            if let Some(failed) = &watched.failed {
                failure(text, failed);
            }
        }
        places(text, (!repeated).then_some(&name), &watched.annotations);
        if !watched.summary.is_empty() {
            let _ = writeln!(text, "{QUIET}{name} ▸ summary{QUIET:#}");
            for line in &watched.summary {
                let _ = writeln!(text, "  {}", shown(line.as_bytes()));
            }
        }
        if text.len() > before {
            text.push('\n');
        }
    }

    fn table(&self, text: &mut String) {
        let (jobs, left_out) = self.rows();
        let columns = self.terminal.map(|size| size.columns);
        let names = jobs.iter().map(|job| width(&one_line(&job.name))).max().unwrap_or(0);
        let narrow = columns.map_or(NAME_COLUMNS, |columns| columns.saturating_sub(22).max(8));
        let names = names.min(narrow).min(NAME_COLUMNS);
        for job in jobs {
            let style = style(job.conclusion);
            let name = column(&one_line(&job.name), names);
            let word = job.conclusion.word();
            let time = if job.took == Duration::ZERO { String::new() } else { took(job.took) };
            let mut row = format!("{name}  {style}{word:<10}{style:#} {time:>8}");
            if let Some(note) = job.remark().as_deref().map(one_line) {
                let room = columns.map_or(usize::MAX, |all| all.saturating_sub(names + 23));
                let _ = write!(row, "  {QUIET}{}{QUIET:#}", fit(&note, room));
            }
            let _ = writeln!(text, "{}", row.trim_end());
        }
        if left_out > 0 {
            let _ = writeln!(text, "{QUIET}… and {left_out} that succeeded{QUIET:#}");
        }
    }

    /// The jobs of the table. Who has seen a crowd succeed need not read it again.
    fn rows(&self) -> (Vec<&JobSummary>, usize) {
        let all: Vec<&JobSummary> = self.summary.jobs.iter().collect();
        if self.terminal.is_none_or(|size| all.len() < size.rows) {
            return (all, 0);
        }
        let count = all.len();
        let rest = all.into_iter().filter(|job| job.conclusion != Conclusion::Success);
        let rest: Vec<_> = rest.collect();
        let left_out = count - rest.len();
        (rest, left_out)
    }
}

/// The last lines of a failed step.
pub(super) fn failure(text: &mut String, failed: &FailedStep) {
    if !failed.name.is_empty() {
        let _ = writeln!(text, "  {QUIET}▸{QUIET:#} {}", failed.name);
    }
    for line in &failed.lines {
        let _ = writeln!(text, "  {}", shown(line));
    }
}

/// What was said about places in files, the errors first.
fn places(text: &mut String, job: Option<&str>, annotations: &[Annotation]) {
    let mut found: Vec<_> = annotations.iter().filter(|note| note.file.is_some()).collect();
    found.sort_by_key(|note| match note.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Notice => 2,
    });
    if let (Some(job), false) = (job, found.is_empty()) {
        let _ = writeln!(text, "{QUIET}{job} ▸ annotations{QUIET:#}");
    }
    for note in found.iter().take(MAX_PLACES) {
        let mut place = one_line(note.file.as_deref().unwrap_or_default());
        for number in [note.line, note.line.and(note.column)].into_iter().flatten() {
            let _ = write!(place, ":{number}");
        }
        let message = format!("{}{place}: {}", note.severity.tag(), one_line(&note.message));
        let _ = writeln!(text, "  {}", said(&message));
    }
    if found.len() > MAX_PLACES {
        let _ = writeln!(text, "  {QUIET}… and {} more{QUIET:#}", found.len() - MAX_PLACES);
    }
}

/// `3 jobs: 2 succeeded, 1 failed`.
fn counts(summary: &Summary) -> String {
    let jobs = &summary.jobs;
    let words = [
        Conclusion::Success,
        Conclusion::Failure,
        Conclusion::StartupFailure,
        Conclusion::TimedOut,
        Conclusion::Cancelled,
        Conclusion::Skipped,
    ];
    let parts = words.into_iter().filter_map(|conclusion| {
        let count = jobs.iter().filter(|job| job.conclusion == conclusion).count();
        let style = style(conclusion);
        (count > 0).then(|| format!("{style}{count} {}{style:#}", conclusion.word()))
    });
    format!("{} jobs: {}", jobs.len(), parts.collect::<Vec<_>>().join(", "))
}
