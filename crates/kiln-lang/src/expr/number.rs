//! Numbers to and from text.

/// Reads a number the way a string is coerced: trimmed, decimal, `0x`, `0o` or `Infinity`.
///
/// An empty text is zero, and anything else that is not a number is not-a-number.
pub fn parse(text: &str) -> f64 {
    let text = text.trim();
    if text.is_empty() {
        return 0.0;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return parse_radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return parse_radix(digits, 8);
    }
    match text {
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        // Rust's own reader also takes `inf` and `nan`, hence the check of the characters.
        _ if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => {
            text.parse().unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

fn parse_radix(digits: &str, radix: u32) -> f64 {
    let add = |number: f64, digit: char| {
        Some(number * f64::from(radix) + f64::from(digit.to_digit(radix)?))
    };
    let number = digits.chars().try_fold(0.0, add).filter(|_| !digits.is_empty());
    number.unwrap_or(f64::NAN)
}

/// Writes a number with at most 15 significant digits, as GitHub's runner does.
pub fn format(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{:.14e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the format writes a decimal exponent");
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    let sign = if number < 0.0 { "-" } else { "" };
    if (-4..15).contains(&exponent) {
        [sign, &fixed(digits, exponent)].concat()
    } else {
        [sign, &with_exponent(digits, exponent)].concat()
    }
}

fn fixed(digits: &str, exponent: i32) -> String {
    let distance = exponent.unsigned_abs() as usize;
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat(distance - 1));
    }
    let whole = distance + 1;
    if digits.len() <= whole {
        return format!("{digits:0<whole$}");
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}E{sign}{:02}", exponent.unsigned_abs())
}

/// Writes a literal that reads back as exactly this number.
pub fn exact(number: f64) -> String {
    if number.is_finite() {
        let text = format!("{number:?}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    } else {
        format(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_parse(text: &str, expect: f64) {
        let number = parse(text);
        assert_eq!(number.to_bits(), expect.to_bits(), "{text:?} became {number}");
    }

    #[test]
    fn text_becomes_a_number_as_in_javascript() {
        check_parse("", 0.0);
        check_parse("  ", 0.0);
        check_parse(" 12.5 ", 12.5);
        check_parse("+1.", 1.0);
        check_parse(".5e1", 5.0);
        check_parse("-0", -0.0);
        check_parse("0xfF", 255.0);
        check_parse("0o17", 15.0);
        check_parse("1e999", f64::INFINITY);
        check_parse("-Infinity", f64::NEG_INFINITY);
    }

    #[test]
    fn text_that_is_no_number_is_not_a_number() {
        for text in
            ["abc", "1a", "--1", ".", "e1", "1e", "0x", "0xg", "-0xff", "0o8", "inf", "nan", "1 2"]
        {
            assert!(parse(text).is_nan(), "{text:?} became {}", parse(text));
        }
    }

    #[track_caller]
    fn check_format(number: f64, expect: &str) {
        assert_eq!(format(number), expect);
    }

    #[test]
    fn numbers_are_written_with_fifteen_digits() {
        check_format(0.845_512_408_225_570_1, "0.84551240822557");
        check_format(-0.0, "0");
        check_format(120.0, "120");
        check_format(-1234.5, "-1234.5");
        check_format(0.012, "0.012");
        check_format(0.5, "0.5");
        check_format(0.0001, "0.0001");
        check_format(0.000_01, "1E-05");
        check_format(1.5e-7, "1.5E-07");
        check_format(100_000_000_000_000.0, "100000000000000");
        check_format(1e15, "1E+15");
        check_format(123_456_789_012_345_678.0, "1.23456789012346E+17");
        check_format(-1e300, "-1E+300");
        check_format(0.1 + 0.2, "0.3");
        check_format(f64::NAN, "NaN");
        check_format(f64::NEG_INFINITY, "-Infinity");
    }

    proptest! {
        #[test]
        fn an_exact_text_reads_back_as_the_same_number(number in any::<f64>()) {
            let again = parse(&exact(number));
            prop_assert!(again.to_bits() == number.to_bits() || number.is_nan() && again.is_nan());
        }

        #[test]
        fn a_short_text_reads_back_as_nearly_the_same_number(number in proptest::num::f64::NORMAL) {
            let again = parse(&format(number));
            prop_assert!(((again - number) / number).abs() < 1e-14 || again.is_infinite());
        }
    }
}
