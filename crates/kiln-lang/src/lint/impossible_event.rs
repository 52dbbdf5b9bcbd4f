//! Comparisons with an event that never starts the workflow.

use kiln_core::value::Value;

use crate::diag::{Diagnostic, Severity};
use crate::expr::ast::{Comparison, Expr, ExprKind};
use crate::suggest::closest;

use super::context::{Context, MAX_IN_SCALAR};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "impossible-event",
    summary: "a comparison with an event that `on` does not list",
    severity: Severity::Warning,
    why: "\
`github.event_name` is always one of the events that `on` lists, so a comparison with another one never holds and what
depends on it never happens. Workflows that others can call see the event of their caller and are left alone.",
    bad: workflow(
        "\
on: [push, pull_request]
permissions: {}
jobs:
  nightly:
    if: github.event_name == 'schedule'
    runs-on: ubuntu-latest
    steps:
      - run: ./nightly
",
    ),
    good: workflow(
        "\
on:
  push:
  pull_request:
  schedule:
    - cron: '17 3 * * *'
permissions: {}
jobs:
  nightly:
    if: github.event_name == 'schedule'
    runs-on: ubuntu-latest
    steps:
      - run: ./nightly
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if !context.is_workflow() || context.listens_to("workflow_call") {
        return;
    }
    let events: Vec<&str> =
        context.document.events().iter().filter_map(|(name, _)| name.text()).collect();
    for expression in &context.expressions {
        let comparisons = expression.exprs().into_iter().flat_map(Expr::walk);
        let is_listed = |name: &str| events.iter().any(|event| event.eq_ignore_ascii_case(name));
        let impossible =
            comparisons.filter_map(compared_event).filter(|(name, _)| !is_listed(name));
        for (name, expr) in impossible.take(MAX_IN_SCALAR) {
            let span = context.span(expression.node, expr.span.clone());
            let message = format!("this never holds: `on` does not list the event `{name}`");
            let finding = Diagnostic::warning(CHECK.code, span, message);
            found.push(match closest(name, events.iter().copied()) {
                Some(meant) => finding.label(format!("did you mean `{meant}`?")),
                None => finding.help(format!("add `{name}` to `on`, or remove the comparison")),
            });
        }
    }
}

/// The event in `github.event_name == 'event'`, and where it is written.
fn compared_event(expr: &Expr) -> Option<(&str, &Expr)> {
    let ExprKind::Compare { operator: Comparison::Equal, left, right } = &expr.kind else {
        return None;
    };
    let (subject, literal) =
        if matches!(left.kind, ExprKind::Literal(_)) { (right, left) } else { (left, right) };
    let ExprKind::Literal(Value::String(name)) = &literal.kind else { return None };
    let is_event = subject.to_string().eq_ignore_ascii_case("github.event_name");
    (is_event && !name.is_empty()).then_some((name, &**literal))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(on: &str, condition: &str, expected: &[&str]) {
        let text = format!(
            "on: {on}\njobs:\n  a:\n    runs-on: x\n    if: {condition}\n    steps: [{{run: x}}]\n"
        );
        testing::check("impossible-event", &text, expected);
    }

    #[test]
    fn an_event_that_is_not_listed_is_found() {
        let message = "5:30 this never holds: `on` does not list the event `release`";
        check("[push]", "github.event_name == 'release'", &[message]);
        let message = "5:13 this never holds: `on` does not list the event `pull_requests`";
        check("pull_request", "${{ 'pull_requests' == github.event_name }}", &[message]);
    }

    #[test]
    fn listed_events_and_called_workflows_are_fine() {
        check("[push, release]", "github.event_name == 'release'", &[]);
        check("{push: , release: }", "github.event_name == 'Release'", &[]);
        check("[push, workflow_call]", "github.event_name == 'release'", &[]);
        check("push", "github.event_name != 'schedule'", &[]);
        check("push", "github.ref_name == 'release'", &[]);
    }
}
