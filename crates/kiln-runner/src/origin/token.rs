//! Who may fetch: whoever knows a word that only this run knows.

use std::fmt;

use crate::loopback::secret::{digest, same};

/// Shorter secrets are too easy to guess to open anything.
const SHORTEST: usize = 16;

/// The words that open the origin: the token of the run, and its secrets, since a workflow may give
/// any of them to an action as its token. Only their digests are kept.
#[derive(Clone, Default)]
pub(super) struct Tokens(Vec<[u8; 32]>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    pub(super) fn new<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let words = words.into_iter().filter(|word| word.len() >= SHORTEST);
        Self(words.map(digest).collect())
    }

    /// Whether the value of an `Authorization` header holds one of them, as a password.
    pub(super) fn admit(&self, authorization: Option<&str>) -> bool {
        let given = authorization.and_then(password);
        given.is_some_and(|given| {
            let given = digest(&given);
            // All are looked at, so that time tells nothing about which one was nearly right.
            self.0.iter().fold(false, |found, known| found | same(&given, known))
        })
    }
}

/// The password of `Basic …`; the name of the user means nothing.
fn password(header: &str) -> Option<String> {
    let (scheme, rest) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(decode(rest.trim())?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// Base64 with or without its padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0_u16, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = (held << 6) | u16::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits).expect("eight bits are taken"));
            held &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_back() {
        let check = |text: &str, expect: Option<&[u8]>| {
            assert_eq!(decode(text).as_deref(), expect, "{text}");
        };
        check("", Some(b""));
        check("TWFu", Some(b"Man"));
        check("TWE=", Some(b"Ma"));
        check("TQ==", Some(b"M"));
        check("TQ", Some(b"M"));
        check("+/8=", Some(b"\xfb\xff"));
        check("T\nQ", None);
        check("T-Q_", None);
    }

    #[test]
    fn only_a_known_word_opens() {
        let tokens = Tokens::new(["0123456789abcdef", "short", "another-secret-of-the-run"]);
        let check = |header: Option<&str>, expect: bool| {
            assert_eq!(tokens.admit(header), expect, "{header:?}");
        };
        // x-access-token:0123456789abcdef
        check(Some("basic eC1hY2Nlc3MtdG9rZW46MDEyMzQ1Njc4OWFiY2RlZg=="), true);
        check(Some("Basic eC1hY2Nlc3MtdG9rZW46MDEyMzQ1Njc4OWFiY2RlZg"), true);
        // :another-secret-of-the-run
        check(Some("basic OmFub3RoZXItc2VjcmV0LW9mLXRoZS1ydW4="), true);
        // x-access-token:0123456789abcdee
        check(Some("basic eC1hY2Nlc3MtdG9rZW46MDEyMzQ1Njc4OWFiY2RlZQ=="), false);
        // x-access-token:short, which is a secret but no token
        check(Some("basic eC1hY2Nlc3MtdG9rZW46c2hvcnQ="), false);
        check(Some("bearer 0123456789abcdef"), false);
        check(Some("basic !"), false);
        check(Some("basic"), false);
        check(None, false);
        assert!(!Tokens::default().admit(Some("basic Og==")), "an empty password opens nothing");
    }
}
