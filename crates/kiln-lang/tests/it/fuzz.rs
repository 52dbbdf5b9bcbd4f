//! Anything at all as input: nothing panics or hangs, and every place lies within the text.
//!
//! These are bolero targets in their short form. `cargo bolero test` runs one of them for longer.

use std::ops::Range;

use bolero::check;
use kiln_core::cron::{Civil, Cron};
use kiln_core::value::{Object, Value};
use kiln_lang::expr::{condition, evaluate, json, parse, template};
use kiln_lang::filter::Pattern;
use kiln_lang::source::Span;
use kiln_lang::workflow::FileKind;

use crate::corpus::{Reading, all_samples, read};
use crate::random::Random;

/// Reads a text as each kind of file and checks the places of what is said.
fn check_text(text: &str) {
    for kind in [FileKind::Workflow, FileKind::Action, FileKind::Companion] {
        check_reading(text, &read("fuzz.yml", kind, text));
    }
}

fn check_reading(text: &str, reading: &Reading) {
    assert!(reading.document.is_some() || !reading.diagnostics.is_empty(), "{text:?}");
    for found in &reading.diagnostics {
        assert!(!found.message.is_empty());
        check_span(text, found.span, &found.message);
        for related in &found.related {
            check_span(text, related.span, &related.label);
        }
    }
}

fn check_span(text: &str, span: Span, message: &str) {
    check_range(text, span.range(), message);
}

fn check_range(text: &str, range: Range<usize>, message: &str) {
    assert!(text.get(range.clone()).is_some(), "{range:?} is no place in {text:?}: {message}");
}

/// Text from bytes: each one picks a piece, so that most texts get past the first line.
fn assemble(bytes: &[u8], pieces: &[&str]) -> String {
    bytes.iter().map(|byte| pieces[usize::from(*byte) % pieces.len()]).collect()
}

#[test]
fn any_bytes_are_read_or_refused() {
    check!().with_iterations(1_000).for_each(|bytes: &[u8]| {
        check_text(&String::from_utf8_lossy(bytes));
    });
}

const YAML: &[&str] = &[
    "\n",
    "\n  ",
    "\n    ",
    "\n      ",
    "\n- ",
    "\n  - ",
    "\n      - ",
    ": ",
    ":",
    " ",
    "\t",
    "\r\n",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "'",
    "\"",
    "#",
    " # ",
    "|",
    "|-",
    ">",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "!x ",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "on",
    "jobs",
    "push",
    "schedule",
    "cron",
    "build",
    "runs-on",
    "steps",
    "run",
    "uses",
    "needs",
    "if",
    "strategy",
    "matrix",
    "include",
    "env",
    "with",
    "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: ",
    "\n    if: ",
    "\n    needs: [a]",
    "${{",
    "}}",
    "${{ github.ref }}",
    "${{ x",
    "!",
    "ü",
    "🚀",
    "\u{a0}",
    "\u{feff}",
    "\u{2028}",
    "0",
    "1.5",
    "true",
    "null",
    "~",
    "@",
    "`",
    "\\",
    "\\u00e9",
    "\0",
];

#[test]
fn texts_of_yaml_pieces_are_read_or_refused() {
    check!().with_iterations(2_000).for_each(|bytes: &[u8]| check_text(&assemble(bytes, YAML)));
}

#[test]
fn damaged_files_of_the_corpus_are_read_or_refused() {
    let mut random = Random::new(7);
    for sample in all_samples().iter().filter(|sample| sample.text.len() < 4_000) {
        for _ in 0..8 {
            let text = damage(&sample.text, &mut random);
            check_reading(&text, &read(&sample.name, sample.kind, &text));
        }
    }
}

/// Drops, doubles, moves and splices lines and characters.
fn damage(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        if lines.is_empty() {
            break;
        }
        let (at, other) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines[at].insert_str(0, &" ".repeat(1 + random.below(4))),
            4 => lines[at] = splice(&lines[at], &lines[other], random),
            _ => lines[at] = splice(&lines[at], random.pick(YAML), random),
        }
    }
    lines.concat()
}

/// Puts the second text somewhere into the first, in place of what stands there.
fn splice(text: &str, piece: &str, random: &mut Random) -> String {
    let chars: Vec<char> = text.chars().collect();
    let start = random.below(chars.len() + 1);
    let end = (start + random.below(4)).min(chars.len());
    chars[..start]
        .iter()
        .copied()
        .chain(piece.chars())
        .chain(chars[end..].iter().copied())
        .collect()
}

const EXPRESSION: &[&str] = &[
    " ",
    "(",
    ")",
    "[",
    "]",
    ".",
    ",",
    "*",
    "!",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "=",
    "&",
    "'",
    "''",
    "'a'",
    "'{0}'",
    "\"",
    "0",
    "1",
    "-",
    "0xff",
    "1e9",
    ".5",
    "NaN",
    "Infinity",
    "null",
    "true",
    "false",
    "github",
    "a.b",
    "a.*",
    "a['b']",
    "a[0]",
    "contains(",
    "format(",
    "join(",
    "toJSON(",
    "fromJSON(",
    "case(",
    "startsWith(",
    "hashFiles(",
    "always()",
    "success(",
    "ü",
    "🚀",
    "\n",
    "${{",
    "}}",
    "#",
    "x",
    "_",
    "-1",
];

#[test]
fn any_expression_is_evaluated_or_refused() {
    let contexts: Object =
        [("a", r#"{"b": [1, {"c": null}], "d": "x"}"#), ("github", r#"{"ref": "main"}"#)]
            .into_iter()
            .map(|(name, text)| (name, json::read(text).expect("valid JSON")))
            .collect();
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in [assemble(bytes, EXPRESSION), String::from_utf8_lossy(bytes).into_owned()] {
            check_expression(&text, &contexts);
        }
    });
}

fn check_expression(text: &str, contexts: &Object) {
    match parse(text) {
        Err(error) => check_range(text, error.span, &error.message),
        Ok(None) => {}
        Ok(Some(expr)) => {
            check_range(text, expr.span.clone(), "the whole expression");
            if let Err(error) = evaluate(&expr, contexts) {
                check_range(text, error.span, &error.message);
            }
        }
    }
    for errors in [template::parse(text).err(), condition::effective(text).err()] {
        for error in errors.into_iter().flatten() {
            check_range(text, error.span, &error.message);
        }
    }
    if let Ok(value) = json::read(text) {
        let written = json::write(&value).expect("what was read can be written");
        let again = json::read(&written).expect("what was written can be read");
        assert!(value.same(&again) || has_nan(&value), "{text:?} became {written}");
    }
}

fn has_nan(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_nan(),
        Value::Array(items) => items.iter().any(has_nan),
        Value::Object(object) => object.values().any(has_nan),
        _ => false,
    }
}

const PATTERN: &[&str] = &[
    "*", "**", "?", "+", "[", "]", "[a-z]", "[z-a]", "-", "!", "\\", "/", "a", "ab", "1", ".", "ü",
    "{", "^", " ",
];

#[test]
fn any_filter_pattern_is_matched_or_refused() {
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in [assemble(bytes, PATTERN), String::from_utf8_lossy(bytes).into_owned()] {
            match Pattern::parse(&text) {
                Ok(pattern) => {
                    pattern.matches("");
                    pattern.matches("a/b/ü.rs");
                    pattern.matches(&text);
                }
                Err(error) => check_range(&text, error.span, &error.message),
            }
        }
    });
}

const CRON: &[&str] = &[
    " ",
    "*",
    "/",
    "-",
    ",",
    "0",
    "1",
    "5",
    "15",
    "23",
    "29",
    "31",
    "59",
    "60",
    "7",
    "MON",
    "sun",
    "JAN",
    "dec",
    "@daily",
    "?",
    "L",
    "\t",
    "ü",
    "999999999999999999999",
];

#[test]
fn any_cron_line_is_understood_or_refused() {
    let start = Civil::new(2026, 2, 28, 23, 59).expect("a real minute");
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in
            [assemble(bytes, CRON), fields(bytes), String::from_utf8_lossy(bytes).into_owned()]
        {
            match Cron::parse(&text) {
                Ok(cron) => {
                    let next = cron.next_after(start);
                    assert_eq!(next.is_none(), cron.never_fires(), "{text}");
                    assert!(next.is_none_or(|next| next > start), "{text}");
                    assert!(!cron.describe().is_empty());
                    cron.shortest_interval_minutes();
                }
                Err(error) => check_range(&text, error.span.clone(), &error.message),
            }
        }
    });
}

/// Five fields that are mostly right.
fn fields(bytes: &[u8]) -> String {
    const FIELDS: &[&str] =
        &["*", "0", "1", "*/5", "1-5", "2,4", "29", "30", "31", "2", "1-10/3", "FEB", "MON", "5/2"];
    let pick = |at: usize| FIELDS[usize::from(*bytes.get(at).unwrap_or(&0)) % FIELDS.len()];
    (0..5).map(pick).collect::<Vec<_>>().join(" ")
}
