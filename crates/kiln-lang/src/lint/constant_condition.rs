//! `if:` conditions that are always true or always false.

use std::collections::HashMap;
use std::ops::Range;

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::constant;
use crate::expr::ast::{Comparison, Expr, ExprKind, Logical};
use crate::expr::coerce::{equal, truthy};
use crate::expr::condition::Condition;
use crate::expr::template::{self, Template};
use crate::schema::FoundKind;
use kiln_core::value::Value;

use super::context::{Context, Expression};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "constant-condition",
    summary: "an `if` that is always true or always false",
    severity: Severity::Warning,
    why: "\
A condition that cannot come out the other way decides nothing. Mostly it is a trap of the language:

- Text outside `${{ }}` turns the whole condition into a string, and a string that is not empty is true. That is so for
  `${{ a }} && b`, for `!${{ a }}`, and for a block such as `if: |` whose last line break stands behind the `}}`.
- `x == 'a' || 'b'` compares only once; the text `'b'` alone counts as true.
- `x != 'a' || x != 'b'` always holds, and `x == 'a' && x == 'b'` never does.

Functions that ask for a status, such as `always()`, are no constants.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - run: ./deploy
        if: ${{ github.ref_name == 'main' }} && vars.DEPLOY == 'yes'
      - run: ./announce
        if: github.ref_name == 'main' || 'release'
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - run: ./deploy
        if: github.ref_name == 'main' && vars.DEPLOY == 'yes'
      - run: ./announce
        if: github.ref_name == 'main' || github.ref_name == 'release'
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for expression in &context.expressions {
        let FoundKind::Condition(condition) = expression.found else { continue };
        if condition.always_truthy_text {
            found.push(text_around(context, expression));
        } else {
            found.extend(decided(context, expression, condition));
        }
    }
}

fn text_around(context: &Context<'_>, expression: &Expression<'_>) -> Diagnostic {
    let text = expression.node.text().unwrap_or_default();
    let span = context.span(expression.node, 0..text.trim_end().len());
    let message = "this condition is always true: text outside `${{ }}` makes it a string";
    let help = match without_braces(text) {
        Some(fixed) if fixed.starts_with('!') => format!("write `if: ${{{{ {fixed} }}}}`"),
        Some(fixed) => format!("write `if: {fixed}`"),
        None => "put the whole condition inside one `${{ }}`".to_owned(),
    };
    Diagnostic::warning(CHECK.code, span, message).help(help)
}

/// The condition that was meant: what stands inside and outside the braces as one expression.
fn without_braces(text: &str) -> Option<String> {
    let Ok(Template::Expr(template)) = template::parse(text) else { return None };
    let mut fixed = String::new();
    let mut from = 0;
    for part in &template.parts {
        fixed.push_str(&text[from..part.range.start]);
        let inner = text[part.range.clone()].trim_start_matches("${{").trim_end_matches("}}");
        if needs_parentheses(&text[..part.range.start], &text[part.range.end..], &part.expr) {
            fixed.extend(["(", inner.trim(), ")"]);
        } else {
            fixed.push_str(inner.trim());
        }
        from = part.range.end;
    }
    fixed.push_str(&text[from..]);
    let fixed = fixed.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned();
    crate::expr::parse(&fixed).ok().flatten().map(|_| fixed)
}

/// Whether an expression needs parentheses once its braces are gone.
fn needs_parentheses(before: &str, after: &str, expr: &Expr) -> bool {
    let binds_tighter = |operator: &str| {
        before.trim_end().ends_with(operator) || after.trim_start().starts_with(operator)
    };
    match &expr.kind {
        ExprKind::Logical { operator: Logical::Or, .. } => {
            ["&&", "==", "!=", "!"].into_iter().any(binds_tighter)
        }
        ExprKind::Logical { operator: Logical::And, .. } => {
            ["==", "!=", "!"].into_iter().any(binds_tighter)
        }
        ExprKind::Compare { .. } => before.trim_end().ends_with('!'),
        _ => false,
    }
}

fn decided(
    context: &Context<'_>,
    expression: &Expression<'_>,
    condition: &Condition,
) -> Option<Diagnostic> {
    let [expr] = condition.exprs.as_slice() else { return None };
    let decision = decide(expr)?;
    let message = if decision.value {
        "this condition is always true".to_owned()
    } else {
        let what = match (expression.place.step, context.job(expression.place)) {
            (None, Some(job)) => format!("job `{}`", job.id()),
            (None, None) => "the script".to_owned(),
            _ => "the step".to_owned(),
        };
        format!("this condition is always false: {what} never runs")
    };
    let span = context.span(expression.node, expr.span.clone());
    let mut diagnostic = Diagnostic::warning(CHECK.code, span, message);
    if decision.span != expr.span {
        diagnostic = diagnostic
            .related(context.span(expression.node, decision.span.clone()), decision.reason.label());
    }
    Some(diagnostic.help(decision.reason.help(decision.value)))
}

/// What a condition comes out as, and the part that decides it.
struct Decision {
    value: bool,
    span: Range<usize>,
    reason: Reason,
}

#[derive(Clone)]
enum Reason {
    /// It is the same whatever happens.
    Constant,
    /// A text stands where a comparison was meant.
    BareText(String),
    /// The same thing is compared with two texts.
    TwoTexts { with_and: bool },
}

impl Reason {
    fn label(&self) -> &'static str {
        match self {
            Self::Constant => "this decides it",
            Self::BareText(_) => "a text that is not empty counts as true",
            Self::TwoTexts { with_and: true } => "these cannot both hold",
            Self::TwoTexts { with_and: false } => "one of these always holds",
        }
    }

    fn help(&self, value: bool) -> String {
        match self {
            Self::Constant if value => "remove the condition".to_owned(),
            Self::Constant => "remove what never runs, or mend the condition".to_owned(),
            Self::BareText(subject) => format!("repeat what is compared: `{subject}`"),
            Self::TwoTexts { with_and: true } => "use `||` between the two".to_owned(),
            Self::TwoTexts { with_and: false } => "use `&&` between the two".to_owned(),
        }
    }
}

/// The tree is never deeper than the parser's limit.
fn decide(expr: &Expr) -> Option<Decision> {
    if let Some(value) = constant(expr) {
        let value = truthy(&value);
        return Some(Decision { value, span: expr.span.clone(), reason: Reason::Constant });
    }
    match &expr.kind {
        ExprKind::Not(operand) => {
            let inner = decide(operand)?;
            Some(Decision { value: !inner.value, ..inner })
        }
        ExprKind::Logical { operator, operands } => decide_logical(*operator, operands),
        _ => None,
    }
}

fn decide_logical(operator: Logical, operands: &[Expr]) -> Option<Decision> {
    // One operand with this value settles all of it.
    let settles = operator == Logical::Or;
    let decisions: Vec<Option<Decision>> = operands.iter().map(decide).collect();
    let all_known = decisions.iter().all(Option::is_some);
    let mut known = decisions.into_iter().enumerate().filter_map(|(at, found)| Some((at, found?)));
    if let Some((at, decision)) = known.find(|(_, decision)| decision.value == settles) {
        let reason = bare_text(operands, at).unwrap_or(decision.reason);
        return Some(Decision { reason, ..decision });
    }
    let whole = || operands.first().zip(operands.last());
    if all_known {
        let (first, last) = whole()?;
        let span = first.span.start..last.span.end;
        return Some(Decision { value: !settles, span, reason: Reason::Constant });
    }
    two_texts(operator, operands)
}

/// `x == 'a' || 'b'`: the comparison that the bare text probably wants.
fn bare_text(operands: &[Expr], at: usize) -> Option<Reason> {
    let ExprKind::Literal(Value::String(_)) = &operands[at].kind else { return None };
    let previous = operands.get(at.checked_sub(1)?)?;
    let ExprKind::Compare { operator, left, .. } = &previous.kind else { return None };
    let subject = format!("{left} {} {}", operator.as_str(), operands[at]);
    Some(Reason::BareText(subject))
}

/// `x == 'a' && x == 'b'`, or `x != 'a' || x != 'b'`.
fn two_texts(operator: Logical, operands: &[Expr]) -> Option<Decision> {
    let wanted = match operator {
        Logical::And => Comparison::Equal,
        Logical::Or => Comparison::NotEqual,
    };
    let mut seen: HashMap<String, (&Expr, &Value)> = HashMap::new();
    for operand in operands {
        let Some((subject, text)) = compared_with_text(operand, wanted) else { continue };
        let (first, other) = *seen.entry(subject).or_insert((operand, text));
        if !equal(other, text) {
            let with_and = operator == Logical::And;
            return Some(Decision {
                value: !with_and,
                span: first.span.start..operand.span.end,
                reason: Reason::TwoTexts { with_and },
            });
        }
    }
    None
}

fn compared_with_text(expr: &Expr, wanted: Comparison) -> Option<(String, &Value)> {
    let ExprKind::Compare { operator, left, right } = &expr.kind else { return None };
    let ExprKind::Literal(value @ Value::String(_)) = &right.kind else { return None };
    let is_path = matches!(left.kind, ExprKind::Property { .. });
    (*operator == wanted && is_path).then(|| (left.to_string().to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    fn step(condition: &str) -> String {
        testing::steps(&format!("- run: x\n  if: {condition}"))
    }

    #[track_caller]
    fn check(condition: &str, expected: &[&str]) {
        testing::check("constant-condition", &step(condition), expected);
    }

    const TRUE: &str = "8:13 this condition is always true";
    const FALSE: &str = "8:13 this condition is always false: the step never runs";
    const TEXT: &str =
        "8:13 this condition is always true: text outside `${{ }}` makes it a string";

    #[test]
    fn constants_are_found() {
        check("true", &[TRUE]);
        check("false", &[FALSE]);
        check("1 == 2", &[FALSE]);
        check("github.ref && false", &[FALSE]);
        check("github.ref || true", &[TRUE]);
        check("github.ref_name == 'a' || 'b'", &[TRUE]);
        check("github.ref_name == 'a' && github.ref_name == 'b'", &[FALSE]);
        check("github.ref_name != 'a' || github.REF_NAME != 'b'", &[TRUE]);
        check("${{ '' }}", &["8:17 this condition is always false: the step never runs"]);
    }

    #[test]
    fn text_around_braces_is_found_and_mended() {
        for (condition, fix) in [
            ("${{ github.ref }} && env.X == 'y'", "write `if: github.ref && env.X == 'y'`"),
            ("${{ env.A || env.B }} && env.C", "write `if: (env.A || env.B) && env.C`"),
            ("${{ env.A == 'x' }} || ${{ env.B }}", "write `if: env.A == 'x' || env.B`"),
            ("\"!${{ env.A }}\"", "write `if: ${{ !env.A }}`"),
            ("main ${{ env.A }}", "put the whole condition inside one `${{ }}`"),
        ] {
            let place = if condition.starts_with('"') { "8:14" } else { "8:13" };
            check(condition, &[&TEXT.replace("8:13", place)]);
            assert_eq!(testing::help("constant-condition", &step(condition)), fix);
        }
        check("|\n    ${{ github.ref }}", &[&TEXT.replace("8:13", "9:11")]);
    }

    #[test]
    fn a_job_that_never_runs_is_named() {
        let text = "on: push\njobs:\n  a:\n    if: ${{ false }}\n    runs-on: x\n";
        let message = "4:13 this condition is always false: job `a` never runs";
        testing::check("constant-condition", text, &[message]);
    }

    #[test]
    fn an_action_s_script_that_never_runs_is_found() {
        let text = "name: n\ndescription: d\nruns:\n  using: node24\n  main: a.js\n  post: b.js\n  \
                    post-if: false\n";
        let message = "7:12 this condition is always false: the script never runs";
        testing::check("constant-condition", text, &[message]);
    }

    #[test]
    fn what_may_come_out_either_way_is_fine() {
        for fine in [
            "always()",
            "${{ always() }}",
            "success() || failure()",
            "${{ !cancelled() }}",
            "github.ref_name == 'a' || github.ref_name == 'A' || failure()",
            "github.ref_name == 'a' && github.ref_name == 'A'",
            "github.ref_name == 'a' && github.sha == 'b'",
            "github.ref_name != 'a' && github.ref_name != 'b'",
            "always() && true",
            "fromJSON(env.X) || false",
            "contains('a b', github.ref_name)",
        ] {
            check(fine, &[]);
        }
    }
}
