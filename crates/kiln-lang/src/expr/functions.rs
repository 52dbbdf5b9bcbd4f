//! The functions whose result depends on nothing but their arguments.

use std::borrow::Cow;

use kiln_core::value::Value;

use super::budget::{Budget, Text};
use super::coerce::{equal, fold, is_primitive, to_text};
use super::json;

type Result<T> = std::result::Result<T, String>;

/// Calls a built-in function by its canonical name with a number of arguments that was checked.
pub(super) fn call(name: &str, arguments: &[Value], budget: &mut Budget) -> Result<Value> {
    match (name, arguments) {
        ("contains", [search, item]) => contains(search, item, budget).map(Value::Bool),
        ("startsWith", [text, part]) => {
            folded(text, part, budget, |text, part| text.starts_with(part)).map(Value::Bool)
        }
        ("endsWith", [text, part]) => {
            folded(text, part, budget, |text, part| text.ends_with(part)).map(Value::Bool)
        }
        ("format", [pattern, values @ ..]) => {
            format(&to_text(pattern), values, budget).map(Value::from)
        }
        ("join", [items, separator @ ..]) => {
            join(items, separator.first(), budget).map(Value::from)
        }
        ("toJSON", [value]) => json::write_on(value, budget).map(Value::from),
        ("fromJSON", [text]) => from_json(&to_text(text), budget),
        _ => Err(format!("the function `{name}` cannot be evaluated here")),
    }
}

fn contains(search: &Value, item: &Value, budget: &mut Budget) -> Result<bool> {
    let Value::Array(items) = search else {
        return folded(search, item, budget, |text, part| text.contains(part));
    };
    for candidate in items.iter() {
        budget.work(1)?;
        if let (Value::String(left), Value::String(right)) = (candidate, item) {
            budget.work(left.len().min(right.len()))?;
        }
        if equal(candidate, item) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tests two texts without regard to case; false where one is no text.
fn folded(
    text: &Value,
    part: &Value,
    budget: &mut Budget,
    holds: fn(&str, &str) -> bool,
) -> Result<bool> {
    if !is_primitive(text) || !is_primitive(part) {
        return Ok(false);
    }
    let (text, part) = (to_text(text), to_text(part));
    budget.work(text.len() + part.len())?;
    Ok(holds(&fold(&text), &fold(&part)))
}

fn format(pattern: &str, values: &[Value], budget: &mut Budget) -> Result<String> {
    let mut text = Text::new(budget);
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        text.push(&rest[..at])?;
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(escaped) = rest.strip_prefix(brace) {
            text.push(brace)?;
            rest = escaped;
            continue;
        }
        let placeholder = if brace == "{" { rest.split_once('}') } else { None };
        let (index, after) = placeholder
            .filter(|(index, _)| is_index(index))
            .ok_or_else(|| invalid_format(pattern, pattern.len() - rest.len()))?;
        // An index that is too large for a number is certainly larger than the arguments.
        let value = index.parse().ok().and_then(|index: usize| values.get(index));
        let value = value.ok_or_else(|| {
            let given = match values.len() {
                0 => "none follows it".to_owned(),
                1 => "only one follows it".to_owned(),
                given => format!("only {given} follow it"),
            };
            format!("the format string wants argument `{{{index}}}`, but {given}")
        })?;
        text.push(&to_text(value))?;
        rest = after;
    }
    text.push(rest)?;
    Ok(text.finish())
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn invalid_format(pattern: &str, position: usize) -> String {
    let column = pattern[..position].chars().count();
    format!(
        "the format string has a lone brace at character {column}; a brace is written twice, \
         an argument as `{{0}}`"
    )
}

fn join(items: &Value, separator: Option<&Value>, budget: &mut Budget) -> Result<String> {
    let mut text = Text::new(budget);
    match items {
        Value::Object(_) => {}
        Value::Array(items) => {
            let separator = separator.filter(|value| is_primitive(value));
            let separator = separator.map_or(Cow::Borrowed(","), to_text);
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(&separator)?;
                }
                text.push(&to_text(item))?;
            }
        }
        primitive => text.push(&to_text(primitive))?,
    }
    Ok(text.finish())
}

fn from_json(text: &str, budget: &mut Budget) -> Result<Value> {
    if text.trim().is_empty() {
        return Err("`fromJSON` was given an empty string".to_owned());
    }
    json::read_on(text, budget)
}
