//! What is sealed to runners: all that is secret about one claim of a job.
//!
//! The runner's X25519 key and one of ours make a common secret, from which HKDF-SHA256 makes the key of AES-256-GCM.
//! Agreeing upon a secret takes as long as all else that a claim needs, so one of ours is used for the claims of a runner
//! for a while, with a key derived for each claim and a random nonce. Runners from before protocol 2 expect a pair that is
//! used once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce};
use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_proto::job::{Form, JobRef, Sealed};
use tokio::time::Instant;

use super::{KEY, PUBLIC_KEY, SealError, cipher, fingerprint};
use crate::token::random;

/// How long a pair of ours is used with a runner. Whoever gets hold of a runner's key cannot open what was sealed to it
/// before without ours, which is gone by then.
const LASTS: Duration = Duration::from_mins(10);
/// How often what is over is forgotten, when something new comes.
const SWEEP: Duration = Duration::from_mins(1);
/// With how many runners secrets are remembered. With more, each message has a pair of its own.
const MOST: usize = 20_000;

/// The common secrets with runners, by their public keys.
#[derive(Default)]
pub struct Letters(Mutex<Known>);

#[derive(Default)]
struct Known {
    agreed: HashMap<[u8; PUBLIC_KEY], Agreed>,
    /// When what is over was forgotten last.
    swept: Option<Instant>,
}

impl fmt::Debug for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Letters(…)")
    }
}

/// What a pair of ours and the key of a runner have in common.
#[derive(Clone)]
struct Agreed {
    our_public: [u8; PUBLIC_KEY],
    /// Which key of the runner's it was.
    key_id: Arc<str>,
    secret: Prk,
    until: Instant,
}

impl Letters {
    /// Seals to the public key of a runner what it needs for one claim of a job.
    pub fn seal(
        &self,
        form: Form,
        public_key: &[u8],
        job: JobRef,
        plain: &[u8],
    ) -> Result<Sealed, SealError> {
        let agreed = match form {
            Form::Once => Agreed::with(public_key, Instant::now())?,
            Form::Shared => self.agreed(public_key, Instant::now())?,
        };
        // A key that is used once needs no other nonce.
        let nonce = if form == Form::Once { [0; NONCE_LEN] } else { random() };
        let mut bytes = plain.to_vec();
        cipher(&derive(&agreed.secret, form, job))
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(claim(job)),
                &mut bytes,
            )
            .map_err(|_| SealError::NotAPublicKey)?;
        let shown = if form == Form::Once { &[][..] } else { &nonce };
        Ok(Sealed {
            encrypted_data: BASE64.encode([&agreed.our_public, shown, &bytes].concat()),
            key_id: agreed.key_id.to_string(),
            form,
        })
    }

    fn agreed(&self, public_key: &[u8], now: Instant) -> Result<Agreed, SealError> {
        let key = public_key.try_into().map_err(|_| SealError::NotAPublicKey)?;
        if let Some(agreed) = self.known().agreed.get(&key).filter(|it| now < it.until) {
            return Ok(agreed.clone());
        }
        let agreed = Agreed::with(public_key, now)?;
        let mut known = self.known();
        if known.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP) {
            known.agreed.retain(|_, agreed| now < agreed.until);
            known.swept = Some(now);
        }
        if known.agreed.len() < MOST || known.agreed.contains_key(&key) {
            known.agreed.insert(key, agreed.clone());
        }
        Ok(agreed)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agreed {
    fn with(public_key: &[u8], now: Instant) -> Result<Self, SealError> {
        let wrong = |_| SealError::NotAPublicKey;
        let ours = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(wrong)?;
        let public = ours.compute_public_key().map_err(wrong)?;
        let our_public = public.as_ref().try_into().map_err(|_| SealError::NotAPublicKey)?;
        let theirs = UnparsedPublicKey::new(&X25519, public_key);
        let salt = hkdf::Salt::new(HKDF_SHA256, &[public.as_ref(), public_key].concat());
        let secret =
            agreement::agree_ephemeral(ours, theirs, SealError::NotAPublicKey, |secret| {
                Ok(salt.extract(secret))
            })?;
        let key_id = fingerprint(public_key).into();
        Ok(Self { our_public, key_id, secret, until: now + LASTS })
    }
}

/// The claim that sealed secrets are for.
fn claim(job: JobRef) -> Vec<u8> {
    format!("{}.{}", job.job_id, job.attempt).into_bytes()
}

fn derive(secret: &Prk, form: Form, job: JobRef) -> [u8; KEY] {
    let claim = claim(job);
    let info: &[&[u8]] = match form {
        Form::Once => &[b"kiln secrets 1"],
        Form::Shared => &[b"kiln secrets 2 ", &claim],
    };
    let mut key = [0; KEY];
    secret
        .expand(info, &AES_256_GCM)
        .and_then(|okm| okm.fill(&mut key))
        .expect("a key is short enough for HKDF");
    key
}

/// Opens what was sealed to a runner, as it does itself.
pub fn open_from(
    private_key: &agreement::PrivateKey,
    job: JobRef,
    sealed: &Sealed,
) -> Result<Vec<u8>, SealError> {
    let broken = || SealError::Broken("of the job".to_owned());
    let bytes = BASE64.decode(&sealed.encrypted_data).map_err(|_| broken())?;
    let (theirs, rest) = bytes.split_at_checked(PUBLIC_KEY).ok_or_else(broken)?;
    let (nonce, bytes) = match sealed.form {
        Form::Once => (&[0; NONCE_LEN][..], rest),
        Form::Shared => rest.split_at_checked(NONCE_LEN).ok_or_else(broken)?,
    };
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| broken())?;
    let public = private_key.compute_public_key().map_err(|_| broken())?;
    let salt = hkdf::Salt::new(HKDF_SHA256, &[theirs, public.as_ref()].concat());
    let theirs = UnparsedPublicKey::new(&X25519, theirs);
    let secret =
        agreement::agree(private_key, theirs, broken(), |secret| Ok(salt.extract(secret)))?;
    let mut bytes = bytes.to_vec();
    let key = cipher(&derive(&secret, sealed.form, job));
    let plain = key.open_in_place(nonce, Aad::from(claim(job)), &mut bytes);
    plain.map(|plain| plain.to_vec()).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::agreement::PrivateKey;

    use super::*;

    const JOB: JobRef = JobRef { job_id: 12, attempt: 3 };
    const FORMS: [Form; 2] = [Form::Once, Form::Shared];

    #[test]
    fn only_the_runner_can_open_and_only_for_that_claim() {
        let letters = Letters::default();
        let [runner, other] = [(); 2].map(|()| PrivateKey::generate(&X25519).unwrap());
        let public = runner.compute_public_key().unwrap();
        for form in FORMS {
            let sealed = letters.seal(form, public.as_ref(), JOB, b"{}").unwrap();
            assert_eq!(sealed.key_id, fingerprint(public.as_ref()));
            assert_eq!(open_from(&runner, JOB, &sealed).unwrap(), b"{}");
            assert!(open_from(&other, JOB, &sealed).is_err());
            for other in [JobRef { job_id: 13, ..JOB }, JobRef { attempt: 2, ..JOB }] {
                assert!(open_from(&runner, other, &sealed).is_err());
            }
            for encrypted_data in ["", "!", "AAAA", &sealed.encrypted_data[4..]] {
                let encrypted_data = encrypted_data.to_owned();
                let changed = Sealed { encrypted_data, ..sealed.clone() };
                assert!(open_from(&runner, JOB, &changed).is_err(), "{}", changed.encrypted_data);
            }
        }
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let letters = Letters::default();
        // All zeroes is a point that would make every secret the same.
        for key in [&b""[..], &[1; 31], &[0; 32]] {
            for form in FORMS {
                let refused = letters.seal(form, key, JOB, b"x").unwrap_err();
                assert_eq!(refused, SealError::NotAPublicKey);
            }
        }
    }

    #[test]
    fn a_pair_is_used_for_a_while_and_nothing_is_sealed_alike() {
        let letters = Letters::default();
        let runner = PrivateKey::generate(&X25519).unwrap();
        let public = runner.compute_public_key().unwrap();
        let parts = |form: Form, job: JobRef| {
            let sealed = letters.seal(form, public.as_ref(), job, b"{}").unwrap();
            let bytes = BASE64.decode(&sealed.encrypted_data).unwrap();
            (bytes[..PUBLIC_KEY].to_vec(), bytes[PUBLIC_KEY..].to_vec())
        };
        let (first, one) = parts(Form::Shared, JOB);
        let (again, two) = parts(Form::Shared, JOB);
        assert_eq!(first, again);
        assert_ne!(one, two, "the same claim once more has another nonce");
        assert_ne!(parts(Form::Once, JOB).0, first, "older runners get pairs of their own");
        let ours_at = |now: Instant| letters.agreed(public.as_ref(), now).unwrap().our_public;
        assert_eq!(ours_at(Instant::now())[..], first);
        assert_ne!(ours_at(Instant::now() + LASTS)[..], first);
    }
}
