//! Tests of the parser: shapes, spans, mistakes, limits and random input.

use proptest::prelude::*;

use super::*;
use crate::expr::{self, ErrorKind};

/// Every node with the text that its span covers.
fn spans(text: &str) -> Vec<String> {
    let expr = expr::parse(text).expect("valid").expect("not empty");
    expr.walk().map(|node| text[node.span.clone()].to_owned()).collect()
}

#[test]
fn spans_cover_what_a_node_was_read_from() {
    assert_eq!(
        spans(" (a.b).c['d'] != f( 1 )"),
        ["(a.b).c['d'] != f( 1 )", "(a.b).c['d']", "(a.b).c", "a.b", "a", "'d'", "f( 1 )", "1"]
    );
    assert_eq!(spans("!!(a || b)"), ["!!(a || b)", "!(a || b)", "a || b", "a", "b"]);
    assert_eq!(spans("'ü' == a.*"), ["'ü' == a.*", "'ü'", "a.*", "a"]);
}

#[test]
fn nothing_but_space_is_no_expression() {
    assert!(expr::parse("").expect("valid").is_none());
    assert!(expr::parse(" \n\t").expect("valid").is_none());
}

#[track_caller]
fn check_error(text: &str, span: Range<usize>, message: &str, help: &str) {
    let error = expr::parse(text).expect_err(text);
    assert_eq!(error.kind, ErrorKind::Parsing, "{text}");
    assert_eq!((error.span, error.message.as_str()), (span, message), "{text}");
    assert_eq!(error.help.unwrap_or_default(), help, "{text}");
}

#[test]
fn mistakes_are_explained_where_they_are() {
    check_error("a and b", 2..5, "unexpected `and`: an operator was expected", "write `&&`");
    check_error("a or (b)", 2..4, "unexpected `or`: an operator was expected", "write `||`");
    check_error(
        "not a",
        4..5,
        "unexpected `a`: an operator was expected",
        "write `!` for a logical not",
    );
    check_error("a * b", 2..3, "unexpected `*`: an operator was expected", NO_ARITHMETIC);
    check_error("a -1", 2..4, "unexpected `-1`: an operator was expected", NO_ARITHMETIC);
    check_error("(a && b", 0..1, "this parenthesis is never closed", "");
    check_error("f(a, b", 1..2, "this parenthesis is never closed", "");
    check_error("a[b", 1..2, "this bracket is never closed", "");
    check_error("a)", 1..2, "unexpected `)`: nothing was opened that this could close", "");
    check_error(
        "a ==",
        4..4,
        "unexpected end of the expression: a value is missing at the end",
        "",
    );
    check_error("f(a,)", 4..5, "unexpected `)`: a value was expected", "");
    check_error(
        "a.1",
        2..3,
        "unexpected `1`: a property name cannot be a number",
        "use an index: `[1]`",
    );
    check_error(
        "a.",
        2..2,
        "unexpected end of the expression: a property name must follow the dot",
        "",
    );
    check_error("'a'.b", 3..4, "unexpected `.`: a literal has no parts", "");
    check_error(
        "a.f(1)",
        3..4,
        "unexpected `(`: an operator was expected",
        "only functions can be called, not properties",
    );
    check_error("f(a b)", 4..5, "unexpected `b`: an operator or `)` was expected", "");
}

#[test]
fn a_literal_in_parentheses_may_be_dereferenced() {
    assert!(expr::parse("('a').b").is_ok());
}

#[track_caller]
fn check_too_deep(text: &str) {
    let error = expr::parse(text).expect_err("the limit refuses it");
    assert_eq!(error.message, "the expression is nested deeper than 50 levels");
}

#[test]
fn deep_expressions_are_refused_without_deep_recursion() {
    let long = 10_000;
    check_too_deep(&"(".repeat(long));
    check_too_deep(&"!".repeat(long));
    check_too_deep(&"f(".repeat(long));
    check_too_deep(&"a[".repeat(long));
    check_too_deep(&"!(".repeat(long));
    check_too_deep(&["a", &".b".repeat(long)].concat());
    check_too_deep(&["a", &"[0]".repeat(6000)].concat());
    check_too_deep(&["a", &"==a".repeat(6000)].concat());
    check_too_deep(&["a", &"<a".repeat(6000)].concat());
}

#[test]
fn the_limit_counts_nodes_above_each_other() {
    assert!(expr::parse(&["a", &".b".repeat(49)].concat()).is_ok());
    check_too_deep(&["a", &".b".repeat(50)].concat());
    // The parts of each level add up, even though the levels are read one after the other.
    check_too_deep(&format!("({}){}", ["a", &".b".repeat(30)].concat(), ".b".repeat(30)));
    assert!(expr::parse(&vec!["a"; 5000].join("||")).is_ok());
}

#[test]
fn long_expressions_are_refused_by_their_characters() {
    let text = |length: usize| format!("'{}'", "ü".repeat(length - 2));
    assert!(expr::parse(&text(MAX_LENGTH)).is_ok());
    let error = expr::parse(&text(MAX_LENGTH + 1)).expect_err("one too long");
    assert_eq!(error.message, "the expression is longer than 21000 characters");
}

const PIECES: &[&str] = &[
    "a", "github", "contains", "format", "true", "null", "NaN", "'s'", "'", "''", "1", "-.5",
    "0x1f", ".", "..", "*", "(", ")", "[", "]", ",", "!", "==", "!=", "=", "<", "<=", ">", "&&",
    "&", "||", "|", "+", "-", "/", "\"", " ", "\n", "ü", "😊", "${{", "}}", "\u{a0}", "\0",
];

/// A text that is certainly an expression.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("'it''s'".to_owned()),
        Just("null".to_owned()),
        any::<f64>().prop_filter("a literal", |number| !number.is_nan()).prop_map(number_text),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let operator =
            prop_oneof![Just("&&"), Just("||"), Just("=="), Just("!="), Just("<"), Just(">="),];
        prop_oneof![
            inner.clone().prop_map(|inner| format!("!{inner}")),
            inner.clone().prop_map(|inner| format!("({inner})")),
            inner.clone().prop_map(|inner| format!("({inner}).p-1.*[*]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("f({a},{b})[{a}]")),
            (inner.clone(), operator, inner).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        ]
    })
}

fn number_text(number: f64) -> String {
    expr::number::exact(number)
}

proptest! {
    #[test]
    fn random_tokens_never_panic_and_errors_lie_within_the_text(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        let text = pieces.concat();
        match expr::parse(&text) {
            Ok(None) => prop_assert!(text.trim().is_empty()),
            Ok(Some(expr)) => {
                for node in expr.walk() {
                    prop_assert!(text.get(node.span.clone()).is_some());
                }
            }
            Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error),
        }
    }

    #[test]
    fn the_canonical_text_reads_back_as_the_same_tree(text in expressions()) {
        let expr = expr::parse(&text).expect("generated to be valid").expect("not empty");
        let canonical = expr.to_string();
        let again = expr::parse(&canonical).expect("printed to be valid").expect("not empty");
        prop_assert_eq!(again.to_string(), canonical);
        let kinds = |expr: &Expr| expr.walk().map(|node| mem::discriminant(&node.kind)).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&again), kinds(&expr));
    }
}
