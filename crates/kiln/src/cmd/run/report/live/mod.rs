//! The live view: one line for each running job, what has ended scrolls away above.

#[cfg(test)]
mod picture;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::local::{JobSummary, Progress};

use super::ending;
use super::watch::Watch;
use crate::output::frame::{Cancel, Running, State, size};
use crate::output::one_line;
use crate::output::paint::Painted;
use crate::output::text::{BAD, QUIET, is_bad, mark, style, took};

/// How often the view may change.
pub(super) const FRAME: Duration = Duration::from_millis(85);

/// All times count from the start of the run.
#[derive(Debug, Default)]
pub(super) struct Live {
    state: State,
    /// How the jobs ended that had started.
    ended: HashMap<LegNo, Conclusion>,
    painted: Painted,
    /// What is about to be printed above the jobs.
    above: String,
    /// How many lines have been.
    scrolled: usize,
    /// The failures that were shown, and after which line.
    failures: HashMap<LegNo, usize>,
}

impl Live {
    /// Takes in what happened, with `watch` having heard it already.
    pub(super) fn hear(&mut self, progress: &Progress, watch: &Watch, now: Duration) {
        match progress {
            Progress::Expected { jobs } => self.state.expected = *jobs,
            Progress::JobStarted { leg, name } => {
                self.try_again(*leg);
                let (name, step) = (one_line(name), String::new());
                self.state.running.push(Running { leg: *leg, name, step, since: now });
            }
            Progress::StepStarted { leg, name, .. } => {
                if let Some(job) = self.state.running.iter_mut().find(|job| job.leg == *leg) {
                    job.step = one_line(name);
                }
            }
            Progress::StepFinished { leg, end, .. } if is_bad(end.conclusion) => {
                self.failure(*leg, watch);
            }
            Progress::JobFinished { leg, conclusion } => {
                self.finished(*leg, *conclusion, watch, now);
            }
            Progress::JobNotRun(job) => self.not_run(job),
            Progress::StepFinished { .. }
            | Progress::StepRetried { .. }
            | Progress::Deployed { .. }
            | Progress::Lines { .. }
            | Progress::Annotation { .. }
            | Progress::Summary { .. } => {}
        }
    }

    /// An end that a retry takes back counts no more.
    fn try_again(&mut self, leg: LegNo) {
        if let Some(conclusion) = self.ended.remove(&leg) {
            self.failures.remove(&leg);
            self.state.done -= 1;
            self.state.failed -= usize::from(is_bad(conclusion));
        }
    }

    fn print(&mut self, text: &str) {
        self.scrolled += text.lines().count();
        self.above.push_str(text);
    }

    /// The first step of a job that failed, with the end of what it said.
    fn failure(&mut self, leg: LegNo, watch: &Watch) {
        let Some((job, failed)) = watch.job(leg).and_then(|job| Some((job, job.failed.as_ref()?)))
        else {
            return;
        };
        if self.failures.contains_key(&leg) {
            return;
        }
        let mut text = format!("{BAD}{} {}{BAD:#}\n", job.name, failed.conclusion.word());
        ending::failure(&mut text, failed);
        self.print(&text);
        self.failures.insert(leg, self.scrolled);
    }

    fn finished(&mut self, leg: LegNo, conclusion: Conclusion, watch: &Watch, now: Duration) {
        if is_bad(conclusion) {
            self.failure(leg, watch);
        }
        let Some(at) = self.state.running.iter().position(|job| job.leg == leg) else { return };
        let job = self.state.running.remove(at);
        self.count(conclusion);
        self.ended.insert(leg, conclusion);
        let (style, sign) = (style(conclusion), mark(conclusion));
        let mut line = format!("{style}{sign}{style:#} {}", job.name);
        if conclusion != Conclusion::Success {
            let _ = write!(line, "  {style}{}{style:#}", conclusion.word());
        }
        let time = took(now.saturating_sub(job.since));
        let _ = writeln!(line, "  {QUIET}{time}{QUIET:#}");
        self.print(&line);
    }

    fn not_run(&mut self, job: &JobSummary) {
        self.count(job.conclusion);
        let (style, sign) = (style(job.conclusion), mark(job.conclusion));
        let (name, word) = (one_line(&job.name), job.conclusion.word());
        let note = job.note.as_deref().map(|note| format!(": {}", one_line(note)));
        let note = note.unwrap_or_default();
        self.print(&format!("{style}{sign}{style:#} {name}  {QUIET}{word}{note}{QUIET:#}\n"));
    }

    fn count(&mut self, conclusion: Conclusion) {
        self.state.done += 1;
        self.state.failed += usize::from(is_bad(conclusion));
    }

    pub(super) fn cancelling(&mut self, forced: bool) {
        self.state.cancel = if forced { Cancel::Forced } else { Cancel::Asked };
    }

    /// The terminal was someone else's for a while.
    pub(super) fn resumed(&mut self) {
        self.painted.forget();
    }

    /// What to write to the terminal now, if anything changed.
    pub(super) fn paint(&mut self, now: Duration) -> Option<String> {
        let size = size();
        let lines = self.state.lines(now, size);
        self.painted.replace(&std::mem::take(&mut self.above), lines, size)
    }

    /// Removes the moving part for good.
    pub(super) fn clear(&mut self) -> Option<String> {
        self.painted.replace(&std::mem::take(&mut self.above), Vec::new(), size())
    }

    /// The jobs whose failure has not scrolled away yet.
    pub(super) fn visible(&self) -> HashSet<LegNo> {
        let room = size().rows / 2;
        let near = self.failures.iter().filter(|(_, at)| self.scrolled - **at < room);
        near.map(|(leg, _)| *leg).collect()
    }
}

pub(super) fn message(forced: bool) -> &'static str {
    let cancel = if forced { Cancel::Forced } else { Cancel::Asked };
    cancel.message().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::frame::Size;
    use kiln_runner::job::StepEnd;

    /// What scrolled away, and the last line, after all of this.
    fn check(story: &[Progress], above: &str, total: &str) {
        let (mut live, mut watch) = (Live::default(), Watch::default());
        for progress in story {
            watch.hear(progress);
            live.hear(progress, &watch, Duration::ZERO);
        }
        let bare = |text: &str| anstream::adapter::strip_str(text).to_string();
        assert_eq!(bare(&live.above), above);
        let lines = live.state.lines(Duration::ZERO, Size { columns: 80, rows: 24 });
        assert_eq!(lines.last().map(|line| bare(line)).as_deref(), Some(total));
    }

    fn attempt(conclusion: Conclusion) -> Vec<Progress> {
        let end = StepEnd { outcome: conclusion, conclusion, exit_code: None };
        let line = |text: &str| Progress::Lines {
            leg: 1,
            step: 0,
            text: format!("{text}\n").into_bytes(),
        };
        vec![
            Progress::JobStarted { leg: 1, name: "a".to_owned() },
            Progress::StepStarted { leg: 1, step: 0, name: "try".to_owned() },
            line("##[group]Run it"),
            line("it"),
            line("shell: bash"),
            line("##[endgroup]"),
            line("trying"),
            Progress::StepFinished { leg: 1, step: 0, end },
            Progress::JobFinished { leg: 1, conclusion },
        ]
    }

    #[test]
    fn a_failure_shows_its_last_lines_once_and_a_retry_takes_it_back() {
        let failed = "a failed\n  ▸ try\n  trying\n✗ a  failed  0.0 s\n";
        check(&attempt(Conclusion::Failure), failed, "1 of 1 job · 1 failed · 00:00");
        let twice = [attempt(Conclusion::Failure), attempt(Conclusion::Success)].concat();
        check(&twice, &format!("{failed}✓ a  0.0 s\n"), "1 of 1 job · 00:00");
        let late = "a timed out\n  ▸ try\n  trying\n✗ a  timed out  0.0 s\n";
        check(&attempt(Conclusion::TimedOut), late, "1 of 1 job · 1 failed · 00:00");
    }
}
