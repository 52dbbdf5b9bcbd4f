//! A run as lines, each with the name of its job: for pipes, files and other CI.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use clap::builder::styling::AnsiColor;
use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::local::Progress;

use super::watch::Watch;
use crate::output::text::{QUIET, said, style};

const COLORS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::Yellow,
    AnsiColor::Blue,
    AnsiColor::Green,
    AnsiColor::BrightCyan,
];

#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The step of each job that was named last: lines of steps side by side are told apart.
    announced: HashMap<LegNo, usize>,
    /// The steps whose script is being shown.
    folded: HashSet<(LegNo, usize)>,
}

impl Plain {
    /// What to print, with `watch` having heard it already.
    pub(super) fn lines(&mut self, progress: &Progress, watch: &Watch, color: bool) -> String {
        let mut lines = Lines { text: String::new(), watch, color };
        match progress {
            Progress::JobStarted { leg, .. } => {
                self.announced.remove(leg);
                lines.add(*leg, &format!("{QUIET}started{QUIET:#}"));
            }
            Progress::Lines { leg, step, text } => {
                self.announce(&mut lines, *leg, *step);
                self.output(&mut lines, *leg, *step, text);
            }
            Progress::StepFinished { leg, step, end } if end.outcome != Conclusion::Skipped => {
                self.announce(&mut lines, *leg, *step);
            }
            Progress::JobFinished { leg, conclusion } => {
                let style = style(*conclusion);
                lines.add(*leg, &format!("{style}{}{style:#}", conclusion.word()));
            }
            Progress::StepStarted { .. }
            | Progress::StepRetried { .. }
            | Progress::Deployed { .. }
            | Progress::StepFinished { .. }
            | Progress::Annotation { .. }
            | Progress::Summary { .. }
            | Progress::Expected { .. }
            | Progress::JobNotRun(_) => {}
        }
        lines.text
    }

    /// What a step printed, groups unfolded.
    fn output(&mut self, lines: &mut Lines<'_>, leg: LegNo, step: usize, text: &[u8]) {
        let before = lines.before(leg);
        lines.text.reserve(2 * text.len());
        for line in String::from_utf8_lossy(text).lines() {
            // What the runner is about to run is shown by the name of the step.
            if line.starts_with("##[group]Run ") {
                self.folded.insert((leg, step));
            } else if line.starts_with("##[endgroup]") {
                self.folded.remove(&(leg, step));
            } else if self.folded.is_empty() || !self.folded.contains(&(leg, step)) {
                let line = line.strip_prefix("##[group]").unwrap_or(line);
                lines.text.push_str(&before);
                lines.text.push_str(&said(line));
                lines.text.push('\n');
            }
        }
    }

    /// The name of a step, once it is known that it was not skipped.
    fn announce(&mut self, lines: &mut Lines<'_>, leg: LegNo, step: usize) {
        if self.announced.insert(leg, step) != Some(step) {
            let step = lines.watch.job(leg).map_or("", |job| job.step(step));
            if !step.is_empty() {
                lines.add(leg, &format!("{QUIET}▸{QUIET:#} {step}"));
            }
        }
    }
}

/// Lines that are about to be printed.
struct Lines<'w> {
    text: String,
    watch: &'w Watch,
    color: bool,
}

impl Lines<'_> {
    fn add(&mut self, leg: LegNo, text: &str) {
        let before = self.before(leg);
        let _ = writeln!(self.text, "{before}{text}");
    }

    /// What stands before a line of a job.
    fn before(&self, leg: LegNo) -> String {
        let name = self.watch.name(leg);
        let color = COLORS[leg as usize % COLORS.len()].on_default();
        if self.color {
            format!("{color}{name}{color:#} {QUIET}│{QUIET:#} ")
        } else {
            format!("{name} │ ")
        }
    }
}
