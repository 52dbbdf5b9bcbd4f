//! What is remembered of the jobs of a run until its end: bounded, however much they print.

use std::collections::{BTreeMap, HashMap, VecDeque};

use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::job::Annotation;
use kiln_runner::local::Progress;
use memchr::{memmem, memrchr_iter};

use crate::output::one_line;
use crate::output::text::is_bad;

/// How many of the last lines of a failed step are shown.
const TAIL: usize = 20;
/// How many bytes of a line are kept.
const LONGEST_LINE: usize = 2_000;
/// How many annotations of a job are kept.
const MAX_ANNOTATIONS: usize = 20;
/// How many lines of a job's summary are shown.
const MAX_SUMMARY_LINES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Watch {
    jobs: HashMap<LegNo, Watched>,
}

#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) name: String,
    /// By number: those under way, which may be several, and the last one.
    steps: BTreeMap<usize, Step>,
    /// The first step that failed.
    pub(super) failed: Option<FailedStep>,
    pub(super) annotations: Vec<Annotation>,
    pub(super) summary: Vec<String>,
}

#[derive(Debug, Default)]
struct Step {
    name: String,
    done: bool,
    /// Inside a group, whose lines a reader has not asked for.
    folded: bool,
    /// Its last lines.
    lines: VecDeque<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct FailedStep {
    pub(super) name: String,
    pub(super) conclusion: Conclusion,
    /// Its last lines.
    pub(super) lines: Vec<Vec<u8>>,
}

impl Watch {
    pub(super) fn job(&self, leg: LegNo) -> Option<&Watched> {
        self.jobs.get(&leg)
    }

    pub(super) fn name(&self, leg: LegNo) -> &str {
        self.jobs.get(&leg).map_or("", |job| &job.name)
    }

    pub(super) fn hear(&mut self, progress: &Progress) {
        match progress {
            // A job that is tried again starts with nothing.
            Progress::JobStarted { leg, name } => {
                *self.entry(*leg) = Watched { name: one_line(name), ..Watched::default() };
            }
            Progress::StepStarted { leg, step, name } => {
                let steps = &mut self.entry(*leg).steps;
                steps.retain(|_, step| !step.done);
                steps.insert(*step, Step { name: one_line(name), ..Step::default() });
            }
            Progress::Lines { leg, step, text } => {
                self.entry(*leg).steps.entry(*step).or_default().lines(text);
            }
            Progress::StepFinished { leg, step, end } => {
                let job = self.entry(*leg);
                if is_bad(end.conclusion) {
                    job.fail(*step, end.conclusion);
                }
                job.steps.entry(*step).or_default().done = true;
            }
            Progress::Annotation { leg, annotation } => {
                let kept = &mut self.entry(*leg).annotations;
                if kept.len() < MAX_ANNOTATIONS {
                    kept.push(annotation.clone());
                }
            }
            Progress::Summary { leg, markdown } => self.entry(*leg).summarise(markdown),
            // A job that could not be prepared has no step to fail.
            Progress::JobFinished { leg, conclusion } if is_bad(*conclusion) => {
                let job = self.entry(*leg);
                let last = job.steps.keys().next_back().copied().unwrap_or_default();
                job.fail(last, *conclusion);
            }
            Progress::Expected { .. }
            | Progress::StepRetried { .. }
            | Progress::Deployed { .. }
            | Progress::JobFinished { .. }
            | Progress::JobNotRun(_) => {}
        }
    }

    fn entry(&mut self, leg: LegNo) -> &mut Watched {
        self.jobs.entry(leg).or_default()
    }
}

impl Watched {
    /// The name of a step under way, or of the last one.
    pub(super) fn step(&self, step: usize) -> &str {
        self.steps.get(&step).map_or("", |step| &step.name)
    }

    fn fail(&mut self, step: usize, conclusion: Conclusion) {
        if self.failed.is_none() {
            let step = self.steps.entry(step).or_default();
            let lines = step.lines.drain(..).collect();
            self.failed = Some(FailedStep { name: step.name.clone(), conclusion, lines });
        }
    }

    fn summarise(&mut self, markdown: &str) {
        let room = (MAX_SUMMARY_LINES + 1).saturating_sub(self.summary.len());
        self.summary.extend(markdown.lines().take(room).map(str::to_owned));
        if self.summary.len() > MAX_SUMMARY_LINES {
            self.summary.truncate(MAX_SUMMARY_LINES);
            self.summary.push("…".to_owned());
        }
    }
}

impl Step {
    fn lines(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        // Without groups only the last lines can matter, and there may be very many.
        let skipped = if memmem::find(text, b"##[").is_some() {
            0
        } else {
            memrchr_iter(b'\n', text).nth(TAIL).map_or(0, |at| at + 1)
        };
        for line in text[skipped..].split(|byte| *byte == b'\n') {
            self.line(line);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.starts_with(b"##[group]") {
            self.folded = true;
            return;
        }
        if line.starts_with(b"##[endgroup]") {
            self.folded = false;
            // The group in which the runner says what it is about to run is no output of the step.
            if self.lines.back().is_some_and(|last| last.starts_with(b"shell: ")) {
                self.lines.clear();
            }
            return;
        }
        let mut kept = if self.lines.len() == TAIL {
            self.lines.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        kept.clear();
        kept.extend_from_slice(&line[..line.len().min(LONGEST_LINE)]);
        self.lines.push_back(kept);
    }
}
