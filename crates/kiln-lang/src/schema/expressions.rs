//! The expressions of a document: parsed once, their names checked, kept for later stages.

use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::expr::condition;
use crate::expr::names::check_names;
use crate::expr::template::{self, Template};
use crate::expr::{Expr, ExprError};
use crate::yaml::{Entry, Node};

use super::Allowed;
use super::check::{Checker, Found, FoundKind};

/// How many faults are reported in one text. A place within a text is found by walking it, and a
/// text has room for thousands of faults.
const MAX_FAULTS: usize = 100;

impl Checker<'_> {
    /// Parses the expressions inside a string.
    pub(super) fn template(&mut self, node: &Arc<Node>, allowed: Allowed) {
        if !self.is_new(node, allowed) {
            return;
        }
        let text = node.text().unwrap_or_default();
        if allowed.is_empty() {
            let at = text.find("${{").unwrap_or(0);
            let end = text[at..].find("}}").map_or(text.len(), |end| at + end + 2);
            let span = node.locate(at..end, self.sources);
            self.report(
                Diagnostic::error("expression-not-allowed", span, "no expression can stand here")
                    .help("this value is read before a run exists; write it out"),
            );
            return;
        }
        match template::parse(text) {
            Ok(Template::Literal(_)) => {}
            Ok(Template::Expr(parsed)) => {
                self.names(parsed.parts.iter().map(|part| &part.expr), node, allowed);
                self.keep(node, FoundKind::Template(parsed), allowed);
            }
            Err(errors) => {
                // What can be read is still looked at, so that all faults come at once.
                let (parts, _) = template::scan(text);
                self.names(parts.iter().map(|part| &part.expr), node, allowed);
                self.expression_errors(node, &errors);
            }
        }
    }

    /// A key that the author chooses may itself be an expression, or `${{ insert }}`.
    pub(super) fn key_template(&mut self, entry: &Entry, allowed: Allowed) {
        if entry.name().contains("${{") && (allowed.is_empty() || !is_insert(entry)) {
            self.template(&entry.key, allowed);
        }
    }

    pub(super) fn condition(&mut self, node: &Arc<Node>, allowed: Allowed) {
        let Some(text) = node.text() else {
            let message = format!("expected a condition, found {}", node.describe());
            return self.report(Diagnostic::error("wrong-type", node.span, message));
        };
        if !self.is_new(node, allowed) {
            return;
        }
        match condition::effective(text) {
            Ok(parsed) => {
                self.names(parsed.exprs.iter(), node, allowed);
                self.keep(node, FoundKind::Condition(parsed), allowed);
            }
            Err(errors) => self.expression_errors(node, &errors),
        }
    }

    pub(super) fn names<'e>(
        &mut self,
        exprs: impl Iterator<Item = &'e Expr>,
        node: &Arc<Node>,
        allowed: Allowed,
    ) {
        let names = self.names.entry(allowed).or_insert_with(|| allowed.names());
        let errors: Vec<ExprError> = exprs.flat_map(|expr| check_names(expr, names)).collect();
        self.expression_errors(node, &errors);
    }

    pub(super) fn expression_errors(&mut self, node: &Node, errors: &[ExprError]) {
        for error in errors.iter().take(MAX_FAULTS) {
            let span = node.locate(error.span.clone(), self.sources);
            let found = Diagnostic::error("expression", span, error.message.clone());
            self.report(found.maybe_help(error.help.clone()));
        }
    }

    /// Whether a scalar has not been read yet at a place like this one. Aliases bring the same node
    /// to many places, and reading it costs what its text costs.
    fn is_new(&mut self, node: &Arc<Node>, allowed: Allowed) -> bool {
        self.read.insert((Arc::as_ptr(node), allowed))
    }

    pub(super) fn keep(&mut self, node: &Arc<Node>, kind: FoundKind, allowed: Allowed) {
        self.checked.by_node.insert(Arc::as_ptr(node), self.checked.found.len());
        self.checked.found.push(Found { node: node.clone(), kind, allowed });
    }
}

/// Whether a key is `${{ insert }}`, which takes in the entries of the mapping behind it.
pub(super) fn is_insert(entry: &Entry) -> bool {
    entry
        .name()
        .trim()
        .strip_prefix("${{")
        .and_then(|rest| rest.strip_suffix("}}"))
        .is_some_and(|inner| inner.trim() == "insert")
}
