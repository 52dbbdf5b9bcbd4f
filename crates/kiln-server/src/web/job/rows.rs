//! Lines of a log as rows: number, time and text, with a head where a step begins.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_proto::log::Numbered;
use kiln_store::runs::StepView;
use maud::{Markup, PreEscaped, html};

use crate::service::jobs::Seen;
use crate::web::ansi;
use crate::web::parts::{self, Look};

/// A line, drawn.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) step: u32,
    at: u64,
    kind: &'static str,
    html: String,
    cut: bool,
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

impl Row {
    pub(super) fn of(line: &Numbered<'_>) -> Self {
        Self::new(line.number, line.line.step, line.line.at, line.line.text)
    }

    pub(super) fn new(number: u64, step: u32, at: u64, text: &[u8]) -> Self {
        let kind = KINDS.into_iter().find(|(mark, _)| text.starts_with(mark));
        let text = kind.map_or(text, |(mark, _)| &text[mark.len()..]);
        let drawn = ansi::draw(text);
        let kind = kind.map_or("", |(_, kind)| kind);
        Self { number, step, at, kind, html: drawn.html, cut: drawn.cut }
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

/// Rows below each other; `before` is the step of the line in front of them.
pub(super) fn show(job: &Seen, before: Option<u32>, rows: &[Row]) -> Markup {
    let start = job.timings.started.or(job.timings.claimed);
    let mut last = before;
    html! {
        @for row in rows {
            @if last.replace(row.step) != Some(row.step) { (step_head(job, row.step)) }
            (line(row, start))
        }
    }
}

fn step_head(job: &Seen, number: u32) -> Markup {
    let step: Option<&StepView> = job.steps.iter().find(|step| step.number == number);
    html! {
        div.step-head data-step=(number + 1) {
            @match step {
                Some(step) => {
                    (Look::of_step(step).icon())
                    span { (step.name) }
                    (parts::clocked(step.started, step.ended))
                }
                None => span { "Step " (number + 1) },
            }
        }
    }
}

fn line(row: &Row, start: Option<Timestamp>) -> Markup {
    let number = row.number;
    let class = if row.kind.is_empty() { "l".to_owned() } else { format!("l {}", row.kind) };
    let time = Timestamp(row.at).rfc3339();
    let since = start.map(|start| relative(Timestamp(row.at).since(start)));
    html! {
        div class=(class) id={ "L" (number) } {
            a.n href={ "#L" (number) } data-n=(number) aria-label={ "Line " (number) } {}
            span.tm data-a=(&time[11..23]) data-r=[since] {}
            @if row.kind == "group" { button.fold type="button" aria-expanded="true" aria-label="Fold" { "▾" } }
            span.t {
                @if let Some(word) = row.word() { b { (word) } }
                (PreEscaped(&row.html))
                @if row.cut { i.cut { " … cut here; the raw log has all of it" } }
            }
        }
        "\n"
    }
}

fn relative(since: Duration) -> String {
    let (minutes, seconds) = (since.as_secs() / 60, since.as_secs() % 60);
    format!("+{minutes}:{seconds:02}.{}", since.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_lines_become_classes_and_words() {
        let check = |text: &str, kind: &str, html: &str| {
            let row = Row::new(1, 0, 0, text.as_bytes());
            assert_eq!((row.kind, row.html.as_str()), (kind, html), "{text}");
        };
        check("##[error]no <b>", "error", "no &lt;b&gt;");
        check("##[group]Run make", "group", "Run make");
        check("##[endgroup]", "endgroup", "");
        check("a ##[error]", "", "a ##[error]");
    }

    #[test]
    fn a_row_says_its_time_in_both_ways() {
        let row = Row::new(7, 0, 61_500, b"x");
        let html = line(&row, Some(Timestamp(500))).into_string();
        assert!(
            html.contains("data-r=\"+1:01.0\"") && html.contains("data-a=\"00:01:01.500\""),
            "{html}"
        );
        assert!(html.contains("id=\"L7\""), "{html}");
    }
}
