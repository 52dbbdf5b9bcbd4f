//! Inputs of dispatched and called workflows.

use std::sync::Arc;

use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::expr::number;
use crate::workflow::Document;
use crate::yaml::{Entry, Node};

/// GitHub's limit on the inputs of `workflow_dispatch`.
const MAX_INPUTS: usize = 25;

pub(super) fn check(document: &Document, found: &mut Vec<Diagnostic>) {
    for event in ["workflow_dispatch", "workflow_call"] {
        let Some(inputs) =
            document.event(event).flatten().and_then(|settings| settings.get("inputs"))
        else {
            continue;
        };
        if event == "workflow_dispatch" && inputs.entries().len() > MAX_INPUTS {
            let span = inputs.entries()[MAX_INPUTS].key.span;
            let message = format!(
                "`workflow_dispatch` takes at most {MAX_INPUTS} inputs, this is number {}",
                MAX_INPUTS + 1
            );
            found.push(Diagnostic::error("too-many-inputs", span, message));
        }
        for input in inputs.entries() {
            check_input(input, event, found);
        }
    }
}

fn check_input(input: &Entry, event: &str, found: &mut Vec<Diagnostic>) {
    let kind = input.value.get("type").and_then(|kind| kind.text()).unwrap_or("string");
    let options = input.value.entry("options");
    if kind == "choice"
        && event == "workflow_dispatch"
        && options.is_none_or(|options| options.value.items().is_empty())
    {
        let message = format!("the choice input `{}` needs `options`", input.name());
        found.push(Diagnostic::error("missing-key", input.key.span, message));
    }
    if let Some(options) = options.filter(|_| kind != "choice") {
        let message = format!("`options` is only for inputs of type `choice`, this is a `{kind}`");
        found.push(
            Diagnostic::error("conflicting-keys", options.key.span, message)
                .help("set `type: choice`"),
        );
    }
    if let Some(default) = input.value.get("default") {
        check_default(default, kind, options.map(|options| &options.value), found);
    }
}

/// GitHub takes a number in quotes too.
fn is_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::String(text) => !text.trim().is_empty() && !number::parse(text).is_nan(),
        _ => false,
    }
}

fn check_default(
    default: &Arc<Node>,
    kind: &str,
    options: Option<&Arc<Node>>,
    found: &mut Vec<Diagnostic>,
) {
    let Some(scalar) = default.scalar().filter(|scalar| !scalar.text.contains("${{")) else {
        return;
    };
    let wanted = match (kind, &scalar.value) {
        ("boolean", value) if !matches!(value, Value::Bool(_)) => "`true` or `false`",
        ("number", value) if !is_number(value) => "a number",
        ("string" | "choice" | "environment", Value::Bool(_) | Value::Number(_)) => {
            // The table reads these as text; GitHub's parser wants a real string.
            return found.push(
                Diagnostic::error(
                    "wrong-type",
                    default.span,
                    format!(
                        "the default of a `{kind}` input must be a string, found {}",
                        default.describe()
                    ),
                )
                .help(format!("put it in quotes: '{}'", scalar.text)),
            );
        }
        ("choice", _) => {
            let options = options.map_or(&[][..], |options| options.items());
            if !options.is_empty()
                && !options.iter().any(|option| option.text() == Some(&*scalar.text))
            {
                let message = format!("the default `{}` is not among the options", scalar.text);
                found.push(Diagnostic::error("unknown-value", default.span, message));
            }
            return;
        }
        _ => return,
    };
    let message =
        format!("the default of a `{kind}` input must be {wanted}, found {}", default.describe());
    found.push(Diagnostic::error("wrong-type", default.span, message));
}
