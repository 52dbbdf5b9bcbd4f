//! Reads a pattern into steps, with errors that say what to write instead.

use super::PatternError;
use super::automaton::{Accepts, Step};

/// The steps of the pattern behind its `!`, which ends at `start`.
pub(super) fn steps(text: &str, start: usize) -> Result<Vec<Step>, PatternError> {
    if start == text.len() {
        let message = if text.is_empty() {
            "a pattern cannot be empty"
        } else {
            "`!` must be followed by the pattern it takes out"
        };
        return Err(PatternError::new(message, 0..text.len()));
    }
    let mut reader = Reader { text, at: start, steps: Vec::new(), repeatable: Repeatable::Nothing };
    while let Some(c) = reader.next() {
        reader.element(c)?;
    }
    Ok(reader.steps)
}

/// What a following `?` or `+` would apply to.
#[derive(Clone, Copy)]
enum Repeatable {
    Nothing,
    Character,
    /// `*`, `**` or something that carries `?` or `+` already, as written.
    Repeated(&'static str),
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    steps: Vec<Step>,
    repeatable: Repeatable,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn element(&mut self, c: char) -> Result<(), PatternError> {
        match c {
            '*' => {
                self.star();
                Ok(())
            }
            '?' | '+' => self.repeat(c),
            '[' => {
                let class = self.class()?;
                self.character(class);
                Ok(())
            }
            '\\' => {
                let escaped = self.next().ok_or_else(|| {
                    let message = "`\\` at the end escapes nothing; write `\\\\` for a backslash";
                    PatternError::new(message, self.at - 1..self.at)
                })?;
                self.character(Accepts::One(escaped));
                Ok(())
            }
            other => {
                self.character(Accepts::One(other));
                Ok(())
            }
        }
    }

    fn character(&mut self, accepts: Accepts) {
        self.steps.push(Step::once(accepts));
        self.repeatable = Repeatable::Character;
    }

    /// A run of stars; the first one has been read.
    fn star(&mut self) {
        let start = self.at - 1;
        if !self.take("*") {
            self.steps.push(Step::any_number(Accepts::NotSlash));
            self.repeatable = Repeatable::Repeated("*");
            return;
        }
        while self.take("*") {}
        let before = self.text[..start].trim_start_matches('!');
        let opens_segment = before.is_empty() || before.ends_with('/');
        let slash_is_repeated = self.rest().starts_with("/?") || self.rest().starts_with("/+");
        if opens_segment && !slash_is_repeated && self.take("/") {
            self.steps.extend(Step::directories());
            // No `?` or `+` follows here, so nobody asks what it would apply to.
            self.repeatable = Repeatable::Nothing;
        } else {
            self.steps.push(Step::any_number(Accepts::Any));
            self.repeatable = Repeatable::Repeated("**");
        }
    }

    /// `?` or `+`, which has been read.
    fn repeat(&mut self, sign: char) -> Result<(), PatternError> {
        let span = self.at - 1..self.at;
        match self.repeatable {
            Repeatable::Nothing => {
                let message = format!(
                    "`{sign}` repeats the character before it, and there is none; \
                     write `\\{sign}` for the character itself"
                );
                Err(PatternError::new(message, span))
            }
            // As in a regular expression, `?` behind a repetition does not change what matches.
            Repeatable::Repeated(_) if sign == '?' => Ok(()),
            Repeatable::Repeated(written) => {
                let message = format!(
                    "`+` cannot repeat `{written}`, which already stands for repetition; \
                     write `\\+` for a plus sign"
                );
                Err(PatternError::new(message, span))
            }
            Repeatable::Character => {
                let step = self.steps.last_mut().expect("a character has pushed a step");
                step.optional = sign == '?';
                step.repeats = sign == '+';
                self.repeatable = Repeatable::Repeated(if sign == '?' { "?" } else { "+" });
                Ok(())
            }
        }
    }

    /// `[…]`, of which the `[` has been read.
    fn class(&mut self) -> Result<Accepts, PatternError> {
        let open = self.at - 1;
        let mut ranges = Vec::new();
        if self.rest().starts_with(['!', '^']) {
            let message = "a class cannot be negated; \
                           take names out with a separate pattern that starts with `!`";
            return Err(PatternError::new(message, open..self.at + 1));
        }
        loop {
            if self.take("]") {
                break;
            }
            let start = self.at;
            let low = self.class_character(open)?;
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            let high = if is_range {
                self.at += 1;
                self.class_character(open)?
            } else {
                low
            };
            if is_range {
                self.check_range(low, high, start)?;
            }
            ranges.push((low, high));
        }
        if ranges.is_empty() {
            let message = "`[]` lists no characters; write `\\[\\]` for the brackets themselves";
            return Err(PatternError::new(message, open..self.at));
        }
        Ok(Accepts::Class(ranges))
    }

    fn class_character(&mut self, open: usize) -> Result<char, PatternError> {
        let escaped = self.take("\\");
        self.next().ok_or_else(|| {
            let missing = if escaped { "a character and `]` are" } else { "`]` is" };
            let message =
                format!("{missing} missing after this `[`; write `\\[` for the bracket itself");
            PatternError::new(message, open..open + 1)
        })
    }

    fn check_range(&self, low: char, high: char, start: usize) -> Result<(), PatternError> {
        let span = start..self.at;
        let written = &self.text[span.clone()];
        let message = if !low.is_ascii_alphanumeric() || !high.is_ascii_alphanumeric() {
            format!(
                "the range `{written}` must run between letters or digits, as in `a-z` or `0-9`"
            )
        } else if low > high {
            format!("the range `{written}` is reversed; write `{high}-{low}`")
        } else {
            return Ok(());
        };
        Err(PatternError::new(message, span))
    }
}
