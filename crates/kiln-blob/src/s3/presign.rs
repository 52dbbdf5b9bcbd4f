//! Addresses that S3 accepts for a while: AWS Signature Version 4, in the query.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use kiln_core::time::Timestamp;
use sha2::Sha256;

use crate::Digest;

/// S3 takes no longer ones: a week.
const LONGEST: u64 = 7 * 24 * 60 * 60;

/// What is to be allowed.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Scheme and host, without a slash.
    pub(super) base: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    /// The length of the body, if it is fixed.
    pub(super) size: Option<u64>,
    pub(super) life: Duration,
    pub(super) region: &'a str,
}

pub(super) fn presign(
    request: &Request<'_>,
    id: &str,
    secret: &str,
    token: Option<&str>,
) -> String {
    presign_at(request, id, secret, token, now())
}

#[expect(clippy::disallowed_methods, reason = "S3 compares it with its own clock")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn presign_at(
    request: &Request<'_>,
    id: &str,
    secret: &str,
    token: Option<&str>,
    now: Timestamp,
) -> String {
    let time = basic(now);
    let day = &time[..8];
    let scope = format!("{day}/{}/s3/aws4_request", request.region);
    let life = request.life.as_secs().clamp(1, LONGEST).to_string();
    let credential = format!("{id}/{scope}");
    let host = request.base.split_once("://").map_or(request.base, |(_, host)| host);
    let (headers, names) = match request.size {
        Some(size) => (format!("content-length:{size}\nhost:{host}\n"), "content-length;host"),
        None => (format!("host:{host}\n"), "host"),
    };
    let mut query = request.query.to_vec();
    query.extend([
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", credential.as_str()),
        ("X-Amz-Date", time.as_str()),
        ("X-Amz-Expires", life.as_str()),
        ("X-Amz-SignedHeaders", names),
    ]);
    query.extend(token.map(|token| ("X-Amz-Security-Token", token)));
    let mut query: Vec<String> =
        query.into_iter().map(|(key, value)| format!("{}={}", coded(key), coded(value))).collect();
    query.sort_unstable();
    let query = query.join("&");
    let Request { method, base, path, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\nUNSIGNED-PAYLOAD");
    let digest = Digest::of(canonical.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
    let key = [day, request.region, "s3", "aws4_request"]
        .into_iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part).to_vec());
    format!("{base}{path}?{query}&X-Amz-Signature={}", Digest(mac(&key, &text)))
}

fn mac(key: &[u8], text: &str) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.chain_update(text).finalize().into_bytes().into()
}

/// `20261116T114046Z`.
fn basic(time: Timestamp) -> String {
    let text = time.rfc3339();
    let digits: String = text.chars().filter(char::is_ascii_digit).take(14).collect();
    format!("{}T{}Z", &digits[..8], &digits[8..])
}

/// Everything but letters, digits and `-._~` by its bytes.
fn coded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut coded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            coded.push(char::from(byte));
        } else {
            let _ = write!(coded, "%{byte:02X}");
        }
        coded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that Amazon gives for signatures in a query.
    #[test]
    fn the_known_example_is_signed_as_it_should_be() {
        let request = Request {
            method: "GET",
            base: "https://examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: &[],
            size: None,
            life: Duration::from_hours(24),
            region: "us-east-1",
        };
        // 2013-05-24T00:00:00Z.
        let at = Timestamp(1_369_353_600_000);
        let (id, secret) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let url = presign_at(&request, id, secret, None, at);
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(url.ends_with(&format!("X-Amz-Signature={signature}")), "{url}");
        assert!(url.contains("X-Amz-Date=20130524T000000Z"), "{url}");
        let with_token = presign_at(&request, id, secret, Some("a/b"), at);
        assert!(with_token.contains("X-Amz-Security-Token=a%2Fb"), "{with_token}");
    }
}
