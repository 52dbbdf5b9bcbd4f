//! Actions, workflows and images that can change under a workflow.

use kiln_core::plan::UseTarget;

use crate::diag::{Diagnostic, Severity};
use crate::workflow::{StepWork, uses};
use crate::yaml::Node;

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "unpinned-action",
    summary: "an action that is not pinned to a commit",
    severity: Severity::Warning,
    why: "\
A tag or a branch is a name that its owner can move, and whoever takes over the owner's account can move it, too. The next
run then executes other code with your token and secrets; that has happened to actions used by thousands. A full commit
cannot change. Keep the tag as a comment, so that people and update tools know the version. Images are pinned by their
digest. Actions of the same repository need no version.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
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
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for body in &context.bodies {
        // Remote workflows and actions are written alike.
        found.extend(body.job.and_then(|job| job.get("uses")).and_then(|node| target(node)));
        for step in &body.steps {
            if let Some(StepWork::Uses(node)) = step.work() {
                found.extend(target(node));
            }
        }
    }
    if !context.is_workflow() {
        let runs = context.document.root.get("runs");
        found.extend(runs.and_then(|runs| runs.get("image")).and_then(|node| image(node)));
    }
}

fn target(node: &Node) -> Option<Diagnostic> {
    match uses::action(node.text()?).ok()? {
        UseTarget::Docker(_) => image(node),
        UseTarget::Repository { owner, repository, path, reference } => {
            let name = if path.is_empty() {
                format!("{owner}/{repository}")
            } else {
                format!("{owner}/{repository}/{path}")
            };
            let message = complaint(&name, &reference)?;
            let help = format!("write `{name}@<full commit> # {reference}`");
            Some(Diagnostic::warning(CHECK.code, node.span, message).help(help))
        }
        _ => None,
    }
}

fn complaint(name: &str, reference: &str) -> Option<String> {
    let is_hex = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    let looks_like_version = {
        let digits = reference.strip_prefix(['v', 'V']).unwrap_or(reference);
        digits.starts_with(|first: char| first.is_ascii_digit())
    };
    match reference.len() {
        40 if is_hex => None,
        7..40 if is_hex => Some(format!(
            "`{name}` is pinned to a shortened commit, which may come to mean another one"
        )),
        _ if looks_like_version => {
            Some(format!("`{name}` is used by the tag `{reference}`, which its owner can move"))
        }
        _ => Some(format!(
            "`{name}` is used by the branch or tag `{reference}`, which may change with every run"
        )),
    }
}

fn image(node: &Node) -> Option<Diagnostic> {
    let image = node.text()?.strip_prefix("docker://")?;
    if image.contains("@sha256:") || image.contains("${{") {
        return None;
    }
    let message = format!("the image `{image}` is used by a tag, which its owner can move");
    let help = format!("write `docker://{image}@sha256:<digest>`");
    Some(Diagnostic::warning(CHECK.code, node.span, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(uses: &str, expected: &[&str]) {
        let text = testing::steps(&format!("- uses: {uses}"));
        testing::check("unpinned-action", &text, expected);
    }

    #[test]
    fn names_that_can_move_are_found() {
        check(
            "actions/checkout@v4",
            &["7:15 `actions/checkout` is used by the tag `v4`, which its owner can move"],
        );
        check(
            "a/b/c@main",
            &["7:15 `a/b/c` is used by the branch or tag `main`, which may change with every run"],
        );
        check(
            "a/b@0123abc",
            &["7:15 `a/b` is pinned to a shortened commit, which may come to mean another one"],
        );
        check(
            "docker://alpine:3.20",
            &["7:15 the image `alpine:3.20` is used by a tag, which its owner can move"],
        );
    }

    #[test]
    fn a_called_workflow_counts_too() {
        let text = "on: push\njobs:\n  a:\n    uses: o/r/.github/workflows/w.yml@v1\n";
        let name = "o/r/.github/workflows/w.yml";
        let message = format!("4:11 `{name}` is used by the tag `v1`, which its owner can move");
        testing::check("unpinned-action", text, &[&message]);
        let text = "on: push\njobs:\n  a:\n    uses: ./.github/workflows/w.yml\n";
        testing::check("unpinned-action", text, &[]);
    }

    #[test]
    fn what_cannot_move_is_fine() {
        check("actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8", &[]);
        check("./.github/actions/x", &[]);
        check("docker://alpine@sha256:0123456789abcdef", &[]);
    }
}
