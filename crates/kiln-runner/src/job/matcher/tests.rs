//! Tests of problem matchers: files, matches over several lines, limits.

use proptest::prelude::*;

use super::*;

const ESLINT: &str = r#"{"problemMatcher": [{"owner": "eslint-stylish", "pattern": [
    {"regexp": "^([^\\s].*)$", "file": 1},
    {"regexp": "^\\s+(\\d+):(\\d+)\\s+(error|warning|info)\\s+(.*)\\s\\s+(.*)$",
     "line": 1, "column": 2, "severity": 3, "message": 4, "code": 5, "loop": true}]}]}"#;
const GCC: &str = r#"{"problemMatcher": [{"owner": "gcc", "severity": "warning", "pattern": [
    {"regexp": "^(.+?):(\\d+):(?:(\\d+):)?\\s(?:(error|warning):\\s)?(.*)$",
     "file": 1, "line": 2, "column": 3, "severity": 4, "message": 5}]}]}"#;

fn matchers(files: &[&str]) -> Matchers {
    let mut matchers = Matchers::default();
    for file in files {
        matchers.add(parse(file.as_bytes()).unwrap());
    }
    matchers
}

fn files() -> Files<'static> {
    Files { repository: Path::new("/w"), is_file: &|path| !path.ends_with("missing.c") }
}

/// What the lines bring to light, each as `severity file:line:column code message`.
fn scan(matchers: &mut Matchers, lines: &[&str]) -> Vec<String> {
    let mut progress = Progress::default();
    let mut all = Vec::new();
    for line in lines {
        if let Some((found, _)) = matchers.scan(&mut progress, line.as_bytes(), files()).found {
            let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
            all.push(format!(
                "{} {}:{}:{} {} {}",
                found.severity.as_str(),
                found.file.unwrap_or_default(),
                number(found.line),
                number(found.column),
                found.code.unwrap_or_default(),
                found.message,
            ));
        }
    }
    all
}

#[track_caller]
fn check(files: &[&str], lines: &[&str], expected: &[&str]) {
    assert_eq!(scan(&mut matchers(files), lines), expected);
}

/// P8
#[test]
fn a_single_pattern_finds_place_severity_and_message() {
    check(&[GCC], &["src/a.c:3:7: error: no"], &["error src/a.c:3:7  no"]);
    check(&[GCC], &["src/a.c:3: no column"], &["warning src/a.c:3:  no column"]);
    check(&[GCC], &["nothing here", "src/a.c:x: no"], &[]);
    check(&[GCC], &["/w/src/../b.c:1:1: abs"], &["warning b.c:1:1  abs"]);
    check(&[GCC], &["/usr/include/x.h:1:1: elsewhere"], &["warning :1:1  elsewhere"]);
    check(&[GCC], &["missing.c:1:1: gone"], &["warning :1:1  gone"]);
}

/// P8
#[test]
fn colours_are_no_part_of_a_line() {
    let line = "\u{1b}[1m\u{1b}[31msrc/a.c:3:7:\u{1b}[0m \u{1b}[K\u{1b}[01;31merror: \u{1b}[mno";
    check(&[GCC], &[line], &["error src/a.c:3:7  no"]);
    let mut matchers = matchers(&[GCC]);
    let scanned = matchers.scan(&mut Progress::default(), line.as_bytes(), files());
    assert_eq!(scanned.found.unwrap().1, "##[error]src/a.c:3:7: error: no");
}

/// P8
#[test]
fn the_last_of_several_patterns_may_repeat() {
    let lines = [
        "test.js",
        "  1:0   error  Missing \"use strict\" statement  strict",
        "  5:10  warning  'addOne' is defined but never used  no-unused-vars",
        "",
        "  9:9   error  after a break  x",
        "other.js",
        "  2:3   error  here  y",
    ];
    check(
        &[ESLINT],
        &lines,
        &[
            "error test.js:1:0 strict Missing \"use strict\" statement",
            "warning test.js:5:10 no-unused-vars 'addOne' is defined but never used",
            "error other.js:2:3 y here",
        ],
    );
}

/// P8
#[test]
fn patterns_follow_one_another_line_by_line() {
    let three = r#"{"problemMatcher": [{"owner": "o", "pattern": [
        {"regexp": "^A (.*)$", "file": 1}, {"regexp": "^B (\\d+)$", "line": 1},
        {"regexp": "^C (.*)$", "message": 1}]}]}"#;
    check(&[three], &["A f", "B 1", "C m", "C again"], &["error f:1:  m"]);
    check(&[three], &["A f", "x", "B 1", "C m"], &[]);
    check(&[three], &["A f", "A g", "B 2", "C m"], &["error g:2:  m"]);
    check(&[three], &["A f", "B 1", "A g", "C m"], &[]);
}

/// P8
#[test]
fn the_newest_matcher_is_asked_first_and_replaces_one_of_its_owner() {
    let owned = |owner: &str, prefix: &str| {
        format!(
            r#"{{"problemMatcher": [{{"owner": "{owner}", "pattern": [{{"regexp": "^{prefix}(.*)$", "message": 1}}]}}]}}"#
        )
    };
    check(&[&owned("a", "x"), &owned("b", "")], &["xy"], &["error ::  xy"]);
    check(&[&owned("b", ""), &owned("a", "x")], &["xy"], &["error ::  y"]);
    check(&[&owned("a", "x"), &owned("A", "z")], &["xy", "zy"], &["error ::  y"]);
    let mut removed = matchers(&[&owned("a", "x")]);
    removed.remove("A");
    assert!(removed.is_empty());
}

/// P8
#[test]
fn a_match_resets_the_other_matchers() {
    let one = r#"{"problemMatcher": [{"owner": "one", "pattern": [{"regexp": "^E (.*)$", "message": 1}]}]}"#;
    check(&[one, ESLINT], &["f.js", "E mid", "  1:1  error  m  c"], &["error ::  mid"]);
}

/// P8
#[test]
fn a_streams_lines_do_not_mix_with_another_streams() {
    let mut matchers = matchers(&[ESLINT]);
    let (mut out, mut err) = (Progress::default(), Progress::default());
    matchers.scan(&mut out, b"f.js", files());
    assert_eq!(matchers.scan(&mut err, b"  1:1  error  m  c", files()).found, None);
    assert!(matchers.scan(&mut out, b"  1:1  error  m  c", files()).found.is_some());
}

/// P8
#[test]
fn a_project_file_says_where_files_are() {
    let json = r#"{"problemMatcher": [{"owner": "msbuild", "pattern": [
        {"regexp": "^(\\S+): (.*) \\[(.+)\\]$", "file": 1, "message": 2, "fromPath": 3}]}]}"#;
    check(&[json], &["Program.cs: bad [/w/app/app.csproj]"], &["error app/Program.cs::  bad"]);
    check(&[json], &["Program.cs: bad [sub/app.csproj]"], &["error sub/Program.cs::  bad"]);
    check(&[json], &["Program.cs: bad [/else/app.csproj]"], &["error ::  bad"]);
    let default = r#"{"problemMatcher": [{"owner": "d", "fromPath": "sub/x.proj", "pattern": [
        {"regexp": "^(\\S+): (.*)$", "file": 1, "message": 2}]}]}"#;
    check(&[default], &["a.c: bad"], &["error sub/a.c::  bad"]);
}

#[test]
fn matches_without_message_or_with_a_strange_severity_say_nothing() {
    check(&[GCC], &["a.c:1:1:  "], &[]);
    check(&[ESLINT], &["f.js", "  1:1  info  m  c"], &[]);
}

/// P8
#[test]
fn files_with_mistakes_are_refused_with_a_reason() {
    let check = |pattern: &str, expected: &str| {
        let json = format!(r#"{{"problemMatcher": [{{"owner": "o", {pattern}}}]}}"#);
        let error = parse(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("problem matcher `o`: {expected}"), "{json}");
    };
    check(r#""x": 1"#, "it has no `pattern`");
    check(r#""pattern": []"#, "it has no `pattern`");
    check(r#""pattern": {}"#, "expected a list as `pattern`");
    check(r#""pattern": [{"regexp": "(x)"}]"#, "no pattern sets `message`");
    check(
        r#""severity": "info", "pattern": []"#,
        "unknown severity `info`: expected error, warning or notice",
    );
    check(
        r#""pattern": [{"regexp": "(x)", "message": 2}]"#,
        "`message` is 2, but the expression has 2 groups, counted from 0",
    );
    check(
        r#""pattern": [{"regexp": "(x)", "message": -1}]"#,
        "expected the number of a group as `message`",
    );
    check(
        r#""pattern": [{"regexp": "(x)", "message": 1, "loop": true}]"#,
        "only the last of several patterns may set `loop`",
    );
    check(
        r#""pattern": [{"regexp": "(x)", "message": 1}, {"regexp": "y", "loop": true}]"#,
        "a pattern with `loop` must set `message`",
    );
    check(
        r#""pattern": [{"regexp": "(x)", "message": 1}, {"regexp": "(x)", "message": 1}]"#,
        "`message` is set twice",
    );
    let json =
        r#"{"problemMatcher": [{"owner": "o", "pattern": [{"regexp": "(", "message": 0}]}]}"#;
    assert!(parse(json.as_bytes()).unwrap_err().to_string().contains("`regexp` cannot be used"));
    let text = |json: &str| parse(json.as_bytes()).unwrap_err().to_string();
    assert!(text("{").starts_with("not JSON: "));
    assert_eq!(text("[]"), "expected an object as `the file`");
    assert_eq!(text(r#"{"problemMatcher": [{}]}"#), "a problem matcher needs an `owner`");
    let one = r#"{"owner": "O", "pattern": [{"regexp": "x", "message": 0}]}"#;
    let two = format!(r#"{{"problemMatcher": [{one}, {}]}}"#, one.replace('O', "o"));
    assert_eq!(text(&two), "two problem matchers have the owner `o`");
    assert!(parse(b"{}").unwrap().is_empty());
    assert!(parse(b"\xef\xbb\xbf{\"ProblemMatcher\": []}").unwrap().is_empty());
}

#[test]
fn an_expression_that_costs_too_much_is_removed_after_three_lines_and_said_once() {
    let slow = r#"{"problemMatcher": [{"owner": "slow", "pattern": [
        {"regexp": "^((a|aa|(?=a)a)+)+$", "message": 0}]}]}"#;
    let mut matchers = matchers(&[slow, GCC]);
    let mut progress = Progress::default();
    let line = "a".repeat(200) + "!";
    let mut warnings = Vec::new();
    for _ in 0..5 {
        warnings.extend(matchers.scan(&mut progress, line.as_bytes(), files()).warnings);
    }
    assert_eq!(warnings, ["the problem matcher `slow` is removed: 3 lines took it too long"]);
    assert_eq!(scan(&mut matchers, &["a.c:1:1: still"]), ["warning a.c:1:1  still"]);
}

#[test]
fn lines_beyond_all_measure_are_not_searched() {
    let line = format!("a.c:1:1: {}", "x".repeat(MAX_LINE_BYTES));
    check(&[GCC], &[&line], &[]);
}

proptest! {
    #[test]
    fn any_json_is_read_without_panic(json in any::<Vec<u8>>()) {
        let _ = parse(&json);
    }

    #[test]
    fn any_expression_and_line_end_in_time(
        first in r"[ab()\[\]{}*+?|^$.\\d,1-]{0,20}", second in r"[ab(.*)+?$]{0,12}",
        lines in prop::collection::vec("[ab1 \u{1b}\\[m]{0,40}", 0..6),
    ) {
        let json = serde_json::json!({"problemMatcher": [{"owner": "o", "pattern": [
            {"regexp": first, "file": 0}, {"regexp": second, "message": 0, "loop": true},
        ]}]});
        if let Ok(configs) = parse(json.to_string().as_bytes()) {
            let mut matchers = Matchers::default();
            matchers.add(configs);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let found = scan(&mut matchers, &lines);
            prop_assert!(found.len() < lines.len().max(1));
        }
    }
}
