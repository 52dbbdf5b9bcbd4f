//! Names of objects.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::{BlobError, Digest};

/// The longest name that every backend takes.
const LONGEST: usize = 400;
/// The longest part between two slashes, as file systems have it.
const LONGEST_PART: usize = 200;

/// A name such as `logs/17/3.zst`: parts of letters, digits, `.`, `_` and `-`, between slashes. None
/// begins with a dot, so that no name leads out of a folder or to what a backend keeps for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    pub fn new(text: impl Into<String>) -> Result<Self, BlobError> {
        let text = text.into();
        let fits = |part: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            (1..=LONGEST_PART).contains(&part.len())
                && !part.starts_with('.')
                && part.bytes().all(is_plain)
        };
        if text.len() <= LONGEST && text.split('/').all(fits) {
            return Ok(Self(text));
        }
        Err(BlobError::NotAName(text.chars().take(LONGEST).collect()))
    }

    /// A new name for bytes with this digest, below a folder such as `blobs`. Nobody else has it.
    pub fn of_blob(folder: &str, digest: Digest) -> Self {
        let hex = digest.to_string();
        Self(format!("{folder}/{}/{}/{hex}.{}", &hex[..2], &hex[2..4], random()))
    }

    /// A new name for bytes whose digest is not known yet. Nobody else has it.
    pub fn fresh(folder: &str) -> Self {
        let random = random();
        Self(format!("{folder}/{}/{random}", &random[..2]))
    }

    /// The digest that [`Name::of_blob`] has put in.
    pub fn digest(&self) -> Option<Digest> {
        let (hex, _) = self.0.rsplit('/').next()?.split_once('.')?;
        hex.parse().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies below a folder.
    pub fn is_below(&self, folder: &Self) -> bool {
        self.0.strip_prefix(&folder.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// 128 bits that nobody can guess.
fn random() -> String {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("the kernel always has random bytes");
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = BlobError;

    fn from_str(text: &str) -> Result<Self, BlobError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_its_folder() {
        for good in ["a", "logs/17/3.zst", "a/b-c_d.e", "A/0"] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        let long = "a/".repeat(300);
        let wide = "a".repeat(201);
        let broken =
            ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/.tmp", "ä", "a b", "a\0"];
        for broken in broken.into_iter().chain([long.as_str(), wide.as_str(), "a\\b", "a%2f"]) {
            assert!(Name::new(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn names_of_the_same_bytes_differ_and_lead_back_to_the_digest() {
        let digest = Digest::of(b"x");
        let [one, two] = [(); 2].map(|()| Name::of_blob("blobs", digest));
        assert_ne!(one, two);
        assert_eq!(one.digest(), Some(digest));
        assert!(Name::new(one.as_str()).is_ok() && one.is_below(&Name::new("blobs").unwrap()));
        assert_eq!(Name::fresh("blobs").digest(), None);
        assert!(!Name::new("blobs2/a").unwrap().is_below(&Name::new("blobs").unwrap()));
    }
}
