//! Runner labels that are almost a well-known one.

use crate::diag::{Diagnostic, Severity};
use crate::suggest::closest;
use crate::workflow::one_or_more;
use crate::yaml::Node;

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "runner-label",
    summary: "a runner label that looks like a misspelt one",
    severity: Severity::Warning,
    why: "\
A job whose label no runner has waits until it times out. Labels are free to choose, so only those are reported that differ
by a slip from a well-known one. Labels that start with a well-known one, such as `ubuntu-latest-large`, are left alone.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-lastest
    steps:
      - run: ./build
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - run: ./build
",
    ),
    run,
};

const LABELS: [&str; 4] = ["self-hosted", "ubuntu-latest", "windows-latest", "macos-latest"];

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for job in context.bodies.iter().filter_map(|body| body.job) {
        let Some(runs_on) = job.get("runs-on") else { continue };
        let labels = if runs_on.is_mapping() { runs_on.get("labels") } else { Some(runs_on) };
        found.extend(one_or_more(labels).into_iter().filter_map(|label| misspelt(label)));
        let matrix = job.get("strategy").and_then(|strategy| strategy.get("matrix"));
        let os = matrix.and_then(|matrix| matrix.get("os"));
        found.extend(one_or_more(os).into_iter().filter_map(|label| misspelt(label)));
    }
}

fn misspelt(label: &Node) -> Option<Diagnostic> {
    let text = label.text()?;
    let known = |known: &&str| text.to_ascii_lowercase().starts_with(known);
    if text.contains("${{") || LABELS.iter().any(known) {
        return None;
    }
    let meant = closest(text, LABELS)?;
    let message = format!("no well-known runner has the label `{text}`");
    let finding = Diagnostic::warning(CHECK.code, label.span, message);
    Some(finding.label(format!("did you mean `{meant}`?")))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(runs_on: &str, expected: &[&str]) {
        let text = format!("on: push\njobs:\n  a:\n    runs-on: {runs_on}\n");
        testing::check("runner-label", &text, expected);
    }

    #[test]
    fn a_slip_is_found() {
        check("ubuntu-lastest", &["4:14 no well-known runner has the label `ubuntu-lastest`"]);
        check("[self-hoste, x64]", &["4:15 no well-known runner has the label `self-hoste`"]);
        check("{labels: macos-lates}", &["4:23 no well-known runner has the label `macos-lates`"]);
        let text = "on: push\njobs:\n  a:\n    strategy: {matrix: {os: [ubunut-latest]}}\n    \
                    runs-on: ${{ matrix.os }}\n";
        testing::check(
            "runner-label",
            text,
            &["4:30 no well-known runner has the label `ubunut-latest`"],
        );
    }

    #[test]
    fn labels_are_free_to_choose() {
        for fine in [
            "ubuntu-latest",
            "Ubuntu-Latest",
            "ubuntu-24.04",
            "ubuntu-latest-8",
            "ubuntu-large",
            "macos-14",
            "[self-hosted, linux, big]",
            "${{ vars.RUNNER }}",
            "{group: ubuntu-lastest}",
        ] {
            check(fine, &[]);
        }
    }
}
