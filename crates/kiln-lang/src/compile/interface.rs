//! What dispatched and called workflows take and give.

use kiln_core::plan::{CallInterface, Input, InputKind, SecretInput, Template};
use kiln_core::value::Value;

use crate::expr::number;
use crate::workflow::Document;
use crate::yaml::{Entry, Node};

use super::data;

/// The inputs of `workflow_dispatch`.
pub(super) fn dispatch(document: &Document) -> Vec<Input> {
    let settings = document.event("workflow_dispatch").flatten();
    settings
        .and_then(|node| node.get("inputs"))
        .map_or_else(Vec::new, |node| inputs(document, node))
}

/// What `workflow_call` declares; `None` when the file does not listen to it.
pub(super) fn call(document: &Document) -> Option<CallInterface> {
    let Some(settings) = document.event("workflow_call")? else {
        return Some(CallInterface::default());
    };
    let entries = |key: &str| settings.get(key).map_or(&[][..], |node| node.entries());
    let output = |entry: &Entry| {
        let value = entry.value.get("value")?;
        Some((entry.name().to_owned(), data::text(document, value)))
    };
    let secret = |entry: &Entry| SecretInput {
        name: entry.name().to_owned(),
        required: is_true(entry.value.get("required").map(|node| &**node)),
    };
    Some(CallInterface {
        inputs: settings.get("inputs").map_or_else(Vec::new, |node| inputs(document, node)),
        secrets: entries("secrets").iter().map(secret).collect(),
        outputs: entries("outputs").iter().filter_map(output).collect(),
    })
}

fn inputs(document: &Document, node: &Node) -> Vec<Input> {
    node.entries().iter().map(|entry| input(document, entry)).collect()
}

fn input(document: &Document, entry: &Entry) -> Input {
    let get = |key: &str| entry.value.get(key);
    let text = |key: &str| get(key).and_then(|node| node.text());
    let kind = match text("type") {
        Some("boolean") => InputKind::Boolean,
        Some("number") => InputKind::Number,
        Some("environment") => InputKind::Environment,
        Some("choice") => {
            let options = get("options").map_or(&[][..], |node| node.items());
            InputKind::Choice(
                options.iter().filter_map(|node| node.text()).map(str::to_owned).collect(),
            )
        }
        _ => InputKind::String,
    };
    Input {
        name: entry.name().to_owned(),
        description: text("description").map(str::to_owned),
        default: get("default").map(|node| default(data::scalar(document, node), &kind)),
        kind,
        required: is_true(get("required").map(|node| &**node)),
    }
}

/// The default of a number may stand in quotes.
fn default(written: Template, kind: &InputKind) -> Template {
    match (kind, &written) {
        (InputKind::Number, Template::Literal(Value::String(text))) => {
            Template::Literal(Value::Number(number::parse(text)))
        }
        _ => written,
    }
}

fn is_true(node: Option<&Node>) -> bool {
    node.and_then(Node::text).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}
