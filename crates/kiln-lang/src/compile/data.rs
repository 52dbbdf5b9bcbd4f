//! Nodes become data of the plan: literals or expression texts.

use std::sync::Arc;

use kiln_core::plan::{Condition, Data, MapKey, Template};
use kiln_core::value::Value;

use crate::expr::coerce::to_text;
use crate::workflow::Document;
use crate::yaml::{Entry, Kind, Node};

/// A scalar with its own type.
pub(super) fn scalar(document: &Document, node: &Node) -> Template {
    match document.checked.template(node) {
        Some(template) => Template::Expr(template.text.as_str().into()),
        None => Template::Literal(node.scalar().map_or(Value::Null, |scalar| scalar.value.clone())),
    }
}

/// A scalar that is taken as text: `3.10` is the number 3.1 and becomes `3.1`, as on GitHub.
pub(super) fn text(document: &Document, node: &Node) -> Template {
    match scalar(document, node) {
        Template::Literal(value) => Template::literal(to_text(&value).into_owned()),
        expr @ Template::Expr(_) => expr,
    }
}

/// A tree whose scalars keep their types.
pub(super) fn tree(document: &Document, node: &Node) -> Data {
    build(document, node, scalar)
}

/// A tree whose scalars are all text.
pub(super) fn text_map(document: &Document, node: &Node) -> Data {
    build(document, node, text)
}

fn build(document: &Document, node: &Node, leaf: fn(&Document, &Node) -> Template) -> Data {
    match &node.kind {
        Kind::Scalar(_) => Data::Scalar(leaf(document, node)),
        Kind::Sequence(items) => {
            Data::List(items.iter().map(|item| build(document, item, leaf)).collect())
        }
        Kind::Mapping(entries) => {
            let pairs = entries
                .iter()
                .map(|entry| (key(document, entry), build(document, &entry.value, leaf)));
            Data::Map(pairs.collect())
        }
    }
}

fn key(document: &Document, entry: &Entry) -> MapKey {
    match document.checked.template(&entry.key) {
        Some(template) => MapKey::Expr(template.text.as_str().into()),
        None if entry.name().contains("${{") => MapKey::Insert,
        None => MapKey::Name(to_text(&entry.key.to_value()).as_ref().into()),
    }
}

/// The condition of a job or step; `success()` when it has none.
pub(super) fn condition(document: &Document, node: Option<&Arc<Node>>) -> Condition {
    let written = node.and_then(|node| document.checked.condition(node));
    written.map_or_else(Condition::default, |found| Condition { text: found.text.as_str().into() })
}
