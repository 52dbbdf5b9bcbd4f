//! Opens the secrets of a job, which the server sealed to this runner.
//!
//! A key that the server made for this one message and the runner's own make a common secret (X25519),
//! from which HKDF-SHA256 makes the key of AES-256-GCM. What is sealed for one claim of a job opens for
//! no other.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{self, HKDF_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_proto::job::{JobRef, Sealed, Secrets};

use crate::random;

const KEY: usize = 32;
const INFO: &[u8] = b"kiln secrets 1";

/// The key pair of a runner.
pub(super) struct Keys {
    private: [u8; KEY],
    pair: PrivateKey,
    public: Vec<u8>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", BASE64.encode(&self.public))
    }
}

/// Why secrets cannot be had. It never says anything about what is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SealError {
    #[error("the secrets of the job cannot be opened: they are not sealed to this runner's key")]
    NotOurs,
    #[error("the secrets of the job are no secrets: the server and this runner disagree")]
    NotSecrets,
    #[error("the private key of this runner is damaged; remove `runner.json` and register again")]
    Damaged,
}

impl Keys {
    pub(super) fn generate() -> std::io::Result<Self> {
        let private = random::bytes::<KEY>()?;
        Self::of(private).map_err(std::io::Error::other)
    }

    fn of(private: [u8; KEY]) -> Result<Self, SealError> {
        let pair =
            PrivateKey::from_private_key(&X25519, &private).map_err(|_| SealError::Damaged)?;
        let public = pair.compute_public_key().map_err(|_| SealError::Damaged)?.as_ref().to_vec();
        Ok(Self { private, pair, public })
    }

    pub(super) fn parse(text: &str) -> Result<Self, SealError> {
        let bytes = BASE64.decode(text).map_err(|_| SealError::Damaged)?;
        Self::of(bytes.try_into().map_err(|_| SealError::Damaged)?)
    }

    /// What is kept in `runner.json`.
    pub(super) fn private(&self) -> String {
        BASE64.encode(self.private)
    }

    /// What the server is told.
    pub(super) fn public(&self) -> String {
        BASE64.encode(&self.public)
    }

    /// The secrets of a job; none when nothing was sealed.
    pub(super) fn open(&self, job: JobRef, sealed: &Sealed) -> Result<Secrets, SealError> {
        if sealed.encrypted_data.is_empty() {
            return Ok(Secrets::default());
        }
        let plain = self.unseal(job, &sealed.encrypted_data)?;
        serde_json::from_slice(&plain).map_err(|_| SealError::NotSecrets)
    }

    fn unseal(&self, job: JobRef, data: &str) -> Result<Vec<u8>, SealError> {
        let bytes = BASE64.decode(data).map_err(|_| SealError::NotOurs)?;
        let (theirs, sealed) = bytes.split_at_checked(KEY).ok_or(SealError::NotOurs)?;
        let salt = [theirs, &self.public].concat();
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        let mut sealed = sealed.to_vec();
        agreement::agree(&self.pair, theirs, SealError::NotOurs, |secret| {
            let key = derive(secret, &salt).ok_or(SealError::NotOurs)?;
            // Each key is used for one message, so that any nonce will do.
            let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
            let aad = Aad::from(format!("{}.{}", job.job_id, job.attempt));
            let plain = key.open_in_place(nonce, aad, &mut sealed);
            plain.map(|plain| plain.to_vec()).map_err(|_| SealError::NotOurs)
        })
    }
}

fn derive(secret: &[u8], salt: &[u8]) -> Option<LessSafeKey> {
    let mut key = [0; KEY];
    let salt = hkdf::Salt::new(HKDF_SHA256, salt).extract(secret);
    salt.expand(&[INFO], &AES_256_GCM).and_then(|okm| okm.fill(&mut key)).ok()?;
    UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobRef = JobRef { job_id: 12, attempt: 3 };

    /// Seals as a server does, with a key of its own that is known here.
    fn seal(ours: [u8; KEY], to: &Keys, job: JobRef, plain: &[u8]) -> Sealed {
        let ours = Keys::of(ours).unwrap();
        let theirs = UnparsedPublicKey::new(&X25519, &to.public);
        let salt = [&ours.public[..], &to.public].concat();
        let mut bytes = plain.to_vec();
        agreement::agree(&ours.pair, theirs, SealError::NotOurs, |secret| {
            let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
            let aad = Aad::from(format!("{}.{}", job.job_id, job.attempt));
            let key = derive(secret, &salt).unwrap();
            key.seal_in_place_append_tag(nonce, aad, &mut bytes).map_err(|_| SealError::NotOurs)
        })
        .unwrap();
        let encrypted_data = BASE64.encode([&ours.public[..], &bytes].concat());
        Sealed { encrypted_data, key_id: String::new() }
    }

    const PLAIN: &[u8] = br#"{"visible":[["TOKEN","hunter2"]],"hidden":["other"]}"#;

    #[test]
    fn what_a_server_sealed_opens_for_its_runner_and_its_claim_alone() {
        let runner = Keys::generate().unwrap();
        let sealed = seal([7; KEY], &runner, JOB, PLAIN);
        let secrets = runner.open(JOB, &sealed).unwrap();
        assert_eq!(secrets.visible, [("TOKEN".to_owned(), "hunter2".to_owned())]);
        assert_eq!(secrets.hidden, ["other"]);
        let other = Keys::generate().unwrap();
        assert_eq!(other.open(JOB, &sealed), Err(SealError::NotOurs));
        for job in [JobRef { job_id: 13, ..JOB }, JobRef { attempt: 2, ..JOB }] {
            assert_eq!(runner.open(job, &sealed), Err(SealError::NotOurs));
        }
        assert_eq!(runner.open(JOB, &Sealed::default()), Ok(Secrets::default()));
        let again = Keys::parse(&runner.private()).unwrap();
        assert_eq!(again.public(), runner.public());
        assert!(again.open(JOB, &sealed).is_ok());
    }

    #[test]
    fn whatever_was_changed_or_is_no_secret_is_refused() {
        let runner = Keys::generate().unwrap();
        let sealed = seal([7; KEY], &runner, JOB, PLAIN);
        let bytes = BASE64.decode(&sealed.encrypted_data).unwrap();
        for at in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            for bytes in [&changed[..], &bytes[..at]].into_iter().filter(|it| !it.is_empty()) {
                let sealed = Sealed { encrypted_data: BASE64.encode(bytes), ..Sealed::default() };
                assert_eq!(runner.open(JOB, &sealed), Err(SealError::NotOurs), "{at}");
            }
        }
        let sealed = seal([7; KEY], &runner, JOB, b"[]");
        assert_eq!(runner.open(JOB, &sealed), Err(SealError::NotSecrets));
        for text in ["", "!", "AAAA"] {
            assert!(Keys::parse(text).is_err(), "{text}");
        }
    }

    /// The bytes must never change: servers and runners are upgraded one after the other.
    #[test]
    fn a_message_of_the_first_version_still_opens() {
        let runner = Keys::of(std::array::from_fn(|at| u8::try_from(at).unwrap())).unwrap();
        let sealed = Sealed { encrypted_data: FIRST.to_owned(), ..Sealed::default() };
        assert_eq!(seal([0x42; KEY], &runner, JOB, PLAIN).encrypted_data, FIRST);
        assert_eq!(runner.open(JOB, &sealed).unwrap().hidden, ["other"]);
    }

    const FIRST: &str = concat!(
        "EyxEK+AQ+9V+cmAzKKp25x/MwVA6riGTJ9FNnJmT9HK04eJzx9GNH8NfzK4U0Lne7YpDhSsuqVlQWCXcEnq9",
        "9cVGROAPOncWbuCOM6wOMGUeMRotB+stWiQnrYoq8p/AVHKlZg=="
    );
}
