//! Words for what a place takes.

use crate::yaml::{Node, Style};

use super::{Def, Mapping, Shape, Variants};

/// What is expected, for "expected …, found …".
pub(super) fn expected(def: &Def) -> String {
    match &def.shape {
        Shape::Null => "nothing".to_owned(),
        Shape::Boolean => "`true` or `false`".to_owned(),
        Shape::Number => "a number".to_owned(),
        Shape::Positive => "a number above zero".to_owned(),
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
            let own = mapping.rest.iter().map(|rest| rest.placeholder.to_owned());
            let names = own.chain(keys.iter().map(|key| format!("`{}`", key.name)));
            let names: Vec<String> = names.collect();
            format!("a mapping with {}", join(&names, "and"))
        }
        _ => "a mapping".to_owned(),
    }
}

fn bare(what: &str) -> &str {
    what.trim_start_matches("a ").trim_start_matches("an ")
}

/// How a value of the wrong type might be mended.
pub(super) fn type_help(node: &Node, def: &Def) -> Option<String> {
    let text = node.text().unwrap_or_default();
    match &def.shape {
        Shape::OneOf(choices) if !node.is_null() => {
            choices.iter().find_map(|choice| type_help(node, choice))
        }
        Shape::Boolean => boolean_help(text, is_quoted(node)),
        Shape::Number | Shape::Positive if is_quoted(node) && text.parse::<f64>().is_ok() => {
            Some(format!("remove the quotes: `{text}`"))
        }
        Shape::Text
            if node.is_sequence() && node.items().iter().all(|item| item.scalar().is_some()) =>
        {
            Some("for several lines write `|` after the colon and the lines below it".to_owned())
        }
        Shape::Sequence(item) if !node.is_null() => sequence_help(node, item),
        Shape::Mapping(_) | Shape::Variants(_) | Shape::Sequence(_) if node.is_null() => {
            Some("indent what belongs to it below it, or remove it".to_owned())
        }
        _ if node.is_null() => Some("write a value after the colon, or remove the key".to_owned()),
        Shape::Mapping(Mapping { rest: Some(rest), .. }) if node.is_sequence() => {
            Some(format!("write `{}: …` instead of `- …`", rest.placeholder))
        }
        Shape::Mapping(_) | Shape::Variants(_) if node.is_sequence() => {
            Some("remove the `- ` before its keys".to_owned())
        }
        Shape::Variants(variants) => variants_help(text, variants),
        _ => None,
    }
}

fn is_quoted(node: &Node) -> bool {
    node.scalar().is_some_and(|scalar| scalar.style != Style::Plain)
}

fn boolean_help(text: &str, quoted: bool) -> Option<String> {
    match text.to_ascii_lowercase().as_str() {
        meant @ ("true" | "false") if quoted => Some(format!("remove the quotes: `{meant}`")),
        meant @ ("true" | "false") => Some(format!("write `{meant}`")),
        "yes" | "on" | "y" => Some("write `true`".to_owned()),
        "no" | "off" | "n" => Some("write `false`".to_owned()),
        _ => None,
    }
}

fn sequence_help(node: &Node, item: &Def) -> Option<String> {
    let of_mappings = matches!(item.shape, Shape::Mapping(_) | Shape::Variants(_));
    match node.text() {
        None if of_mappings && node.is_mapping() => Some("start each one with `- `".to_owned()),
        Some(text) if !of_mappings && !text.is_empty() => Some(format!("write a list: `[{text}]`")),
        _ => None,
    }
}

/// `run:make` and `make` where a step is expected.
fn variants_help(text: &str, variants: &Variants) -> Option<String> {
    let (first, _) = variants.choices.first()?;
    match text.split_once(':') {
        Some((key, value)) if variants.choices.iter().any(|(known, _)| *known == key) => {
            Some(format!("a space is missing after the colon: `{key}: {value}`"))
        }
        _ if *first == "run" && !text.is_empty() => Some(format!("write `run: {text}`")),
        _ => None,
    }
}

pub(super) fn alternatives(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    join(&words, "or")
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
