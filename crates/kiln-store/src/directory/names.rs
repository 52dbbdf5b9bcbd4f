//! Which texts are accepted. Everything is bounded, and no text holds the character 0, which PostgreSQL
//! cannot keep.

use crate::{Refusal, StoreError, Value};

/// The longest JSON text that a setting may have.
const LONGEST_JSON: usize = 1 << 20;

/// A name that can be part of an address: of an organization, a user, a repository, a runner.
pub(crate) fn name(what: &str, text: &str) -> Result<(), StoreError> {
    let first = text.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let others = text.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one));
    if first && others && text.len() <= 100 {
        return Ok(());
    }
    invalid(format!(
        "`{}` cannot be the name of {what}; expected up to 100 letters, digits, `-`, `_` and `.`, \
         beginning with a letter or digit",
        excerpt(text)
    ))
}

/// A text for people on one line, of up to `longest` bytes.
pub(crate) fn line(what: &str, text: &str, longest: usize) -> Result<(), StoreError> {
    if !text.is_empty() && text.len() <= longest && !text.contains(char::is_control) {
        return Ok(());
    }
    invalid(format!(
        "`{}` cannot be {what}; expected 1 to {longest} bytes on one line",
        excerpt(text)
    ))
}

/// A text of up to `longest` bytes that may be empty and may have lines.
pub(crate) fn text(what: &str, text: &str, longest: usize) -> Result<(), StoreError> {
    if text.len() <= longest && !text.contains('\0') {
        return Ok(());
    }
    invalid(format!(
        "`{}` cannot be {what}; expected up to {longest} bytes without the character 0",
        excerpt(text)
    ))
}

/// A line that may be missing.
pub(crate) fn line_if_any(
    what: &str,
    text: Option<&String>,
    longest: usize,
) -> Result<(), StoreError> {
    text.map_or(Ok(()), |text| line(what, text, longest))
}

/// The name of a secret or variable, as it is kept: they are the same in upper and lower case.
pub(crate) fn variable(what: &str, text: &str) -> Result<String, StoreError> {
    let name = text.to_ascii_uppercase();
    let first =
        name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let others = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if !first || !others || name.len() > 255 {
        return invalid(format!(
            "`{}` cannot be the name of {what}; expected up to 255 letters, digits and `_`, not \
             beginning with a digit",
            excerpt(text)
        ));
    }
    if name.starts_with("GITHUB_") {
        return invalid(format!(
            "`{name}` cannot be the name of {what}: names that begin with `GITHUB_` are taken; choose \
             another"
        ));
    }
    Ok(name)
}

/// A JSON text.
pub(crate) fn json(what: &str, text: &str) -> Result<(), StoreError> {
    if text.len() > LONGEST_JSON {
        return invalid(format!("{what}: expected up to {LONGEST_JSON} bytes of JSON"));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => invalid(format!("{what}: expected JSON, but {error}")),
    }
}

/// A SHA-256.
pub(crate) fn hash(what: &str, bytes: &[u8]) -> Result<(), StoreError> {
    if bytes.len() == 32 {
        return Ok(());
    }
    invalid(format!("{what} has {} bytes, expected a SHA-256, which has 32", bytes.len()))
}

/// A number within bounds.
pub(crate) fn within(what: &str, number: i64, least: i64, most: i64) -> Result<(), StoreError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    invalid(format!("{what} cannot be {number}; expected {least} to {most}"))
}

/// A text that somebody asks for. Nothing that is kept holds the character 0, and PostgreSQL would not
/// even compare with it.
pub(crate) fn searchable(text: &str) -> Value {
    text.replace('\0', "\u{fffd}").into()
}

pub(crate) fn invalid<T>(message: String) -> Result<T, StoreError> {
    Err(Refusal::Invalid(message).into())
}

pub(crate) fn conflict<T>(message: String) -> Result<T, StoreError> {
    Err(Refusal::Conflict(message).into())
}

/// A statement that can break only one rule of the schema: says in words that the name is taken.
pub(crate) fn taken<T>(
    answer: Result<T, StoreError>,
    message: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    match answer {
        Err(StoreError::Constraint(_)) => conflict(message()),
        answer => answer,
    }
}

/// What fits into a message.
fn excerpt(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: Result<impl Sized, StoreError>, expected: Result<(), &str>) {
        let answer = answer.map(|_| ()).map_err(|error| error.to_string());
        match (answer, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (answer, _) => panic!("{answer:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_name_is_bounded_and_plain() {
        check(name("a team", "a.b-c_9"), Ok(()));
        check(name("a team", &"x".repeat(100)), Ok(()));
        check(name("a team", &"x".repeat(101)), Err("cannot be the name of a team"));
        for text in ["", "-a", ".", "a/b", "a b", "ä", "a\0"] {
            check(name("a team", text), Err("expected up to 100 letters"));
        }
        check(name("a team", "a\nb"), Err("`a\\nb`"));
    }

    #[test]
    fn a_line_holds_no_control_characters() {
        check(line("a reason", "späte Änderung", 40), Ok(()));
        for text in ["", "a\0", "a\nb", "12345678901"] {
            check(line("a reason", text, 10), Err("expected 1 to 10 bytes on one line"));
        }
    }

    #[test]
    fn a_text_may_be_empty_and_have_lines() {
        for given in ["", "a\nb", "1234567890"] {
            check(text("a title", given, 10), Ok(()));
        }
        for given in ["a\0", "12345678901"] {
            check(text("a title", given, 10), Err("cannot be a title; expected up to 10 bytes"));
        }
    }

    #[test]
    fn a_variable_is_kept_in_upper_case() {
        assert_eq!(variable("a secret", "token_1").unwrap(), "TOKEN_1");
        check(variable("a secret", "1A"), Err("not beginning with a digit"));
        check(variable("a secret", "A-B"), Err("expected up to 255"));
        check(variable("a secret", "github_token"), Err("begin with `GITHUB_` are taken"));
    }

    #[test]
    fn json_hashes_and_numbers_are_checked() {
        check(json("the rules", "{\"a\": [1]}"), Ok(()));
        check(json("the rules", "{"), Err("the rules: expected JSON"));
        check(json("the rules", &"[".repeat(100_000)), Err("expected JSON"));
        check(hash("the key", &[0; 32]), Ok(()));
        check(hash("the key", &[0; 31]), Err("has 31 bytes, expected a SHA-256"));
        check(within("shares", 0, 1, 10), Err("shares cannot be 0; expected 1 to 10"));
    }
}
