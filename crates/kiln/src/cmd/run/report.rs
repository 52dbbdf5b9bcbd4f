//! What a person sees of a run: prefixed lines as they come, and at the end what matters.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::builder::styling::{AnsiColor, Style};
use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::local::{Progress, Summary};
use serde_json::json;

use crate::output::Console;

/// How many lines of a failed step are repeated at the end.
const TAIL: usize = 20;

const COLORS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::Yellow,
    AnsiColor::Blue,
    AnsiColor::Green,
    AnsiColor::BrightCyan,
];
const QUIET: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const CALM: Style = AnsiColor::Yellow.on_default();

pub(super) struct Screen<'c> {
    console: &'c mut Console,
    json: bool,
    names: HashMap<LegNo, String>,
    watched: HashMap<LegNo, Watched>,
}

/// What is remembered of a job that runs.
#[derive(Default)]
struct Watched {
    step: String,
    /// Whether the step's name was shown.
    announced: bool,
    /// Inside a folded group.
    folded: bool,
    /// The last lines of the step.
    lines: VecDeque<String>,
    /// The first step that failed, with its last lines.
    failed: Option<(String, Vec<String>)>,
}

impl<'c> Screen<'c> {
    pub(super) fn new(console: &'c mut Console, json: bool) -> Self {
        Self { console, json, names: HashMap::new(), watched: HashMap::new() }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        if self.json {
            let lines = as_json(&progress, &self.names);
            // A reader that has gone does not stop the run.
            let _ = self.console.print_raw(&lines);
        }
        match progress {
            Progress::JobStarted { leg, name } => {
                self.names.insert(leg, name);
                self.named(leg, &format!("{QUIET}started{QUIET:#}"));
            }
            Progress::StepStarted { leg, name, .. } => {
                let watched = self.watched.entry(leg).or_default();
                watched.step = name;
                watched.announced = false;
                watched.lines.clear();
            }
            Progress::Lines { leg, text } => self.output(leg, &String::from_utf8_lossy(&text)),
            Progress::StepFinished { leg, end, .. } => {
                if end.outcome != Conclusion::Skipped {
                    self.announce(leg);
                }
                let watched = self.watched.entry(leg).or_default();
                if end.conclusion.is_failure() && watched.failed.is_none() {
                    watched.failed =
                        Some((watched.step.clone(), watched.lines.drain(..).collect()));
                }
            }
            Progress::JobFinished { leg, conclusion } => {
                let style = style(conclusion);
                self.named(leg, &format!("{style}{}{style:#}", conclusion.word()));
            }
            Progress::Annotation { .. } | Progress::Summary { .. } => {}
        }
    }

    /// The name of a step, once it is known that it was not skipped.
    fn announce(&mut self, leg: LegNo) {
        let watched = self.watched.entry(leg).or_default();
        if !std::mem::replace(&mut watched.announced, true) {
            let header = format!("{QUIET}▸{QUIET:#} {}", watched.step);
            self.named(leg, &header);
        }
    }

    /// Lines of a step. What it folds away is in the log.
    fn output(&mut self, leg: LegNo, text: &str) {
        self.announce(leg);
        let before = self.before(leg);
        let watched = self.watched.entry(leg).or_default();
        let mut shown = String::with_capacity(2 * text.len());
        let mut last = VecDeque::with_capacity(TAIL);
        for line in text.lines() {
            if line.starts_with("##[group]") || line.starts_with("##[endgroup]") {
                watched.folded = line.starts_with("##[group]");
                continue;
            }
            if watched.folded {
                continue;
            }
            if last.len() == TAIL {
                last.pop_front();
            }
            last.push_back(line);
            shown.push_str(&before);
            push_line(&mut shown, line);
        }
        let kept = TAIL.saturating_sub(last.len());
        watched.lines.drain(..watched.lines.len().saturating_sub(kept));
        watched.lines.extend(last.into_iter().map(|line| {
            let mut text = String::new();
            push_line(&mut text, line);
            text.truncate(text.len() - 1);
            text
        }));
        self.print(&shown);
    }

    fn named(&mut self, leg: LegNo, text: &str) {
        let before = self.before(leg);
        self.print(&format!("{before}{text}\n"));
    }

    /// What stands before a line of a job.
    fn before(&self, leg: LegNo) -> String {
        let name = self.names.get(&leg).map(String::as_str).unwrap_or_default();
        let color = COLORS[leg as usize % COLORS.len()].on_default();
        if self.console.has_color() {
            format!("{color}{name}{color:#} {QUIET}│{QUIET:#} ")
        } else {
            format!("{name} │ ")
        }
    }

    fn print(&mut self, text: &str) {
        if !self.json && !text.is_empty() {
            let _ = self.console.print(text);
        }
    }

    pub(super) fn finish(&mut self, summary: &Summary, directory: &Path) -> Result<()> {
        if self.json {
            return self.console.print_raw(&format!("{}\n", summary_json(summary, directory)));
        }
        let mut text = String::from("\n");
        for job in summary.jobs.iter().filter(|job| job.conclusion.is_failure()) {
            let _ = writeln!(text, "{BAD}{} failed{BAD:#}", job.name);
            let failed = job
                .leg
                .and_then(|leg| self.watched.get(&leg))
                .and_then(|watched| watched.failed.as_ref());
            if let Some((step, lines)) = failed {
                let _ = writeln!(text, "  {QUIET}▸{QUIET:#} {step}");
                for line in lines {
                    let _ = writeln!(text, "  {line}");
                }
            }
            text.push('\n');
        }
        let width = summary.jobs.iter().map(|job| job.name.chars().count()).max().unwrap_or(0);
        for job in &summary.jobs {
            let style = style(job.conclusion);
            let word = job.conclusion.word();
            let note = job
                .note
                .as_deref()
                .map(|note| format!("  {QUIET}{note}{QUIET:#}"))
                .unwrap_or_default();
            let took = if job.took == Duration::ZERO {
                String::new()
            } else {
                format!("{:.1} s", job.took.as_secs_f64())
            };
            let _ =
                writeln!(text, "{:<width$}  {style}{word:<10}{style:#} {took:>8}{note}", job.name);
        }
        let _ = writeln!(text, "{QUIET}logs: {}{QUIET:#}", directory.join("logs").display());
        self.console.print(&text)
    }
}

/// A line of the log as people see it.
fn push_line(text: &mut String, line: &str) {
    match line.strip_prefix("##[error]") {
        Some(error) => {
            let _ = write!(text, "{BAD}error:{BAD:#} {error}");
        }
        None => text.push_str(line),
    }
    text.push('\n');
}

fn style(conclusion: Conclusion) -> Style {
    match conclusion {
        Conclusion::Success => GOOD,
        Conclusion::Failure | Conclusion::StartupFailure | Conclusion::TimedOut => BAD,
        Conclusion::Cancelled | Conclusion::Skipped => CALM,
    }
}

/// One object per line.
fn as_json(progress: &Progress, names: &HashMap<LegNo, String>) -> String {
    let event = match progress {
        Progress::Lines { leg, text } => {
            let name = names.get(leg).map(String::as_str).unwrap_or_default();
            let mut lines = String::with_capacity(2 * text.len());
            for line in String::from_utf8_lossy(text).lines() {
                let event = json!({"event": "line", "job": leg, "name": name, "text": line});
                let _ = writeln!(lines, "{event}");
            }
            return lines;
        }
        Progress::JobStarted { leg, name } => {
            json!({"event": "job_started", "job": leg, "name": name})
        }
        Progress::StepStarted { leg, step, name } => {
            json!({"event": "step_started", "job": leg, "step": step, "name": name})
        }
        Progress::StepFinished { leg, step, end } => json!({
            "event": "step_finished", "job": leg, "step": step,
            "outcome": end.outcome.result(), "conclusion": end.conclusion.result(),
        }),
        Progress::Annotation { leg, annotation } => json!({
            "event": "annotation", "job": leg, "severity": annotation.severity.as_str(), "message": annotation.message,
            "file": annotation.file, "line": annotation.line, "column": annotation.column, "title": annotation.title,
        }),
        Progress::Summary { leg, markdown } => {
            json!({"event": "summary", "job": leg, "markdown": markdown})
        }
        Progress::JobFinished { leg, conclusion } => {
            json!({"event": "job_finished", "job": leg, "conclusion": conclusion.github()})
        }
    };
    format!("{event}\n")
}

fn summary_json(summary: &Summary, directory: &Path) -> serde_json::Value {
    let jobs: Vec<_> = summary
        .jobs
        .iter()
        .map(|job| {
            json!({
                "job": job.leg, "name": job.name, "conclusion": job.conclusion.github(), "note": job.note,
                "seconds": job.took.as_secs_f64(), "log": job.log,
            })
        })
        .collect();
    json!({"event": "run_finished", "conclusion": summary.conclusion.github(), "jobs": jobs, "directory": directory})
}
