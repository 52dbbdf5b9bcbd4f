//! A need that waits for nothing more and is never read.

use std::collections::HashMap;

use kiln_core::graph::Graph;

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::calls_status_function;
use crate::workflow::Job;

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "unused-need",
    summary: "a need that another need already waits for, and that nothing reads",
    severity: Severity::Warning,
    why: "\
A job that needs `test`, which needs `build`, waits for `build` as well. Naming `build` too is worth it only to read
`needs.build`. Needs that give an order of their own are never reported, nor are those of a job whose condition asks for the
status of what went before.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps: [{run: ./build}]
  test:
    needs: build
    runs-on: ubuntu-latest
    steps: [{run: ./test}]
  publish:
    needs: [build, test]
    runs-on: ubuntu-latest
    steps: [{run: ./publish}]
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps: [{run: ./build}]
  test:
    needs: build
    runs-on: ubuntu-latest
    steps: [{run: ./test}]
  publish:
    needs: test
    runs-on: ubuntu-latest
    steps: [{run: ./publish}]
",
    ),
    run,
};

/// Larger workflows are not looked at.
const MAX_JOBS: usize = 500;

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let jobs: Vec<Job<'_>> = context.bodies.iter().filter_map(|body| body.job).collect();
    let index: HashMap<String, usize> =
        jobs.iter().enumerate().map(|(at, job)| (job.id().to_ascii_lowercase(), at)).collect();
    let place = |name: &str| index.get(&name.to_ascii_lowercase()).copied();
    let needs = |job: &Job<'_>| job.needs().iter().filter_map(|need| place(need.text()?)).collect();
    let Ok(graph) = Graph::new(jobs.iter().map(needs).collect()) else { return };
    // Each need asks for all ancestors of the others; graphs this large are made by programs.
    if graph.order().is_err() || jobs.len() > MAX_JOBS {
        return;
    }
    for (at, job) in jobs.iter().enumerate() {
        if graph.needs(at).len() < 2 || asks_for_status(context, *job) {
            continue;
        }
        for need in job.needs() {
            let Some(name) = need.text() else { continue };
            let Some(target) = place(name) else { continue };
            let others = graph.needs(at).iter().filter(|other| **other != target);
            let through = others.copied().find(|other| graph.ancestors(*other).contains(&target));
            let Some(through) = through else { continue };
            if context.reads(&["needs", &name.to_ascii_lowercase()]) {
                continue;
            }
            let message = format!(
                "`{}` already waits for `{name}`, and nothing reads it here",
                jobs[through].id()
            );
            let finding = Diagnostic::warning(CHECK.code, need.span, message);
            found.push(finding.help(format!("remove `{name}` from the needs of `{}`", job.id())));
        }
    }
}

/// `always()` and its like look at direct needs in people's minds; leave such jobs alone.
fn asks_for_status(context: &Context<'_>, job: Job<'_>) -> bool {
    let condition = job.get("if").and_then(|node| context.document.checked.condition(node));
    condition.is_some_and(|condition| condition.exprs.iter().any(calls_status_function))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(last: &str, expected: &[&str]) {
        let text = format!(
            "on: push\njobs:\n  a: {{runs-on: x}}\n  b: {{runs-on: x, needs: a}}\n  c: {{runs-on: x}}\n  \
             d: {{runs-on: x, {last}}}\n"
        );
        testing::check("unused-need", &text, expected);
    }

    #[test]
    fn a_need_that_is_implied_and_unread_is_found() {
        check("needs: [a, b]", &["6:27 `b` already waits for `a`, and nothing reads it here"]);
        check("needs: [b, c]", &[]);
        check("needs: [a, c]", &[]);
        check("needs: [a, b], name: '${{ needs.a.result }}'", &[]);
        check("needs: [a, b], if: always()", &[]);
    }
}
