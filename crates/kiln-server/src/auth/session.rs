//! Sessions of browsers: a cookie that stands for an API token without being one.
//!
//! It has the token's hash and a time, signed. Nothing of it is kept: a session ends when its time is over, or
//! with the token. Whoever finds the cookie cannot use it as a token, and not to change anything through the API.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kiln_core::time::Timestamp;
use sha2::Sha256;

use crate::token::Signer;

/// What the cookie is called.
pub const COOKIE_NAME: &str = "kiln_session";
const HASH: usize = 32;
const TIME: usize = 8;

fn mac(signer: &Signer, purpose: &str) -> Hmac<Sha256> {
    Hmac::new_from_slice(&signer.derive(purpose)).expect("a key of any length will do")
}

/// The value of a cookie for whoever showed the token with this hash.
pub fn issue(signer: &Signer, hash: &[u8], until: Timestamp) -> String {
    let body = [hash, &until.0.to_be_bytes()].concat();
    let signature = mac(signer, "session of a browser").chain_update(&body).finalize();
    BASE64.encode([&*body, &signature.into_bytes()[..]].concat())
}

/// The hash of the token that a cookie stands for, if it is one of ours and not too old.
pub fn check(signer: &Signer, cookie: &str, now: Timestamp) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(cookie).ok()?;
    let (body, signature) = bytes.split_at_checked(HASH + TIME)?;
    mac(signer, "session of a browser").chain_update(body).verify_slice(signature).ok()?;
    let (hash, until) = body.split_at(HASH);
    let until = Timestamp(u64::from_be_bytes(until.try_into().ok()?));
    (now < until).then(|| hash.to_vec())
}

/// What a form of this session carries, so that no other page can send it.
pub fn form_token(signer: &Signer, cookie: &str) -> String {
    let signature = mac(signer, "forms of a session").chain_update(cookie).finalize();
    BASE64.encode(signature.into_bytes())
}

/// Whether a form was made for this session.
pub fn check_form(signer: &Signer, cookie: &str, token: &str) -> bool {
    let given = BASE64.decode(token).unwrap_or_default();
    mac(signer, "forms of a session").chain_update(cookie).verify_slice(&given).is_ok()
}

/// What lets those see the badge of a repository who are told.
pub fn badge_key(signer: &Signer, name: &str) -> String {
    let signature = mac(signer, "badge of a repository").chain_update(name.to_lowercase());
    BASE64.encode(signature.finalize().into_bytes())
}

pub fn check_badge(signer: &Signer, name: &str, key: &str) -> bool {
    let given = BASE64.decode(key).unwrap_or_default();
    let expected = mac(signer, "badge of a repository").chain_update(name.to_lowercase());
    expected.verify_slice(&given).is_ok()
}

/// The value of a cookie of a request.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_good_until_its_time_and_only_with_its_key() {
        let signer = Signer::new(b"one");
        let value = issue(&signer, &[7; HASH], Timestamp(1_000));
        assert_eq!(check(&signer, &value, Timestamp(999)), Some(vec![7; HASH]));
        assert_eq!(check(&signer, &value, Timestamp(1_000)), None);
        assert_eq!(check(&Signer::new(b"two"), &value, Timestamp(0)), None);
        for broken in ["", "x", "ä", &value[1..], &value[..value.len() - 1]] {
            assert_eq!(check(&signer, broken, Timestamp(0)), None, "{broken}");
        }
    }

    #[test]
    fn a_form_belongs_to_one_session() {
        let signer = Signer::new(b"one");
        let token = form_token(&signer, "mine");
        assert!(check_form(&signer, "mine", &token));
        for (session, token) in [("yours", token.as_str()), ("mine", ""), ("mine", "!")] {
            assert!(!check_form(&signer, session, token), "{session} {token}");
        }
    }

    #[test]
    fn a_badge_has_a_key_of_its_own() {
        let signer = Signer::new(b"one");
        let key = badge_key(&signer, "acme/App");
        assert!(check_badge(&signer, "Acme/app", &key));
        assert!(!check_badge(&signer, "acme/other", &key));
        // What a form carries opens nothing else, whatever the cookie says.
        for cookie in ["acme/app", "badge of acme/app"] {
            assert!(!check_badge(&signer, "acme/app", &form_token(&signer, cookie)));
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; kiln_session=x=y".parse().unwrap());
        headers.append(COOKIE, "theme=dark".parse().unwrap());
        assert_eq!(cookie(&headers, "kiln_session"), Some("x=y"));
        assert_eq!(cookie(&headers, "theme"), Some("dark"));
        assert_eq!(cookie(&headers, "session"), None);
    }
}
