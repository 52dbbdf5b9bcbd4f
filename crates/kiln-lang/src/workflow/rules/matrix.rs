//! A matrix that is written out is expanded now, so that its faults show before anything runs.

use kiln_core::plan::matrix::expand;
use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::workflow::Job;
use crate::yaml::{Kind, Node};

pub(super) fn check(job: Job<'_>, found: &mut Vec<Diagnostic>) {
    let Some(strategy) = job.get("strategy") else { return };
    let Some(entry) = strategy.entry("matrix") else { return };
    let matrix = &entry.value;
    if !is_well_formed(matrix) || has_expression(matrix) {
        return;
    }
    let Value::Object(value) = matrix.to_value() else { return };
    if let Err(error) = expand(&value) {
        let at = place(matrix, &error.path).unwrap_or(entry.key.span);
        found.push(Diagnostic::error("matrix", at, error.to_string()));
    }
}

/// Whether the table found nothing to say about its shape.
fn is_well_formed(matrix: &Node) -> bool {
    matrix.is_mapping()
        && matrix.entries().iter().all(|entry| {
            let is_filter = matches!(entry.name(), "include" | "exclude");
            entry.value.is_sequence()
                && (!is_filter || entry.value.items().iter().all(|item| item.is_mapping()))
        })
}

/// Whether anything in the tree has to be evaluated first.
pub(crate) fn has_expression(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar(scalar) => scalar.text.contains("${{"),
        Kind::Sequence(items) => items.iter().any(|item| has_expression(item)),
        Kind::Mapping(entries) => {
            entries.iter().any(|entry| has_expression(&entry.key) || has_expression(&entry.value))
        }
    }
}

/// The key that a path such as `matrix.os` or `matrix.include[2]` names.
fn place(matrix: &Node, path: &str) -> Option<Span> {
    let name = path.strip_prefix("matrix.")?.split('[').next()?;
    matrix.entry(name).map(|entry| entry.key.span)
}
