//! Classes of characters, `[a-z]`, with the quirks of the library GitHub uses.

use super::segment::Token;

/// The characters between `[` and `]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Class {
    negated: bool,
    ranges: Vec<(char, char)>,
    /// Such as `alpha`, from `[:alpha:]`.
    named: Vec<&'static str>,
}

const NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl Class {
    pub(super) fn contains(&self, c: char) -> bool {
        let listed = self.ranges.iter().any(|&(low, high)| low <= c && c <= high)
            || self.named.iter().any(|name| is_named(name, c));
        listed != self.negated
    }

    /// A class of one character is that character, and one of none matches nothing.
    fn into_token(self) -> Token {
        match self.ranges.as_slice() {
            [] if self.named.is_empty() => Token::Nothing,
            &[(low, high)] if low == high && self.named.is_empty() && !self.negated => {
                Token::Char(low)
            }
            _ => Token::Class(self),
        }
    }
}

/// Reads the class behind a `[`; gives it with its length including the `]`, or nothing if it is
/// not closed and the `[` stands for itself.
pub(super) fn class(chars: &[char]) -> Option<(Token, usize)> {
    let mut class = Class::default();
    let mut at = 0;
    if let Some('!' | '^') = chars.first() {
        class.negated = true;
        at = 1;
    }
    let first = at;
    let mut range_from: Option<char> = None;
    loop {
        let mut c = *chars.get(at)?;
        // A `]` right at the start is listed and closes nothing.
        if c == ']' && at > first {
            return Some((class.into_token(), at + 1));
        }
        if let Some(name) = named_class(&chars[at..]) {
            if range_from.is_some() {
                // A range that ends in a named class spoils the whole segment.
                return Some((Token::Nothing, chars.len()));
            }
            class.named.push(name);
            at += name.len() + "[::]".len();
            continue;
        }
        if c == '\\' {
            at += 1;
            c = *chars.get(at)?;
        }
        at += 1;
        range_from = match (range_from, &chars[at..]) {
            // A range that runs backwards lists nothing.
            (Some(low), _) => {
                class.ranges.extend((low <= c).then_some((low, c)));
                None
            }
            (None, ['-', ']', ..]) => {
                class.ranges.extend([(c, c), ('-', '-')]);
                at += 1;
                None
            }
            (None, ['-', ..]) => {
                at += 1;
                Some(c)
            }
            (None, _) => {
                class.ranges.push((c, c));
                None
            }
        };
    }
}

/// The name of a class such as `[:alpha:]` at the start of the text.
fn named_class(chars: &[char]) -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let written = format!("[:{name}:]");
        written.chars().eq(chars.iter().copied().take(written.len()))
    })
}

fn is_named(name: &str, c: char) -> bool {
    match name {
        "alnum" => c.is_alphanumeric(),
        "alpha" => c.is_alphabetic(),
        "ascii" => c.is_ascii(),
        "blank" => c == ' ' || c == '\t',
        "cntrl" => c.is_control(),
        "digit" => c.is_ascii_digit(),
        "graph" => !c.is_whitespace() && !c.is_control(),
        "lower" => c.is_lowercase(),
        "print" => !c.is_control(),
        "punct" => c.is_ascii_punctuation(),
        "space" => c.is_whitespace(),
        "upper" => c.is_uppercase(),
        "word" => c.is_alphanumeric() || c == '_',
        _ => c.is_ascii_hexdigit(),
    }
}
