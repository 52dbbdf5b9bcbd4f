//! A YAML 1.2 reader that keeps spans.
//!
//! The tree is what later stages look at: every node knows where it stands, aliases share the node
//! they name, merge keys are already merged. Sizes are bounded, because workflow files come from
//! anyone who can push.

mod explain;
mod locate;
mod reader;
mod resolve;
mod tags;

use std::sync::Arc;

use kiln_core::value::{Object, Value};

use crate::source::Span;

pub use reader::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES, MAX_TEXT_BYTES, read};

/// One node of the tree.
#[derive(Debug, Clone)]
pub struct Node {
    pub span: Span,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Scalar(Scalar),
    Sequence(Vec<Arc<Node>>),
    Mapping(Vec<Entry>),
}

/// A key and its value. The key's span is the key alone.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Arc<Node>,
    pub value: Arc<Node>,
    /// Brought in by a merge key, so it may be overridden and stands elsewhere in the text.
    pub merged: bool,
}

impl Entry {
    /// The key's text; keys that are not scalars were refused while reading.
    pub fn name(&self) -> &str {
        self.key.text().unwrap_or_default()
    }
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

/// A scalar: its text, and what the core schema makes of it.
#[derive(Debug, Clone)]
pub struct Scalar {
    pub text: Arc<str>,
    pub style: Style,
    pub value: Value,
}

impl Node {
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text of a scalar, whatever its type.
    pub fn text(&self) -> Option<&str> {
        self.scalar().map(|scalar| &*scalar.text)
    }

    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| matches!(scalar.value, Value::Null))
    }

    pub fn items(&self) -> &[Arc<Node>] {
        match &self.kind {
            Kind::Sequence(items) => items,
            _ => &[],
        }
    }

    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Mapping(entries) => entries,
            _ => &[],
        }
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.kind, Kind::Mapping(_))
    }

    pub fn is_sequence(&self) -> bool {
        matches!(self.kind, Kind::Sequence(_))
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name() == key)
    }

    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Arc<Node>> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// What the node is, for a message such as "expected a string, found a list".
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Sequence(_) => "a list",
            Kind::Mapping(_) => "a mapping",
            Kind::Scalar(scalar) => match scalar.value {
                Value::Null => "nothing",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                _ => "a string",
            },
        }
    }

    /// The plain value of the tree, expressions left as text.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(scalar) => scalar.value.clone(),
            Kind::Sequence(items) => {
                Value::array(items.iter().map(|item| item.to_value()).collect())
            }
            Kind::Mapping(entries) => {
                let pairs = entries.iter().map(|entry| (entry.name(), entry.value.to_value()));
                Value::object(pairs.collect::<Object>())
            }
        }
    }
}
