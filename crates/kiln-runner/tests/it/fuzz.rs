//! Whatever a step writes or prints: nothing panics, hangs or grows without bound, and no mask slips.
//!
//! These are bolero targets in their short form, as in `kiln-lang`; `scripts/fuzz` tries them for longer.

use std::path::Path;
use std::time::{Duration, Instant};

use bolero::check;
use kiln_runner::job::commands::{Command, Options, Processed, Processor, parse};
use kiln_runner::job::file_commands::{environment, pairs, path, summary};
use kiln_runner::job::mask::{Carry, Masker};
use kiln_runner::job::matcher::{self, Files, Matchers, Progress};

/// Far more than any input of these sizes needs, also on a machine that does other things.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Text from bytes: each one picks a piece, so that most texts get past the first line.
fn assemble(bytes: &[u8], pieces: &[&str]) -> String {
    bytes.iter().map(|byte| pieces[usize::from(*byte) % pieces.len()]).collect()
}

/// The same bytes as pieces and as they are.
fn both(bytes: &[u8], pieces: &[&str]) -> [Vec<u8>; 2] {
    [assemble(bytes, pieces).into_bytes(), bytes.to_vec()]
}

fn in_time<T>(what: &[u8], work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    assert!(start.elapsed() < TOO_LONG, "too slow: {:?}", String::from_utf8_lossy(what));
    done
}

const FILE: &[&str] = &[
    "\n",
    "\r\n",
    "\r",
    "=",
    "<<",
    "<<E\n",
    "E\n",
    "E",
    "A",
    "B=1\n",
    "A=x y\n",
    " ",
    "\t",
    "\0",
    "ü",
    "\u{feff}",
    "NODE_OPTIONS=x\n",
    "GITHUB_SHA=x\n",
    "PATH",
    "/bin\n",
    "a<<b<<c\n",
    "==",
    "<",
    "🚀",
    "{",
    "\u{85}",
    "\u{2028}",
];

#[test]
fn any_command_file_is_read_or_refused() {
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in both(bytes, FILE) {
            in_time(&text, || check_file(&text));
        }
    });
}

fn check_file(text: &[u8]) {
    let read = pairs(text);
    let bytes: usize = read.pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    // A byte that is not UTF-8 becomes a replacement character of three.
    assert!(bytes <= 3 * text.len(), "more came out than went in");
    for (name, value) in &read.pairs {
        assert!(
            !name.is_empty() && !name.contains(['=', '\n', '\0']) && !value.contains('\0'),
            "{name:?}"
        );
    }
    if let Some(fault) = &read.fault {
        let lines = String::from_utf8_lossy(text).matches('\n').count() + 1;
        assert!((1..=lines).contains(&fault.line), "{fault}");
        assert!(fault.to_string().len() < 1000, "messages are short");
    }
    let env = environment(text, |name| name.starts_with("GITHUB_"));
    assert_eq!(env.fault, read.fault);
    assert_eq!(env.pairs.len() + env.refused.len(), read.pairs.len());
    for (name, _) in &env.pairs {
        assert!(!name.starts_with("GITHUB_") && !name.eq_ignore_ascii_case("NODE_OPTIONS"));
    }
    if let Ok(entries) = path(text) {
        assert!(
            entries.iter().all(|entry| !entry.is_empty() && !entry.contains(['\n', '\r', '\0']))
        );
    }
    assert!(summary(text).is_ok_and(|found| found.is_some() != text.is_empty()));
}

/// What pairs say survives being written again.
#[test]
fn pairs_that_were_read_can_be_written_and_read_again() {
    check!().with_iterations(3_000).for_each(|bytes: &[u8]| {
        let mut kept = pairs(assemble(bytes, FILE).as_bytes()).pairs;
        // These would begin something else in front of a delimiter, or of the whole file.
        kept.retain(|(name, _)| !name.contains(['<', '\u{feff}']));
        let write = |(name, value): &(String, String)| {
            format!("{name}<<no-line-is-this\n{value}\nno-line-is-this\n")
        };
        let written: String = kept.iter().map(write).collect();
        let again = pairs(written.as_bytes());
        assert_eq!((again.fault, again.pairs), (None, kept), "{written:?}");
    });
}

const LINE: &[&str] = &[
    "::",
    "##[",
    "]",
    " ",
    ",",
    ";",
    "=",
    ":",
    "%",
    "%25",
    "%0A",
    "%0D",
    "%3A",
    "%2C",
    "%3B",
    "%5D",
    "%zz",
    "error",
    "warning",
    "notice",
    "debug",
    "group",
    "endgroup",
    "add-mask",
    "add-matcher",
    "remove-matcher",
    "echo",
    "stop-commands",
    "set-output",
    "save-state",
    "set-env",
    "add-path",
    "internal-set-repo-path",
    "pause-logging",
    "file=a.c",
    "line=1",
    "line=99999999999",
    "endLine=0",
    "col=-1",
    "endColumn=2",
    "title=t",
    "name=N",
    "owner=o",
    "on",
    "off",
    "token",
    "::token::",
    "x",
    "ü",
    "🚀",
    "\t",
    "\u{a0}",
    "\u{feff}",
    "\0",
    "\r",
    "ERROR",
    "../..",
    "/w/a",
    "NODE_OPTIONS",
    "name=NODE_OPTIONS",
];

#[test]
fn any_line_is_a_command_or_text() {
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in both(bytes, LINE) {
            let line = String::from_utf8_lossy(&text);
            in_time(&text, || drop(parse(&line, Path::new("/w"))));
        }
    });
}

/// Several lines of one step, since one may change what the next means.
#[test]
fn any_output_is_processed_within_its_rights() {
    check!().with_iterations(3_000).for_each(|bytes: &[u8]| {
        for allow_unsecure in [false, true] {
            let options = Options { workspace: "/w".into(), allow_unsecure, ..Options::default() };
            let mut processor = Processor::new(options);
            for piece in bytes.chunks(7) {
                for line in both(piece, LINE) {
                    if let Some(processed) = in_time(&line, || processor.line(&line)) {
                        check_processed(&processed, &line, allow_unsecure);
                    }
                }
            }
        }
    });
}

fn check_processed(processed: &Processed, line: &[u8], allow_unsecure: bool) {
    let logged: usize = processed.log.iter().map(String::len).sum();
    assert!(logged <= 6 * line.len() + 1000, "a command makes no large log");
    for command in &processed.commands {
        match command {
            Command::SetEnv { name, .. } => {
                assert!(allow_unsecure && !name.eq_ignore_ascii_case("NODE_OPTIONS"));
            }
            Command::AddPath(_) => assert!(allow_unsecure),
            Command::Echo(_) | Command::StopCommands(_) => panic!("these are done already"),
            Command::InternalSetRepoPath { .. } => panic!("only the runner itself may say this"),
            Command::AddMask(value) => assert!(!value.trim().is_empty()),
            _ => {}
        }
    }
}

const SECRETS: &[&str] = &[
    "s3cr3t",
    "line one\nline two",
    "a&b\"c",
    "ü€🚀",
    "aaaa",
    "abab",
    "p%61ss",
    "{\"k\":\"v\"}",
    "sp ace",
    "\u{feff}bom",
];
const PRINTED: &[&str] = &[
    "s3cr3t",
    "s3",
    "cr3t",
    "line one",
    "line two",
    "line",
    " one",
    "a&b\"c",
    "a%26b%22c",
    "a&b\\\"c",
    "a&amp;b",
    "ü€🚀",
    "ü",
    "aaaa",
    "aa",
    "a",
    "abab",
    "ab",
    "p%61ss",
    "{\"k\":\"v\"}",
    "sp ace",
    "sp%20ace",
    "sp+ace",
    "\u{feff}bom",
    "***",
    "*",
    "x",
    " ",
    "\n",
    "\r",
    "%",
    "=",
    "czNjcjN0",
    "::add-mask::",
    "##[error]",
];

/// No secret, and no line of one, is left in what the masker lets through, whole or in pieces.
#[test]
fn no_secret_is_left_however_it_is_printed() {
    check!().with_iterations(1_000).for_each(|bytes: &[u8]| {
        let (chosen, printed) = bytes.split_at(bytes.len().min(3));
        let secrets: Vec<&str> =
            chosen.iter().map(|byte| SECRETS[usize::from(*byte) % SECRETS.len()]).collect();
        let mut masker = Masker::default();
        for secret in &secrets {
            masker.add(secret).expect("all of them can be masked");
        }
        for text in both(printed, PRINTED) {
            in_time(&text, || check_masks(&masker, &secrets, &text));
        }
    });
}

fn check_masks(masker: &Masker, secrets: &[&str], text: &[u8]) {
    let whole = masker.mask_line(text).into_owned();
    for part in secrets.iter().flat_map(|secret| secret.split('\n')) {
        let shown = String::from_utf8_lossy(&whole);
        assert!(!shown.contains(part), "{part:?} is left in {shown:?} of {text:?}");
    }
    assert_eq!(masker.occurs_in(text), whole != text, "{text:?}");
    for size in [1, 2, 5] {
        let mut carry = Carry::default();
        let mut pieces = Vec::new();
        let chunks: Vec<&[u8]> = text.chunks(size).collect();
        for (index, chunk) in chunks.iter().enumerate() {
            let is_last = index + 1 == chunks.len();
            pieces.extend_from_slice(&masker.mask_chunk(&mut carry, chunk, is_last));
        }
        assert_eq!(pieces, whole, "in pieces of {size}: {text:?}");
    }
}

const EXPRESSION: &[&str] = &[
    "^",
    "$",
    ".",
    "*",
    "+",
    "?",
    "(",
    ")",
    "(.*)",
    "(\\\\d+)",
    "[",
    "]",
    "[^:]",
    "{",
    "}",
    "{2}",
    "{2,}",
    "{1000}",
    "|",
    "a",
    "b",
    ":",
    "\\\\s",
    "\\\\b",
    "\\\\",
    "(?:",
    "(?=",
    "(?!",
    "(?<=",
    "(?<n>",
    "\\\\1",
    "\\\\k<n>",
    "(a+)+",
    "(a|aa)+",
    "ü",
    "\\\\u00e4",
    "\\\\x41",
    "\\\\p{L}",
    "(?i)",
    "error",
    " ",
    "\\\\<",
    "&&",
    "~~",
    "--",
    "-",
];

const OUTPUT: &[&str] = &[
    "a.c:1:2: error: text",
    "a",
    "aaaaaaaaaaaaaaaa",
    "b",
    ":",
    " ",
    "\u{1b}[31m",
    "\u{1b}[",
    "m",
    "K",
    "error",
    "ü",
    "\u{1b}",
    ";",
    "99999999999999999999",
    "..",
    "/",
    "\u{0}",
    "x",
];

/// A file of matchers from pieces, then lines for it.
#[test]
fn any_problem_matcher_is_refused_or_bounded() {
    check!().with_iterations(2_000).for_each(|bytes: &[u8]| {
        let (for_expressions, for_lines) = bytes.split_at(bytes.len() / 2);
        let config = config(for_expressions);
        let Ok(configs) = in_time(config.as_bytes(), || matcher::parse(config.as_bytes())) else {
            return;
        };
        let files = Files { repository: Path::new("/w"), is_file: &|_| true };
        let mut matchers = Matchers::default();
        matchers.add(configs);
        let mut progress = Progress::default();
        for piece in for_lines.chunks(9) {
            for line in both(piece, OUTPUT) {
                let scanned =
                    in_time(config.as_bytes(), || matchers.scan(&mut progress, &line, files));
                if let Some((annotation, shown)) = scanned.found {
                    assert!(!annotation.message.is_empty());
                    assert!(shown.len() <= 3 * line.len() + 20);
                }
            }
        }
    });
}

fn config(bytes: &[u8]) -> String {
    let patterns: Vec<String> = bytes
        .chunks(6)
        .take(4)
        .enumerate()
        .map(|(index, piece)| {
            let regexp = assemble(piece, EXPRESSION);
            let number = piece.first().map_or(0, |byte| byte % 4);
            let keys = ["file", "line", "column", "severity", "code", "fromPath"];
            let own = keys[usize::from(*piece.last().unwrap_or(&0)) % keys.len()];
            let last = index + 1 == bytes.chunks(6).len().min(4);
            let message = if last { format!(", \"message\": {number}") } else { String::new() };
            let repeats = last && index > 0 && number == 1;
            format!(
                "{{\"regexp\": \"{regexp}\", \"{own}\": {number}{message}, \"loop\": {repeats}}}"
            )
        })
        .collect();
    format!(
        "{{\"problemMatcher\": [{{\"owner\": \"o\", \"pattern\": [{}]}}]}}",
        patterns.join(", ")
    )
}

/// Any JSON at all, and what is no JSON.
#[test]
fn any_matcher_file_is_read_or_refused() {
    const JSON: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"problemMatcher\"",
        "\"owner\"",
        "\"pattern\"",
        "\"regexp\"",
        "\"message\"",
        "\"loop\"",
        "\"severity\"",
        "\"fromPath\"",
        "\"file\"",
        "1",
        "-1",
        "1e99",
        "true",
        "null",
        "\"x\"",
        "\"(\"",
        "\"\\u0000\"",
        " ",
        "\u{feff}",
        "{\"problemMatcher\":[{\"owner\":\"x\",\"pattern\":[{\"regexp\":\"(x)\",\"message\":1}]}]}",
    ];
    check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        for text in both(bytes, JSON) {
            in_time(&text, || drop(matcher::parse(&text)));
        }
    });
}

/// The most that one line can cost: expressions that explode on lines as long as they are read.
#[test]
fn expressions_that_explode_do_not_hold_up_a_job() {
    let files = Files { repository: Path::new("/w"), is_file: &|_| false };
    let expressions =
        ["(a+)+$", "^(a|aa|(?=a)a)+$", "(a*)*(b)(?!c)", "((a+)(?=b))+", "(\\\\w+\\\\s?)+(?<!x)$"];
    for expression in expressions {
        let config = format!(
            "{{\"problemMatcher\": [{{\"owner\": \"o\", \"pattern\": [{{\"regexp\": \"{expression}\", \"message\": 1}}]}}]}}"
        );
        let mut matchers = Matchers::default();
        matchers.add(matcher::parse(config.as_bytes()).unwrap());
        let mut progress = Progress::default();
        let line = "a".repeat(4000) + "!";
        in_time(config.as_bytes(), || {
            for _ in 0..20 {
                matchers.scan(&mut progress, line.as_bytes(), files);
            }
        });
    }
}
