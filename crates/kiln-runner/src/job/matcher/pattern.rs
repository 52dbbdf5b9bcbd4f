//! A regular expression as published matchers write it, with a bound on what it may cost.

use fancy_regex::{Captures, Regex, RegexBuilder};

/// Steps back in one search. A search that needs more is given up; it took some 10 ms by then.
const MAX_BACKTRACKS: usize = 100_000;
/// Longest text of an expression, and the largest automaton it may become.
const MAX_EXPRESSION_BYTES: usize = 8 << 10;
const MAX_AUTOMATON_BYTES: usize = 4 << 20;
const MAX_INSTRUCTIONS: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

/// The search was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overrun;

impl Pattern {
    pub(super) fn new(expression: &str) -> Result<Self, String> {
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(format!("it is longer than {} KiB", MAX_EXPRESSION_BYTES >> 10));
        }
        RegexBuilder::new(&translate(expression))
            .backtrack_limit(MAX_BACKTRACKS)
            .delegate_size_limit(MAX_AUTOMATON_BYTES)
            .max_prog_size(MAX_INSTRUCTIONS)
            .build()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// How many groups there are, the whole match included.
    pub(super) fn groups(&self) -> usize {
        self.0.captures_len()
    }

    pub(super) fn captures<'t>(&self, line: &'t str) -> Result<Option<Captures<'t, str>>, Overrun> {
        self.0.captures(line).map_err(|_| Overrun)
    }
}

/// From the dialect of JavaScript and .NET to ours. In a class, brackets and doubled signs are
/// ordinary there and mean sets here; outside, `\<` and `\>` are ordinary there and mean the edges
/// of words here, and a brace that repeats nothing is ordinary.
fn translate(expression: &str) -> String {
    let mut text = String::with_capacity(expression.len() + 8);
    let mut rest = expression;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\\' => {
                let escaped = rest[1..].chars().next();
                match escaped {
                    Some('<' | '>' | '/') => {}
                    _ => text.push('\\'),
                }
                text.extend(escaped);
                1 + escaped.map_or(0, char::len_utf8)
            }
            '[' if !in_class => {
                in_class = true;
                // A closing bracket that comes first is ordinary.
                let open = ["[^]", "[]", "[^", "["].into_iter().find(|open| rest.starts_with(open));
                let open = open.expect("the text starts with a bracket");
                text.push_str(&open.replace(']', "\\]"));
                open.len()
            }
            ']' if in_class => {
                in_class = false;
                text.push(c);
                1
            }
            '[' | '&' | '~' if in_class => {
                text.push('\\');
                text.push(c);
                1
            }
            '{' if !in_class && !is_repetition(rest) => {
                text.push_str("\\{");
                1
            }
            _ => {
                text.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    text
}

/// Whether `{2}`, `{2,}` or `{2,3}` comes first.
fn is_repetition(text: &str) -> bool {
    let Some((inner, _)) = text[1..].split_once('}') else { return false };
    let (from, to) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !from.is_empty() && digits(from) && digits(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_other_dialects_match_as_meant() {
        let check = |expression: &str, line: &str, expected: Option<&str>| {
            let pattern = Pattern::new(expression).unwrap();
            let found = pattern.captures(line).unwrap();
            let found = found.and_then(|groups| groups.get(1).map(|group| group.as_str()));
            assert_eq!(found, expected, "{expression}");
        };
        check(r"^([^[]+)\[", "abc[1]", Some("abc"));
        check(r"([a&&b]+)", "a&b", Some("a&b"));
        check(r"\<(\w+)\>", "see <here>", Some("here"));
        check(r"^(a\/b)", "a/b", Some("a/b"));
        check(r"x{y(\d{2,})}", "x{y123}", Some("123"));
        check(r"(?<!no )(error)", "no error", None);
        check(r"(?=e)(error)", "error", Some("error"));
        check(r"[]](x)", "]x", Some("x"));
        check(r"[\w-]+[~~](x)", "a-b~x", Some("x"));
        check(r"([\u00e4]+)", "ä", Some("ä"));
        check(r"(['\x22\-\.])", "\"", Some("\""));
    }

    #[test]
    fn expressions_that_are_wrong_or_too_large_are_refused() {
        for expression in ["(", "a**b(", "[", r"(?P<", r"\p{Nope}"] {
            assert!(Pattern::new(expression).is_err(), "{expression}");
        }
        assert!(Pattern::new(&"a".repeat(9000)).is_err());
        assert!(Pattern::new("(?:(?:a{1000}){1000}){1000}").is_err());
        assert!(Pattern::new(&"(".repeat(8000)).is_err());
        assert!(Pattern::new(&format!("{}{}", "(?=".repeat(1500), ")".repeat(1500))).is_err());
    }

    #[test]
    fn a_search_that_explodes_is_given_up() {
        let pattern = Pattern::new(r"^(?=((a+)+)+$)b").unwrap();
        assert!(pattern.captures(&"a".repeat(5000)).is_ok(), "the inner part is linear");
        let pattern = Pattern::new(r"^((a|aa|(?=a)a)+)+$").unwrap();
        assert_eq!(pattern.captures(&("a".repeat(200) + "!")).err(), Some(Overrun));
    }
}
