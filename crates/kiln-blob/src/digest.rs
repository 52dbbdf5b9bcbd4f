//! SHA-256, in one pass.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::BlobError;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// What a database keeps of one.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = BlobError;

    /// 64 hexadecimals in small letters: a digest has one way to be written.
    fn from_str(text: &str) -> Result<Self, BlobError> {
        let wrong = || BlobError::NotADigest(text.chars().take(80).collect());
        let value = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(wrong()) };
        let byte = |[high, low]: &[u8; 2]| Some(value(*high)? << 4 | value(*low)?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.and_then(|bytes| Self::from_slice(&bytes)).ok_or_else(wrong)
    }
}

/// A SHA-256 and a length under way.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    state: Sha256,
    size: u64,
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.size += bytes.len() as u64;
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn finish(self) -> (Digest, u64) {
        (Digest(self.state.finalize().into()), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_in_one_way() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), Digest::of(b"abc"));
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), (Digest::of(b"abc"), 3));
        for broken in ["", "ba", &text[1..], &text.to_uppercase(), &format!("{text}00"), "ä"] {
            assert!(broken.parse::<Digest>().is_err(), "{broken}");
        }
    }
}
