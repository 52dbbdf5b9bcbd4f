//! Actions written for a version of Node that is gone.

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, action};

pub(super) const CHECK: Check = Check {
    code: "deprecated-runtime",
    summary: "an action for a version of Node that is no longer there",
    severity: Severity::Warning,
    why: "\
Runners no longer bring Node 12 and 16. A newer version runs the action in their place, which may break what the action relies
on. Say the version that the action is tested with.",
    bad: action(
        "\
name: Greet
description: Says hello
runs:
  using: node16
  main: dist/index.js
",
    ),
    good: action(
        "\
name: Greet
description: Says hello
runs:
  using: node24
  main: dist/index.js
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if context.is_workflow() {
        return;
    }
    let using = context.document.root.get("runs").and_then(|runs| runs.get("using"));
    let Some(node) = using else { return };
    if let Some(version @ ("node12" | "node16")) = node.text() {
        let message = format!("`{version}` is gone: a newer Node runs this action");
        found.push(Diagnostic::warning(CHECK.code, node.span, message).help("write `node24`"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(using: &str, expected: &[&str]) {
        let text = format!("name: n\ndescription: d\nruns:\n  using: {using}\n  main: a.js\n");
        testing::check("deprecated-runtime", &text, expected);
    }

    #[test]
    fn old_versions_are_found() {
        check("node12", &["4:10 `node12` is gone: a newer Node runs this action"]);
        check("node16", &["4:10 `node16` is gone: a newer Node runs this action"]);
        check("node20", &[]);
        check("node24", &[]);
    }
}
