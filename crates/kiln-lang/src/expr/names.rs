//! The contexts and functions that a place offers, and the check of an expression against them.

use std::ops::Range;

use crate::suggest::closest;

use super::ast::{Expr, ExprKind};
use super::error::ExprError;

/// All contexts that GitHub has anywhere.
pub const CONTEXTS: &[&str] = &[
    "github", "env", "vars", "job", "jobs", "steps", "runner", "secrets", "strategy", "matrix",
    "needs", "inputs",
];

/// A function and how many arguments it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The name as the documentation spells it; calls ignore case.
    pub name: &'static str,
    pub min: usize,
    pub max: usize,
}

const fn function(name: &'static str, min: usize, max: usize) -> Function {
    Function { name, min, max }
}

/// The functions that every place offers.
pub const BUILT_IN: &[Function] = &[
    function("format", 1, 255),
    function("join", 1, 2),
    function("contains", 2, 2),
    function("startsWith", 2, 2),
    function("endsWith", 2, 2),
    function("toJSON", 1, 1),
    function("fromJSON", 1, 1),
    function("case", 3, usize::MAX),
];

pub const HASH_FILES: Function = function("hashFiles", 1, 255);

/// What the condition of a job may call; `success` and `failure` take the ids of jobs.
pub const JOB_CONDITION: &[Function] = &[
    function("success", 0, usize::MAX),
    function("always", 0, 0),
    function("cancelled", 0, 0),
    function("failure", 0, usize::MAX),
];

/// What the condition of a step may call.
pub const STEP_CONDITION: &[Function] = &[
    function("success", 0, 0),
    function("always", 0, 0),
    function("cancelled", 0, 0),
    function("failure", 0, 0),
    HASH_FILES,
];

/// What other keys of a step may call.
pub const STEP: &[Function] = &[HASH_FILES];

/// What one place in a workflow offers, besides the built-in functions.
#[derive(Debug, Clone)]
pub struct Names {
    contexts: Contexts,
    functions: &'static [Function],
}

#[derive(Debug, Clone)]
enum Contexts {
    Fixed(&'static [&'static str]),
    Owned(Vec<String>),
}

impl Names {
    pub const fn new(contexts: &'static [&'static str], functions: &'static [Function]) -> Self {
        Self { contexts: Contexts::Fixed(contexts), functions }
    }

    /// Contexts that are only known at run time, for `kiln eval`.
    pub fn with_contexts(
        contexts: impl IntoIterator<Item = impl Into<String>>,
        functions: &'static [Function],
    ) -> Self {
        let contexts = contexts.into_iter().map(Into::into).collect();
        Self { contexts: Contexts::Owned(contexts), functions }
    }

    pub fn has_context(&self, name: &str) -> bool {
        self.contexts().any(|context| context.eq_ignore_ascii_case(name))
    }

    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        let (fixed, owned): (&[&str], &[String]) = match &self.contexts {
            Contexts::Fixed(names) => (names, &[]),
            Contexts::Owned(names) => (&[], names),
        };
        fixed.iter().copied().chain(owned.iter().map(String::as_str))
    }

    /// The built-in functions and those of the place.
    pub fn functions(&self) -> impl Iterator<Item = &'static Function> {
        BUILT_IN.iter().chain(self.functions)
    }

    pub(super) fn check_context(&self, name: &str, span: Range<usize>) -> Result<(), ExprError> {
        if self.has_context(name) {
            return Ok(());
        }
        if let Some(known) = CONTEXTS.iter().find(|known| known.eq_ignore_ascii_case(name)) {
            let error =
                ExprError::parsing(span, format!("the context `{known}` is not available here"));
            return Err(error.help(self.way_out(known)));
        }
        let error = ExprError::parsing(span, format!("unknown context `{name}`"))
            .help(offer(self.contexts()));
        if self.functions().any(|function| function.name.eq_ignore_ascii_case(name)) {
            return Err(error.help(format!("`{name}` is a function; call it with `{name}(…)`")));
        }
        Err(match name.to_ascii_lowercase().as_str() {
            "and" => error.help("write `&&` for a logical and"),
            "or" => error.help("write `||` for a logical or"),
            "not" => error.help("write `!` for a logical not"),
            _ if is_constant(name) && self.has_context("env") => {
                error.help(format!("did you mean `env.{name}`?"))
            }
            _ if is_constant(name) && self.has_context("vars") => {
                error.help(format!("did you mean `vars.{name}`?"))
            }
            _ => {
                let literals = ["true", "false", "null", "NaN", "Infinity"];
                suggest(error, name, self.contexts().chain(literals))
            }
        })
    }

    /// Only conditions can ask for the status of what ran before.
    fn is_condition(&self) -> bool {
        find(self.functions(), "always").is_some()
    }

    /// What to do instead of using a context that this place does not offer.
    fn way_out(&self, context: &str) -> String {
        let in_step = self.has_context("steps");
        let advice = match context {
            "secrets" if in_step && self.is_condition() => {
                "set an `env` variable of the job or step from the secret and test that"
            }
            "secrets" if self.is_condition() => {
                "test it in a step: set an `env` variable from the secret there"
            }
            "secrets" if in_step => "an action gets a secret only as an input from its caller",
            "secrets" => "secrets exist only in `env`, in steps and in calls of workflows",
            "matrix" | "strategy" => {
                "this is evaluated before the matrix makes its jobs; use it inside them"
            }
            "env" => "`env` exists only where steps run; `vars` is known everywhere",
            "steps" | "job" | "runner" => "it exists only while the steps of a job run",
            "needs" => "it exists only inside jobs",
            "jobs" => "it exists only in the outputs of `workflow_call`; use `needs` inside jobs",
            _ => "",
        };
        let offered = offer(self.contexts());
        if advice.is_empty() { offered } else { format!("{advice}; {offered}") }
    }

    pub(super) fn check_function(&self, name: &str, span: Range<usize>) -> Result<(), ExprError> {
        if self.functions().any(|function| function.name.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let offered = offer(self.functions().map(|function| function.name));
        let mut elsewhere = STEP_CONDITION.iter();
        if let Some(known) = elsewhere.find(|known| known.name.eq_ignore_ascii_case(name)) {
            let known = known.name;
            let error =
                ExprError::parsing(span, format!("the function `{known}` is not available here"));
            return Err(error.help(offered));
        }
        let error = ExprError::parsing(span, format!("unknown function `{name}`")).help(offered);
        let names = self.functions().map(|function| function.name);
        Err(suggest(error, name, names))
    }

    pub(super) fn check_arguments(
        &self,
        name: &str,
        count: usize,
        span: Range<usize>,
    ) -> Result<(), ExprError> {
        match find(self.functions(), name) {
            Some(function) => function.check_arguments(count, span),
            None => Ok(()),
        }
    }
}

impl Function {
    pub(super) fn check_arguments(
        &self,
        count: usize,
        span: Range<usize>,
    ) -> Result<(), ExprError> {
        let name = self.name;
        if name == "case" && count >= self.min && count.is_multiple_of(2) {
            let message =
                format!("`case` takes an odd number of arguments, but {count} were given");
            return Err(ExprError::parsing(span, message)
                .help("give pairs of a condition and a value, and the default value at the end"));
        }
        if (self.min..=self.max).contains(&count) {
            return Ok(());
        }
        let wanted = match (self.min, self.max) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (min, max) if min == max => format!("{min} arguments"),
            (min, usize::MAX) => format!("at least {min} arguments"),
            (min, max) => format!("{min} to {max} arguments"),
        };
        let given = match count {
            0 => "none was given".to_owned(),
            1 => "one was given".to_owned(),
            _ => format!("{count} were given"),
        };
        Err(ExprError::parsing(span, format!("`{name}` takes {wanted}, but {given}")))
    }
}

/// The function of this name, in any case.
pub(super) fn find<'a>(
    mut functions: impl Iterator<Item = &'a Function>,
    name: &str,
) -> Option<&'a Function> {
    functions.find(|function| function.name.eq_ignore_ascii_case(name))
}

/// All names in an expression that the place does not offer, and all wrong argument counts.
pub fn check_names(expr: &Expr, names: &Names) -> Vec<ExprError> {
    let checked = expr.walk().filter_map(|node| {
        match &node.kind {
            ExprKind::Context(name) => names.check_context(name, node.span.clone()),
            ExprKind::Call(call) => {
                names.check_function(&call.name, call.name_span.clone()).and_then(|()| {
                    let count = call.arguments.len();
                    names.check_arguments(&call.name, count, call.name_span.clone())
                })
            }
            _ => Ok(()),
        }
        .err()
    });
    checked.collect()
}

/// Whether a name is written like an environment variable.
fn is_constant(name: &str) -> bool {
    name.len() > 1 && name.chars().all(|char| char.is_ascii_uppercase() || char == '_')
}

/// What a place offers, as the end of a sentence.
fn offer<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => "this place has none".to_owned(),
        [only] => format!("this place has `{only}`"),
        [first @ .., last] => format!("this place has `{}` and `{last}`", first.join("`, `")),
    }
}

fn suggest<'a>(
    error: ExprError,
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> ExprError {
    match closest(name, candidates) {
        Some(meant) => error.help(format!("did you mean `{meant}`?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{parse, parse_checked};

    const PLACE: Names = Names::new(&["github", "needs"], JOB_CONDITION);

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str, &str)]) {
        let expr = parse(text).expect("valid").expect("not empty");
        let errors = check_names(&expr, &PLACE);
        let found: Vec<_> = errors
            .iter()
            .map(|error| {
                (&text[error.span.clone()], &*error.message, error.help.as_deref().unwrap_or(""))
            })
            .collect();
        assert_eq!(found, expect, "{text}");
        assert_eq!(parse_checked(text, &PLACE).err().as_ref(), errors.first(), "{text}");
    }

    #[test]
    fn known_names_pass_in_any_case() {
        check("GitHub.ref && NEEDS.a && Success() && TOJSON(github) && failure('a', 'b')", &[]);
        check("github.matrix", &[]);
    }

    #[test]
    fn every_unknown_name_is_reported() {
        check(
            "gihub.ref == True && contans(needs, 'a')",
            &[
                ("gihub", "unknown context `gihub`", "did you mean `github`?"),
                ("True", "unknown context `True`", "did you mean `true`?"),
                ("contans", "unknown function `contans`", "did you mean `contains`?"),
            ],
        );
    }

    #[test]
    fn a_name_that_belongs_elsewhere_is_told_apart_from_an_unknown_one() {
        check(
            "Matrix.os == hashfiles('a')",
            &[
                (
                    "Matrix",
                    "the context `matrix` is not available here",
                    "this is evaluated before the matrix makes its jobs; use it inside them; \
                     this place has `github` and `needs`",
                ),
                (
                    "hashfiles",
                    "the function `hashFiles` is not available here",
                    "this place has `format`, `join`, `contains`, `startsWith`, `endsWith`, `toJSON`, \
                     `fromJSON`, `case`, `success`, `always`, `cancelled` and `failure`",
                ),
            ],
        );
        let nothing = Names::new(&[], &[]);
        let error = parse_checked("env.a", &nothing).expect_err("there are no contexts");
        assert_eq!(error.message, "the context `env` is not available here");
    }

    #[test]
    fn words_for_operators_and_functions_without_parentheses_get_help() {
        let unknown = |name: &str| format!("unknown context `{name}`");
        check("not == 1", &[("not", &unknown("not"), "write `!` for a logical not")]);
        check(
            "always",
            &[("always", &unknown("always"), "`always` is a function; call it with `always(…)`")],
        );
    }

    #[test]
    fn arguments_are_counted() {
        check("join()", &[("join", "`join` takes 1 to 2 arguments, but none was given", "")]);
        check(
            "contains(1)",
            &[("contains", "`contains` takes 2 arguments, but one was given", "")],
        );
        check("always(1)", &[("always", "`always` takes no arguments, but one was given", "")]);
        check("toJSON(1,2)", &[("toJSON", "`toJSON` takes one argument, but 2 were given", "")]);
        check(
            "case(true)",
            &[("case", "`case` takes at least 3 arguments, but one was given", "")],
        );
        check(
            "case(true, 1, false, 2)",
            &[(
                "case",
                "`case` takes an odd number of arguments, but 4 were given",
                "give pairs of a condition and a value, and the default value at the end",
            )],
        );
    }

    #[test]
    fn checked_parsing_reports_the_first_error_of_the_text() {
        let first = |text: &str| parse_checked(text, &PLACE).expect_err(text).span;
        assert_eq!(first("github.a && foo.b = 1"), 12..15);
        assert_eq!(first("github = foo"), 7..8);
        assert_eq!(first("foo(bar"), 0..3);
        assert_eq!(first("join(bar, "), 5..8);
    }
}
