//! The pattern dialect of `branches`, `tags` and `paths`.
//!
//! It looks like a shell glob and is not one: `?` and `+` repeat the character before them, `**`
//! crosses directories anywhere, and a leading `!` takes names out again. A pattern must match the
//! whole name, case counts, and in a list the last pattern that matches has the say.
//!
//! Patterns come from repositories we do not trust. They compile to a small automaton that is
//! walked with a set of states, so matching costs at most pattern length times name length.

mod automaton;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use automaton::Automaton;

/// Longer than any path git will check out; a pattern beyond it is a mistake or an attack.
const MAX_PATTERN_BYTES: usize = 4096;

/// One compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    negated: bool,
    automaton: Automaton,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            let message = format!("a pattern can have at most {MAX_PATTERN_BYTES} bytes");
            return Err(PatternError::new(message, 0..text.len()));
        }
        let negated = text.starts_with('!');
        let automaton = Automaton::new(parse::steps(text, usize::from(negated))?);
        Ok(Self { text: text.to_owned(), negated, automaton })
    }

    /// Whether the name is one the pattern speaks about. A negated pattern answers for the part
    /// behind its `!`; what that means for the list is [`Filter`]'s business.
    pub fn matches(&self, name: &str) -> bool {
        self.automaton.accepts(name)
    }

    /// The pattern as it was written, with its `!`.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_negated(&self) -> bool {
        self.negated
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Two patterns are the same if they are written the same.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// What is wrong with a pattern, and where in its text (in bytes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    pub message: String,
    pub span: Range<usize>,
}

impl PatternError {
    fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternError {}

/// A list of patterns, read from top to bottom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    patterns: Vec<Pattern>,
}

impl Filter {
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self { patterns }
    }

    /// Compiles a list; on failure, also says which entry is wrong.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, (usize, PatternError)> {
        let compile = |(at, text): (usize, &T)| Pattern::parse(text.as_ref()).map_err(|e| (at, e));
        texts.iter().enumerate().map(compile).collect::<Result<_, _>>().map(Self::new)
    }

    /// Whether the list takes the name in: the last pattern that matches it is a positive one.
    pub fn matches(&self, name: &str) -> bool {
        self.deciding(name).is_some_and(|pattern| !pattern.is_negated())
    }

    /// The last pattern that matches the name, which is the one that decides; a negated one
    /// decides against it.
    pub fn deciding(&self, name: &str) -> Option<&Pattern> {
        self.patterns.iter().rev().find(|pattern| pattern.matches(name))
    }

    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// A list without a positive pattern takes nothing in, whatever the name.
    pub fn never_matches(&self) -> bool {
        self.patterns.iter().all(Pattern::is_negated)
    }
}
