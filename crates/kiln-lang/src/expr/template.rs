//! Strings with `${{ … }}` inside.

use std::fmt::Write as _;
use std::ops::Range;

use kiln_core::value::Value;

use super::ast::{Expr, ExprKind};
use super::error::ExprError;
use super::parser::{self, MAX_DEPTH, check_length, too_deep};

/// An error in a string, with bytes of that string.
pub type TemplateError = ExprError;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// `format` takes this many values after its pattern.
const MAX_PARTS: usize = 254;

/// A string of a workflow, read.
#[derive(Debug, Clone)]
pub enum Template {
    /// No expression in it.
    Literal(String),
    Expr(TemplateExpr),
}

/// A string that holds expressions.
#[derive(Debug, Clone)]
pub struct TemplateExpr {
    /// The expressions in the order of the string.
    pub parts: Vec<Part>,
    /// The one expression that the string stands for, which keeps its type if the string is
    /// nothing but one `${{ }}`, and is a call of `format` otherwise.
    pub text: String,
    /// Whether there is text around the expressions, so that the value is always a string.
    pub mixed: bool,
}

/// One `${{ … }}`.
#[derive(Debug, Clone)]
pub struct Part {
    /// From the `$` to behind the last brace.
    pub range: Range<usize>,
    /// The expression, whose spans count within the whole string.
    pub expr: Expr,
}

/// Reads a string and reports all errors in its expressions.
pub fn parse(text: &str) -> Result<Template, Vec<TemplateError>> {
    if !text.contains(OPEN) {
        return Ok(Template::Literal(text.to_owned()));
    }
    let (parts, errors) = scan(text);
    if !errors.is_empty() {
        return Err(errors);
    }
    assemble(text, parts).map(Template::Expr).map_err(|error| vec![error])
}

/// The expressions of a string that can be read, and the errors of those that cannot.
pub fn scan(text: &str) -> (Vec<Part>, Vec<TemplateError>) {
    let mut parts = Vec::new();
    let mut errors = Vec::new();
    let mut from = 0;
    while let Some(found) = text[from..].find(OPEN) {
        let start = from + found;
        let inner = match inner_range(text, start) {
            Ok(inner) => inner,
            Err(end) => {
                errors.push(unclosed(&text[..end], start));
                from = end;
                continue;
            }
        };
        from = inner.end + CLOSE.len();
        match read_part(text, start..from, inner) {
            Ok(part) => parts.push(part),
            Err(error) => errors.push(error),
        }
    }
    (parts, errors)
}

/// What stands between the braces that open at `start`. Braces in a string do not close them. If
/// nothing closes them, the error is where the search ended: at the end of the text, or at further
/// braces on a later line, which surely start an expression of their own.
fn inner_range(text: &str, start: usize) -> Result<Range<usize>, usize> {
    let begin = start + OPEN.len();
    let bytes = text.as_bytes();
    let mut in_string = false;
    let mut same_line = true;
    for (at, byte) in bytes.iter().enumerate().skip(begin) {
        match byte {
            // A doubled quote leaves the string and enters it again at once.
            b'\'' => in_string = !in_string,
            b'}' if !in_string && bytes.get(at + 1) == Some(&b'}') => return Ok(begin..at),
            b'\n' => same_line = false,
            b'$' if !in_string && !same_line && text[at..].starts_with(OPEN) => return Err(at),
            _ => {}
        }
    }
    Err(text.len())
}

fn unclosed(text: &str, start: usize) -> TemplateError {
    let rest = &text[start..];
    let error = ExprError::parsing(start..start + OPEN.len(), "this `${{` is never closed");
    if rest.contains(CLOSE) {
        error.help("a quote before the `}}` opens a string that does not end; check the quotes")
    } else {
        error.help("end the expression with `}}`")
    }
}

fn read_part(text: &str, range: Range<usize>, inner: Range<usize>) -> Result<Part, TemplateError> {
    if let Some(expr) = parser::parse(text, inner, None)? {
        return Ok(Part { range, expr });
    }
    let error = ExprError::parsing(range, "an expression is missing between the braces");
    Err(error.help("to write the text `${{` itself, use `${{ '${{' }}`"))
}

/// Makes the one expression that the whole string stands for.
fn assemble(text: &str, parts: Vec<Part>) -> Result<TemplateExpr, TemplateError> {
    let inner =
        |part: &Part| text[part.range.start + OPEN.len()..part.range.end - CLOSE.len()].trim();
    if let [only] = parts.as_slice()
        && only.range == (0..text.len())
    {
        let text = inner(only).to_owned();
        return Ok(TemplateExpr { parts, text, mixed: false });
    }
    let mut pattern = String::with_capacity(text.len() + 16);
    let mut arguments = String::new();
    let mut from = 0;
    for (index, part) in parts.iter().enumerate() {
        escape_into(&mut pattern, &text[from..part.range.start]);
        pattern.extend(["{", &index.to_string(), "}"]);
        arguments.extend([", ", inner(part)]);
        from = part.range.end;
    }
    escape_into(&mut pattern, &text[from..]);
    let assembled = format!("format('{pattern}'{arguments})");
    check_assembled(text, &assembled, &parts)?;
    Ok(TemplateExpr { parts, text: assembled, mixed: true })
}

fn escape_into(pattern: &mut String, literal: &str) {
    for letter in literal.chars() {
        if matches!(letter, '\'' | '{' | '}') {
            pattern.push(letter);
        }
        pattern.push(letter);
    }
}

/// The limits hold for the assembled expression too; a long script can exceed them.
fn check_assembled(text: &str, assembled: &str, parts: &[Part]) -> Result<(), TemplateError> {
    let first = parts.first().map_or(0..text.len(), |part| part.range.clone());
    check_length(assembled, first).map_err(|error| {
        let message = "the text around this expression is longer than 21000 characters";
        let help = "pass the value through an environment variable, or move the text to a file";
        ExprError { message: message.to_owned(), ..error }.help(help)
    })?;
    if let Some(excess) = parts.get(MAX_PARTS) {
        let message = format!("a text cannot have more than {MAX_PARTS} expressions");
        return Err(ExprError::parsing(excess.range.clone(), message));
    }
    match parts.iter().find(|part| part.expr.height() == MAX_DEPTH) {
        Some(deep) => Err(too_deep(deep.range.clone())),
        None => Ok(()),
    }
}

/// An effective expression as a person would write it: `format('a {0}', x)` is `a ${{ x }}` again.
pub fn written(effective: &str) -> String {
    let expr = super::parse(effective).ok().flatten();
    let mixed = expr.as_ref().and_then(|expr| unformat(expr, effective));
    mixed.unwrap_or_else(|| format!("{OPEN} {effective} {CLOSE}"))
}

/// Undoes what [`parse`] did to a mixed string; `None` if this is another kind of expression.
fn unformat(expr: &Expr, text: &str) -> Option<String> {
    let ExprKind::Call(call) = &expr.kind else { return None };
    let [pattern, values @ ..] = call.arguments.as_slice() else { return None };
    let ExprKind::Literal(Value::String(pattern)) = &pattern.kind else { return None };
    if !call.is("format") || values.is_empty() {
        return None;
    }
    let mut result = String::new();
    let mut rest: &str = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        result.push_str(&rest[..at]);
        let brace = &rest[at..];
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            result.push_str(&brace[..1]);
            rest = after;
        } else {
            let (index, after) = brace[1..].split_once('}')?;
            let value = values.get(index.parse::<usize>().ok()?)?;
            let _ = write!(result, "{OPEN} {} {CLOSE}", &text[value.span.clone()]);
            rest = after;
        }
    }
    Some(result + rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr;

    #[track_caller]
    fn check(text: &str, effective: &str, parts: &[&str]) {
        let Template::Expr(template) = parse(text).expect(text) else {
            panic!("{text} has an expression");
        };
        assert_eq!(template.text, effective, "{text}");
        let found: Vec<&str> =
            template.parts.iter().map(|part| &text[part.expr.span.clone()]).collect();
        assert_eq!(found, parts, "{text}");
        assert!(expr::parse(&template.text).is_ok());
    }

    #[test]
    fn a_string_of_one_expression_is_that_expression() {
        check("${{ github.ref }}", "github.ref", &["github.ref"]);
        check("${{1}}", "1", &["1"]);
        check("${{ '}}' }}", "'}}'", &["'}}'"]);
        check("${{ 'it''s }}' }}", "'it''s }}'", &["'it''s }}'"]);
    }

    #[test]
    fn text_around_expressions_becomes_a_format_call() {
        check("a ${{ b }} c", "format('a {0} c', b)", &["b"]);
        check("${{ a }}${{ b }}", "format('{0}{1}', a, b)", &["a", "b"]);
        check("it's {${{ a }}}", "format('it''s {{{0}}}', a)", &["a"]);
        check(" ${{ a }}", "format(' {0}', a)", &["a"]);
        check("ü${{ a }}}", "format('ü{0}}}', a)", &["a"]);
    }

    #[test]
    fn a_string_without_expressions_is_left_alone() {
        for text in ["", "plain", "$ {{ a }}", "{{ a }}", "$${ a }"] {
            assert!(matches!(parse(text), Ok(Template::Literal(same)) if same == text));
        }
    }

    #[track_caller]
    fn check_errors(text: &str, expect: &[(Range<usize>, &str)]) {
        let errors = parse(text).expect_err(text);
        let found: Vec<_> =
            errors.iter().map(|error| (error.span.clone(), error.message.as_str())).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn errors_are_placed_within_the_string() {
        check_errors("ab ${{ c", &[(3..6, "this `${{` is never closed")]);
        check_errors("${{ 'a }}", &[(0..3, "this `${{` is never closed")]);
        check_errors("x${{ }}", &[(1..7, "an expression is missing between the braces")]);
        check_errors("x${{}}", &[(1..6, "an expression is missing between the braces")]);
        check_errors(
            "${{ a = b }} ${{ ok }} ${{ (c }}",
            &[(6..7, "unexpected `=`"), (27..28, "this parenthesis is never closed")],
        );
        check_errors("a ${{ b.", &[(2..5, "this `${{` is never closed")]);
        check_errors(
            "${{ a\n${{ b }} ${{ c = }}",
            &[(0..3, "this `${{` is never closed"), (21..22, "unexpected `=`")],
        );
    }

    #[test]
    fn the_help_for_an_unclosed_expression_knows_about_quotes() {
        let help = |text: &str| parse(text).expect_err(text)[0].help.clone().unwrap_or_default();
        assert!(help("${{ 'a }}").contains("quote"));
        assert!(help("${{ a").contains("end the expression"));
    }

    #[test]
    fn limits_hold_for_the_assembled_expression() {
        let long = format!("{}${{{{ a }}}}", "x".repeat(21_000));
        check_errors(
            &long,
            &[(21_000..21_008, "the text around this expression is longer than 21000 characters")],
        );
        let deep = format!("x${{{{ a{} }}}}", ".b".repeat(49));
        check_errors(&deep, &[(1..deep.len(), "the expression is nested deeper than 50 levels")]);
        let many = "${{ a }}".repeat(255);
        check_errors(&many, &[(2032..2040, "a text cannot have more than 254 expressions")]);
    }

    proptest! {
        #[test]
        fn literal_text_survives_the_format_call(before in "[a'{} $ü\n]{0,8}", after in "[a'{} ü\n]{0,8}") {
            prop_assume!(!before.contains(OPEN) && !before.ends_with('$'));
            let text = format!("{before}${{{{ 'x' }}}}{after}");
            let Ok(Template::Expr(template)) = parse(&text) else {
                return Err(TestCaseError::fail("it has one expression"));
            };
            let expr = expr::parse(&template.text).expect("assembled").expect("not empty");
            let value = expr::analysis::constant(&expr).expect("constant");
            let expect = format!("{before}x{after}");
            prop_assert_eq!(value.as_str(), Some(expect.as_str()));
        }

        #[test]
        fn any_string_is_read_or_refused_with_places_within_it(text in "[$'{}a.=( ü]{0,30}") {
            if let Err(errors) = parse(&text) {
                prop_assert!(!errors.is_empty());
                prop_assert!(errors.iter().all(|error| text.get(error.span.clone()).is_some()));
            }
        }
    }

    #[test]
    fn an_effective_expression_reads_as_it_was_written() {
        for text in
            ["a ${{ x }}", "${{ x }}", "{${{ a.b }}} it's ${{ f('x') }}!", "${{ a }}${{ b }}"]
        {
            let Ok(Template::Expr(template)) = parse(text) else {
                panic!("{text} has expressions")
            };
            assert_eq!(written(&template.text), text);
        }
        assert_eq!(written("format('{0}')"), "${{ format('{0}') }}");
    }
}
