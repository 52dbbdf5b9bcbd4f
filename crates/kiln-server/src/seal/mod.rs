//! Secrets at rest and on their way to runners.
//!
//! At rest a secret is sealed with AES-256-GCM and a random nonce; whose it is and how it is called is
//! part of what the seal covers, so that no row can stand in for another. How it is sealed to a runner says
//! [`letters`].

mod letters;

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use kiln_core::id::OrgId;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::{Sealed, Secret};
use sha2::{Digest as _, Sha256};

use crate::token::random;

pub use letters::{Letters, open_from};

/// The bytes of a key.
pub const KEY: usize = 32;
/// The bytes of a public key of X25519.
pub const PUBLIC_KEY: usize = 32;

/// A key of the ring. Its id stands beside everything that it sealed.
#[derive(Clone)]
pub struct Key {
    pub id: String,
    pub bytes: [u8; KEY],
}

impl Key {
    /// A new one that nobody can guess, named by its own hash.
    pub fn generate() -> Self {
        Self::of(random())
    }

    pub fn of(bytes: [u8; KEY]) -> Self {
        Self { id: fingerprint(&[b"kiln key 1", &bytes[..]].concat()), bytes }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// Opens secrets that are kept, and seals new ones with the current key.
#[derive(Debug, Clone)]
pub struct Vault {
    current: Key,
    /// Those that were current before.
    older: Vec<Key>,
}

/// Why a secret cannot be had. It never says anything about what is inside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the key `{0}` is not here; restore it to the folder of keys")]
    NoSuchKey(String),
    #[error("the secret `{0}` was changed or belongs elsewhere; set it again")]
    Broken(String),
    #[error("the public key of the runner is not one of X25519; register the runner again")]
    NotAPublicKey,
}

impl Vault {
    pub fn new(current: Key, older: Vec<Key>) -> Self {
        Self { current, older }
    }

    /// With which key new secrets are sealed.
    pub fn key_id(&self) -> &str {
        &self.current.id
    }

    pub fn seal(&self, org: OrgId, holder: Holder, name: &str, plain: &[u8]) -> Sealed {
        self.seal_at(place(org, holder, name), plain)
    }

    /// Something of the installation itself.
    pub fn seal_own(&self, name: &str, plain: &[u8]) -> Sealed {
        self.seal_at(own_place(name), plain)
    }

    fn seal_at(&self, place: Vec<u8>, plain: &[u8]) -> Sealed {
        let nonce = random::<NONCE_LEN>();
        let mut bytes = plain.to_vec();
        let aad = Aad::from(place);
        cipher(&self.current.bytes)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes)
            .expect("a secret is far shorter than what AES-GCM can take");
        Sealed { key_id: self.current.id.clone(), bytes: [&nonce[..], &bytes].concat() }
    }

    pub fn open(&self, secret: &Secret) -> Result<Vec<u8>, SealError> {
        let place = place(secret.org, secret.holder, &secret.name);
        self.open_at(place, &secret.name, &secret.sealed)
    }

    /// What [`Vault::seal_own`] sealed under this name.
    pub fn open_own(&self, name: &str, sealed: &Sealed) -> Result<Vec<u8>, SealError> {
        self.open_at(own_place(name), name, sealed)
    }

    fn open_at(&self, place: Vec<u8>, name: &str, from: &Sealed) -> Result<Vec<u8>, SealError> {
        let broken = || SealError::Broken(name.to_owned());
        let id = &from.key_id;
        let key = std::iter::once(&self.current).chain(&self.older).find(|key| key.id == *id);
        let key = key.ok_or_else(|| SealError::NoSuchKey(id.clone()))?;
        let (nonce, sealed) = from.bytes.split_at_checked(NONCE_LEN).ok_or_else(broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| broken())?;
        let aad = Aad::from(place);
        let mut bytes = sealed.to_vec();
        let plain = cipher(&key.bytes).open_in_place(nonce, aad, &mut bytes);
        plain.map(|plain| plain.to_vec()).map_err(|_| broken())
    }
}

/// What a seal is bound to. Names hold no character 0, so that no two places read alike.
fn place(org: OrgId, holder: Holder, name: &str) -> Vec<u8> {
    let (kind, id) = match holder {
        Holder::Org(id) => ("org", id.0),
        Holder::Repo(id) => ("repo", id.0),
        Holder::Environment(id) => ("environment", id.0),
    };
    format!("kiln secret 1\0{org}\0{kind}\0{id}\0{name}").into_bytes()
}

/// Of what belongs to the installation.
fn own_place(name: &str) -> Vec<u8> {
    format!("kiln own 1\0{name}").into_bytes()
}

fn cipher(key: &[u8; KEY]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("the key has the right length"))
}

/// The first 16 hexadecimals of the SHA-256: names a key without telling it.
pub fn fingerprint(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).fold(String::new(), |mut text, byte| {
        use fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use kiln_core::id::{EnvironmentId, RepoId};

    use super::*;

    const REPO: Holder = Holder::Repo(RepoId(7));

    fn kept(vault: &Vault, plain: &[u8]) -> Secret {
        let sealed = vault.seal(OrgId(1), REPO, "TOKEN", plain);
        Secret { id: 1, org: OrgId(1), holder: REPO, name: "TOKEN".to_owned(), sealed }
    }

    #[test]
    fn a_secret_opens_where_it_belongs_and_nowhere_else() {
        let vault = Vault::new(Key::generate(), Vec::new());
        let secret = kept(&vault, b"hunter2");
        assert_eq!(vault.open(&secret).unwrap(), b"hunter2");
        let broken = Err(SealError::Broken("TOKEN".to_owned()));
        let elsewhere = [
            Secret { org: OrgId(2), ..secret.clone() },
            Secret { holder: Holder::Repo(RepoId(8)), ..secret.clone() },
            Secret { holder: Holder::Org(OrgId(7)), ..secret.clone() },
            Secret { holder: Holder::Environment(EnvironmentId(7)), ..secret.clone() },
        ];
        for secret in elsewhere {
            assert_eq!(vault.open(&secret), broken, "{secret:?}");
        }
        let renamed = Secret { name: "OTHER".to_owned(), ..secret };
        assert_eq!(vault.open(&renamed), Err(SealError::Broken("OTHER".to_owned())));
    }

    #[test]
    fn no_byte_of_a_sealed_secret_can_be_changed_or_taken_away() {
        let vault = Vault::new(Key::generate(), Vec::new());
        let secret = kept(&vault, b"x");
        for at in 0..secret.sealed.bytes.len() {
            let mut changed = secret.clone();
            changed.sealed.bytes[at] ^= 1;
            assert!(vault.open(&changed).is_err(), "{at}");
            let mut cut = secret.clone();
            cut.sealed.bytes.truncate(at);
            assert!(vault.open(&cut).is_err(), "{at}");
        }
        // The same secret never looks the same.
        assert_ne!(kept(&vault, b"x").sealed, secret.sealed);
    }

    #[test]
    fn older_keys_still_open_and_unknown_ones_are_named() {
        let (old, new) = (Key::generate(), Key::generate());
        let secret = kept(&Vault::new(old.clone(), Vec::new()), b"x");
        let rotated = Vault::new(new.clone(), vec![old.clone()]);
        assert_eq!(rotated.open(&secret).unwrap(), b"x");
        assert_eq!(rotated.key_id(), new.id);
        let without = Vault::new(new, Vec::new());
        assert_eq!(without.open(&secret), Err(SealError::NoSuchKey(old.id)));
    }
}
