//! Words for what a place takes.

use super::{Def, Mapping, Shape};

/// What is expected, for "expected …, found …".
pub(super) fn expected(def: &Def) -> String {
    match &def.shape {
        Shape::Null => "nothing".to_owned(),
        Shape::Boolean => "`true` or `false`".to_owned(),
        Shape::Number => "a number".to_owned(),
        Shape::Text | Shape::NonEmptyText => "a string".to_owned(),
        Shape::Condition => "a condition".to_owned(),
        Shape::Word(words) => words_list(words),
        Shape::Sequence(item) => match &item.shape {
            Shape::Variants(variants) => format!("a list of {}s", bare(variants.what)),
            Shape::Text | Shape::NonEmptyText => "a list of strings".to_owned(),
            Shape::Mapping(_) => "a list of mappings".to_owned(),
            _ => "a list".to_owned(),
        },
        Shape::Mapping(mapping) => mapping_words(mapping),
        Shape::Variants(variants) => format!("a mapping ({})", variants.what),
        Shape::OneOf(choices) => {
            let parts: Vec<String> = choices.iter().map(|choice| expected(choice)).collect();
            join(&parts, "or")
        }
        Shape::Events => "an event, a list of events or a mapping of events".to_owned(),
        Shape::Anything => "any value".to_owned(),
    }
}

fn mapping_words(mapping: &Mapping) -> String {
    match (&mapping.rest, mapping.keys) {
        (Some(rest), []) => format!("a mapping of {} to its value", rest.placeholder),
        (_, keys) if keys.len() <= 4 => {
            let names: Vec<String> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
            format!("a mapping with {}", join(&names, "and"))
        }
        _ => "a mapping".to_owned(),
    }
}

fn bare(what: &str) -> &str {
    what.trim_start_matches("a ").trim_start_matches("an ")
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn join(parts: &[String], last: &str) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., end] => format!("{} {last} {end}", init.join(", ")),
    }
}

pub(super) fn words_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    join(&quoted, "or")
}
