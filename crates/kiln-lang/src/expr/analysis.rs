//! Questions that lints ask about an expression.

use std::fmt;
use std::ops::Range;

use kiln_core::value::Value;

use super::ast::{Expr, ExprKind};
use super::eval::{Env, StatusFunction, evaluate};

/// A way into a context, such as `github.event.issue.title`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextPath {
    /// The context and the properties in lower case; `*` where a filter, a number or a computed
    /// index picks the property.
    pub segments: Vec<String>,
    /// From the context to the end of the last property.
    pub span: Range<usize>,
}

impl ContextPath {
    pub fn context(&self) -> &str {
        self.segments.first().map_or("", String::as_str)
    }

    /// Whether the path is at or beneath the given one; `*` on either side matches anything.
    pub fn is_within(&self, prefix: &[&str]) -> bool {
        let matches =
            |(own, wanted): (&String, &&str)| own == wanted || own == "*" || *wanted == "*";
        self.segments.len() >= prefix.len() && self.segments.iter().zip(prefix).all(matches)
    }
}

impl fmt::Display for ContextPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.segments.join("."))
    }
}

/// All ways into contexts that an expression takes, in the order of the text.
///
/// Each is as long as it can be followed; those within an index are listed too.
pub fn context_paths(expr: &Expr) -> Vec<ContextPath> {
    let mut paths = Vec::new();
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        match path(expr, &mut stack) {
            Some(path) => paths.push(path),
            None => stack.extend(expr.children().rev()),
        }
    }
    paths.sort_by_key(|path| (path.span.start, path.span.end));
    paths
}

/// The path that a chain of properties forms, unless it starts at something else than a context.
///
/// Computed indices are handed to `pending`, as they hold expressions of their own.
fn path<'a>(expr: &'a Expr, pending: &mut Vec<&'a Expr>) -> Option<ContextPath> {
    let mut segments = Vec::new();
    let mut indices = Vec::new();
    let mut at = expr;
    loop {
        at = match &at.kind {
            ExprKind::Context(name) => {
                segments.push(name.to_ascii_lowercase());
                break;
            }
            ExprKind::Property { object, name, .. } => {
                segments.push(name.to_ascii_lowercase());
                object
            }
            ExprKind::Filter { object } => {
                segments.push("*".to_owned());
                object
            }
            ExprKind::Index { object, index } => {
                segments.push(index_segment(index));
                indices.push(&**index);
                object
            }
            _ => return None,
        };
    }
    segments.reverse();
    pending.extend(indices);
    Some(ContextPath { segments, span: expr.span.clone() })
}

fn index_segment(index: &Expr) -> String {
    match &index.kind {
        ExprKind::Literal(Value::String(name)) => name.to_ascii_lowercase(),
        _ => "*".to_owned(),
    }
}

/// Whether a status function is called anywhere in the tree.
pub fn calls_status_function(expr: &Expr) -> bool {
    expr.calls().any(|call| StatusFunction::from_name(&call.name).is_some())
}

/// The value of an expression that comes out the same whatever the contexts are.
///
/// Parts that evaluation never reaches do not count, so `false && github.ref` is constant.
pub fn constant(expr: &Expr) -> Option<Value> {
    struct Nothing;
    impl Env for Nothing {
        /// Lints evaluate every expression; nobody writes large constants in earnest.
        fn memory(&self) -> usize {
            64 << 10
        }
    }
    evaluate(expr, &Nothing).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::parse;

    fn tree(text: &str) -> Expr {
        parse(text).expect("valid").expect("not empty")
    }

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        let paths = context_paths(&tree(text));
        let found: Vec<(String, &str)> =
            paths.iter().map(|path| (path.to_string(), &text[path.span.clone()])).collect();
        let expect: Vec<(String, &str)> =
            expect.iter().map(|(path, place)| ((*path).to_owned(), *place)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn paths_are_normalised() {
        check(
            "GitHub.Event.issue.title",
            &[("github.event.issue.title", "GitHub.Event.issue.title")],
        );
        check("needs['X'].result", &[("needs.x.result", "needs['X'].result")]);
        check(
            "github.event.commits[0].message",
            &[("github.event.commits.*.message", "github.event.commits[0].message")],
        );
        check("a.*.b || c[*]", &[("a.*.b", "a.*.b"), ("c.*", "c[*]")]);
        check(
            "secrets[matrix.name].x == env[env.y]",
            &[
                ("secrets.*.x", "secrets[matrix.name].x"),
                ("matrix.name", "matrix.name"),
                ("env.*", "env[env.y]"),
                ("env.y", "env.y"),
            ],
        );
        check(
            "fromJSON(needs.a.outputs.b).c[(inputs).d]",
            &[("needs.a.outputs.b", "needs.a.outputs.b"), ("inputs.d", "(inputs).d")],
        );
        check("'github.ref'", &[]);
    }

    #[test]
    fn a_star_lies_within_every_name() {
        let path = &context_paths(&tree("github[x].title.more"))[0];
        assert_eq!(path.context(), "github");
        assert!(path.is_within(&["github", "event", "title"]));
        assert!(!path.is_within(&["github", "event", "body"]));
        assert!(!path.is_within(&["github", "event", "title", "more", "still"]));
    }

    #[test]
    fn constants_are_folded_as_far_as_evaluation_goes() {
        let value =
            |text: &str| constant(&tree(text)).and_then(|value| value.as_str().map(str::to_owned));
        assert_eq!(value("format('{0}-{1}', 1, 'a')").as_deref(), Some("1-a"));
        assert_eq!(value("'a' || github.ref").as_deref(), Some("a"));
        assert!(constant(&tree("github.ref || 'a'")).is_none());
        assert!(constant(&tree("always()")).is_none());
        assert!(constant(&tree("hashFiles('a')")).is_none());
        assert!(constant(&tree("fromJSON('')")).is_none());
    }

    #[test]
    fn a_status_function_counts_wherever_it_is_called_but_not_in_text() {
        assert!(calls_status_function(&tree("false && contains(a[ALWAYS()], 1)")));
        assert!(!calls_status_function(&tree("'always()' == success.failure")));
    }
}
