//! Tests of evaluation beyond GitHub's vectors: statuses, files, limits and error places.

use std::cell::RefCell;

use super::*;
use crate::expr::{json, parse};

/// Contexts from JSON, and a record of the questions asked.
struct World {
    contexts: Object,
    asked: RefCell<Vec<String>>,
}

impl World {
    fn new(contexts: &str) -> Self {
        let Value::Object(contexts) = json::read(contexts).expect("valid JSON") else {
            panic!("contexts are an object");
        };
        Self { contexts: (*contexts).clone(), asked: RefCell::default() }
    }
}

impl Env for World {
    fn context(&self, name: &str) -> Option<Value> {
        self.asked.borrow_mut().push(name.to_owned());
        self.contexts.context(name)
    }

    fn status(&self, function: StatusFunction, jobs: &[String]) -> Result<bool, String> {
        self.asked.borrow_mut().push(format!("{}({})", function.name(), jobs.join(",")));
        Ok(function == StatusFunction::Success)
    }

    fn hash_files(&self, patterns: &[String]) -> Result<String, String> {
        if patterns.is_empty() { Err("nothing to hash".to_owned()) } else { Ok(patterns.join("+")) }
    }
}

fn run(text: &str, env: &dyn Env) -> Result<Value, ExprError> {
    let expr = parse(text).expect("valid").expect("not empty");
    evaluate(&expr, env)
}

#[track_caller]
fn check(contexts: &str, text: &str, expect: &str) {
    let value = run(text, &World::new(contexts)).expect(text);
    let compact = json::write(&value).expect("shallow").replace('\n', "").replace("  ", "");
    assert_eq!(compact, expect, "{text}");
}

#[test]
fn logical_operators_return_an_operand() {
    check("{}", "'a' && 'b'", "\"b\"");
    check("{}", "0 || 'x'", "\"x\"");
    check("{}", "'' || null", "null");
    check("{}", "true && 0 && nothing", "0");
}

#[test]
fn filters_map_and_drop_what_lacks_the_property() {
    let contexts = r#"{"a":{"x":{"p":1,"q":[1,2]},"y":{"q":[3]},"z":4}}"#;
    check(contexts, "a.*.p", "[1]");
    check(contexts, "a.*.q", "[[1,2],[3]]");
    check(contexts, "a.*.q.*", "[1,2,3]");
    check(contexts, "a.*.q[0]", "[1,3]");
    check(contexts, "(a.*).p", "[1]");
    check(contexts, "(false || a.*).p", "[1]");
    check(contexts, "fromJSON(toJSON(a.*)).p", "null");
    check(contexts, "a.z.*", "[]");
    check(contexts, "a.none.deeper", "null");
}

#[test]
fn indices_truncate_and_never_fail() {
    let contexts = r#"{"a":["zero","one"],"o":{"1":"x"}}"#;
    check(contexts, "a[1.9]", "\"one\"");
    check(contexts, "a['1']", "\"one\"");
    check(contexts, "a[1e300]", "null");
    check(contexts, "a[-0.5]", "null");
    check(contexts, "a.length", "null");
    check(contexts, "o[1]", "\"x\"");
}

#[test]
fn status_functions_and_files_ask_the_environment() {
    let world = World::new("{}");
    let value = run("success('a', 1) && !Failure() && hashFiles('x', 'y')", &world);
    assert_eq!(value.expect("the world answers").as_str(), Some("x+y"));
    assert_eq!(*world.asked.borrow(), ["success(a,1)", "failure()"]);
}

#[test]
fn contexts_are_asked_for_in_lower_case_and_only_when_needed() {
    let world = World::new(r#"{"github":{"ref":"r"}}"#);
    let value = run("case(true, GitHub.REF, other.a) || other", &world);
    assert_eq!(value.expect("the first is enough").as_str(), Some("r"));
    assert_eq!(*world.asked.borrow(), ["github"]);
}

#[track_caller]
fn check_error(text: &str, place: &str, message: &str) {
    let error = run(text, &Object::new()).expect_err(text);
    assert_eq!(error.kind, ErrorKind::Evaluation);
    assert_eq!((&text[error.span], error.message.as_str()), (place, message), "{text}");
}

#[test]
fn errors_point_at_what_failed() {
    check_error("1 == a.b", "a", "the context `a` has no value here");
    check_error("!always()", "always()", "`always()` has no meaning here");
    check_error("hashFiles('a')", "hashFiles('a')", "`hashFiles()` has no files here");
    check_error("nope(1)", "nope(1)", "unknown function `nope`");
    check_error("join()", "join", "`join` takes 1 to 2 arguments, but none was given");
    check_error("1 && fromJSON('')", "fromJSON('')", "`fromJSON` was given an empty string");
    check_error(
        "fromJSON('{a}')",
        "fromJSON('{a}')",
        "unexpected 'a' in the JSON at line 1, column 2",
    );
    check_error(
        "case('true', 1, 2)",
        "'true'",
        "a condition of `case` must be a boolean, not String",
    );
    check_error(
        "format('{0}{2}', 1, 2)",
        "format('{0}{2}', 1, 2)",
        "the format string wants argument `{2}`, but only 2 follow it",
    );
    check_error(
        "format('ab{x}')",
        "format('ab{x}')",
        "the format string has a lone brace at character 3; a brace is written twice, an argument \
         as `{0}`",
    );
    check_error(
        "format('{99999999999999999999999}')",
        "format('{99999999999999999999999}')",
        "the format string wants argument `{99999999999999999999999}`, but none follows it",
    );
}

#[test]
fn an_evaluation_that_multiplies_text_runs_out_of_memory() {
    // Each level has ten times the text of the one below.
    let grow = |inner: String| format!("format('{}', {inner})", "{0}".repeat(10));
    let text = (0..9).fold("'0123456789'".to_owned(), |inner, _| grow(inner));
    let error = run(&text, &Object::new()).expect_err("10 GB is too much");
    assert_eq!(error.message, "the evaluation needs more memory than it may use");
}

#[test]
fn shared_values_cannot_multiply_through_filters() {
    // Ten levels of one array that is its parent's only item, ten times over: 10^10 paths.
    let value = (0..10).fold(Value::from("x"), |item, _| Value::array(vec![item; 10]));
    let contexts: Object = [("a", value)].into_iter().collect();
    let error = run(&format!("a{}", ".*".repeat(10)), &contexts).expect_err("too many items");
    assert_eq!(error.message, "the evaluation needs more memory than it may use");
    let error = run("toJSON(a)", &contexts).expect_err("too much text");
    assert_eq!(error.message, "the evaluation needs more memory than it may use");
}

#[test]
fn searching_large_texts_again_and_again_is_refused() {
    let contexts: Object = [("a", Value::from("x".repeat(4 << 20)))].into_iter().collect();
    let text = vec!["contains(a, 'y')"; 100].join(" || ");
    let error = run(&text, &contexts).expect_err("400 MB are too much to look at");
    assert_eq!(error.message, "the evaluation takes too long on very large values");
}
