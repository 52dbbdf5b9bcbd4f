//! How values turn into booleans, numbers and text, and how they compare.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use kiln_core::value::Value;

use super::number;

/// Null, false, zero, not-a-number and the empty string are false; everything else is true.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => *number != 0.0 && !number.is_nan(),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Arrays and objects are no numbers.
pub fn to_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Number(number) => *number,
        Value::String(text) => number::parse(text),
        Value::Array(_) | Value::Object(_) => f64::NAN,
    }
}

/// The text that `${{ }}` puts into a string; arrays and objects only give their kind.
pub fn to_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(number) => Cow::Owned(number::format(*number)),
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(_) | Value::Object(_) => Cow::Borrowed(value.kind()),
    }
}

pub fn is_primitive(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Compares as the operators do; `None` where neither is smaller nor are both equal.
///
/// Values of different kinds compare as numbers. Arrays and objects equal only themselves.
pub fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    let same = |same: bool| same.then_some(Ordering::Equal);
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some(compare_text(left, right)),
        (Value::Array(left), Value::Array(right)) => same(Arc::ptr_eq(left, right)),
        (Value::Object(left), Value::Object(right)) => same(Arc::ptr_eq(left, right)),
        // A coerced array or object is not-a-number, which compares with nothing.
        _ => to_number(left).partial_cmp(&to_number(right)),
    }
}

pub fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right) == Some(Ordering::Equal)
}

fn compare_text(left: &str, right: &str) -> Ordering {
    left.chars().map(sort_key).cmp(right.chars().map(sort_key))
}

/// The text with case differences removed, for searching within it.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    text.chars().map(fold_char).collect()
}

/// Upper case, one character for one character.
///
/// GitHub lets no letter from outside ASCII become an ASCII one, so a dotless i is not an I.
fn fold_char(letter: char) -> char {
    if letter.is_ascii() {
        return letter.to_ascii_uppercase();
    }
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) if !only.is_ascii() => only,
        _ => letter,
    }
}

/// GitHub orders UTF-16 units, which puts the supplementary planes before U+E000.
fn sort_key(letter: char) -> u32 {
    let folded = u32::from(fold_char(letter));
    if (0xE000..=0xFFFF).contains(&folded) { folded + u32::from(char::MAX) } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: impl Into<Value>, right: impl Into<Value>, expect: Option<Ordering>) {
        let (left, right) = (left.into(), right.into());
        assert_eq!(compare(&left, &right), expect, "{left:?} and {right:?}");
        assert_eq!(compare(&right, &left), expect.map(Ordering::reverse));
    }

    #[test]
    fn values_of_different_kinds_compare_as_numbers() {
        check(Value::Null, "", Some(Ordering::Equal));
        check(Value::Null, false, Some(Ordering::Equal));
        check(true, "true", None);
        check("0x10", 16.0, Some(Ordering::Equal));
        check(true, "0", Some(Ordering::Greater));
        check(f64::NAN, f64::NAN, None);
        check(Value::array(vec![]), 0.0, None);
        check(Value::array(vec![]), "", None);
        check(Value::array(vec![]), Value::array(vec![]), None);
    }

    #[test]
    fn an_array_equals_itself() {
        let array = Value::array(vec![]);
        assert!(equal(&array, &array.clone()));
    }

    #[test]
    fn strings_ignore_case_but_not_the_dot_of_an_i() {
        check("straße", "STRAßE", Some(Ordering::Equal));
        check("ß", "SS", Some(Ordering::Greater));
        check("ς", "Σ", Some(Ordering::Equal));
        check("ı", "I", Some(Ordering::Greater));
        check("ſ", "s", Some(Ordering::Greater));
        check("a", "[", Some(Ordering::Less));
        check("ab", "a", Some(Ordering::Greater));
        check("\u{FF21}", "\u{1F600}", Some(Ordering::Greater));
    }

    #[test]
    fn only_empty_things_are_false() {
        for (value, expect) in [
            (Value::from("false"), true),
            (Value::from("0"), true),
            (Value::from(""), false),
            (Value::from(-0.0), false),
            (Value::from(f64::NAN), false),
            (Value::Null, false),
            (Value::array(vec![]), true),
        ] {
            assert_eq!(truthy(&value), expect, "{value:?}");
        }
    }
}
