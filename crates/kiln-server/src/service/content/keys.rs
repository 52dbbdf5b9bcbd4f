//! The keys with which the server says who a job is.
//!
//! They are a setting of the installation, so that all servers of a database have the same; what is secret of
//! them is sealed with the keys of secrets. A new one can be looked up before it signs, and those before it
//! until every token that they signed is over: whoever remembers the public keys for a while knows all that they
//! meet.

use std::time::Duration;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use kiln_core::access::Right;
use kiln_core::time::Timestamp;
use kiln_store::directory::secrets::Sealed;
use kiln_store::directory::settings;
use kiln_store::{Duty, Scope, StoreError, Tx};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::seal::fingerprint;

const SETTING: &str = "identity_keys";
const SCOPE: Scope = Scope::System(Duty::Authentication);
/// How long a key can be looked up after another took its place.
const REMEMBERED: Duration = Duration::from_hours(24);
/// How long a new key can be looked up before it signs: longer than anybody is told to remember the keys.
const SHOWN_BEFORE: Duration = Duration::from_mins(15);
/// One key is made at a time: it takes a while, and one is enough.
static MAKING: Mutex<()> = Mutex::const_new(());

/// A key as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    /// Modulus and exponent, as a JWK has them.
    n: String,
    e: String,
    sealed_with: String,
    sealed: String,
    /// From when on it signs; from the beginning if nothing is said.
    #[serde(default)]
    signs_from: Option<u64>,
    /// From when on another signs.
    retired_at: Option<u64>,
}

impl Kept {
    /// A new one, sealed.
    fn make(app: &App) -> Answer<Self> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(Failure::internal)?;
        let (n, e) = numbers(pair.public_key().as_ref())
            .ok_or_else(|| Failure::internal("a new key has no modulus"))?;
        let secret: Pkcs8V1Der<'_> = pair.as_der().map_err(Failure::internal)?;
        let id = fingerprint(n);
        let sealed = app.vault.seal_own(&place(&id), secret.as_ref());
        Ok(Self {
            n: BASE64.encode(n),
            e: BASE64.encode(e),
            sealed_with: sealed.key_id,
            sealed: STANDARD.encode(sealed.bytes),
            signs_from: None,
            retired_at: None,
            id,
        })
    }

    /// Signs as RS256 does.
    pub(super) fn sign(&self, app: &App, text: &str) -> Answer<String> {
        let bytes = STANDARD.decode(&self.sealed).map_err(Failure::internal)?;
        let sealed = Sealed { key_id: self.sealed_with.clone(), bytes };
        let secret = app.vault.open_own(&place(&self.id), &sealed).map_err(Failure::internal)?;
        let pair = KeyPair::from_pkcs8(&secret).map_err(Failure::internal)?;
        let mut signature = vec![0; pair.public_modulus_len()];
        let random = SystemRandom::new();
        pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
            .map_err(Failure::internal)?;
        Ok(BASE64.encode(signature))
    }

    fn jwk(&self) -> Value {
        json!({
            "kty": "RSA", "use": "sig", "alg": "RS256",
            "kid": self.id, "n": self.n, "e": self.e,
        })
    }

    fn signs(&self, now: Timestamp) -> bool {
        self.signs_from.is_none_or(|from| Timestamp(from) <= now)
    }

    fn is_known(&self, now: Timestamp) -> bool {
        self.retired_at.is_none_or(|at| Timestamp(at) + REMEMBERED > now)
    }
}

/// What the seal of a key is bound to.
fn place(id: &str) -> String {
    format!("identity key {id}")
}

/// Modulus and exponent of a public key in DER: a sequence of the two.
fn numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (n, rest) = element(sequence, 0x02)?;
    let (e, _) = element(rest, 0x02)?;
    let plain = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((&n[plain(n)..], &e[plain(e)..]))
}

/// The content of an element, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(long - 0x80)?;
            if bytes.len() > 4 {
                return None;
            }
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

fn read(text: &str) -> Result<Vec<Kept>, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Database(format!("the setting `{SETTING}`: {error}")))
}

fn write(keys: &[Kept]) -> String {
    serde_json::to_string(keys).expect("keys are texts and numbers")
}

/// The key that signs now.
pub(super) async fn signing(app: &App, now: Timestamp) -> Answer<Kept> {
    let key = keys(app).await?.into_iter().find(|key| key.signs(now));
    key.ok_or_else(|| Failure::internal("there is no key for identities"))
}

/// All keys, the newest first. The first question makes one.
async fn keys(app: &App) -> Answer<Vec<Kept>> {
    let get = async |tx: &mut Tx<'_>| settings::get(tx, SCOPE, SETTING).await;
    if let Some(text) = app.store.read(get).await? {
        return Ok(read(&text)?);
    }
    let _one = MAKING.lock().await;
    if let Some(text) = app.store.read(get).await? {
        return Ok(read(&text)?);
    }
    let text = write(&[Kept::make(app)?]);
    let put = async move |tx: &mut Tx<'_>| settings::get_or_put(tx, SCOPE, SETTING, &text).await;
    Ok(read(&app.store.write(put).await?)?)
}

/// The set of public keys, as RFC 7517 has it.
pub(super) async fn public(app: &App, now: Timestamp) -> Answer<Value> {
    let keys = keys(app).await?;
    let known: Vec<Value> = keys.iter().filter(|key| key.is_known(now)).map(Kept::jwk).collect();
    Ok(json!({ "keys": known }))
}

/// Has a new key sign, as soon as all who look keys up can know it. Says its id.
pub async fn rotate(app: &App, caller: &Caller) -> Answer<String> {
    caller.require(Right::Admin, None, "address")?;
    keys(app).await?;
    let (new, actor) = (Kept::make(app)?, caller.actor());
    let id = new.id.clone();
    let work = async move |tx: &mut Tx<'_>| {
        let now = tx.now();
        let old = settings::take(tx, SCOPE, SETTING).await?.unwrap_or_else(|| "[]".to_owned());
        let from = now + SHOWN_BEFORE;
        let retire = |key: Kept| Kept { retired_at: key.retired_at.or(Some(from.0)), ..key };
        let old = read(&old)?.into_iter().map(retire).filter(|key| key.is_known(now));
        let new = Kept { signs_from: Some(from.0), ..new.clone() };
        let keys: Vec<Kept> = std::iter::once(new).chain(old).collect();
        settings::put(tx, SCOPE, &actor, SETTING, &write(&keys)).await
    };
    app.store.write(work).await?;
    tracing::info!(key = id, "a new key will sign the identities of jobs");
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_read_and_what_is_none_is_refused() {
        let der = [0x30, 0x08, 0x02, 0x02, 0x00, 0xC5, 0x02, 0x02, 0x01, 0x01];
        assert_eq!(numbers(&der), Some((&[0xC5][..], &[0x01, 0x01][..])));
        for length in 0..der.len() {
            assert_eq!(numbers(&der[..length]), None, "{length}");
        }
        let long = [&[0x30, 0x82, 0x00, 0x08][..], &der[2..]].concat();
        assert_eq!(numbers(&long), numbers(&der));
        assert_eq!(numbers(&[0x30, 0xFF, 1, 2]), None);
        assert_eq!(numbers(&[0x02, 0x01, 0x01]), None);
    }
}
