//! Which untrusted values can become part of the text that an expression yields.

use crate::expr::analysis::{ContextPath, context_paths};
use crate::expr::ast::{Expr, ExprKind, Logical};

/// What people without access to the repository can choose.
const UNTRUSTED: &[&[&str]] = &[
    &["github", "head_ref"],
    &["github", "event", "issue", "title"],
    &["github", "event", "issue", "body"],
    &["github", "event", "pull_request", "title"],
    &["github", "event", "pull_request", "body"],
    &["github", "event", "pull_request", "head", "ref"],
    &["github", "event", "pull_request", "head", "label"],
    &["github", "event", "pull_request", "head", "repo", "default_branch"],
    &["github", "event", "pull_request", "head", "repo", "description"],
    &["github", "event", "pull_request", "head", "repo", "homepage"],
    &["github", "event", "changes", "title", "from"],
    &["github", "event", "changes", "body", "from"],
    &["github", "event", "comment", "body"],
    &["github", "event", "review", "body"],
    &["github", "event", "review_comment", "body"],
    &["github", "event", "discussion", "title"],
    &["github", "event", "discussion", "body"],
    &["github", "event", "pages", "*", "page_name"],
    &["github", "event", "commits", "*", "message"],
    &["github", "event", "commits", "*", "author", "email"],
    &["github", "event", "commits", "*", "author", "name"],
    &["github", "event", "commits", "*", "committer", "email"],
    &["github", "event", "commits", "*", "committer", "name"],
    &["github", "event", "head_commit", "message"],
    &["github", "event", "head_commit", "author", "email"],
    &["github", "event", "head_commit", "author", "name"],
    &["github", "event", "head_commit", "committer", "email"],
    &["github", "event", "head_commit", "committer", "name"],
    &["github", "event", "workflow_run", "head_branch"],
    &["github", "event", "workflow_run", "display_title"],
    &["github", "event", "workflow_run", "head_commit", "message"],
    &["github", "event", "workflow_run", "head_commit", "author", "email"],
    &["github", "event", "workflow_run", "head_commit", "author", "name"],
    &["github", "event", "workflow_run", "pull_requests", "*", "head", "ref"],
];

/// A path whose value can flow into the text.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) path: ContextPath,
    /// Whether `toJSON` writes out everything beneath it.
    whole: bool,
}

impl Flow {
    /// Whether a stranger can choose what it holds.
    pub(super) fn is_untrusted(&self) -> bool {
        UNTRUSTED.iter().any(|pattern| {
            let beneath = self.path.segments.len() < pattern.len();
            // A path that ends above the value yields it only by `toJSON`.
            let same =
                |(own, wanted): (&String, &&str)| own == wanted || own == "*" || *wanted == "*";
            (self.whole || !beneath) && self.path.segments.iter().zip(*pattern).all(same)
        })
    }
}

/// The paths that can become part of what an expression yields.
///
/// Comparisons and functions that answer yes or no let nothing through.
pub(super) fn flows(expr: &Expr) -> Vec<Flow> {
    let mut found = Vec::new();
    let mut pending = vec![(expr, false)];
    while let Some((expr, whole)) = pending.pop() {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Not(_) | ExprKind::Compare { .. } => {}
            ExprKind::Context(_)
            | ExprKind::Property { .. }
            | ExprKind::Index { .. }
            | ExprKind::Filter { .. } => match base(expr) {
                Some(computed) => pending.push((computed, whole)),
                None => found.extend(own_path(expr).map(|path| Flow { path, whole })),
            },
            // All but the last operand come out only when they are empty.
            ExprKind::Logical { operator: Logical::And, operands } => {
                pending.extend(operands.last().map(|last| (last, whole)));
            }
            ExprKind::Logical { operator: Logical::Or, operands } => {
                pending.extend(operands.iter().map(|operand| (operand, whole)));
            }
            ExprKind::Call(call) => {
                let yes_or_no = ["contains", "startsWith", "endsWith", "hashFiles"];
                if !yes_or_no.into_iter().any(|name| call.is(name)) {
                    let whole = whole || call.is("toJSON");
                    pending.extend(call.arguments.iter().map(|argument| (argument, whole)));
                }
            }
        }
    }
    found.sort_by_key(|flow| flow.path.span.start);
    found
}

/// What a chain of properties starts at, unless that is a context.
fn base(expr: &Expr) -> Option<&Expr> {
    let mut at = expr;
    loop {
        at = match &at.kind {
            ExprKind::Property { object, .. }
            | ExprKind::Index { object, .. }
            | ExprKind::Filter { object } => object,
            ExprKind::Context(_) => return None,
            _ => return Some(at),
        };
    }
}

/// The path of a chain itself, without those in its indices.
fn own_path(expr: &Expr) -> Option<ContextPath> {
    context_paths(expr).into_iter().find(|path| path.span == expr.span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let expr = crate::expr::parse(text).unwrap().unwrap();
        let found: Vec<String> = flows(&expr)
            .into_iter()
            .filter(Flow::is_untrusted)
            .map(|flow| flow.path.to_string())
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn values_that_a_stranger_chooses_are_followed() {
        let title = "github.event.issue.title";
        check(title, &[title]);
        check("github.event['issue'].Title", &[title]);
        check("format('{0}', github.event.issue.title)", &[title]);
        check("github.event.issue.title || 'x'", &[title]);
        check("success() && github.event.issue.title", &[title]);
        check("github.event.commits[0].message", &["github.event.commits.*.message"]);
        check("join(github.event.commits.*.author.name)", &["github.event.commits.*.author.name"]);
        check("toJSON(github.event)", &["github.event"]);
        check("toJSON(github)", &["github"]);
        check("toJSON(github.event.issue)", &["github.event.issue"]);
        check("fromJSON(toJSON(github.event)).x", &["github.event"]);
    }

    #[test]
    fn values_that_cannot_carry_commands_are_left_alone() {
        for fine in [
            "github.event.issue.number",
            "github.event.issue",
            "contains(github.event.issue.title, 'x')",
            "github.event.issue.title == 'x'",
            "!github.head_ref",
            "github.event.issue.title && 'x'",
            "github.ref_name",
            "github.event.pull_request.head.sha",
            "toJSON(github.event.pull_request.number)",
            "hashFiles(github.head_ref)",
        ] {
            check(fine, &[]);
        }
    }
}
