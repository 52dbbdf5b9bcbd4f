//! Tags: the few that mean something, and the many that were meant as something else.

use kiln_core::value::Value;
use saphyr_parser::Tag;

use crate::diag::Diagnostic;
use crate::source::Span;

use super::resolve::resolve;

/// The name of a tag of the core schema, in its short or its long spelling.
pub(super) fn core_tag(tag: &Tag) -> Option<&str> {
    if tag.is_yaml_core_schema() {
        return Some(&tag.suffix);
    }
    tag.suffix.strip_prefix("tag:yaml.org,2002:")
}

/// The value of a tagged scalar, or what is wrong with it. A tag comes with whether it stands in a
/// condition.
pub(super) fn tagged(
    (tag, in_condition): (&Tag, bool),
    text: &str,
    span: Span,
) -> Result<Value, Box<Diagnostic>> {
    let fits = |value: &Value, name: &str| match name {
        "null" => matches!(value, Value::Null),
        "bool" => matches!(value, Value::Bool(_)),
        _ => matches!(value, Value::Number(_)),
    };
    match core_tag(tag) {
        Some("str") => Ok(Value::string(text)),
        Some(name @ ("null" | "bool" | "int" | "float")) => {
            Some(resolve(text)).filter(|value| fits(value, name)).ok_or_else(|| {
                let message = format!("`{text}` is no `!!{name}`");
                Box::new(
                    Diagnostic::error("yaml-tag", span, message)
                        .help("remove the tag, or mend the value"),
                )
            })
        }
        _ => Err(Box::new(unknown_tag((tag, in_condition), text, span))),
    }
}

/// `if: !cancelled()` is the usual way to meet a tag.
pub(super) fn unknown_tag(
    (tag, in_condition): (&Tag, bool),
    value: &str,
    span: Span,
) -> Diagnostic {
    let handle = if tag.handle.is_empty() { "!" } else { &tag.handle };
    let name = format!("{}{}", tag.handle, tag.suffix);
    let found = Diagnostic::error("yaml-tag", span, format!("unknown YAML tag `{name}`"));
    if handle != "!" {
        return found.help(
            "workflow files use no tags but `!!str`, `!!int`, `!!float`, `!!bool` and `!!null`",
        );
    }
    if !in_condition {
        return found.help("YAML reads a leading `!` as a tag; put the value in quotes");
    }
    let written = format!("{name} {value}");
    found
        .label("YAML reads a leading `!` as a tag, not as \"not\"")
        .help(format!("write `${{{{ {} }}}}`", written.trim_ascii()))
}
