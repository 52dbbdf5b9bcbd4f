//! Tests of scripts that lose errors.

use super::super::testing;

#[track_caller]
fn check(script: &str, expected: &[&str]) {
    testing::check("lost-error", &testing::script(script), expected);
}

#[test]
fn a_pipeline_that_hides_a_failure_is_found_once() {
    let message = "when `cargo` fails, this pipeline does not";
    check("cargo test | tee log", &[&format!("8:11 {message}")]);
    check(
        "one\nRUST_LOG=x cargo test 2>&1 | tee log\ncargo a | tee b",
        &[&format!("9:22 {message}")],
    );
    check("cat x | sudo cargo run | sort", &[&format!("8:24 {message}")]);
    check("cargo a | b && c", &[&format!("8:11 {message}")]);
    check("case x in\n  a|b) cargo a | tee b ;;\nesac", &[&format!("9:18 {message}")]);
    check("X=$(cargo a | jq .x)", &[&format!("8:15 {message}")]);
    check("curl x | bash", &["8:11 when `curl` fails, this pipeline does not"]);
}

#[test]
fn pipelines_that_lose_nothing_are_fine() {
    for fine in [
        "echo x | cargo run",
        "cat <<EOF | cargo run\na | b\nEOF",
        "cargo a || true",
        "if cargo a | grep -q x; then b; fi",
        "while ! curl x | jq .; do sleep 1; done",
        "cargo a | b || true",
        "git log | head -1",
        "cargo a | grep -q x",
        "set -o pipefail\ncargo a | tee b",
        "set -euo pipefail; cargo a | tee b",
        "echo 'cargo a | b' # cargo a | b",
        "case $x in a|b) c ;; esac",
        "echo \"${{ env.A || env.B }}\"",
        "for f in *; do x; done | sort",
        "find . | sort | cargo run",
        "echo $(cargo a | b)",
    ] {
        check(fine, &[]);
    }
}

#[test]
fn the_shell_decides() {
    let with = |rest: &str| format!("- run: cargo test | tee log\n  {rest}");
    let check = |steps: &str, expected: &[&str]| {
        testing::check("lost-error", &testing::steps(steps), expected);
    };
    let found = "7:14 when `cargo` fails, this pipeline does not";
    check(&with("shell: bash"), &[]);
    check(&with("shell: pwsh"), &[]);
    check(&with("shell: sh"), &[found]);
    check(&with("shell: bash -e {0}"), &[found]);
    check(&with("shell: bash -eo pipefail {0}"), &[]);
}

#[test]
fn defaults_and_windows_are_respected() {
    let text = |head: &str, runs_on: &str| {
        format!(
            "on: push\n{head}\njobs:\n  a:\n    runs-on: {runs_on}\n    steps: [{{run: a | b}}]\n"
        )
    };
    let found = "6:19 when `a` fails, this pipeline does not";
    testing::check("lost-error", &text("name: x", "ubuntu-latest"), &[found]);
    testing::check("lost-error", &text("name: x", "windows-latest"), &[]);
    testing::check("lost-error", &text("defaults: {run: {shell: bash}}", "ubuntu-latest"), &[]);
    let matrix = "on: push\njobs:\n  a:\n    strategy: {matrix: {os: [linux, Windows-2025]}}\n    \
                  runs-on: ${{ matrix.os }}\n    steps: [{run: a | b}]\n";
    testing::check("lost-error", matrix, &[]);
}

#[test]
fn a_shell_without_errexit_is_found_where_it_is_named() {
    let text = "on: push\ndefaults: {run: {shell: 'bash -l {0}'}}\njobs:\n  a:\n    runs-on: x\n    \
                steps: [{run: \"a\\nb\"}, {run: \"c; d\"}, {run: \"e\"}, {run: \"set -e\\nf\\ng\"}]\n";
    testing::check(
        "lost-error",
        text,
        &["2:26 `bash -l {0}` goes on after a command fails: only the last one counts"],
    );
    assert_eq!(testing::help("lost-error", text), "write `bash -l -e {0}`");
}

#[test]
fn a_switch_that_stays_off_is_found() {
    check("set +e\ncargo test", &["8:11 after `set +e` no failure stops this script"]);
    check("a\nset +o errexit\ncargo test", &["9:11 after `set +e` no failure stops this script"]);
    check("set +e\ncargo test\nset -e\nb", &[]);
    check("set +e\ncargo test\ncode=$?\nexit $code", &[]);
    check("set +x\ncargo test", &[]);
    check("a\nset +e", &[]);
}

#[test]
fn a_substitution_whose_failure_is_masked_is_found() {
    check("export X=$(curl x)", &["8:22 when `curl` fails, `export` succeeds all the same"]);
    check(
        "echo \"x=$(git describe)\" >> \"$GITHUB_OUTPUT\"",
        &["8:21 when `git` fails, `echo` succeeds all the same"],
    );
    check(
        "echo \"x=`curl y`\" >>$GITHUB_ENV",
        &["8:20 when `curl` fails, `echo` succeeds all the same"],
    );
    for fine in [
        "X=$(curl x)\nexport X",
        "export X=$(date +%s)",
        "export PATH=$PATH:$(pwd)/bin",
        "echo \"x=$(git rev-parse --short HEAD)\" >> \"$GITHUB_OUTPUT\"",
        "echo \"x=$(curl y || echo none)\" >> \"$GITHUB_OUTPUT\"",
        "echo \"$(curl x)\"",
        "echo 'x=$(curl y)' >> \"$GITHUB_OUTPUT\"",
        "export X=\"$HOME/bin\"",
    ] {
        check(fine, &[]);
    }
}
