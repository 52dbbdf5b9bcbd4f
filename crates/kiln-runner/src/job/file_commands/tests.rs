//! Tests of the grammar and the limits of the file commands.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(file: &str, expected: &[(&str, &str)]) {
    let read = pairs(file.as_bytes());
    let found: Vec<(&str, &str)> =
        read.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!((found.as_slice(), read.fault), (expected, None), "{file:?}");
}

#[track_caller]
fn check_fault(file: &str, pairs_before: usize, message: &str) {
    let read = pairs(file.as_bytes());
    assert_eq!(read.pairs.len(), pairs_before, "{file:?}");
    assert_eq!(read.fault.map(|fault| fault.to_string()).as_deref(), Some(message), "{file:?}");
}

/// P8
#[test]
fn simple_pairs_are_read_to_the_end_of_the_line() {
    check("", &[]);
    check("a=b", &[("a", "b")]);
    check("a=b\n\n\nc=d\n", &[("a", "b"), ("c", "d")]);
    check("a=\n", &[("a", "")]);
    check("a=b=c\n", &[("a", "b=c")]);
    check("a=b<<c\n", &[("a", "b<<c")]);
    check(" a = b \n", &[(" a ", " b ")]);
    check("a=1\na=2\n", &[("a", "1"), ("a", "2")]);
}

/// P8
#[test]
fn only_a_line_feed_ends_a_line() {
    check("a=b\r\nc=d\r\n", &[("a", "b\r"), ("c", "d\r")]);
    check("a=b\rc=d", &[("a", "b\rc=d")]);
    check("a<<E\nx\r\ny\r\nE\n", &[("a", "x\r\ny\r")]);
    check("a<<E\r\nx\r\nE\r\n", &[("a", "x\r")]);
    check_fault("\r\n", 0, "line 1: expected `name=value` or `name<<delimiter`, found `\u{fffd}`");
}

/// P8
#[test]
fn heredocs_hold_any_lines_but_the_delimiter() {
    check("a<<E\nE\n", &[("a", "")]);
    check("a<<E\n\nE\n", &[("a", "")]);
    check("a<<E\n\n\nE\n", &[("a", "\n")]);
    check("a<<E\nx\nE", &[("a", "x")]);
    check("a<<E\nx\ny=z\n E\nE \nEE\nE\nb=c", &[("a", "x\ny=z\n E\nE \nEE"), ("b", "c")]);
    check("a<<E=F\nx\nE=F\n", &[("a", "x")]);
    check("a<< E\nx\n E\n", &[("a", "x")]);
    check("a<<<E\nx\n<E\n", &[("a", "x")]);
    check("a<<E\nb<<F\nE\n", &[("a", "b<<F")]);
}

/// P8
#[test]
fn faults_name_the_line_and_what_was_expected() {
    check_fault("word", 0, "line 1: expected `name=value` or `name<<delimiter`, found `word`");
    check_fault(
        "a=b\n\nword\nc=d",
        1,
        "line 3: expected `name=value` or `name<<delimiter`, found `word`",
    );
    check_fault("=b", 0, "line 1: expected a name before `=`, found `=b`");
    let both = "expected `name<<delimiter` with both a name and a delimiter, found";
    check_fault("<<E\nx\nE\n", 0, &format!("line 1: {both} `<<E`"));
    check_fault("a<<\nx\n\n", 0, &format!("line 1: {both} `a<<`"));
    let end = "expected a later line that is exactly `EOF`, found the end of the file";
    check_fault("x=y\na<<EOF\nb\nc", 1, &format!("line 2: {end}"));
    check_fault("a<<EOF", 0, &format!("line 1: {end}"));
    check_fault("a<<EOF\nb\nEOF \n", 0, &format!("line 1: {end}"));
    check_fault("a=b\0c", 0, "line 1: expected text without NUL bytes in `a`");
}

#[test]
fn a_fault_repeats_only_the_beginning_of_a_long_line() {
    let fault = pairs("x".repeat(10_000).as_bytes()).fault.unwrap().to_string();
    assert!(fault.len() < 200 && fault.ends_with("x…`"), "{fault}");
}

#[test]
fn bytes_that_are_not_text_are_replaced_and_a_mark_is_dropped() {
    let read = pairs(b"\xef\xbb\xbfa=\xffb");
    assert_eq!(read.pairs, [("a".to_owned(), "\u{fffd}b".to_owned())]);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let large = vec![b'\n'; MAX_FILE_BYTES + 1];
    assert_eq!(pairs(&large).fault.unwrap().kind, FaultKind::TooLarge);
    assert_eq!(path(&large).unwrap_err().kind, FaultKind::TooLarge);
}

/// P8
#[test]
fn the_environment_file_cannot_set_what_is_not_the_steps_to_set() {
    let file = "GITHUB_SHA=x\nNODE_OPTIONS=--require evil\nnode_options=x\nGITHUB_TOKEN=t\nCI=no\nA=1\nbad";
    let read = environment(file.as_bytes(), |name| name == "GITHUB_SHA");
    let names: Vec<&str> = read.pairs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["GITHUB_TOKEN", "CI", "A"]);
    let refused: Vec<String> = read.refused.iter().map(Refusal::to_string).collect();
    assert_eq!(
        refused,
        [
            "`GITHUB_SHA` belongs to the runner: GITHUB_ENV cannot change it",
            "`NODE_OPTIONS` cannot be set through GITHUB_ENV",
            "`node_options` cannot be set through GITHUB_ENV",
        ]
    );
    assert_eq!(read.fault.unwrap().line, 7);
}

/// P8
#[test]
fn path_entries_end_with_any_line_end() {
    let read = path(b"/a\n\n/b\r\n/c d\r/e").unwrap();
    assert_eq!(read, ["/a", "/b", "/c d", "/e"]);
    assert_eq!(path(b"").unwrap(), [] as [&str; 0]);
    assert_eq!(path(b"/a\n/b\0").unwrap_err().line, 2);
}

/// P8
#[test]
fn a_summary_has_at_most_one_mebibyte() {
    assert_eq!(summary(b""), Ok(None));
    assert_eq!(summary(b"# Hi\n"), Ok(Some("# Hi\n".to_owned())));
    assert!(summary(&vec![b'x'; MAX_SUMMARY_BYTES]).unwrap().is_some());
    let refused = summary(&vec![b'x'; MAX_SUMMARY_BYTES + 1]).unwrap_err().to_string();
    assert_eq!(refused, "the step summary has 1025 KiB and is not shown: at most 1024 KiB are");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        pairs(&bytes);
        let _ = (path(&bytes), summary(&bytes), environment(&bytes, |_| false));
    }

    #[test]
    fn any_text_of_the_grammars_characters_is_read(file in "[aE=<\r\n\u{0} ]{0,60}") {
        let read = pairs(file.as_bytes());
        prop_assert!(read.pairs.iter().all(|(name, _)| !name.is_empty() && !name.contains('\n')));
        if let Some(fault) = read.fault {
            prop_assert!((1..=file.lines().count().max(1) + 1).contains(&fault.line));
        } else if read.pairs.is_empty() {
            prop_assert!(file.chars().all(|c| c == '\n'));
        }
    }

    /// What `@actions/core` writes is read back exactly.
    #[test]
    fn a_written_value_is_read_back(
        entries in prop::collection::vec(("[A-Za-z_][A-Za-z0-9_ -]{0,10}", "[^\u{0}]{0,40}"), 0..6)
    ) {
        let written = |(name, value): &(String, String)| {
            format!("{name}<<ghadelimiter_1\n{value}\nghadelimiter_1\n")
        };
        let file: String = entries.iter().map(written).collect();
        prop_assert_eq!(pairs(file.as_bytes()), Pairs { pairs: entries, fault: None });
    }
}
