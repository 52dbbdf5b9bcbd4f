//! Lines of a log as rows: number, times and text, with a head where a step begins.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_proto::log::Line;
use kiln_store::runs::StepView;
use maud::{Markup, PreEscaped, html};

use super::BLOCK;
use crate::service::jobs::Seen;
use crate::web::ansi;
use crate::web::parts::{self, Look};

/// A line that comes so long after the one before says so.
const SLOW: Duration = Duration::from_secs(10);

/// So many lines behind one that say the same are folded.
const REPEATED: usize = 3;

/// A line, drawn.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) step: u32,
    /// Whether a step begins here.
    begins: bool,
    at: u64,
    /// Since the line before it.
    waited: Option<Duration>,
    kind: &'static str,
    html: String,
    cut: bool,
}

/// What lines leave to those that follow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Past {
    step: Option<u32>,
    at: Option<u64>,
    style: ansi::Style,
}

/// What runners write in front of lines that mean more than their text.
const KINDS: [(&[u8], &str); 7] = [
    (b"##[group]", "group"),
    (b"##[endgroup]", "endgroup"),
    (b"##[error]", "error"),
    (b"##[warning]", "warning"),
    (b"##[notice]", "note"),
    (b"##[debug]", "debug"),
    (b"[command]", "command"),
];

fn kind_of(text: &[u8]) -> Option<(&'static [u8], &'static str)> {
    KINDS.into_iter().find(|(mark, _)| text.starts_with(mark))
}

impl Past {
    /// The next line, as it is shown.
    pub(super) fn draw(&mut self, number: u64, line: &Line<'_>) -> Row {
        let (begins, waited) = self.go_on(line);
        let kind = kind_of(line.text);
        let text = kind.map_or(line.text, |(mark, _)| &line.text[mark.len()..]);
        // What a runner says itself has no part in the colours of what it runs.
        let mut own = ansi::Style::default();
        let drawn = ansi::draw(text, if kind.is_some() { &mut own } else { &mut self.style });
        let kind = kind.map_or("", |(_, kind)| kind);
        let Line { step, at, .. } = *line;
        Row { number, step, begins, at, waited, kind, html: drawn.html, cut: drawn.cut }
    }

    /// The next line, which is not shown.
    pub(super) fn pass(&mut self, line: &Line<'_>) {
        self.go_on(line);
        if kind_of(line.text).is_none() {
            self.style.follow(line.text);
        }
    }

    fn go_on(&mut self, line: &Line<'_>) -> (bool, Option<Duration>) {
        let begins = self.step.replace(line.step) != Some(line.step);
        if begins {
            self.style = ansi::Style::default();
        }
        // A line without a time is none that was waited for.
        let before = self.at.replace(line.at).filter(|before| *before > 0);
        (begins, before.map(|before| Timestamp(line.at).since(Timestamp(before))))
    }

    /// Whether a line of this step would begin it.
    pub(super) fn is_before(&self, step: u32) -> bool {
        self.step != Some(step)
    }
}

impl Row {
    pub(super) fn ends_group(&self) -> bool {
        self.kind == "endgroup"
    }

    /// Since the line before, where that is long.
    fn slow(&self) -> Option<Duration> {
        self.waited.filter(|waited| *waited >= SLOW)
    }

    /// Whether it says nothing but what that one has said.
    fn repeats(&self, first: &Self) -> bool {
        let is_plain = self.kind.is_empty() && !self.begins && self.slow().is_none();
        is_plain && !self.html.is_empty() && first.kind.is_empty() && self.html == first.html
    }

    fn word(&self) -> Option<&'static str> {
        match self.kind {
            "error" => Some("Error: "),
            "warning" => Some("Warning: "),
            "note" => Some("Notice: "),
            _ => None,
        }
    }
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the log, with so many behind it that say the same.
    Log { more: usize },
    /// In the log, behind one that says the same.
    Again,
    /// Among rows that were picked out of it.
    Picked,
}

/// Rows below each other, each block of them by itself: what is folded must lie in one.
pub(super) fn show_by_block(job: &Seen, rows: &[Row]) -> String {
    let block = |row: &Row| (row.number - 1) / BLOCK;
    let blocks = rows.chunk_by(|one, next| block(one) == block(next));
    blocks.map(|rows| show(job, rows).into_string()).collect()
}

/// Rows below each other.
pub(super) fn show(job: &Seen, rows: &[Row]) -> Markup {
    let start = job.timings.started.or(job.timings.claimed);
    let mut left = rows;
    html! {
        @while let Some((row, rest)) = left.split_first() {
            @let more = rest.iter().take_while(|next| next.repeats(row)).count();
            @let more = if more < REPEATED { 0 } else { more };
            @let (again, after) = rest.split_at(more);
            @if row.begins { (step_head(job, row.step)) }
            (line(row, start, Place::Log { more }))
            @for row in again { (line(row, start, Place::Again)) }
            @let () = left = after;
        }
    }
}

/// Rows that were picked out of a log: each for itself, and without what the page finds lines by.
pub(super) fn show_picked(job: &Seen, rows: &[Row]) -> Markup {
    let start = job.timings.started.or(job.timings.claimed);
    html! { @for row in rows { (line(row, start, Place::Picked)) } }
}

fn step_head(job: &Seen, number: u32) -> Markup {
    let step: Option<&StepView> = job.steps.iter().find(|step| step.number == number);
    let shown = number.saturating_add(1);
    html! {
        div.step-head data-step=(shown) {
            @match step {
                Some(step) => {
                    (Look::of_step(step).icon())
                    span.name { (step.name) }
                    (parts::clocked(step.started, step.ended))
                }
                None => span.name { "Step " (shown) },
            }
            button.copy type="button" title="Copy what this step printed" aria-label="Copy what this step printed" { "Copy" }
        }
    }
}

fn line(row: &Row, start: Option<Timestamp>, place: Place) -> Markup {
    let (number, slow) = (row.number, row.slow());
    let in_place = place != Place::Picked;
    let mut class = "l".to_owned();
    let again = if place == Place::Again { "same" } else { "" };
    for word in [row.kind, if slow.is_some() { "slow" } else { "" }, again] {
        if !word.is_empty() {
            class.push(' ');
            class.push_str(word);
        }
    }
    let time = Timestamp(row.at).rfc3339();
    let since = start.map(|start| relative(Timestamp(row.at).since(start)));
    let waited = row.waited.filter(|waited| !waited.is_zero()).map(delta);
    let name = in_place.then(|| format!("L{number}"));
    html! {
        div class=(class) id=[name] {
            a.n href={ "#L" (number) } data-n=(number) aria-label={ "Line " (number) } {}
            span.tm data-a=(&time[11..23]) data-r=[since] data-d=[waited] {}
            @if in_place && row.kind == "group" { button.fold type="button" aria-expanded="true" aria-label="Fold" { "▾" } }
            span.t {
                @if let Some(word) = row.word() { b { (word) } }
                (PreEscaped(&row.html))
                @if row.cut { i.cut { " … cut here; the raw log has all of it" } }
            }
            @if let Place::Log { more: more @ 1.. } = place {
                button.more type="button" aria-expanded="false" title="The same line again" { "× " (more + 1) }
            }
            @if let Some(slow) = slow {
                span.gap title="since the line before" { (parts::length(slow)) " later" }
            }
        }
        "\n"
    }
}

/// Since the line before.
fn delta(waited: Duration) -> String {
    match waited.as_secs() {
        0..60 => format!("+{}.{:03}", waited.as_secs(), waited.subsec_millis()),
        _ => relative(waited),
    }
}

fn relative(since: Duration) -> String {
    let (minutes, seconds) = (since.as_secs() / 60, since.as_secs() % 60);
    format!("+{minutes}:{seconds:02}.{}", since.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Place = Place::Log { more: 0 };

    fn line_of(at: u64, step: u32, text: &str) -> Line<'_> {
        Line { at, step, text: text.as_bytes() }
    }

    #[test]
    fn marks_of_lines_become_classes_and_words() {
        let check = |text: &str, kind: &str, html: &str| {
            let row = Past::default().draw(1, &line_of(0, 0, text));
            assert_eq!((row.kind, row.html.as_str()), (kind, html), "{text}");
        };
        check("##[error]no <b>", "error", "no &lt;b&gt;");
        check("##[group]Run make", "group", "Run make");
        check("##[endgroup]", "endgroup", "");
        check("a ##[error]", "", "a ##[error]");
    }

    #[test]
    fn a_row_says_its_time_in_three_ways() {
        let mut past = Past::default();
        past.pass(&line_of(61_488, 0, "before"));
        let row = past.draw(7, &line_of(61_500, 0, "x"));
        let html = line(&row, Some(Timestamp(500)), ALONE).into_string();
        for part in
            ["data-r=\"+1:01.0\"", "data-a=\"00:01:01.500\"", "data-d=\"+0.012\"", "id=\"L7\""]
        {
            assert!(html.contains(part), "{part} {html}");
        }
        // A clock that goes back, and one that stands, have nothing to say.
        for at in [61_500, 60_000] {
            let html = line(&past.draw(8, &line_of(at, 0, "x")), None, ALONE).into_string();
            assert!(!html.contains("data-d") && !html.contains("slow"), "{html}");
        }
    }

    #[test]
    fn a_line_that_was_long_in_coming_says_so() {
        let mut past = Past::default();
        past.pass(&line_of(1_000, 0, "before"));
        let html = line(&past.draw(2, &line_of(10_999, 0, "x")), None, ALONE).into_string();
        assert!(!html.contains("slow"), "{html}");
        let html =
            line(&past.draw(3, &line_of(136_000, 0, "##[error]x")), None, ALONE).into_string();
        assert!(
            html.contains("class=\"l error slow\"") && html.contains("2 min 5 s later"),
            "{html}"
        );
        assert!(html.contains("data-d=\"+2:05.0\""), "{html}");
    }

    /// O2
    #[test]
    fn colours_go_on_within_a_step_and_not_through_what_the_runner_says() {
        let mut past = Past::default();
        let mut check = |step: u32, text: &str, begins: bool, html: &str| {
            let row = past.draw(1, &line_of(0, step, text));
            assert_eq!((row.begins, row.html.as_str()), (begins, html), "{text:?}");
        };
        check(0, "\x1b[32ma", true, "<span class=\"f2\">a</span>");
        check(0, "##[error]b\x1b[31m", false, "b");
        check(0, "c", false, "<span class=\"f2\">c</span>");
        check(1, "d", true, "d");
        past.pass(&line_of(0, 1, "\x1b[33m"));
        assert_eq!(past.draw(2, &line_of(0, 1, "e")).html, "<span class=\"f3\">e</span>");
        assert!(past.is_before(2) && !past.is_before(1));
    }
}
