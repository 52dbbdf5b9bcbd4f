//! Values of expressions as JSON and back.
//!
//! Numbers are written as people write them: `1`, not `1.0`. What JSON has no number for becomes
//! the string `"NaN"`, `"Infinity"` or `"-Infinity"`.

use kiln_core::value::{Object, Value};
use serde_json::{Map, Value as Json, json};

/// Up to here every whole number has its own `f64`, and JSON readers agree on it.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(number) => self::number(*number),
        Value::String(text) => Json::String(text.to_string()),
        Value::Array(items) => items.iter().map(to_json).collect(),
        Value::Object(object) => object_to_json(object),
    }
}

pub(crate) fn object_to_json(object: &Object) -> Json {
    let entries = object.iter().map(|(key, value)| (key.to_owned(), to_json(value)));
    Json::Object(entries.collect())
}

#[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 2^53 fit")]
fn number(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() <= MAX_WHOLE {
        return json!(number as i64);
    }
    match serde_json::Number::from_f64(number) {
        Some(number) => Json::Number(number),
        None if number.is_nan() => json!("NaN"),
        None if number > 0.0 => json!("Infinity"),
        None => json!("-Infinity"),
    }
}

pub(crate) fn from_json(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::array(items.into_iter().map(from_json).collect()),
        Json::Object(entries) => Value::object(object_from_json(entries)),
    }
}

pub(crate) fn object_from_json(entries: Map<String, Json>) -> Object {
    entries.into_iter().map(|(key, value)| (key, from_json(value))).collect()
}

/// As `kiln eval` prints it for people: strings as they are, everything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Number(number) if !number.is_finite() => match to_json(value) {
            Json::String(name) => name,
            other => other.to_string(),
        },
        Value::Array(_) | Value::Object(_) => format!("{:#}", to_json(value)),
        other => to_json(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        let check = |value: f64, expect: &str| {
            assert_eq!(to_json(&Value::Number(value)).to_string(), expect);
        };
        check(1.0, "1");
        check(-0.0, "0");
        check(1.5, "1.5");
        check(-20.0, "-20");
        check(1e300, "1e+300");
        check(9_007_199_254_740_992.0, "9007199254740992");
        check(f64::NAN, "\"NaN\"");
        check(f64::INFINITY, "\"Infinity\"");
        check(f64::NEG_INFINITY, "\"-Infinity\"");
    }

    #[test]
    fn the_order_of_keys_survives_both_ways() {
        let text = r#"{"z":1,"a":[true,null,"x"],"m":{"b":2.5,"a":""}}"#;
        let value = from_json(serde_json::from_str(text).unwrap());
        assert_eq!(to_json(&value).to_string(), text);
    }

    #[test]
    fn people_see_strings_as_they_are() {
        assert_eq!(plain(&Value::from("a \"b\"")), "a \"b\"");
        assert_eq!(plain(&Value::Null), "null");
        assert_eq!(plain(&Value::Number(f64::NAN)), "NaN");
        assert_eq!(plain(&Value::array(vec![Value::from(1.0)])), "[\n  1\n]");
    }
}
