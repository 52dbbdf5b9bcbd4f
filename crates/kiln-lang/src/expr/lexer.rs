//! Text to tokens, one at a time, so that the first error of the text is the one reported.

use std::ops::Range;

use super::ast::{Comparison, Logical};
use super::error::ExprError;
use super::number;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token {
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Comma,
    Dot,
    Star,
    Not,
    Compare(Comparison),
    Logical(Logical),
    Number(f64),
    /// A string in single quotes; [`string_value`] gives what it says.
    String,
    /// A context, a property or a keyword.
    Name,
    /// A name with an opening parenthesis behind it.
    Function,
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) span: Range<usize>,
}

/// Reads the tokens of one range of a text; spans count from the start of the whole text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    /// The text up to the end of the range.
    text: &'a str,
    at: usize,
    /// A dot after an operand is a dereference; anywhere else it starts a number.
    after_operand: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, range: Range<usize>) -> Self {
        Self { text: &text[..range.end], at: range.start, after_operand: false }
    }

    pub(super) fn next(&mut self) -> Result<Lexeme, ExprError> {
        self.at = self.text.len() - self.rest().trim_start().len();
        let start = self.at;
        let token = self.token()?;
        self.after_operand = matches!(
            token,
            Token::CloseParen
                | Token::CloseBracket
                | Token::Star
                | Token::Number(_)
                | Token::String
                | Token::Name
        );
        Ok(Lexeme { token, span: start..self.at })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn token(&mut self) -> Result<Token, ExprError> {
        let Some(first) = self.rest().bytes().next() else {
            return Ok(Token::End);
        };
        if let Some((token, length)) = operator(self.rest()) {
            self.at += length;
            return Ok(token);
        }
        match first {
            b'.' if self.after_operand => {
                self.at += 1;
                Ok(Token::Dot)
            }
            b'.' | b'+' | b'-' | b'0'..=b'9' => self.number(),
            b'\'' => self.string(),
            _ => self.name(),
        }
    }

    fn number(&mut self) -> Result<Token, ExprError> {
        let raw = self.take(|letter| letter == '.' || !is_boundary(letter));
        let number = number::parse(raw);
        if number.is_nan() { Err(self.unexpected(raw)) } else { Ok(Token::Number(number)) }
    }

    fn string(&mut self) -> Result<Token, ExprError> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end) {
                None => {
                    let message = "this string is never closed";
                    return Err(ExprError::lexing(self.at..self.text.len(), message)
                        .help("end it with `'`; a quote inside a string is written twice: `''`"));
                }
                Some(b'\'') if bytes.get(end + 1) == Some(&b'\'') => end += 2,
                Some(b'\'') => break,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        Ok(Token::String)
    }

    fn name(&mut self) -> Result<Token, ExprError> {
        let raw = self.take(|letter| !is_boundary(letter));
        if !is_name(raw) {
            return Err(self.unexpected(raw));
        }
        let calls = self.rest().trim_start().starts_with('(');
        Ok(if calls { Token::Function } else { Token::Name })
    }

    /// Consumes one character and those after it for which the test holds.
    fn take(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let ends = |&(index, letter): &(usize, char)| index > 0 && !holds(letter);
        let length = rest.char_indices().find(ends).map_or(rest.len(), |(index, _)| index);
        self.at += length;
        &rest[..length]
    }

    /// The error for a symbol that was just consumed and is no token.
    fn unexpected(&self, raw: &str) -> ExprError {
        let start = self.at - raw.len();
        let error = ExprError::lexing(start..self.at, format!("unexpected `{raw}`"));
        let from = &self.text[start..];
        let first = from.chars().next().unwrap_or_default();
        match first {
            '=' => error.help("compare with `==`"),
            '&' => error.help("write `&&` for a logical and"),
            '|' => error.help("write `||` for a logical or"),
            '"' => double_quotes(from, start),
            '$' if from.starts_with("${{") => {
                ExprError::lexing(start..start + 3, "`${{` cannot stand inside an expression")
                    .help("this is already an expression; remove the inner `${{` and `}}`")
            }
            '$' if from.starts_with("${") => error.help("write `${{ … }}`, with two braces"),
            '$' => error.help(
                "shell variables do not exist here; use a context such as `github.ref` or `env.NAME`",
            ),
            '?' if from.starts_with("??") => error.help("there is no `??`; write `a || b`"),
            '?' => error.help("there is no `? :`; write `case(condition, value, otherwise)`"),
            '`' => error.help("strings need single quotes: `'…'`"),
            _ if raw.chars().all(char::is_alphanumeric) => {
                error.help(format!("write such a name as an index: `['{raw}']`"))
            }
            _ => match raw.find(['+', '-', '*', '/', '%']) {
                Some(_) if is_arithmetic(raw) => error.help(NO_ARITHMETIC),
                Some(_) if first.is_ascii_alphabetic() || first == '.' => {
                    error.help("text such as a path needs single quotes: `'…'`")
                }
                _ => error,
            },
        }
    }
}

pub(super) const NO_ARITHMETIC: &str =
    "expressions have no arithmetic; compute the value in a step and use its output";

/// The value of a string token: its text without the quotes and with doubled quotes undone.
pub(super) fn string_value(raw: &str) -> String {
    raw[1..raw.len() - 1].replace("''", "'")
}

fn operator(rest: &str) -> Option<(Token, usize)> {
    let bytes = rest.as_bytes();
    let two = match bytes.get(..2) {
        Some(b"==") => Some(Token::Compare(Comparison::Equal)),
        Some(b"!=") => Some(Token::Compare(Comparison::NotEqual)),
        Some(b"<=") => Some(Token::Compare(Comparison::LessOrEqual)),
        Some(b">=") => Some(Token::Compare(Comparison::GreaterOrEqual)),
        Some(b"&&") => Some(Token::Logical(Logical::And)),
        Some(b"||") => Some(Token::Logical(Logical::Or)),
        _ => None,
    };
    if let Some(token) = two {
        return Some((token, 2));
    }
    let token = match bytes.first()? {
        b'(' => Token::OpenParen,
        b')' => Token::CloseParen,
        b'[' => Token::OpenBracket,
        b']' => Token::CloseBracket,
        b',' => Token::Comma,
        b'*' => Token::Star,
        b'!' => Token::Not,
        b'<' => Token::Compare(Comparison::Less),
        b'>' => Token::Compare(Comparison::Greater),
        _ => return None,
    };
    Some((token, 1))
}

fn is_boundary(letter: char) -> bool {
    matches!(letter, '(' | '[' | ')' | ']' | ',' | '.' | '!' | '>' | '<' | '=' | '&' | '|')
        || letter.is_whitespace()
}

/// Whether a text can be written as a context or property name.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether an unexpected symbol looks like a computation rather than like a path.
fn is_arithmetic(raw: &str) -> bool {
    let operators = |letter: char| "+-*/%".contains(letter);
    raw.chars().all(operators)
        || raw.split(operators).all(|part| part.is_empty() || !number::parse(part).is_nan())
        || raw.contains(['*', '+', '%'])
}

fn double_quotes(from: &str, start: usize) -> ExprError {
    let length = from[1..].find('"').map_or(1, |end| end + 2);
    let inner = from[1..length].trim_end_matches('"');
    let error = ExprError::lexing(start..start + length, "strings need single quotes");
    if length > 1 { error.help(format!("write `'{}'`", inner.replace('\'', "''"))) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(text, 0..text.len());
        let mut tokens = Vec::new();
        loop {
            match lexer.next().expect("the text has only tokens").token {
                Token::End => return tokens,
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn a_dot_after_an_operand_is_a_dereference_and_elsewhere_a_number() {
        assert_eq!(tokens("a.b"), [Token::Name, Token::Dot, Token::Name]);
        assert_eq!(tokens("[.5]"), [Token::OpenBracket, Token::Number(0.5), Token::CloseBracket]);
        assert_eq!(tokens("-.5"), [Token::Number(-0.5)]);
        assert_eq!(tokens(").x"), [Token::CloseParen, Token::Dot, Token::Name]);
    }

    #[test]
    fn names_may_hold_hyphens_and_know_when_they_call() {
        assert_eq!(tokens("a-b_1"), [Token::Name]);
        assert_eq!(tokens("f\n ("), [Token::Function, Token::OpenParen]);
    }

    #[track_caller]
    fn check_error(text: &str, span: Range<usize>, message: &str, help: &str) {
        let mut lexer = Lexer::new(text, 0..text.len());
        let error = loop {
            match lexer.next() {
                Ok(lexeme) => assert_ne!(lexeme.token, Token::End, "{text} has only tokens"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.span, error.message.as_str()), (span, message), "{text}");
        let found = error.help.unwrap_or_default();
        assert!(found.contains(help), "{text}: {found}");
    }

    #[test]
    fn common_mistakes_have_their_own_help() {
        check_error("a = b", 2..3, "unexpected `=`", "`==`");
        check_error("a === b", 4..5, "unexpected `=`", "`==`");
        check_error("a & b", 2..3, "unexpected `&`", "`&&`");
        check_error("a | b", 2..3, "unexpected `|`", "`||`");
        check_error("a == \"it's\"", 5..11, "strings need single quotes", "`'it''s'`");
        check_error("\"", 0..1, "strings need single quotes", "");
        check_error("'abc", 0..4, "this string is never closed", "`''`");
        check_error("a == ${{ b }}", 5..8, "`${{` cannot stand inside an expression", "remove");
        check_error("1+2", 0..3, "unexpected `1+2`", "no arithmetic");
        check_error("a + b", 2..3, "unexpected `+`", "no arithmetic");
        check_error("a / 2", 2..3, "unexpected `/`", "no arithmetic");
        check_error("a*b", 0..3, "unexpected `a*b`", "no arithmetic");
        check_error("refs/heads/main", 0..15, "unexpected `refs/heads/main`", "single quotes");
        check_error("-0xFF", 0..5, "unexpected `-0xFF`", "");
        check_error("😊 x", 0..4, "unexpected `😊`", "");
    }
}
