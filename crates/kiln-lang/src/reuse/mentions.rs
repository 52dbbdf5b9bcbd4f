//! What a text names: contexts in its expressions, and variables of GitHub's in its scripts.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::expr::analysis::context_paths;
use crate::expr::parse;

/// Ways into contexts, such as `github`, `event`, `number`; each in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mentions(pub(super) BTreeSet<Vec<String>>);

/// How variables begin that every step has.
const PREFIX: &str = "GITHUB_";

impl Mentions {
    /// Adds what a part of a plan names. In its JSON, expressions stand behind `$expr` and `condition`.
    pub(super) fn add(&mut self, part: &impl Serialize) {
        let value = serde_json::to_value(part).expect("plans can be written");
        let mut left = vec![&value];
        while let Some(value) = left.pop() {
            match value {
                Value::String(text) => self.words(text),
                Value::Array(items) => left.extend(items),
                Value::Object(entries) => {
                    for (key, inner) in entries {
                        match (key.as_str(), inner) {
                            ("$expr" | "condition", Value::String(text)) => self.expression(text),
                            (key, _) => {
                                if let Some(text) = key.strip_prefix("$expr:") {
                                    self.expression(text);
                                }
                            }
                        }
                        left.push(inner);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }

    fn expression(&mut self, text: &str) {
        // What is no expression was no condition, but a variable of that name.
        if let Ok(Some(expr)) = parse(text) {
            self.0.extend(context_paths(&expr).into_iter().map(|path| path.segments));
        }
    }

    /// `$GITHUB_SHA` in a script looks at `github.sha`.
    fn words(&mut self, text: &str) {
        for (at, _) in text.match_indices(PREFIX) {
            let rest = &text[at + PREFIX.len()..];
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
            self.0.insert(vec!["github".to_owned(), name.to_ascii_lowercase()]);
        }
    }
}
