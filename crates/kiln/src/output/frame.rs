//! The moving part of the live view, as a pure function: the state of a run in, lines out.

use std::time::Duration;

use clap::builder::styling::AnsiColor;
use kiln_core::run::LegNo;

use super::text::{BAD, CALM, QUIET, clock, column, fit, width};

/// A sign of life that is calm: it moves five times a second.
const SPINNER: [char; 6] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠇'];
const SPINNER_STEP: Duration = Duration::from_millis(200);
/// Lines of the terminal that the view leaves alone, so that what scrolls by can be read.
const SPARE_ROWS: usize = 4;

/// How large the terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The size now: people drag windows while they wait.
pub(crate) fn size() -> Size {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(found) if found.ws_col > 0 && found.ws_row > 0 => {
            Size { columns: found.ws_col.into(), rows: found.ws_row.into() }
        }
        _ => Size { columns: 80, rows: 24 },
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// In the order in which they started.
    pub(crate) running: Vec<Running>,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) expected: usize,
    pub(crate) cancel: Cancel,
    /// Jobs that wait, for whoever knows them.
    pub(crate) waiting: Vec<Waiting>,
    /// What people should know above all.
    pub(crate) note: Option<String>,
}

/// A job that has not started.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) name: String,
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) leg: LegNo,
    pub(crate) name: String,
    pub(crate) step: String,
    /// From the start of the run.
    pub(crate) since: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cancel {
    #[default]
    No,
    Asked,
    Forced,
}

impl Cancel {
    /// What people are told, and what they can do.
    pub(crate) fn message(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::Asked => Some("cancelling… press Ctrl-C again to end everything at once"),
            Self::Forced => Some("ending everything…"),
        }
    }
}

impl State {
    /// The lines to show at this time: never wider than the terminal, never as high.
    pub(crate) fn lines(&self, now: Duration, size: Size) -> Vec<String> {
        // The last column stays free: a cursor in it behaves differently from terminal to terminal.
        let columns = size.columns.saturating_sub(1);
        let message = self.cancel.message().or(self.note.as_deref()).map(|text| {
            let text = fit(text, columns);
            format!("{CALM}{text}{CALM:#}")
        });
        let room = size.rows.saturating_sub(SPARE_ROWS + 1 + usize::from(message.is_some()));
        let mut lines = self.jobs(now, columns, room);
        lines.extend(self.waiting(columns, room.saturating_sub(lines.len())));
        lines.extend(message);
        lines.push(self.total(now, columns));
        lines
    }

    fn jobs(&self, now: Duration, columns: usize, room: usize) -> Vec<String> {
        let all = self.running.len();
        let shown = if all > room { room.saturating_sub(1) } else { all };
        let names = self.running[..shown].iter().map(|job| width(&job.name)).max().unwrap_or(0);
        let names = names.min(columns / 2);
        let turn = usize::try_from(now.as_millis() / SPINNER_STEP.as_millis()).unwrap_or(0);
        let spinner = SPINNER[turn % SPINNER.len()];
        let mut lines: Vec<String> = self.running[..shown]
            .iter()
            .map(|job| job.line(spinner, now, columns, names))
            .collect();
        if all > shown && room > 0 {
            let more = format!("  … and {} more", all - shown);
            lines.push(format!("{QUIET}{}{QUIET:#}", fit(&more, columns)));
        }
        lines
    }

    /// `· name  why it waits`.
    fn waiting(&self, columns: usize, room: usize) -> Vec<String> {
        let all = self.waiting.len();
        let shown = if all > room { room.saturating_sub(1) } else { all };
        let names = self.waiting[..shown].iter().map(|job| width(&job.name)).max().unwrap_or(0);
        let names = names.min(columns / 2);
        let line = |job: &Waiting| {
            let text = format!("· {}  {}", column(&job.name, names), job.reason);
            format!("{QUIET}{}{QUIET:#}", fit(text.trim_end(), columns))
        };
        let mut lines: Vec<String> = self.waiting[..shown].iter().map(line).collect();
        if all > shown && room > 0 {
            let more = format!("  … and {} more that wait", all - shown);
            lines.push(format!("{QUIET}{}{QUIET:#}", fit(&more, columns)));
        }
        lines
    }

    /// `3 of 12 jobs · 2 running · 1 failed · 00:14`.
    fn total(&self, now: Duration, columns: usize) -> String {
        let all = self.expected.max(self.done + self.running.len());
        let noun = if all == 1 { "job" } else { "jobs" };
        let mut parts = vec![format!("{} of {all} {noun}", self.done)];
        if !self.running.is_empty() {
            parts.push(format!("{} running", self.running.len()));
        }
        if !self.waiting.is_empty() {
            parts.push(format!("{} waiting", self.waiting.len()));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        parts.push(clock(now));
        let total = parts.join(" · ");
        let style = if self.failed > 0 { BAD } else { clap::builder::styling::Style::new().bold() };
        format!("{style}{}{style:#}", fit(&total, columns))
    }
}

impl Running {
    /// `⠋ name  00:14  step`.
    fn line(&self, spinner: char, now: Duration, columns: usize, names: usize) -> String {
        let color = AnsiColor::Cyan.on_default();
        let time = clock(now.saturating_sub(self.since));
        let fixed = 2 + names + 2 + width(&time);
        if fixed > columns {
            return fit(&format!("{spinner} {}", self.name), columns).into_owned();
        }
        let name = column(&self.name, names);
        let mut line = format!("{color}{spinner}{color:#} {name}  {QUIET}{time}{QUIET:#}");
        let room = columns.saturating_sub(fixed + 2);
        if room > 3 && !self.step.is_empty() {
            line.push_str("  ");
            line.push_str(&fit(&self.step, room));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(names: &[&str]) -> State {
        let running = (1..).zip(names).map(|(leg, name)| Running {
            leg,
            name: (*name).to_owned(),
            step: "Run cargo test".to_owned(),
            since: Duration::from_secs(u64::from(leg)),
        });
        State { running: running.collect(), done: 3, expected: 12, ..State::default() }
    }

    fn bare(state: &State, columns: usize, rows: usize) -> Vec<String> {
        let lines = state.lines(Duration::from_secs(16), Size { columns, rows });
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn each_running_job_has_a_line_with_its_time_and_step() {
        let mut state = state(&["build", "test (linux)"]);
        assert_eq!(
            bare(&state, 80, 24),
            [
                "⠸ build         00:15  Run cargo test",
                "⠸ test (linux)  00:14  Run cargo test",
                "3 of 12 jobs · 2 running · 00:16",
            ]
        );
        state.failed = 1;
        state.cancel = Cancel::Asked;
        let lines = bare(&state, 80, 24);
        assert_eq!(lines[2], "cancelling… press Ctrl-C again to end everything at once");
        assert_eq!(lines[3], "3 of 12 jobs · 2 running · 1 failed · 00:16");
    }

    #[test]
    fn a_job_that_waits_says_why() {
        let mut state = state(&["build"]);
        let waiting =
            |name: &str, reason: &str| Waiting { name: name.into(), reason: reason.into() };
        state.waiting = vec![
            waiting("test", "waits for build"),
            waiting("deploy", "no runner has the label `gpu`"),
        ];
        state.note = Some("the server is away".to_owned());
        assert_eq!(
            bare(&state, 40, 24),
            [
                "⠸ build  00:15  Run cargo test",
                "· test    waits for build",
                "· deploy  no runner has the label `gpu`",
                "the server is away",
                "3 of 12 jobs · 1 running · 2 waiting ·…",
            ]
        );
        assert_eq!(bare(&state, 40, 8)[1], "  … and 2 more that wait");
    }

    #[test]
    fn a_crowd_is_cut_to_the_height_of_the_terminal() {
        let names: Vec<String> = (0..60).map(|number| format!("job {number}")).collect();
        let state = state(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = bare(&state, 80, 10);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4], "  … and 56 more");
        assert_eq!(lines[5], "3 of 63 jobs · 60 running · 00:16");
        assert_eq!(bare(&state, 80, 50).len(), 46);
    }

    /// Whatever the size and the names: wide, empty, combining, very long.
    #[test]
    fn no_line_is_wider_and_no_frame_is_higher_than_the_terminal() {
        let long = "long ".repeat(100);
        let names = ["日本語のテスト", "", "e\u{301}\u{301}", "👩‍👩‍👧 ❤\u{fe0f}", &long];
        let mut state = state(&names.repeat(4));
        state.cancel = Cancel::Asked;
        let waiting = names.repeat(3).into_iter();
        let waiting = waiting.map(|name| Waiting { name: name.into(), reason: long.clone() });
        state.waiting = waiting.collect();
        for columns in (0..50).chain([80, 200]) {
            for rows in (0..12).chain([24, 50]) {
                let lines = bare(&state, columns, rows);
                for line in &lines {
                    assert!(width(line) < columns.max(1) || line.is_empty(), "{columns}: {line}");
                }
                assert!(lines.len() <= rows.saturating_sub(SPARE_ROWS).max(2), "{rows} {lines:#?}");
            }
        }
    }
}
