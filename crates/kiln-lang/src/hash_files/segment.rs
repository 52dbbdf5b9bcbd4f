//! One segment of a pattern: what stands between two slashes.

use super::class::{Class, class};

/// What a segment matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// `**`: any number of names.
    Globstar,
    Literal(String),
    Glob(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Star,
    Class(Class),
    /// A class that lists nothing, so that the segment matches nothing.
    Nothing,
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(only) => *only == c,
            Self::One => true,
            Self::Class(class) => class.contains(c),
            Self::Star | Self::Nothing => false,
        }
    }
}

impl Segment {
    pub(super) fn parse(text: &str) -> Self {
        if text == "**" {
            return Self::Globstar;
        }
        let chars: Vec<char> = text.chars().collect();
        let tokens = tokens(&chars);
        let as_char = |token: &Token| match token {
            Token::Char(c) => Some(*c),
            _ => None,
        };
        match tokens.iter().map(as_char).collect::<Option<String>>() {
            Some(literal) => Self::Literal(literal),
            None => Self::Glob(tokens),
        }
    }

    /// Whether the segment matches a single name; `**` is the caller's business.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Globstar => false,
            Self::Literal(literal) => literal == name,
            // An empty name stands for the end of a path with a slash, which no glob matches.
            Self::Glob(tokens) => !name.is_empty() && glob_matches(tokens, name),
        }
    }
}

/// The text of a segment with its escapes removed, or nothing if it contains a wildcard. This is
/// how search roots are found, by coarser rules than those for matching.
pub(super) fn literal(text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut literal = String::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        match c {
            '\\' if at < chars.len() => {
                literal.push(chars[at]);
                at += 1;
            }
            '*' | '?' => return None,
            '[' => match literal_class(&chars, at) {
                Some((listed, end)) => match listed.as_slice() {
                    [] => literal.push('['),
                    &[only] => {
                        literal.push(only);
                        at = end;
                    }
                    _ => return None,
                },
                None => literal.push('['),
            },
            other => literal.push(other),
        }
    }
    Some(literal)
}

/// What a class lists, up to the first `]`, and where it ends; nothing if it does not end.
fn literal_class(chars: &[char], mut at: usize) -> Option<(Vec<char>, usize)> {
    let mut listed = Vec::new();
    while at < chars.len() {
        match chars[at] {
            '\\' if at + 1 < chars.len() => {
                listed.push(chars[at + 1]);
                at += 1;
            }
            ']' => return Some((listed, at + 1)),
            other => listed.push(other),
        }
        at += 1;
    }
    None
}

fn tokens(chars: &[char]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        match c {
            '*' if tokens.last() == Some(&Token::Star) => {}
            '*' => tokens.push(Token::Star),
            '?' => tokens.push(Token::One),
            '\\' if at < chars.len() => {
                tokens.push(Token::Char(chars[at]));
                at += 1;
            }
            '[' => match class(&chars[at..]) {
                Some((token, length)) => {
                    tokens.push(token);
                    at += length;
                }
                None => tokens.push(Token::Char('[')),
            },
            other => tokens.push(Token::Char(other)),
        }
    }
    tokens
}

/// Greedy, with one step back to the last star, which is enough where only stars repeat.
fn glob_matches(tokens: &[Token], name: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    let mut last_star = None;
    while at < chars.len() {
        match tokens.get(token) {
            Some(Token::Star) => {
                token += 1;
                last_star = Some((token, at));
            }
            Some(one) if one.takes(chars[at]) => {
                token += 1;
                at += 1;
            }
            _ => {
                let Some((behind_star, swallowed)) = last_star else {
                    return false;
                };
                (token, at) = (behind_star, swallowed + 1);
                last_star = Some((behind_star, at));
            }
        }
    }
    tokens[token..].iter().all(|rest| *rest == Token::Star)
}
