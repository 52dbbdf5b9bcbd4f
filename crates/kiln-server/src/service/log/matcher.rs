//! What is looked for in lines: a text, or a regular expression.

use std::sync::Arc;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

/// The longest text or expression, in bytes.
const LONGEST: usize = 1_000;
/// What a compiled expression, and what it remembers while it searches, may take.
const SIZE: usize = 1 << 20;

/// Finds lines. A search takes time in proportion to the text, whatever the expression.
#[derive(Debug, Clone)]
pub struct Matcher(Arc<What>);

#[derive(Debug)]
enum What {
    Text(Box<Finder<'static>>),
    Pattern {
        regex: Regex,
        /// Whether it looks at nothing but what it matches: then it can be asked about many lines at once.
        is_plain: bool,
    },
}

impl Matcher {
    /// What is wrong with it is said in words for whoever asked.
    pub fn new(pattern: &str, is_regex: bool, ignore_case: bool) -> Result<Self, String> {
        if pattern.is_empty() || pattern.len() > LONGEST {
            return Err(format!("expected a text of 1 to {LONGEST} bytes"));
        }
        if pattern.contains('\n') {
            return Err("a line has no line break in it".to_owned());
        }
        if !is_regex && !ignore_case {
            return Ok(Self(Arc::new(What::Text(Box::new(Finder::new(pattern).into_owned())))));
        }
        let text = if is_regex { pattern.to_owned() } else { regex::escape(pattern) };
        let regex = RegexBuilder::new(&text)
            .case_insensitive(ignore_case)
            .size_limit(SIZE)
            .dfa_size_limit(SIZE)
            .build()
            .map_err(|error| format!("not a regular expression: {error}"))?;
        let parsed = regex_syntax::ParserBuilder::new().utf8(false).build().parse(&text);
        let is_plain = parsed.is_ok_and(|parsed| parsed.properties().look_set().is_empty());
        Ok(Self(Arc::new(What::Pattern { regex, is_plain })))
    }

    /// Whether it is in the text of a line.
    pub fn matches(&self, text: &[u8]) -> bool {
        match &*self.0 {
            What::Text(finder) => finder.find(text).is_some(),
            What::Pattern { regex, .. } => regex.is_match(text),
        }
    }

    /// Whether it can be in any line of a block. Times and steps between the lines do not matter: what is found
    /// there is looked at line by line.
    pub fn may_be_in(&self, block: &[u8]) -> bool {
        match &*self.0 {
            What::Text(finder) => finder.find(block).is_some(),
            What::Pattern { regex, is_plain } => !is_plain || regex.is_match(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, is_regex: bool, ignore_case: bool, text: &str, expect: bool) {
        let matcher = Matcher::new(pattern, is_regex, ignore_case).unwrap();
        assert_eq!(matcher.matches(text.as_bytes()), expect);
        let block = format!("1 0 before\n2 0 {text}\n3 0 after\n");
        assert!(!expect || matcher.may_be_in(block.as_bytes()), "it must not be passed over");
    }

    /// C8
    #[test]
    fn texts_and_expressions_find_what_they_should() {
        check("a.b", false, false, "xa.bx", true);
        check("a.b", false, false, "xaxbx", false);
        check("a.b", true, false, "xaxbx", true);
        check("ERROR", false, true, "an error", true);
        check("ERROR", false, false, "an error", false);
        check("é", false, true, "É", true);
        for anchored in ["^warn", "^warn$", r"\Awarn", r"\bwarn\b", r"warn\z", "(?m)^warn"] {
            check(anchored, true, false, "warn", true);
            check(anchored, true, false, "a warning", false);
        }
        check(r"a\s+b", true, false, "a  b", true);
        check("[^x]y", true, false, "y", false);
    }

    #[test]
    fn bytes_that_are_no_text_are_searched_too() {
        let matcher = Matcher::new("end", false, false).unwrap();
        assert!(matcher.matches(b"\xff\0end"));
        let matcher = Matcher::new(r"\x00.*end", true, false).unwrap();
        assert!(matcher.matches(b"\xff\0 end"));
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused_with_a_reason() {
        for (pattern, reason) in [
            ("", "1 to 1000 bytes"),
            ("a\nb", "no line break"),
            ("(", "not a regular expression"),
            (r"\w{1000}{1000}", "not a regular expression"),
        ] {
            let error = Matcher::new(pattern, true, false).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
        assert!(Matcher::new(&"x".repeat(LONGEST + 1), false, false).is_err());
    }
}
