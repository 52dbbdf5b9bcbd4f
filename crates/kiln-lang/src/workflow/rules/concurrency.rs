//! `queue: max` keeps everyone, `cancel-in-progress` keeps no one: they exclude each other.

use std::sync::Arc;

use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::yaml::Node;

pub(super) fn check(concurrency: Option<&Arc<Node>>, found: &mut Vec<Diagnostic>) {
    let Some(node) = concurrency else { return };
    let (Some(queue), Some(cancel)) = (node.get("queue"), node.get("cancel-in-progress")) else {
        return;
    };
    let cancels = cancel.scalar().is_some_and(|scalar| matches!(scalar.value, Value::Bool(true)));
    if queue.text() == Some("max") && cancels {
        let message = "`queue: max` cannot be combined with `cancel-in-progress: true`";
        found.push(
            Diagnostic::error("conflicting-keys", queue.span, message)
                .related(cancel.span, "cancels what the queue would keep"),
        );
    }
}
