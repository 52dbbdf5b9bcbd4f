//! Code of strangers checked out where it can reach secrets.

use std::sync::Arc;

use crate::diag::{Diagnostic, Severity};
use crate::workflow::{Step, StepWork};
use crate::yaml::Node;

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "untrusted-checkout",
    summary: "a pull request's code checked out with secrets in reach",
    severity: Severity::Warning,
    why: "\
`pull_request_target`, `workflow_run` and `issue_comment` run with the rights of the base repository: with its secrets and,
by default, a token that can write. They are meant for labels and comments. Once such a job checks out what the pull request
brings and builds, tests or installs it, anyone who opens a pull request runs code with these rights.

Build in a workflow for `pull_request`, which has no secrets, and leave to this one what needs them.",
    bad: workflow(
        "\
on: pull_request_target
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          ref: ${{ github.event.pull_request.head.sha }}
      - run: npm ci && npm test
",
    ),
    good: workflow(
        "\
on: pull_request
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
      - run: npm ci && npm test
",
    ),
    run,
};

const TRUSTED_EVENTS: [&str; 3] = ["pull_request_target", "workflow_run", "issue_comment"];

/// What leads to the commit of a pull request.
const HEADS: &[&[&str]] = &[
    &["github", "head_ref"],
    &["github", "event", "pull_request", "head"],
    &["github", "event", "pull_request", "merge_commit_sha"],
    &["github", "event", "workflow_run", "head_sha"],
    &["github", "event", "workflow_run", "head_branch"],
    &["github", "event", "workflow_run", "head_commit"],
    &["github", "event", "workflow_run", "head_repository"],
];

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let Some(event) = TRUSTED_EVENTS.into_iter().find(|event| context.listens_to(event)) else {
        return;
    };
    for step in context.bodies.iter().flat_map(|body| &body.steps) {
        let Some(span) = checkout(context, *step) else { continue };
        let message = format!(
            "code of a pull request is checked out for `{event}`, where it can reach secrets and the token"
        );
        let help = "build pull requests in a workflow for `pull_request`, which has no secrets";
        found.push(Diagnostic::warning(CHECK.code, span, message).help(help));
    }
}

/// Where a step asks for the head of a pull request.
fn checkout(context: &Context<'_>, step: Step<'_>) -> Option<crate::source::Span> {
    match step.work()? {
        StepWork::Uses(uses) => {
            let (name, _) = uses.text()?.split_once('@')?;
            let is_checkout = name.rsplit('/').next() == Some("checkout");
            let with = step.get("with").filter(|_| is_checkout)?;
            let asked = ["ref", "repository"].into_iter().filter_map(|key| with.get(key));
            let mut heads = asked.filter(|node| names_a_head(context, node));
            heads.next().map(|node| node.span)
        }
        StepWork::Run(script) => {
            let command = "gh pr checkout";
            let at = script.text()?.find(command)?;
            Some(context.span(script, at..at + command.len()))
        }
        _ => None,
    }
}

fn names_a_head(context: &Context<'_>, node: &Arc<Node>) -> bool {
    // `refs/pull/<number>/merge` is the pull request's code under another name.
    if node.text().is_some_and(|text| text.starts_with("refs/pull/")) {
        return true;
    }
    context.expressions.iter().filter(|expression| Arc::ptr_eq(expression.node, node)).any(
        |expression| {
            let mut paths = expression.paths.iter();
            paths.any(|path| HEADS.iter().any(|head| path.is_within(head)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(event: &str, step: &str, found_at: &[&str]) {
        let text =
            format!("on: {event}\njobs:\n  a:\n    runs-on: x\n    steps:\n      - {step}\n");
        let expected: Vec<String> = found_at
            .iter()
            .map(|place| {
                format!(
                    "{place} code of a pull request is checked out for `{event}`, \
                     where it can reach secrets and the token"
                )
            })
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        testing::check("untrusted-checkout", &text, &expected);
    }

    const HEAD: &str =
        "{uses: actions/checkout@v4, with: {ref: '${{ github.event.pull_request.head.sha }}'}}";

    #[test]
    fn the_head_of_a_pull_request_is_not_for_trusted_events() {
        check("pull_request_target", HEAD, &["6:49"]);
        check("issue_comment", "run: gh pr checkout 1", &["6:14"]);
        check(
            "workflow_run",
            "{uses: a/checkout@v4, with: {ref: '${{ github.event.workflow_run.head_sha }}'}}",
            &["6:43"],
        );
        check(
            "pull_request_target",
            "{uses: actions/checkout@v4, with: {ref: 'refs/pull/${{ github.event.number }}/merge'}}",
            &["6:49"],
        );
    }

    #[test]
    fn other_events_and_other_refs_are_fine() {
        check("pull_request", HEAD, &[]);
        check("pull_request_target", "uses: actions/checkout@v4", &[]);
        check(
            "pull_request_target",
            "{uses: actions/checkout@v4, with: {ref: '${{ github.event.pull_request.base.sha }}'}}",
            &[],
        );
    }
}
