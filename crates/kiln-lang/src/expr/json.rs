//! JSON to values and back, with the order of keys kept.
//!
//! This is our own reader and writer: it builds [`Value`]s directly, charges them to the budget of
//! an evaluation and has a depth limit that does not depend on the caller.

use kiln_core::value::{Object, Value};

use super::budget::{Budget, Text};
use super::number;

/// Arrays and objects within each other.
pub const MAX_DEPTH: usize = 100;

/// Reads JSON without a budget, for trusted callers with bounded input.
pub fn read(text: &str) -> Result<Value, String> {
    read_on(text, &mut Budget::new(usize::MAX))
}

/// Writes JSON as `toJSON` does, without a budget.
pub fn write(value: &Value) -> Result<String, String> {
    write_on(value, &mut Budget::new(usize::MAX))
}

pub(super) fn read_on(text: &str, budget: &mut Budget) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0, depth: 0, budget };
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.unexpected());
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    budget: &'a mut Budget,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, String> {
        self.budget.items(1)?;
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::from(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.keyword(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("the JSON is nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut object = Object::new();
        if self.take(b'}') {
            return Ok(Value::object(object));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.string()?;
            self.expect(b':')?;
            let value = self.value()?;
            object.insert(key, value);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(Value::object(object))
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::array(items));
        }
        loop {
            items.push(self.value()?);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Value::array(items))
    }

    fn keyword(&mut self) -> Result<Value, String> {
        let rest = &self.text[self.at..];
        let keywords =
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        for (word, value) in keywords {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected())
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let whole = self.digits();
        let leading_zero = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let mut valid = whole > 0 && !leading_zero;
        if self.byte() == Some(b'.') {
            self.at += 1;
            valid &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            valid &= self.digits() > 0;
        }
        if !valid {
            self.at = start;
            return Err(self.unexpected());
        }
        Ok(Value::Number(number::parse(&self.text[start..self.at])))
    }

    /// Skips digits and counts them.
    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|letter: char| letter < ' ' || letter == '"' || letter == '\\');
            let Some(plain) = plain else {
                return Err("the JSON ends within a string".to_owned());
            };
            self.budget.text(plain + 1)?;
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let letter = match self.byte() {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(letter)
    }

    fn unicode_escape(&mut self) -> Result<char, String> {
        let first = self.unit()?;
        if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 1;
            let second = self.unit()?;
            if (0xDC00..0xE000).contains(&second) {
                let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        // Half of a pair is no character; there is nothing better to put in its place.
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Reads `uXXXX`.
    fn unit(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.unexpected())?;
        self.at += 5;
        Ok(unit)
    }

    fn space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not space.
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.byte()
    }

    fn take(&mut self, byte: u8) -> bool {
        let matches = self.peek() == Some(byte);
        self.at += usize::from(matches);
        matches
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> String {
        match self.text[self.at..].chars().next() {
            None => "the JSON ends too early".to_owned(),
            Some(letter) => {
                let line = self.text[..self.at].matches('\n').count() + 1;
                let start = self.text[..self.at].rfind('\n').map_or(0, |newline| newline + 1);
                let column = self.text[start..self.at].chars().count() + 1;
                format!("unexpected {letter:?} in the JSON at line {line}, column {column}")
            }
        }
    }
}

pub(super) fn write_on(value: &Value, budget: &mut Budget) -> Result<String, String> {
    let mut text = Text::new(budget);
    write_value(value, 0, &mut text)?;
    Ok(text.finish())
}

fn write_value(value: &Value, depth: usize, text: &mut Text<'_>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("the value is nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Value::Null => text.push("null"),
        Value::Bool(value) => text.push(if *value { "true" } else { "false" }),
        // JSON has no other numbers, and what we write must be readable.
        Value::Number(number) if !number.is_finite() => text.push("null"),
        Value::Number(number) => text.push(&number::format(*number)),
        Value::String(string) => write_string(string, text),
        Value::Array(items) if items.is_empty() => text.push("[]"),
        Value::Array(items) => {
            text.push("[")?;
            for (index, item) in items.iter().enumerate() {
                write_line(index, depth + 1, text)?;
                write_value(item, depth + 1, text)?;
            }
            write_end(depth, "]", text)
        }
        Value::Object(object) if object.is_empty() => text.push("{}"),
        Value::Object(object) => {
            text.push("{")?;
            for (index, (key, item)) in object.iter().enumerate() {
                write_line(index, depth + 1, text)?;
                write_string(key, text)?;
                text.push(": ")?;
                write_value(item, depth + 1, text)?;
            }
            write_end(depth, "}", text)
        }
    }
}

fn write_line(index: usize, depth: usize, text: &mut Text<'_>) -> Result<(), String> {
    text.push(if index > 0 { ",\n" } else { "\n" })?;
    text.push(&"  ".repeat(depth))
}

fn write_end(depth: usize, close: &str, text: &mut Text<'_>) -> Result<(), String> {
    text.push("\n")?;
    text.push(&"  ".repeat(depth))?;
    text.push(close)
}

fn write_string(string: &str, text: &mut Text<'_>) -> Result<(), String> {
    text.push("\"")?;
    let mut rest = string;
    while let Some(at) = rest.find(|letter: char| letter < ' ' || letter == '"' || letter == '\\') {
        text.push(&rest[..at])?;
        match rest.as_bytes()[at] {
            b'"' => text.push("\\\"")?,
            b'\\' => text.push("\\\\")?,
            b'\n' => text.push("\\n")?,
            b'\r' => text.push("\\r")?,
            b'\t' => text.push("\\t")?,
            0x8 => text.push("\\b")?,
            0xC => text.push("\\f")?,
            other => text.push(&format!("\\u{other:04x}"))?,
        }
        rest = &rest[at + 1..];
    }
    text.push(rest)?;
    text.push("\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, written: &str) {
        let value = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(write(&value).expect("it is shallow"), written);
    }

    #[test]
    fn values_are_written_as_they_were_read() {
        check(" null ", "null");
        check("-0", "0");
        check("1.50e2", "150");
        check("[ ]", "[]");
        check("{ }", "{}");
        check(
            r#"{"b":1,"a":[true,{"x":null}]}"#,
            "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    {\n      \"x\": null\n    }\n  ]\n}",
        );
        check(r#""\u00fc\ud83d\ude0a\/\b\u0001""#, "\"ü😊/\\b\\u0001\"");
        check(r#""\ud83dx""#, "\"\u{FFFD}x\"");
        check("1e999", "null");
        check("123456789012345678901234567890", "1.23456789012346E+29");
    }

    #[track_caller]
    fn check_error(text: &str, expect: &str) {
        assert_eq!(read(text).expect_err(text), expect);
    }

    #[test]
    fn broken_json_is_refused_with_its_place() {
        check_error("", "the JSON ends too early");
        check_error("[1,", "the JSON ends too early");
        check_error("\"abc", "the JSON ends within a string");
        check_error("[1,]", "unexpected ']' in the JSON at line 1, column 4");
        check_error("{\n 'a': 1}", "unexpected '\\'' in the JSON at line 2, column 2");
        check_error("01", "unexpected '0' in the JSON at line 1, column 1");
        check_error("1.", "unexpected '1' in the JSON at line 1, column 1");
        check_error("nulls", "unexpected 's' in the JSON at line 1, column 5");
        check_error("\"\\x\"", "unexpected 'x' in the JSON at line 1, column 3");
        check_error("\"\\u12g4\"", "unexpected 'u' in the JSON at line 1, column 3");
        check_error("\"a\nb\"", "unexpected '\\n' in the JSON at line 1, column 3");
        check_error(&"[".repeat(100_000), "the JSON is nested deeper than 100 levels");
    }

    #[test]
    fn the_deepest_value_that_is_read_can_be_written() {
        let text = ["[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)].concat();
        assert!(write(&read(&text).expect("just allowed")).is_ok());
        let deeper = (0..=MAX_DEPTH + 1).fold(Value::Null, |value, _| Value::array(vec![value]));
        assert!(write(&deeper).is_err());
    }

    proptest! {
        #[test]
        fn strings_survive(string in ".*") {
            let text = write(&Value::from(string.as_str())).expect("a string is shallow");
            let back = read(&text).expect("we wrote it");
            prop_assert_eq!(back.as_str(), Some(string.as_str()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in r#"[\[\]{}:,"\\u0-9a-f.eE+\-ntrlüs ]{0,40}"#) {
            if let Ok(value) = read(&text) {
                prop_assert!(write(&value).is_ok());
            }
        }

        #[test]
        fn we_accept_what_another_reader_accepts(text in r#"[\[\]{}:,"\\u0-9a-f.eE+\-ntrls ]{0,24}"#) {
            let other = serde_json::from_str::<serde_json::Value>(&text);
            if other.is_ok() {
                prop_assert!(read(&text).is_ok(), "{}", text);
            } else if read(&text).is_ok() {
                // The other one refuses half of a surrogate pair and numbers beyond all bounds.
                prop_assert!(text.contains("\\u") || text.contains(['e', 'E']) , "{}", text);
            }
        }
    }
}
