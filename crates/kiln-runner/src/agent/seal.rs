//! Opens the secrets of a job, which the server sealed to this runner.
//!
//! A key of the server and the runner's own make a common secret (X25519), from which HKDF-SHA256 makes the key of
//! AES-256-GCM: see [`Form`]. What is sealed for one claim of a job opens for no other.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{self, HKDF_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_proto::job::{Form, JobRef, Sealed, Secrets};

use crate::random;

const KEY: usize = 32;

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
        let plain = self.unseal(job, sealed)?;
        serde_json::from_slice(&plain).map_err(|_| SealError::NotSecrets)
    }

    fn unseal(&self, job: JobRef, sealed: &Sealed) -> Result<Vec<u8>, SealError> {
        let bytes = BASE64.decode(&sealed.encrypted_data).map_err(|_| SealError::NotOurs)?;
        let (theirs, rest) = bytes.split_at_checked(KEY).ok_or(SealError::NotOurs)?;
        let (nonce, body) = match sealed.form {
            Form::Once => (&[0; NONCE_LEN][..], rest),
            Form::Shared => rest.split_at_checked(NONCE_LEN).ok_or(SealError::NotOurs)?,
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::NotOurs)?;
        let salt = [theirs, &self.public].concat();
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        let mut body = body.to_vec();
        agreement::agree(&self.pair, theirs, SealError::NotOurs, |secret| {
            let key = derive(secret, &salt, sealed.form, job).ok_or(SealError::NotOurs)?;
            let plain = key.open_in_place(nonce, Aad::from(claim(job)), &mut body);
            plain.map(|plain| plain.to_vec()).map_err(|_| SealError::NotOurs)
        })
    }
}

/// The claim that something is sealed for.
fn claim(job: JobRef) -> Vec<u8> {
    format!("{}.{}", job.job_id, job.attempt).into_bytes()
}

fn derive(secret: &[u8], salt: &[u8], form: Form, job: JobRef) -> Option<LessSafeKey> {
    let claim = claim(job);
    let info: &[&[u8]] = match form {
        Form::Once => &[b"kiln secrets 1"],
        Form::Shared => &[b"kiln secrets 2 ", &claim],
    };
    let mut key = [0; KEY];
    let secret = hkdf::Salt::new(HKDF_SHA256, salt).extract(secret);
    secret.expand(info, &AES_256_GCM).and_then(|okm| okm.fill(&mut key)).ok()?;
    UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobRef = JobRef { job_id: 12, attempt: 3 };

    /// Seals as a server does, with a key of its own that is known here.
    fn seal(ours: [u8; KEY], to: &Keys, job: JobRef, plain: &[u8], form: Form) -> Sealed {
        let ours = Keys::of(ours).unwrap();
        let nonce = if form == Form::Once { [0; NONCE_LEN] } else { [9; NONCE_LEN] };
        let theirs = UnparsedPublicKey::new(&X25519, &to.public);
        let salt = [&ours.public[..], &to.public].concat();
        let mut bytes = plain.to_vec();
        agreement::agree(&ours.pair, theirs, SealError::NotOurs, |secret| {
            let aad = Aad::from(claim(job));
            let key = derive(secret, &salt, form, job).unwrap();
            let nonce = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce, aad, &mut bytes).map_err(|_| SealError::NotOurs)
        })
        .unwrap();
        let shown = if form == Form::Once { &[][..] } else { &nonce };
        let encrypted_data = BASE64.encode([&ours.public[..], shown, &bytes].concat());
        Sealed { encrypted_data, key_id: String::new(), form }
    }

    const FORMS: [Form; 2] = [Form::Once, Form::Shared];
    const PLAIN: &[u8] = br#"{"visible":[["TOKEN","hunter2"]],"hidden":["other"]}"#;

    #[test]
    fn what_a_server_sealed_opens_for_its_runner_and_its_claim_alone() {
        FORMS.into_iter().for_each(opens_for_its_runner_and_its_claim_alone);
    }

    fn opens_for_its_runner_and_its_claim_alone(form: Form) {
        let runner = Keys::generate().unwrap();
        let sealed = seal([7; KEY], &runner, JOB, PLAIN, form);
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
        FORMS.into_iter().for_each(is_refused_when_changed);
        for text in ["", "!", "AAAA"] {
            assert!(Keys::parse(text).is_err(), "{text}");
        }
    }

    fn is_refused_when_changed(form: Form) {
        let runner = Keys::generate().unwrap();
        let sealed = seal([7; KEY], &runner, JOB, PLAIN, form);
        let bytes = BASE64.decode(&sealed.encrypted_data).unwrap();
        for at in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            for bytes in [&changed[..], &bytes[..at]].into_iter().filter(|it| !it.is_empty()) {
                let encrypted_data = BASE64.encode(bytes);
                let sealed = Sealed { encrypted_data, form, ..Sealed::default() };
                assert_eq!(runner.open(JOB, &sealed), Err(SealError::NotOurs), "{at}");
            }
        }
        let sealed = seal([7; KEY], &runner, JOB, b"[]", form);
        assert_eq!(runner.open(JOB, &sealed), Err(SealError::NotSecrets));
    }

    /// The bytes must never change: servers and runners are upgraded one after the other.
    #[test]
    fn a_message_of_the_first_version_still_opens() {
        let runner = Keys::of(std::array::from_fn(|at| u8::try_from(at).unwrap())).unwrap();
        let sealed = Sealed { encrypted_data: FIRST.to_owned(), ..Sealed::default() };
        assert_eq!(seal([0x42; KEY], &runner, JOB, PLAIN, Form::Once).encrypted_data, FIRST);
        assert_eq!(runner.open(JOB, &sealed).unwrap().hidden, ["other"]);
    }

    const FIRST: &str = concat!(
        "EyxEK+AQ+9V+cmAzKKp25x/MwVA6riGTJ9FNnJmT9HK04eJzx9GNH8NfzK4U0Lne7YpDhSsuqVlQWCXcEnq9",
        "9cVGROAPOncWbuCOM6wOMGUeMRotB+stWiQnrYoq8p/AVHKlZg=="
    );
}
