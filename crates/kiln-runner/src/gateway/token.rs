//! The tokens that the actions of a job are given.

use std::io;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::local::now;
use crate::random;

/// The longest that a job runs anywhere; the tokens end with the gateway anyway.
const LIFE: u64 = 5 * 24 * 60 * 60;

/// Words of one job. The gateway compares them as a whole, and forgets them when the job ends.
pub(super) struct Tokens {
    /// For caches and artifacts: what clients look into for the ids of the run and the job.
    pub(super) runtime: String,
    /// How the run is called in what clients send back.
    pub(super) run: String,
    pub(super) job: String,
}

impl Tokens {
    pub(super) fn mint(run: &str, reference: &str) -> io::Result<Self> {
        let (run, job) = (format!("run-{run}"), random::hex::<16>()?);
        let begun = now().0 / 1000;
        // Some clients look up here which ref they may write caches for.
        let access = json!([{"Scope": reference, "Permission": 3}]).to_string();
        let claims = json!({
            "iss": "kiln", "scp": format!("Actions.Results:{run}:{job}"), "ac": access,
            "iat": begun, "nbf": begun, "exp": begun + LIFE, "jti": random::hex::<16>()?,
        });
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random::bytes::<32>()?);
        let runtime = jwt(&json!({"alg": "HS256", "typ": "JWT"}), &claims, |text| {
            hmac::sign(&key, text).as_ref().to_vec()
        });
        Ok(Self { runtime, run, job })
    }
}

/// A JSON Web Token in its compact form.
pub(super) fn jwt(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let header = encode(header.to_string().as_bytes());
    let text = format!("{header}.{}", encode(claims.to_string().as_bytes()));
    let signature = encode(&sign(text.as_bytes()));
    format!("{text}.{signature}")
}
