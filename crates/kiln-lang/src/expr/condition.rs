//! The condition of an `if:`, completed as GitHub does.

use super::analysis::calls_status_function;
use super::ast::Expr;
use super::parser;
use super::template::{self, Template, TemplateError};

/// A condition that is ready to be evaluated.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The text to evaluate, which always asks for a status.
    pub text: String,
    /// The expression as it was written, without `${{ }}` around it.
    pub written: String,
    /// Whether `success()` was added, because nothing in the condition asks for a status.
    pub implied_success: bool,
    /// Whether text stands around `${{ }}`, as in `${{ a }} && b`. Such a condition is a string
    /// that is never empty, hence always true: surely not what was meant.
    pub always_truthy_text: bool,
    /// The expressions as written, with spans in the given text; none if it is empty.
    pub exprs: Vec<Expr>,
}

/// Completes the text of an `if:`, with or without `${{ }}` around it.
pub fn effective(text: &str) -> Result<Condition, Vec<TemplateError>> {
    match template::parse(text)? {
        Template::Literal(_) => {
            let expr = parser::parse(text, 0..text.len(), None).map_err(|error| vec![error])?;
            Ok(complete(text.trim(), expr.into_iter().collect(), false))
        }
        Template::Expr(template) => {
            let exprs = template.parts.into_iter().map(|part| part.expr).collect();
            Ok(complete(&template.text, exprs, template.mixed))
        }
    }
}

fn complete(text: &str, exprs: Vec<Expr>, always_truthy_text: bool) -> Condition {
    let implied_success = !exprs.iter().any(calls_status_function);
    let written = text.to_owned();
    let text = match (implied_success, exprs.is_empty()) {
        (_, true) => "success()".to_owned(),
        (true, false) => format!("success() && ({text})"),
        (false, false) => text.to_owned(),
    };
    Condition { text, written, implied_success, always_truthy_text, exprs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, effective_text: &str, implied: bool, trap: bool) {
        let condition = effective(text).expect(text);
        assert_eq!(condition.text, effective_text);
        assert_eq!((condition.implied_success, condition.always_truthy_text), (implied, trap));
        assert!(crate::expr::parse(&condition.text).is_ok());
    }

    #[test]
    fn success_is_implied_unless_a_status_function_is_called() {
        check("", "success()", true, false);
        check("  ", "success()", true, false);
        check("a == b", "success() && (a == b)", true, false);
        check("${{ a || b }}", "success() && (a || b)", true, false);
        check(" always() ", "always()", false, false);
        check("${{ a && !CANCELLED() }}", "a && !CANCELLED()", false, false);
        check("false && success('x')", "false && success('x')", false, false);
        check("contains('always()', a)", "success() && (contains('always()', a))", true, false);
    }

    #[test]
    fn text_around_an_expression_makes_the_condition_always_true() {
        check("${{ a }} && b", "success() && (format('{0} && b', a))", true, true);
        check("!${{ failure() }}", "format('!{0}', failure())", false, true);
        check("${{ a }}\n", "success() && (format('{0}\n', a))", true, true);
    }

    #[test]
    fn the_expressions_keep_their_places() {
        let text = "x ${{ a }} ${{ b }}";
        let condition = effective(text).expect("valid");
        let places: Vec<&str> =
            condition.exprs.iter().map(|expr| &text[expr.span.clone()]).collect();
        assert_eq!(places, ["a", "b"]);
    }

    #[test]
    fn errors_are_those_of_the_expression() {
        assert_eq!(effective(" a = b").expect_err("one equals sign")[0].span, 3..4);
        assert_eq!(effective("${{ a").expect_err("unclosed")[0].span, 0..3);
        assert_eq!(effective("${{ }}").expect_err("empty")[0].span, 0..6);
    }
}
