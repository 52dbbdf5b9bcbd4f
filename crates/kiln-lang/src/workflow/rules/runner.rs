//! Runner groups and containers.

use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::workflow::Job;
use crate::yaml::Node;

use super::matrix::has_expression;

pub(super) fn check(job: Job<'_>, found: &mut Vec<Diagnostic>) {
    if let Some(group) = job.get("runs-on").and_then(|runs_on| runs_on.get("group")) {
        check_group(group, found);
    }
    let container = job.node.entry("container");
    let services = job.get("services").map_or(&[][..], |services| services.entries());
    for entry in container.into_iter().chain(services) {
        check_image(&entry.key, &entry.value, found);
    }
}

/// A group may name the level it belongs to: `organization/name`.
fn check_group(group: &Arc<Node>, found: &mut Vec<Diagnostic>) {
    let Some(name) = group.text().filter(|name| !name.contains("${{")) else { return };
    let valid = match name.split('/').collect::<Vec<_>>().as_slice() {
        [_] => true,
        [level, name] => {
            matches!(*level, "org" | "organization" | "ent" | "enterprise") && !name.is_empty()
        }
        _ => false,
    };
    if !valid {
        let message = format!("`{name}` is not a runner group");
        found.push(
            Diagnostic::error("unknown-value", group.span, message)
                .help("write the group's name, or `organization/<name>` or `enterprise/<name>`"),
        );
    }
}

/// An empty text is no container, as is an expression that evaluates to nothing; a mapping that is
/// written out must name its image.
fn check_image(key: &Arc<Node>, container: &Arc<Node>, found: &mut Vec<Diagnostic>) {
    if container.is_mapping() && container.get("image").is_none() && !has_expression(container) {
        let message = "a container needs an image";
        found.push(Diagnostic::error("missing-key", key.span, message).help("add `image: …`"));
    }
}
