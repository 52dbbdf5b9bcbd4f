//! A run as lines, each with the name of its job: for pipes, files and other CI.

use std::collections::HashMap;
use std::fmt::Write as _;

use clap::builder::styling::AnsiColor;
use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::local::Progress;

use super::text::{QUIET, said, style};
use super::watch::Watch;

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
}

impl Plain {
    /// What to print, with `watch` having heard it already.
    pub(super) fn lines(&mut self, progress: &Progress, watch: &Watch) -> String {
        let mut lines = String::new();
        match progress {
            Progress::JobStarted { leg, .. } => {
                self.announced.remove(leg);
                add(&mut lines, watch, *leg, &format!("{QUIET}started{QUIET:#}"));
            }
            Progress::Line { leg, step, line } => {
                self.announce(&mut lines, watch, *leg, *step);
                let folded = watch.job(*leg).is_some_and(|job| job.is_folded(*step));
                if !folded && !line.starts_with(b"##[endgroup]") {
                    add(&mut lines, watch, *leg, &said(&String::from_utf8_lossy(line)));
                }
            }
            Progress::StepFinished { leg, step, end } if end.outcome != Conclusion::Skipped => {
                self.announce(&mut lines, watch, *leg, *step);
            }
            Progress::JobFinished { leg, conclusion } => {
                let style = style(*conclusion);
                add(&mut lines, watch, *leg, &format!("{style}{}{style:#}", conclusion.word()));
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
        lines
    }

    /// The name of a step, once it is known that it was not skipped.
    fn announce(&mut self, lines: &mut String, watch: &Watch, leg: LegNo, step: usize) {
        if self.announced.insert(leg, step) != Some(step) {
            let step = watch.job(leg).map_or("", |job| job.step(step));
            if !step.is_empty() {
                add(lines, watch, leg, &format!("{QUIET}▸{QUIET:#} {step}"));
            }
        }
    }
}

fn add(lines: &mut String, watch: &Watch, leg: LegNo, text: &str) {
    let color = COLORS[leg as usize % COLORS.len()].on_default();
    let name = watch.name(leg);
    let _ = writeln!(lines, "{color}{name}{color:#} {QUIET}│{QUIET:#} {text}");
}
