//! Comparisons of a full ref with a short name, or the other way round.

use kiln_core::value::Value;

use crate::diag::{Diagnostic, Severity};
use crate::expr::ast::{Comparison, Expr, ExprKind};

use super::context::{Context, MAX_IN_SCALAR};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "ref-comparison",
    summary: "a comparison of `github.ref` with a bare branch name",
    severity: Severity::Warning,
    why: "\
`github.ref` is a full ref such as `refs/heads/main`, while `github.ref_name`, `github.head_ref` and `github.base_ref` are
short names such as `main`. A comparison that mixes the two never holds (with `!=` it always does).",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    if: github.ref == 'main'
    runs-on: ubuntu-latest
    steps:
      - run: ./deploy
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    if: github.ref == 'refs/heads/main'
    runs-on: ubuntu-latest
    steps:
      - run: ./deploy
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for expression in &context.expressions {
        let mixed = expression.exprs().into_iter().flat_map(Expr::walk).filter_map(|expr| {
            let (message, help) = mixed(expr)?;
            let span = context.span(expression.node, expr.span.clone());
            Some(Diagnostic::warning(CHECK.code, span, message).help(help))
        });
        found.extend(mixed.take(MAX_IN_SCALAR));
    }
}

/// What is wrong with a comparison of a ref, and what was meant.
fn mixed(expr: &Expr) -> Option<(String, String)> {
    let ExprKind::Compare { operator, left, right } = &expr.kind else { return None };
    let outcome = match operator {
        Comparison::Equal => "never holds",
        Comparison::NotEqual => "always holds",
        _ => return None,
    };
    let (subject, literal) =
        if matches!(left.kind, ExprKind::Literal(_)) { (right, left) } else { (left, right) };
    let ExprKind::Literal(Value::String(text)) = &literal.kind else { return None };
    let subject = subject.to_string().to_ascii_lowercase();
    let is_full = text.to_ascii_lowercase().starts_with("refs/");
    match subject.as_str() {
        "github.ref" if !is_full && !text.is_empty() => Some((
            format!("this {outcome}: `github.ref` starts with `refs/`"),
            format!("compare `github.ref_name` with it, or write `'refs/heads/{text}'`"),
        )),
        "github.ref_name" | "github.head_ref" | "github.base_ref" if is_full => Some((
            format!("this {outcome}: `{subject}` is a short name without `refs/`"),
            format!("compare `github.ref` with it, or write `'{}'`", short_name(text)),
        )),
        _ => None,
    }
}

/// What is left of a ref without `refs/heads/` or `refs/tags/`.
fn short_name(full: &str) -> &str {
    full.splitn(3, '/').nth(2).unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(condition: &str, expected: &[&str]) {
        let text = testing::steps(&format!("- run: x\n  if: {condition}"));
        testing::check("ref-comparison", &text, expected);
    }

    #[test]
    fn short_and_full_names_do_not_meet() {
        check("github.ref == 'main'", &["8:13 this never holds: `github.ref` starts with `refs/`"]);
        check(
            "failure() && 'v1' != github.REF",
            &["8:26 this always holds: `github.ref` starts with `refs/`"],
        );
        check(
            "github.head_ref == 'refs/heads/x'",
            &["8:13 this never holds: `github.head_ref` is a short name without `refs/`"],
        );
    }

    #[test]
    fn names_of_the_same_kind_are_fine() {
        for fine in [
            "github.ref == 'refs/heads/main'",
            "github.ref_name == 'main'",
            "github.base_ref == ''",
            "startsWith(github.ref, 'refs/tags/')",
            "github.ref == github.event.ref",
        ] {
            check(fine, &[]);
        }
    }
}
