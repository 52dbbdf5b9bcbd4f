//! Plans, payloads and contexts: big texts that never change, found by the SHA-256 of their text.

use sha2::{Digest as _, Sha256};

use super::names;
use super::scope::Scope;
use crate::tx::millis;
use crate::{StoreError, Tx};

/// The longest text that is kept.
const LONGEST: usize = 64 << 20;

/// How old a document may get, in milliseconds, before using it again makes it young: half of the time
/// of grace that retention gives.
const RENEWED_AFTER: i64 = 12 * 60 * 60 * 1000;

/// The SHA-256 of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl From<Hash> for crate::Value {
    fn from(hash: Hash) -> Self {
        hash.0.as_slice().into()
    }
}

impl crate::FromValue for Hash {
    const EXPECTED: &'static str = "a SHA-256";

    fn from_value(value: &crate::Value) -> Option<Self> {
        match value {
            crate::Value::Bytes(bytes) => bytes.as_ref().try_into().ok().map(Self),
            _ => None,
        }
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Refuses a text that cannot be kept.
pub(crate) fn check(text: &str) -> Result<(), StoreError> {
    if text.len() <= LONGEST && !text.contains('\0') {
        return Ok(());
    }
    names::invalid(format!(
        "the document cannot be kept; expected up to {LONGEST} bytes without the character 0"
    ))
}

/// Keeps a text, once, however often it is put.
pub async fn put(tx: &mut Tx<'_>, text: &str) -> Result<Hash, StoreError> {
    check(text)?;
    let hash = Hash::of(text);
    let now = millis(tx.now());
    // Looked for first: an upsert locks the row even if it changes nothing, and everybody who starts the
    // same workflow would wait for everybody else.
    let young = "SELECT 1 FROM documents WHERE hash = $1 AND created_at >= $2";
    if tx.row(young, &[hash.into(), (now - RENEWED_AFTER).into()]).await?.is_some() {
        return Ok(hash);
    }
    // One that is used again is young again, or retention could take it from under its new user.
    tx.execute(
        "INSERT INTO documents (hash, body, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (hash) DO UPDATE SET created_at = excluded.created_at
         WHERE documents.created_at < $4",
        &[hash.into(), text.into(), now.into(), (now - RENEWED_AFTER).into()],
    )
    .await?;
    Ok(hash)
}

/// Documents belong to no organization; those who refer to one fetch it, after they have checked whose
/// their own row is.
pub async fn get(tx: &mut Tx<'_>, scope: Scope, hash: Hash) -> Result<String, StoreError> {
    scope.system("document")?;
    tx.one("document", "SELECT body FROM documents WHERE hash = $1", &[hash.into()]).await?.get(0)
}
