//! Kiln beside GitHub's own parsers: the same files and the same expressions, and every difference
//! explained.
//!
//! GitHub's parsers are npm packages that `scripts/test` installs; Node runs them.

mod expressions;
mod files;

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

/// Asks GitHub's parsers, one question per line, and returns their answers in the same order.
fn ask_github(task: &str, questions: &[Json]) -> Vec<Json> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/differential/run.mjs");
    let mut node = Command::new("node")
        .arg(script)
        .arg(node_modules())
        .arg(task)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Node can be started; `scripts/test` installs it");
    let lines: Vec<String> = questions.iter().map(|question| format!("{question}\n")).collect();
    let mut input = node.stdin.take().expect("the input is a pipe");
    // Answers come while questions are still being written: both pipes would fill up.
    let writer = std::thread::spawn(move || input.write_all(lines.concat().as_bytes()));
    let output = node.wait_with_output().expect("Node ends");
    writer.join().expect("the writer does not panic").expect("Node reads all questions");
    assert!(output.status.success(), "Node failed: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("answers are UTF-8");
    let answers: Vec<Json> =
        text.lines().map(|line| serde_json::from_str(line).expect("answers are JSON")).collect();
    assert_eq!(answers.len(), questions.len(), "each question has an answer");
    answers
}

fn node_modules() -> PathBuf {
    let fallback = workspace().join("target/npm/node_modules");
    let modules = env::var_os("KILN_TEST_NODE_MODULES").map_or(fallback, PathBuf::from);
    assert!(
        modules.join("@actions/workflow-parser").exists(),
        "GitHub's parsers are not in {}: run `scripts/test`, which installs them",
        modules.display()
    );
    modules
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
