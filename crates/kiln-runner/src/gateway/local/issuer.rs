//! An issuer of tokens for one run: its key is made when it is first needed, and never leaves the process.

use std::sync::OnceLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kiln_core::value::{Object, Value};
use kiln_lang::expr::coerce::to_text;
use kiln_proto::identity::subject;
use serde_json::{Map, json};

use crate::local::now;
use crate::random;

use super::super::services::{Reason, Refusal};
use super::super::token::jwt;

/// How long a token is good.
const LIFE: u64 = 5 * 60;

/// What a token says besides who it is from and for whom.
const CONTEXT: [&str; 20] = [
    "ref",
    "ref_type",
    "ref_protected",
    "sha",
    "repository",
    "repository_id",
    "repository_owner",
    "repository_owner_id",
    "run_id",
    "run_number",
    "run_attempt",
    "workflow",
    "workflow_ref",
    "workflow_sha",
    "actor",
    "actor_id",
    "event_name",
    "head_ref",
    "base_ref",
    "triggering_actor",
];

/// What the discovery document names.
pub(in super::super) const CLAIMS: [&str; 24] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "iat",
    "nbf",
    "jti",
    "ref",
    "ref_type",
    "sha",
    "repository",
    "repository_owner",
    "run_id",
    "run_number",
    "run_attempt",
    "workflow",
    "workflow_ref",
    "workflow_sha",
    "job_workflow_ref",
    "actor",
    "event_name",
    "head_ref",
    "base_ref",
    "environment",
];

#[derive(Debug, Default)]
pub(super) struct Issuer {
    key: OnceLock<Result<Key, String>>,
}

#[derive(Debug)]
struct Key {
    pair: KeyPair,
    id: String,
    /// Modulus and exponent.
    public: (Vec<u8>, Vec<u8>),
}

/// Who a job is.
#[derive(Debug)]
pub(super) struct Identity {
    claims: Map<String, serde_json::Value>,
    subject: String,
    owner: String,
}

impl Identity {
    pub(super) fn of(github: &Object, environment: Option<&str>) -> Self {
        let text = |name: &str| github.get(name).map(|value| to_text(value).into_owned());
        let mut claims: Map<_, _> = CONTEXT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), text(name)?.into())))
            .collect();
        let (repository, reference) =
            (text("repository").unwrap_or_default(), text("ref").unwrap_or_default());
        let event = text("event_name").unwrap_or_default();
        claims.insert("job_workflow_ref".to_owned(), text("workflow_ref").into());
        claims.insert("runner_environment".to_owned(), "self-hosted".into());
        claims.insert("repository_visibility".to_owned(), "private".into());
        if let Some(environment) = environment {
            claims.insert("environment".to_owned(), environment.into());
        }
        let server = github.get("server_url").and_then(Value::as_str).unwrap_or_default();
        let owner = repository.split('/').next().unwrap_or_default();
        Self {
            claims,
            subject: subject(&repository, &event, &reference, environment),
            owner: format!("{server}/{owner}"),
        }
    }
}

impl Issuer {
    fn key(&self) -> Result<&Key, Refusal> {
        let key = self.key.get_or_init(Key::generate);
        key.as_ref().map_err(|why| Refusal::new(Reason::Unavailable, why.clone()))
    }

    /// A token for an audience; for the owner of the repository if none is named.
    pub(super) fn token(
        &self,
        identity: &Identity,
        issuer: &str,
        audience: Option<&str>,
    ) -> Result<String, Refusal> {
        let key = self.key()?;
        let begun = now().0 / 1000;
        let mut claims = identity.claims.clone();
        for (name, value) in [
            ("iss", json!(issuer)),
            ("sub", json!(identity.subject)),
            ("aud", json!(audience.unwrap_or(&identity.owner))),
            ("iat", json!(begun)),
            ("nbf", json!(begun)),
            ("exp", json!(begun + LIFE)),
            ("jti", json!(random::hex::<16>()?)),
        ] {
            claims.insert(name.to_owned(), value);
        }
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": key.id});
        let mut failed = false;
        let token = jwt(&header, &claims.into(), |text| {
            let mut signature = vec![0; key.pair.public_modulus_len()];
            let signed =
                key.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature);
            failed = signed.is_err();
            signature
        });
        if failed {
            return Err(Refusal::new(Reason::Unavailable, "the token could not be signed"));
        }
        Ok(token)
    }

    /// The public key as a set of JSON Web Keys.
    pub(super) fn keys(&self) -> Result<serde_json::Value, Refusal> {
        let key = self.key()?;
        let (modulus, exponent) = &key.public;
        Ok(json!({"keys": [{
            "kty": "RSA", "alg": "RS256", "use": "sig", "kid": key.id,
            "n": URL_SAFE_NO_PAD.encode(modulus), "e": URL_SAFE_NO_PAD.encode(exponent),
        }]}))
    }
}

impl Key {
    fn generate() -> Result<Self, String> {
        let pair = KeyPair::generate(KeySize::Rsa2048);
        let pair = pair.map_err(|_| "no key could be made to sign tokens with".to_owned())?;
        let id = random::hex::<8>().map_err(|error| error.to_string())?;
        let public = parts(pair.public_key().as_ref());
        let public = public.ok_or("the public key is not understood")?;
        Ok(Self { pair, id, public })
    }
}

/// Modulus and exponent of a public key in DER: a sequence of two whole numbers.
fn parts(der: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (inner, _) = element(der, 0x30)?;
    let (modulus, rest) = element(inner, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    let plain = |number: &[u8]| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number[zeros..].to_vec()
    };
    Some((plain(modulus), plain(exponent)))
}

/// The content of an element of DER, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], mut rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        length = bytes.iter().try_fold(0_usize, |length, byte| {
            length.checked_mul(256)?.checked_add(usize::from(*byte))
        })?;
        rest = after;
    }
    rest.split_at_checked(length)
}
