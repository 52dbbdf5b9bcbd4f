//! How a watched run is shown: live on a terminal, as lines, or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_proto::api::{Job, RunDetail};
use serde_json::{Value, json};

use super::super::words::{count, is_bad, job_took, standing, waits};
use super::change::{Change, as_json, changes};
use super::picture;
use crate::client::error::ClientError;
use crate::output::frame::{Running, Size, State, Waiting, size};
use crate::output::paint::Painted;
use crate::output::text::{BAD, QUIET, column, took, width};
use crate::output::time::{self, lasted};
use crate::output::{Console, Manner, one_line};

/// The widest name of a job in the list at the end.
const NAME_COLUMNS: usize = 60;

#[derive(Debug)]
pub(super) struct View {
    manner: Manner,
    seen: Option<RunDetail>,
    painted: Painted,
    /// What is about to be printed above the moving lines.
    above: String,
    /// What people should know above all.
    note: Option<String>,
    /// Whether it was said that the server is away.
    away: bool,
}

impl View {
    pub(super) fn new(manner: Manner) -> Self {
        let (seen, painted, above) = (None, Painted::default(), String::new());
        Self { manner, seen, painted, above, note: None, away: false }
    }

    /// The run as it is now.
    pub(super) fn look(&mut self, detail: RunDetail, console: &mut Console) -> Result<()> {
        if self.seen.is_none() {
            self.title(&detail, console)?;
        }
        self.back(console);
        let mut text = String::new();
        for change in changes(self.seen.as_ref(), &detail) {
            match self.manner {
                Manner::Json => {
                    let _ = writeln!(text, "{}", as_json(&change));
                }
                Manner::Plain => plain(&change, &mut text),
                Manner::Live => above(&change, &mut self.above),
            }
        }
        self.seen = Some(detail);
        if !text.is_empty() {
            console.print(&text)?;
        }
        Ok(())
    }

    fn title(&mut self, detail: &RunDetail, console: &mut Console) -> Result<()> {
        let run = &detail.run;
        let attempt =
            if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
        match self.manner {
            Manner::Json => console.print_raw(&format!("{}\n", started(detail))),
            Manner::Plain | Manner::Live => console.print(&format!(
                "{} {QUIET}·{QUIET:#} {} {QUIET}·{QUIET:#} {}{attempt}\n{QUIET}{}{QUIET:#}\n",
                run.slug,
                one_line(&run.name),
                one_line(&run.title),
                one_line(&run.url)
            )),
        }
    }

    /// The server does not answer.
    pub(super) fn away(&mut self, error: &ClientError, console: &mut Console) {
        let text = "the server is away; trying again…";
        match self.manner {
            Manner::Live => self.note = Some(text.to_owned()),
            Manner::Plain if !self.away => console.note_line(&format!("{text} ({error})")),
            Manner::Plain | Manner::Json => {}
        }
        self.away = true;
    }

    /// The server answers.
    fn back(&mut self, console: &mut Console) {
        if std::mem::take(&mut self.away) {
            self.note = None;
            if self.manner == Manner::Plain {
                console.note_line("the server is back");
            }
        }
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, text: &str, console: &mut Console) {
        match self.manner {
            Manner::Live => self.note = Some(text.to_owned()),
            Manner::Plain => console.note_line(text),
            Manner::Json => {}
        }
    }

    /// The next frame, if anything moved.
    pub(super) fn paint(&mut self, now: Timestamp, console: &mut Console) {
        if self.manner != Manner::Live {
            return;
        }
        let (lines, size) = (self.lines(now), size());
        if let Some(text) = self.painted.replace(&std::mem::take(&mut self.above), lines, size) {
            console.paint(&text);
        }
    }

    fn lines(&self, now: Timestamp) -> Vec<String> {
        let Some(detail) = &self.seen else { return Vec::new() };
        let base = time::parse(&detail.run.created_at).unwrap_or(now);
        let mut state = state(detail, base);
        state.note = self.note.clone().or_else(|| detail.run.reason.as_deref().map(one_line));
        let size = size();
        let mut lines = picture::lines(detail, size);
        let rest = Size { rows: size.rows.saturating_sub(lines.len()), ..size };
        lines.extend(state.lines(now.since(base), rest));
        lines
    }

    /// Removes the moving part for good.
    pub(super) fn clear(&mut self, console: &mut Console) {
        if self.manner == Manner::Live {
            let above = std::mem::take(&mut self.above);
            if let Some(text) = self.painted.replace(&above, Vec::new(), size()) {
                console.paint(&text);
            }
        }
    }

    /// The list of jobs and how the run ended.
    pub(super) fn end(&mut self, console: &mut Console) -> Result<()> {
        self.clear(console);
        let Some(detail) = &self.seen else { return Ok(()) };
        if self.manner == Manner::Json {
            return console.print_raw(&format!("{}\n", finished(detail)));
        }
        console.print(&ending(detail, time::now()))
    }
}

fn started(detail: &RunDetail) -> Value {
    let run = &detail.run;
    json!({
        "event": "run_watched", "id": run.id, "slug": run.slug, "workflow": run.workflow, "name": run.name,
        "attempt": run.attempt, "status": run.status, "url": run.url,
    })
}

fn finished(detail: &RunDetail) -> Value {
    let jobs: Vec<Value> = detail
        .jobs
        .iter()
        .map(|job| json!({"job": job.id, "name": job.name, "conclusion": job.conclusion, "reason": job.reason}))
        .collect();
    json!({
        "event": "run_finished", "id": detail.run.id, "conclusion": detail.run.conclusion,
        "attempt": detail.run.attempt, "note": detail.note, "jobs": jobs,
    })
}

/// The moving part: what runs with its step, what waits with its reason.
fn state(detail: &RunDetail, base: Timestamp) -> State {
    let mut state = State { expected: detail.jobs.len(), ..State::default() };
    for (leg, job) in (0..).zip(&detail.jobs) {
        let name = one_line(&job.name);
        match job.status.as_str() {
            "completed" => {
                state.done += 1;
                state.failed += usize::from(is_bad(job.conclusion.as_deref()));
            }
            "in_progress" => {
                let step = job.steps.iter().rev().find(|step| step.status == "in_progress");
                let step = step.map(|step| one_line(&step.name)).unwrap_or_default();
                let start = job.started_at.as_deref().or(job.claimed_at.as_deref());
                let since = start.and_then(time::parse).map_or(Duration::ZERO, |at| at.since(base));
                state.running.push(Running { leg, name, step, since });
            }
            _ => state.waiting.push(Waiting { name, reason: one_line(&job.reason) }),
        }
    }
    state
}

/// A line of the plain view, with the name of its job in front.
fn plain(change: &Change<'_>, text: &mut String) {
    let line =
        |job: &Job, said: String| format!("{} {QUIET}│{QUIET:#} {said}\n", one_line(&job.name));
    let whole = |said: &str| format!("{QUIET}{}{QUIET:#}\n", one_line(said));
    text.push_str(&match change {
        Change::RunWaits(_, reason) => whole(reason),
        Change::Waits(job) => line(job, format!("{QUIET}{}{QUIET:#}", waits(&job.reason))),
        Change::Started(job) => {
            let on = job.runner.as_deref().map(|name| format!(" on {}", one_line(name)));
            line(job, format!("{QUIET}started{}{QUIET:#}", on.unwrap_or_default()))
        }
        Change::StepStarted(job, step) => {
            line(job, format!("{QUIET}▸{QUIET:#} {}", one_line(&step.name)))
        }
        Change::StepFinished(job, step) if is_bad(step.conclusion.as_deref()) => {
            line(job, format!("{BAD}▸ {} failed{BAD:#}", one_line(&step.name)))
        }
        Change::StepFinished(..) => return,
        Change::Finished(job) => {
            let end = standing(&job.status, job.conclusion.as_deref());
            let style = end.style;
            line(job, format!("{style}{}{style:#}{}", end.word, reason(job, &end.word)))
        }
    });
}

/// Why a job ended as it did, if that is not plain.
fn reason(job: &Job, end: &str) -> String {
    let reason = one_line(&job.reason);
    // That it succeeded because it succeeded helps nobody.
    if reason.is_empty() || reason == end {
        String::new()
    } else {
        format!("{QUIET}: {reason}{QUIET:#}")
    }
}

/// What scrolls away above the moving lines: jobs that have ended.
fn above(change: &Change<'_>, text: &mut String) {
    let Change::Finished(job) = change else { return };
    let end = standing(&job.status, job.conclusion.as_deref());
    let style = end.style;
    let _ = write!(text, "{style}{}{style:#} {}", end.mark, one_line(&job.name));
    if job.conclusion.as_deref() != Some("success") {
        let _ = write!(text, "  {style}{}{style:#}{}", end.word, reason(job, &end.word));
    }
    if let Some(time) = job_took(job, Timestamp(u64::MAX)) {
        let _ = write!(text, "  {QUIET}{}{QUIET:#}", took(time));
    }
    text.push('\n');
}

/// A line for each job, and one for the run.
pub(super) fn ending(detail: &RunDetail, now: Timestamp) -> String {
    let mut text = String::from("\n");
    if let Some(note) = &detail.note {
        let _ = writeln!(text, "{BAD}error:{BAD:#} {}", note.trim_end());
    }
    let names = detail.jobs.iter().map(|job| width(&one_line(&job.name))).max().unwrap_or(0);
    let names = names.min(NAME_COLUMNS);
    for job in &detail.jobs {
        let end = standing(&job.status, job.conclusion.as_deref());
        let style = end.style;
        let name = column(&one_line(&job.name), names);
        let time = job_took(job, now).map(took).unwrap_or_default();
        let gap = " ".repeat(10_usize.saturating_sub(width(&end.word)));
        let rest = format!("{gap} {time:>8}{}", reason(job, &end.word));
        let _ = writeln!(text, "{name}  {style}{}{style:#}{}", end.word, rest.trim_end());
    }
    let run = &detail.run;
    let end = standing(&run.status, run.conclusion.as_deref());
    let style = end.style;
    let time = time::between(Some(&run.created_at), run.ended_at.as_deref(), now);
    let time = time.map(|time| format!(" after {}", lasted(time))).unwrap_or_default();
    let waits = || run.reason.as_ref().map(|why| format!(": {}", one_line(why)));
    let by = cancelled(detail).or_else(waits).unwrap_or_default();
    let _ = writeln!(
        text,
        "{style}{} {} {}{style:#}{by}{time} {QUIET}· {}{QUIET:#}",
        end.mark,
        RunId(run.id).slug(),
        end.word,
        count(detail.jobs.len(), "job"),
    );
    text
}

/// Who cancelled it and why. What had failed before, or failed all the same, was not ended by that alone.
fn cancelled(detail: &RunDetail) -> Option<String> {
    let by = one_line(detail.cancelled_by.as_ref()?);
    let word = match detail.run.conclusion.as_deref() {
        Some("cancelled") => "",
        _ => ", cancelled",
    };
    let why = detail.cancel_reason.as_ref().map(|why| format!(": {}", one_line(why)));
    Some(format!("{word} by {by}{}", why.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::{detail, job, run, step};
    use super::*;

    fn bare(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn sample() -> RunDetail {
        let mut running = job("test", "in_progress", None);
        running.steps = vec![step(1, "completed", Some("success")), step(2, "in_progress", None)];
        let mut broken = job("lint", "completed", Some("failure"));
        broken.reason = "exit code 1".to_owned();
        detail(vec![broken, running, job("deploy", "queued", None)])
    }

    #[test]
    fn the_moving_part_shows_steps_and_reasons() {
        let detail = sample();
        let base = time::parse("2026-11-16T05:28:00Z").unwrap();
        let now = Duration::from_secs(72);
        let lines = state(&detail, base).lines(now, Size { columns: 80, rows: 24 });
        let lines: Vec<String> = lines.iter().map(|line| bare(line)).collect();
        assert_eq!(lines[0][lines[0].find(' ').unwrap()..], *" test  01:12  step 2");
        assert_eq!(lines[1], "· deploy  no runner is free");
        assert_eq!(lines[2], "1 of 3 jobs · 1 running · 1 waiting · 1 failed · 01:12");
    }

    #[test]
    fn plain_lines_name_the_job_that_they_are_about() {
        let detail = sample();
        let mut text = String::new();
        for change in changes(None, &detail) {
            plain(&change, &mut text);
        }
        assert_eq!(
            bare(&text),
            "lint │ failed: exit code 1\ntest │ started on builder\ntest │ ▸ step 2\n\
             deploy │ waits: no runner is free\n"
        );
    }

    /// S16
    #[test]
    fn a_run_that_waits_as_a_whole_says_why() {
        let mut held = detail(Vec::new());
        held.run = run("pending", None);
        held.run.reason = Some("the run waits for the concurrency group `x`".to_owned());
        let mut text = String::new();
        for change in changes(None, &held) {
            plain(&change, &mut text);
        }
        assert_eq!(bare(&text), "the run waits for the concurrency group `x`\n");
        let end = bare(&ending(&held, time::parse("2026-11-16T05:28:09Z").unwrap()));
        assert!(
            end.contains("○ r-9ix pending: the run waits for the concurrency group `x`"),
            "{end}"
        );
        let mut view = View::new(Manner::Live);
        view.seen = Some(held);
        let lines = view.lines(time::parse("2026-11-16T05:28:09Z").unwrap());
        assert!(lines.iter().any(|line| line.contains("concurrency group `x`")), "{lines:?}");
    }

    #[test]
    fn the_end_lists_the_jobs_and_how_the_run_ended() {
        let mut detail = detail(vec![
            job("build", "completed", Some("success")),
            Job { started_at: None, ended_at: None, ..job("deploy", "completed", Some("skipped")) },
        ]);
        detail.run = run("completed", Some("cancelled"));
        detail.cancelled_by = Some("me".to_owned());
        detail.cancel_reason = Some("wrong branch".to_owned());
        assert_eq!(
            bare(&ending(&detail, Timestamp(0))),
            "\nbuild   succeeded    72.0 s\ndeploy  skipped\n\
             - r-9ix cancelled by me: wrong branch after 1m 15s · 2 jobs\n"
        );
        let line = |detail: &RunDetail| {
            bare(&ending(detail, Timestamp(0))).lines().last().unwrap_or_default().to_owned()
        };
        detail.cancel_reason = None;
        assert_eq!(line(&detail), "- r-9ix cancelled by me after 1m 15s · 2 jobs");
        // It failed, and somebody cancelled it: nobody failed it.
        detail.run = run("completed", Some("failure"));
        detail.cancel_reason = Some("no gpu".to_owned());
        assert_eq!(line(&detail), "✗ r-9ix failed, cancelled by me: no gpu after 1m 15s · 2 jobs");
    }
}
