//! The commands with the language behind them.

use serde_json::json;

use crate::Place;

const CI: &str = "\
name: CI
on:
  push:
    branches: [main]
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: make lint
  test:
    needs: lint
    runs-on: ${{ matrix.os }}
    strategy:
      matrix:
        os: [ubuntu-24.04, macos-15]
    steps:
      - run: make test
";

#[test]
fn a_good_workflow_is_clean() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    let answer = place.kiln(&["lint", "--no-checks", "--format", "json"]);
    assert_eq!(answer.code(0).json(), json!([]));
    let human = place.kiln(&["lint", "--no-checks"]);
    assert!(human.code(0).err.starts_with("checked 1 file: no problems ("), "{human:#?}");
}

#[test]
fn standard_input_is_read_as_a_workflow() {
    let place = Place::new();
    let answer = place.kiln_in("", &["lint", "-", "--format", "json"], "on: push\njobs: 1\n");
    assert_eq!(answer.code(1).json()[0]["file"], "<stdin>");
}

#[test]
fn expressions_have_values() {
    let place = Place::new();
    place.file("contexts.json", r#"{"github": {"ref": "refs/heads/main"}}"#);
    let check = |args: &[&str], expect: &str| {
        assert_eq!(place.kiln(&[&["eval"], args].concat()).code(0).out, expect);
    };
    check(&["github.ref", "--context", "contexts.json"], "refs/heads/main\n");
    check(&["${{ 1 < 2 }}"], "true\n");
    check(&["--json", "1"], "{\"kind\":\"Number\",\"value\":1}\n");
    check(&["-1"], "-1\n");
    let wrong = place.kiln(&["eval", "1 &&& 2"]);
    assert!(wrong.code(1).err.contains("1 | 1 &&& 2"), "{wrong:#?}");
    let json = place.kiln(&["eval", "--json", "foo("]);
    assert_eq!(json.code(1).json()["error"]["kind"], "parsing");
}

#[test]
fn lines_are_answered_one_by_one() {
    let place = Place::new();
    let input = r#"{"expr": "a.b", "contexts": {"a": {"b": [1, "x"]}}}
{"expr": "${{ null }}"}
"#;
    let answer = place.kiln_in("", &["eval", "--jsonl"], input);
    assert_eq!(
        answer.code(0).out,
        "{\"kind\":\"Array\",\"value\":[1,\"x\"]}\n{\"kind\":\"Null\",\"value\":null}\n"
    );
}

#[test]
fn a_plan_says_whether_and_what_would_run() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    let file = ".github/workflows/ci.yml";
    let runs = place.kiln(&["plan", file, "--event", "push", "--ref", "main", "--json"]);
    let plan = runs.code(0).json();
    assert_eq!(plan["decision"]["runs"], true);
    assert_eq!(plan["jobs"][1]["legs"], json!([{"os": "ubuntu-24.04"}, {"os": "macos-15"}]));
    let skipped = place.kiln(&["plan", file, "--event", "push", "--ref", "other", "--json"]);
    assert_eq!(skipped.code(0).json()["decision"]["runs"], false);
    let human = place.kiln(&["plan", file]);
    assert!(human.code(0).out.contains("starts on   push (branches: main)"), "{human:#?}");
}

#[test]
fn a_graph_is_drawn_in_every_format() {
    let place = Place::repository();
    place.file("ci.yml", CI);
    for (format, start) in [
        ("text", "CI\n"),
        ("mermaid", "flowchart LR\n"),
        ("dot", "digraph \"CI\" {\n"),
        ("svg", "<svg "),
    ] {
        let answer = place.kiln(&["graph", "ci.yml", "--format", format]);
        assert!(answer.code(0).out.starts_with(start), "{answer:#?}");
    }
    place.kiln(&["graph", "ci.yml", "--format", "svg", "-o", "ci.svg"]).code(0);
    assert!(place.path().join("ci.svg").exists());
}

#[test]
fn a_workflow_with_errors_has_no_plan_and_no_graph() {
    let place = Place::repository();
    place.file("bad.yml", "on: push\njobs:\n  a:\n    step: []\n");
    for command in ["plan", "graph"] {
        let answer = place.kiln(&[command, "bad.yml"]);
        assert_eq!(answer.code(1).out, "");
        assert!(answer.err.contains("bad.yml:4:5"), "{answer:#?}");
    }
}

#[test]
fn a_companion_is_checked_with_its_workflow_and_needs_one() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    place.file(".kiln/workflows/ci.yml", "jobs:\n  tset:\n    retry: {max: 2}\n");
    place.file(".kiln/workflows/gone.yml", "jobs:\n  a:\n    retry: {max: 2}\n");
    let answer = place.kiln(&["lint", "--no-checks", "--format", "json"]);
    let found = answer.code(1).json();
    let messages: Vec<String> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|found| format!("{}: {}", found["file"], found["message"]))
        .collect();
    assert_eq!(
        messages,
        [
            "\".kiln/workflows/ci.yml\": \"the workflow has no job `tset`\"",
            "\".kiln/workflows/gone.yml\": \"there is no workflow `.github/workflows/gone.yml` that this file could add to\"",
        ]
    );
}

#[test]
fn faults_of_a_called_workflow_are_reported_once() {
    let place = Place::repository();
    let call = "on: push\njobs:\n  a:\n    uses: ./.github/workflows/callee.yml\n";
    place.file(".github/workflows/a.yml", call).file(".github/workflows/b.yml", call);
    place.file(
        ".github/workflows/callee.yml",
        "on: workflow_call\njobs:\n  x:\n    runs-on: l\n    stepz: []\n",
    );
    let answer = place.kiln(&["lint", "--no-checks", "--format", "json"]);
    let found = answer.code(1).json();
    let count =
        |code: &str| found.as_array().unwrap().iter().filter(|found| found["code"] == code).count();
    assert_eq!((count("unknown-key"), count("broken-call")), (1, 2), "{found:#}");
}

#[test]
fn checks_can_be_allowed_by_name_and_warnings_denied() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    let codes = |args: &[&str]| {
        let found = place.kiln(&[&["lint", "--format", "json"], args].concat()).code(0).json();
        let codes = found
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["code"].as_str().unwrap().to_owned());
        codes.collect::<Vec<_>>()
    };
    assert_eq!(codes(&[]), ["broad-permissions"]);
    assert!(codes(&["--allow", "broad-permissions"]).is_empty());
    place.kiln(&["lint", "--deny-warnings"]).code(1);
    place.kiln(&["lint", "--deny-warnings", "--allow", "broad-permissions"]).code(0);
    let unknown = place.kiln(&["lint", "--allow", "broad-permission"]);
    assert!(unknown.code(2).err.contains("did you mean `broad-permissions`?"), "{unknown:#?}");
}

#[test]
fn quiet_hides_warnings_but_does_not_forgive_them() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    let quiet = place.kiln(&["lint", "-q"]);
    assert_eq!(quiet.code(0).out, "");
    place.kiln(&["lint", "-q", "--deny-warnings"]).code(1);
}

#[test]
fn an_action_is_known_by_what_it_says_when_its_name_says_nothing() {
    let place = Place::new();
    let action = "name: a\ndescription: d\nruns: {using: node20, main: a.js}\n";
    place.kiln_in("", &["lint", "-"], action).code(0);
    place.file("my.action.yml", action);
    place.kiln(&["lint", "my.action.yml"]).code(0);
}

#[test]
fn a_companion_linted_alone_is_still_held_to_its_workflow() {
    let place = Place::repository();
    place.file(".github/workflows/ci.yml", CI);
    place.file(".kiln/workflows/ci.yml", "jobs:\n  tset:\n    retry: {max: 2}\n");
    for path in [".kiln/workflows/ci.yml", ".kiln"] {
        let answer = place.kiln(&["lint", "--no-checks", "--format", "json", path]);
        let found = answer.code(1).json();
        assert_eq!(found.as_array().unwrap().len(), 1, "{found:#}");
        assert_eq!(found[0]["message"], "the workflow has no job `tset`");
    }
}

/// F2
#[test]
fn a_plan_assumes_what_only_a_payload_would_tell_and_says_so() {
    let place = Place::repository();
    place.file("pr.yml", CI.replace("  push:\n    branches: [main]\n", "  pull_request:\n"));
    let answer = place.kiln(&["plan", "pr.yml", "--event", "pull_request"]);
    let out = &answer.code(0).out;
    assert!(
        out.contains("runs: `pull_request` starts it (assuming the activity type `opened`)"),
        "{out}"
    );
    let unknown = place.kiln(&["plan", "pr.yml", "--event", "pull_requests"]);
    assert!(unknown.code(2).err.contains("did you mean `pull_request`?"), "{unknown:#?}");
}

#[test]
fn calls_that_multiply_are_refused() {
    let place = Place::repository();
    for level in 1..8 {
        let job = |number: usize| {
            format!("  j{number}:\n    uses: ./.github/workflows/x{}.yml\n", level + 1)
        };
        let jobs: String = (0..10).map(job).collect();
        place.file(
            &format!(".github/workflows/x{level}.yml"),
            format!("on: workflow_call\njobs:\n{jobs}"),
        );
    }
    place.file(".github/workflows/x8.yml", "on: workflow_call\njobs: {j: {runs-on: x}}\n");
    let answer = place.kiln(&["plan", ".github/workflows/x1.yml"]);
    assert!(answer.code(1).err.contains("at most 10000 are allowed"), "{answer:#?}");
}

/// F2
#[test]
fn the_inputs_of_a_dispatch_decide_conditions_and_are_checked() {
    let place = Place::repository();
    place.file(
        "d.yml",
        "on:\n  workflow_dispatch:\n    inputs:\n      fast: {type: boolean, default: true}\n      mode: {type: choice, options: [a, b]}\n\
         jobs:\n  slow:\n    runs-on: x\n    if: ${{ !inputs.fast }}\n    steps: [{run: x}]\n  b:\n    runs-on: x\n    if: inputs.mode == 'b'\n    steps: [{run: x}]\n",
    );
    let plan = |payload: &str| {
        place.file("event.json", payload);
        place.kiln(&[
            "plan",
            "d.yml",
            "--event",
            "workflow_dispatch",
            "--event-file",
            "event.json",
            "--json",
        ])
    };
    let jobs = plan(r#"{"inputs": {"fast": "false", "mode": "a"}}"#).code(0).json();
    assert_eq!(jobs["jobs"][0]["decision"]["runs"], true, "{jobs:#}");
    assert_eq!(jobs["jobs"][1]["decision"]["runs"], false, "{jobs:#}");
    assert!(plan(r#"{"inputs": {"mode": "c"}}"#).code(2).err.contains("expected one of a, b"));
    assert!(plan(r#"{"inputs": {"other": "1"}}"#).code(2).err.contains("no input `other`"));
}
