//! Inputs that are compared as if they were of another type.

use kiln_core::value::Value;

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::{ContextPath, context_paths};
use crate::expr::ast::{Comparison, Expr, ExprKind, Logical};
use crate::schema::FoundKind;
use crate::yaml::Entry;

use super::context::{Context, Expression, MAX_IN_SCALAR};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "boolean-input",
    summary: "an input compared with a boolean of the wrong kind",
    severity: Severity::Warning,
    why: "\
An input of `type: boolean` is a real boolean, and a comparison of `true` with the text `'true'` is false: both sides become
numbers first, and the text becomes none. Inputs of actions and everything in `github.event.inputs` are the opposite: always
text, so that `== true` never holds, and `'false'` counts as true where a condition uses the input alone.",
    bad: workflow(
        "\
on:
  workflow_dispatch:
    inputs:
      dry-run:
        type: boolean
permissions: {}
jobs:
  publish:
    runs-on: ubuntu-latest
    steps:
      - run: ./publish
        if: inputs.dry-run != 'true'
",
    ),
    good: workflow(
        "\
on:
  workflow_dispatch:
    inputs:
      dry-run:
        type: boolean
permissions: {}
jobs:
  publish:
    runs-on: ubuntu-latest
    steps:
      - run: ./publish
        if: ${{ !inputs.dry-run }}
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let inputs = context.inputs();
    for expression in &context.expressions {
        let mixed = expression.exprs().into_iter().flat_map(Expr::walk).filter_map(|expr| {
            let (message, help) = mixed(expr, &inputs, context.is_workflow())?;
            let span = context.span(expression.node, expr.span.clone());
            Some(Diagnostic::warning(CHECK.code, span, message).help(help))
        });
        found.extend(mixed.take(MAX_IN_SCALAR));
        if !context.is_workflow() {
            text_as_condition(context, expression, &inputs, found);
        }
    }
}

/// Whether an input is text or a boolean at the place a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Boolean,
    Text,
}

fn input_kind(path: &ContextPath, inputs: &[&Entry], in_workflow: bool) -> Option<InputKind> {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["github", "event", "inputs", _] => Some(InputKind::Text),
        ["inputs", _] if !in_workflow => Some(InputKind::Text),
        ["inputs", name] => {
            let mut same = inputs.iter().filter(|input| input.name().eq_ignore_ascii_case(name));
            let boolean = |input: &Entry| {
                input.value.get("type").and_then(|kind| kind.text()) == Some("boolean")
            };
            // A workflow that is both called and dispatched may declare the input twice.
            let first = same.next()?;
            (boolean(first) && same.all(|input| boolean(input))).then_some(InputKind::Boolean)
        }
        _ => None,
    }
}

fn mixed(expr: &Expr, inputs: &[&Entry], in_workflow: bool) -> Option<(String, String)> {
    let ExprKind::Compare { operator, left, right } = &expr.kind else { return None };
    let outcome = match operator {
        Comparison::Equal => "never holds",
        Comparison::NotEqual => "always holds",
        _ => return None,
    };
    let (subject, literal) =
        if matches!(left.kind, ExprKind::Literal(_)) { (right, left) } else { (left, right) };
    let ExprKind::Literal(value) = &literal.kind else { return None };
    let paths = context_paths(subject);
    let path = paths.first().filter(|path| path.span == subject.span)?;
    let operator = operator.as_str();
    match (input_kind(path, inputs, in_workflow)?, value) {
        (InputKind::Boolean, Value::String(text)) => Some((
            format!("this {outcome}: `{subject}` is a boolean, and `'{text}'` is a text"),
            if matches!(&**text, "true" | "false") {
                format!("write `{subject} {operator} {text}`")
            } else {
                "compare it with `true` or `false`".to_owned()
            },
        )),
        (InputKind::Text, Value::Bool(boolean)) => Some((
            format!("this {outcome}: `{subject}` is a text, and `{boolean}` is a boolean"),
            format!("write `{subject} {operator} '{boolean}'`"),
        )),
        _ => None,
    }
}

/// An action's input used alone as a condition, when its default says that it is a flag.
fn text_as_condition(
    context: &Context<'_>,
    expression: &Expression<'_>,
    inputs: &[&Entry],
    found: &mut Vec<Diagnostic>,
) {
    let FoundKind::Condition(condition) = expression.found else { return };
    let mut pending: Vec<&Expr> = condition.exprs.iter().collect();
    while let Some(expr) = pending.pop() {
        match &expr.kind {
            ExprKind::Not(operand) => pending.push(operand),
            ExprKind::Logical { operator: Logical::And | Logical::Or, operands } => {
                pending.extend(operands);
            }
            _ => {
                let Some(default) = flag_default(expr, inputs) else { continue };
                let span = context.span(expression.node, expr.span.clone());
                let message =
                    format!("`{expr}` is a text, so it counts as true even when it is `'false'`");
                let finding = Diagnostic::warning(CHECK.code, span, message)
                    .related(default.key.span, "its default is a flag")
                    .help(format!("write `{expr} == 'true'`"));
                found.push(finding);
            }
        }
    }
}

fn flag_default<'i>(expr: &Expr, inputs: &[&'i Entry]) -> Option<&'i Entry> {
    let paths = context_paths(expr);
    let path = paths.first().filter(|path| path.span == expr.span)?;
    let [context, name] = path.segments.as_slice() else { return None };
    let input = inputs.iter().find(|input| input.name().eq_ignore_ascii_case(name))?;
    let default = input.value.get("default")?.text()?;
    (context == "inputs" && matches!(default, "true" | "false")).then_some(*input)
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check_workflow(condition: &str, expected: &[&str]) {
        let text = format!(
            "on:\n  workflow_dispatch:\n    inputs: {{flag: {{type: boolean}}, name: {{type: string}}}}\n\
             jobs:\n  a:\n    runs-on: x\n    if: {condition}\n    steps: [{{run: x}}]\n"
        );
        testing::check("boolean-input", &text, expected);
    }

    #[track_caller]
    fn check_action(condition: &str, expected: &[&str]) {
        let text = format!(
            "name: n\ndescription: d\ninputs: {{flag: {{default: 'false'}}, name: {{default: x}}}}\n\
             runs:\n  using: composite\n  steps:\n    - run: x\n      shell: bash\n      if: {condition}\n"
        );
        testing::check("boolean-input", &text, expected);
    }

    #[test]
    fn a_boolean_is_no_text() {
        check_workflow(
            "inputs.flag == 'true'",
            &["7:9 this never holds: `inputs.flag` is a boolean, and `'true'` is a text"],
        );
        check_workflow(
            "${{ 'false' != inputs['flag'] }}",
            &["7:13 this always holds: `inputs['flag']` is a boolean, and `'false'` is a text"],
        );
        check_workflow("inputs.flag == true", &[]);
        check_workflow("inputs.flag", &[]);
        check_workflow("inputs.name == 'true'", &[]);
        check_workflow("github.event.inputs.flag == 'true'", &[]);
    }

    #[test]
    fn text_is_no_boolean() {
        check_workflow(
            "github.event.inputs.flag == true",
            &[
                "7:9 this never holds: `github.event.inputs.flag` is a text, and `true` is a boolean",
            ],
        );
        check_action(
            "inputs.flag == true",
            &["9:11 this never holds: `inputs.flag` is a text, and `true` is a boolean"],
        );
        check_action(
            "failure() && inputs.flag",
            &["9:24 `inputs.flag` is a text, so it counts as true even when it is `'false'`"],
        );
        check_action("inputs.flag == 'true'", &[]);
        check_action("inputs.name", &[]);
        check_action("inputs.name == inputs.flag", &[]);
    }
}
