//! A log on its way to people or programs.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::api::Job;
use kiln_proto::log::{Line, Numbered};
use serde_json::json;

use crate::client::log::Sink;
use crate::output::text::{QUIET, said};
use crate::output::{Console, one_line};

/// How lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    People { timestamps: bool },
    Raw,
    Json,
}

/// Prints the lines that are wanted.
#[derive(Debug)]
pub(super) struct Printer<'p> {
    pub(super) console: &'p mut Console,
    form: Form,
    job: &'p Job,
    /// Whose log it is.
    claim: u32,
    /// What comes before the first line.
    heading: Option<String>,
    step: Option<u32>,
    text: Vec<u8>,
    pub(super) printed: u64,
}

impl<'p> Printer<'p> {
    pub(super) fn new(console: &'p mut Console, form: Form, job: &'p Job) -> Self {
        let (claim, text) = (job.attempt, Vec::new());
        Self { console, form, job, claim, heading: None, step: None, text, printed: 0 }
    }

    /// The lines are those of this claim.
    pub(super) fn of_claim(self, claim: u32) -> Self {
        Self { claim, ..self }
    }

    /// Says whose lines they are, if there are any.
    pub(super) fn with_heading(self, heading: String) -> Self {
        Self { heading: Some(heading), ..self }
    }

    /// The name of a step, if it is known.
    fn name(&self, step: u32) -> Option<&str> {
        let found = self.job.steps.iter().find(|known| known.number == step + 1)?;
        Some(&found.name)
    }

    fn add(&mut self, Numbered { number, line }: &Numbered<'_>) {
        self.printed += 1;
        match self.form {
            Form::Raw => {
                self.text.extend_from_slice(line.text);
                self.text.push(b'\n');
            }
            Form::Json => {
                let text = String::from_utf8_lossy(line.text);
                let at = Timestamp(line.at).rfc3339();
                let object = json!({
                    "job": self.job.id, "name": self.job.name, "run_attempt": self.job.run_attempt,
                    "attempt": self.claim, "line": number, "step": line.step + 1,
                    "step_name": self.name(line.step), "at": at, "text": text,
                });
                self.text.extend_from_slice(format!("{object}\n").as_bytes());
            }
            Form::People { timestamps } => self.for_people(line, timestamps),
        }
    }

    fn for_people(&mut self, line: &Line<'_>, timestamps: bool) {
        let mut text = String::new();
        text.push_str(&self.heading.take().unwrap_or_default());
        if self.step != Some(line.step) {
            self.step = Some(line.step);
            if let Some(name) = self.name(line.step) {
                let _ = writeln!(text, "{QUIET}▸ {}{QUIET:#}", one_line(name));
            }
        }
        if !line.text.starts_with(b"##[endgroup]") {
            if timestamps {
                let _ = write!(text, "{QUIET}{}{QUIET:#} ", Timestamp(line.at).rfc3339());
            }
            let shown = calm(&String::from_utf8_lossy(line.text));
            let shown = shown.strip_prefix("##[group]").unwrap_or(&shown);
            let _ = writeln!(text, "{}", said(shown));
        }
        self.text.extend_from_slice(text.as_bytes());
    }
}

impl Sink for Printer<'_> {
    fn line(&mut self, line: &Numbered<'_>) {
        self.add(line);
    }

    fn flush(&mut self) -> Result<ControlFlow<()>> {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            match self.form {
                Form::People { .. } => self.console.print(&String::from_utf8_lossy(&text))?,
                Form::Raw | Form::Json => self.console.print_bytes(&text)?,
            }
        }
        Ok(if self.console.is_closed() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }
}

/// Whose lines follow, for people.
pub(super) fn heading(job: &Job) -> String {
    format!("{QUIET}──{QUIET:#} {}\n", one_line(&job.name))
}

/// The same where there is more than one: of which attempt of the run, and of which claim of the job.
pub(super) fn heading_among(job: &Job, attempts: u32, claim: u32) -> String {
    let attempt = (attempts > 1).then(|| format!("attempt {}", job.run_attempt));
    let claim = (job.attempt > 1).then(|| format!("claim {claim}"));
    let which: Vec<String> = attempt.into_iter().chain(claim).collect();
    if which.is_empty() {
        return heading(job);
    }
    let (name, which) = (one_line(&job.name), which.join(", "));
    format!("{QUIET}──{QUIET:#} {name} {QUIET}{which}{QUIET:#}\n")
}

/// A line as a terminal may show it: with its colours, without anything that moves the cursor, and of a
/// progress bar only its end.
pub(super) fn calm(line: &str) -> String {
    let line = line.trim_end();
    let last = line.rsplit('\r').next().unwrap_or(line);
    if !last.chars().any(char::is_control) {
        return last.to_owned();
    }
    let mut text = String::with_capacity(last.len());
    let mut styled = false;
    let mut rest = last;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\x1b' => {
                let (style, after) = escape(rest);
                if let Some(style) = style {
                    styled = true;
                    let _ = write!(text, "\x1b[{style}");
                }
                rest = after;
            }
            '\t' => text.push_str("    "),
            c if c.is_control() => {}
            c => text.push(c),
        }
    }
    if styled {
        // A colour that a step left on must not reach the next line.
        text.push_str("\x1b[0m");
    }
    text
}

/// What follows an escape: a style to keep, if it is one, and what comes behind it.
fn escape(rest: &str) -> (Option<&str>, &str) {
    if let Some(sequence) = rest.strip_prefix('[') {
        let end = sequence.find(|c: char| ('@'..='~').contains(&c));
        let Some(end) = end else { return (None, "") };
        let (found, after) = sequence.split_at(end + 1);
        let numbers = &found[..end];
        let plain = numbers.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        return ((found.ends_with('m') && plain).then_some(found), after);
    }
    if let Some(title) = rest.strip_prefix(']') {
        let bell = title.find('\x07').map(|at| at + 1);
        let string_end = title.find("\x1b\\").map(|at| at + 2);
        let end = bell.into_iter().chain(string_end).min().unwrap_or(title.len());
        return (None, &title[end..]);
    }
    let skipped = rest.chars().next().map_or(0, char::len_utf8);
    (None, &rest[skipped..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stay_and_nothing_moves_the_cursor() {
        for (line, expect) in [
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"),
            ("\x1b[2J\x1b[10;5Hhello", "hello"),
            ("\x1b]0;title\x07a\x1b]8;;x\x1b\\b", "ab"),
            ("10%\r20%\r100%\r", "100%"),
            ("a\tb\x08c", "a    bc"),
            ("cut \x1b[31", "cut "),
            ("\x1b", ""),
            ("é\x1bé日\u{9b}x", "é日x"),
        ] {
            assert_eq!(calm(line), expect, "{line:?}");
        }
    }
}
