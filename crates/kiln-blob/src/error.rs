//! What can go wrong with bytes.

use std::io;

use crate::{Digest, Name};

/// Why bytes could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no object `{0}`")]
    NotFound(Name),
    #[error(
        "`{0}` is no name of an object; expected parts of letters, digits, `.`, `_` and `-` between slashes, none of which begins with a dot"
    )]
    NotAName(String),
    #[error("`{0}` is no SHA-256; expected 64 hexadecimals in small letters")]
    NotADigest(String),
    #[error("the bytes have the SHA-256 {found}, expected {expected}; send them again")]
    WrongDigest { expected: Digest, found: Digest },
    #[error("there are {found} bytes, expected {expected}; send them again")]
    WrongSize { expected: u64, found: u64 },
    #[error("`{name}` has {size} bytes, so that it has none from {from} on")]
    OutOfRange { name: Name, from: u64, size: u64 },
    #[error("no room is left in `{place}`; free some, nothing of this was kept")]
    Full { place: String },
    #[error("cannot {what} `{name}`: {error}")]
    Io { what: &'static str, name: String, error: io::Error },
    #[error("cannot {what} `{name}` in the object store: {error}")]
    Remote { what: &'static str, name: String, error: String },
    #[error("`{name}` is damaged: {why}")]
    Damaged { name: String, why: String },
    /// Whoever sends the bytes broke off.
    #[error("the bytes stopped coming: {0}")]
    Cut(String),
    #[error("{0}")]
    Invalid(String),
}

impl BlobError {
    pub(crate) fn damaged(name: &Name, why: impl Into<String>) -> Self {
        Self::Damaged { name: name.to_string(), why: why.into() }
    }

    /// Whether the sender of the bytes is to blame, and not the place where they go.
    pub fn is_of_sender(&self) -> bool {
        matches!(
            self,
            Self::WrongDigest { .. } | Self::WrongSize { .. } | Self::Cut(_) | Self::Invalid(_)
        )
    }
}
