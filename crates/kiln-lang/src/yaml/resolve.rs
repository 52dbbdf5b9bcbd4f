//! The core schema: which plain scalars are null, booleans or numbers.

use kiln_core::value::Value;

/// What a plain scalar means. `on`, `yes` and `1_000` are strings in YAML 1.2.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Value::Number(f64::NAN),
        _ => number(text).map_or_else(|| Value::string(text), Value::Number),
    }
}

fn number(text: &str) -> Option<f64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    // Rust also reads "inf", "infinity" and "nan"; YAML has none of these spellings.
    let numeric = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|digit: char| digit.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    numeric.then(|| text.parse().ok()).flatten()
}

fn radix(digits: &str, base: u32) -> Option<f64> {
    let mut value = 0.0;
    for digit in digits.chars() {
        value = value * f64::from(base) + f64::from(digit.to_digit(base)?);
    }
    (!digits.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &Value) {
        assert!(resolve(text).same(expect), "{text} became {:?}", resolve(text));
    }

    #[test]
    fn the_core_schema_decides_types() {
        for text in ["", "~", "null", "NULL"] {
            check(text, &Value::Null);
        }
        for text in [
            "on", "off", "yes", "no", "y", "1_000", "12:30", "inf", "nan", "0x", "0b1", "1.2.3",
            ".", "e3", "-", "0xfg", "tRue",
        ] {
            check(text, &Value::from(text));
        }
        check("True", &Value::Bool(true));
        check("FALSE", &Value::Bool(false));
        for (text, number) in [
            ("0", 0.0),
            ("-12", -12.0),
            ("+3", 3.0),
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1.5E-1", 0.15),
            ("0xFf", 255.0),
            ("0o17", 15.0),
            ("-.inf", f64::NEG_INFINITY),
            ("007", 7.0),
        ] {
            check(text, &Value::Number(number));
        }
        assert!(matches!(resolve(".nan"), Value::Number(number) if number.is_nan()));
    }
}
