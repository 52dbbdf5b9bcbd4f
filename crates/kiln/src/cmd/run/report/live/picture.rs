//! The picture of the live view in README.md, drawn from what the view really shows.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kiln_core::run::{Conclusion, LegNo};
use kiln_runner::local::Progress;

use super::super::watch::Watch;
use super::Live;
use crate::output::frame::Size;
use crate::output::text::width;

const SIZE: Size = Size { columns: 64, rows: 24 };
/// Of one character, in pixels.
const CELL: (usize, usize) = (9, 20);
const MARGIN: usize = 16;

/// The example `hello` while two of its guests are still being greeted.
fn scene() -> String {
    let (mut live, mut watch) = (Live::default(), Watch::default());
    let mut hear = |progress: Progress, tenths: u64| {
        watch.hear(&progress);
        live.hear(&progress, &watch, Duration::from_millis(tenths * 100));
    };
    let started = |leg: LegNo, name: &str| Progress::JobStarted { leg, name: name.to_owned() };
    let step = |leg, name: &str| Progress::StepStarted { leg, step: 0, name: name.to_owned() };
    let finished = |leg| Progress::JobFinished { leg, conclusion: Conclusion::Success };
    hear(started(0, "Who is coming?"), 0);
    hear(finished(0), 11);
    hear(Progress::Expected { jobs: 5 }, 11);
    for (leg, name) in [(1, "Greet Ada"), (2, "Greet Grace"), (3, "Greet 世界")] {
        hear(started(leg, name), 11);
        hear(step(leg, "Walk over"), 11);
    }
    hear(finished(1), 22);
    hear(step(2, "Say hello"), 22);
    let lines = live.state.lines(Duration::from_millis(2_200), SIZE);
    format!("$ kiln run\n{}{}\n", live.above, lines.join("\n"))
}

/// A terminal with this text in it.
fn svg(text: &str) -> String {
    let count = text.lines().count();
    let (wide, high) = (SIZE.columns * CELL.0 + 2 * MARGIN, count * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" role=\"img\">\n\
         <title>kiln run in a terminal: two jobs are done, two run, each with its step and its time</title>\n\
         <style>\n\
         rect {{ fill: #f6f8fa; stroke: #d0d7de }} text {{ fill: #1f2328; font: 15px ui-monospace, monospace; white-space: pre }}\n\
         .b {{ font-weight: bold }} .q {{ opacity: .6 }} .c32 {{ fill: #1a7f37 }} .c36 {{ fill: #1b7c83 }}\n\
         @media (prefers-color-scheme: dark) {{\n\
         rect {{ fill: #151b23; stroke: #3d444d }} text {{ fill: #f0f6fc }} .c32 {{ fill: #3fb950 }} .c36 {{ fill: #39c5cf }}\n\
         }}\n</style>\n<rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        wide - 1,
        high - 1,
    );
    for (row, line) in text.lines().enumerate() {
        draw(&mut svg, line, MARGIN + row * CELL.1 + 15);
    }
    svg + "</svg>\n"
}

/// One line: each piece between two changes of style has its own place.
fn draw(svg: &mut String, line: &str, y: usize) {
    let (mut column, mut classes) = (0, Vec::new());
    for (index, part) in line.split("\x1b[").enumerate() {
        let (code, text) = if index == 0 {
            ("", part)
        } else {
            part.split_once('m').expect("only styles are used")
        };
        match code {
            "" => {}
            "0" => classes.clear(),
            "1" => classes.push("b".to_owned()),
            "2" => classes.push("q".to_owned()),
            color => classes.push(format!("c{color}")),
        }
        let words = text.trim();
        if !words.is_empty() {
            let x = MARGIN + (column + text.len() - text.trim_start().len()) * CELL.0;
            let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\"");
            if !classes.is_empty() {
                let _ = write!(svg, " class=\"{}\"", classes.join(" "));
            }
            let _ = writeln!(svg, ">{words}</text>");
        }
        column += width(text);
    }
}

#[test]
fn the_picture_as_a_reference_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/run.svg");
    let drawn = svg(&scene());
    #[expect(clippy::disallowed_methods, reason = "this is how all generated files are renewed")]
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, &drawn).expect("the repository can be written");
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == drawn, "docs/images/run.svg is out of date: run `cargo xtask gen`");
}
