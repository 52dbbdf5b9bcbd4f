//! Wrong usage, help, and the end of the pipe.

use std::io::Read as _;
use std::process::Stdio;

use crate::Place;

#[test]
fn wrong_usage_is_exit_code_two_with_a_hint() {
    let place = Place::new();
    for args in [
        &["lint", "--format", "xml"][..],
        &["frobnicate"],
        &["eval"],
        &["eval", "1", "--jsonl"],
        &["plan"],
        &["plan", "a.yml", "--ref", "main"],
        &["graph", "a.yml", "--format", "png"],
        &["completions", "tcsh"],
        &["logs", "--failed", "--follow"],
        &["pause"],
        &["pause", "--list", "--reason", "x"],
        &["cancel"],
        &["token"],
        &["repo"],
        &["repo", "set", "me/app"],
        &["org", "set", "acme"],
        &["org", "set", "acme", "--jobs", "many"],
        &["trigger", "--priority", "101"],
        &["logs", "--lines", "0"],
        &["logs", "--lines", "1-2", "--follow"],
        &["runs", "--limit", "0"],
        &["runners", "key", "--expires", "soon"],
        &["db"],
        &["db", "move"],
        &["db", "backup"],
        &[],
    ] {
        let answer = place.kiln(args);
        answer.code(2);
        assert!(answer.err.contains("Usage:") || answer.err.contains("--help"), "{answer:#?}");
        assert_eq!(answer.out, "");
    }
}

#[test]
fn help_is_exit_code_zero_and_has_examples() {
    let place = Place::new();
    for command in [
        "run",
        "lint",
        "eval",
        "plan",
        "graph",
        "db",
        "completions",
        "man",
        "trigger",
        "runs",
        "watch",
        "logs",
        "cancel",
        "rerun",
        "repo",
        "org",
        "workflows",
        "status",
        "show",
        "summary",
        "open",
        "context",
        "doctor",
        "runners",
        "queue",
        "storage",
        "pause",
        "resume",
        "token",
        "login",
        "whoami",
    ] {
        let answer = place.kiln(&[command, "--help"]);
        answer.code(0);
        assert!(answer.out.contains("Examples:"), "{answer:#?}");
    }
    assert!(place.kiln(&["--version"]).code(0).out.starts_with("kiln "));
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let place = Place::new();
    for args in [
        &["lint", "no/such.yml"][..],
        &["plan", "no/such.yml"],
        &["graph", "no/such.yml"],
        &["eval", "1", "--context", "no/such.yml"],
    ] {
        let answer = place.kiln(args);
        answer.code(2);
        assert!(answer.err.starts_with("error: "), "{answer:#?}");
        assert!(answer.err.contains("`no/such.yml`"), "{answer:#?}");
    }
}

#[test]
fn a_directory_is_no_workflow() {
    let place = Place::new();
    for command in ["plan", "graph"] {
        let answer = place.kiln(&[command, "."]);
        answer.code(2);
        assert!(answer.err.contains("is a directory"), "{answer:#?}");
    }
}

#[test]
fn colour_is_used_only_when_asked_or_on_a_terminal() {
    let place = Place::new();
    place.file("bad.yml", b"\xff");
    let plain = place.kiln(&["lint", "bad.yml"]);
    assert!(!plain.out.contains('\u{1b}') && !plain.err.contains('\u{1b}'), "{plain:#?}");
    let colour = place.kiln(&["lint", "bad.yml", "--color", "always"]);
    assert!(colour.out.contains('\u{1b}'), "{colour:#?}");
    let never = place.kiln(&["--color=never", "lint", "bad.yml"]);
    assert_eq!(never.out, plain.out);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    for index in 0..400 {
        place.file(&format!("many/{index}.yml"), b"\xff");
    }
    let mut child = place
        .command("", &["lint", "many", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    drop(child.stdout.take());
    let status = child.wait().expect("it ends");
    let mut err = String::new();
    let mut stderr = child.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut err).expect("it writes text");
    assert_eq!((status.code(), err.as_str()), (Some(1), ""));
}
