//! Addresses that are good for one thing: signed by us, checked by us.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::Digest;

/// All that a signed address allows. Whatever differs from it is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub method: String,
    /// The object, or what stands for it.
    pub object: String,
    /// The smallest and the largest number of bytes.
    pub bounds: (u64, u64),
    /// In milliseconds since 1970; not good from then on.
    pub expires: u64,
    pub organization: i64,
    /// The job it was given to, if any.
    pub job: Option<i64>,
}

impl Claims {
    /// Every field with its length before it, so that no two claims read alike.
    fn canonical(&self) -> Vec<u8> {
        let job = self.job.map(i64::to_be_bytes);
        let fields: [&[u8]; 8] = [
            b"kiln url 1",
            self.method.as_bytes(),
            self.object.as_bytes(),
            &self.bounds.0.to_be_bytes(),
            &self.bounds.1.to_be_bytes(),
            &self.expires.to_be_bytes(),
            &self.organization.to_be_bytes(),
            job.as_ref().map_or(&[], |job| job),
        ];
        let with_length = |field: &[u8]| [&(field.len() as u64).to_be_bytes()[..], field].concat();
        fields.into_iter().flat_map(with_length).collect()
    }
}

/// Signs addresses.
#[derive(Clone)]
pub struct UrlKey(Hmac<Sha256>);

impl fmt::Debug for UrlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlKey(…)")
    }
}

impl UrlKey {
    /// A key of its own that comes from a secret which is used for other things, too.
    pub fn derive(secret: &[u8]) -> Self {
        let mac = |key: &[u8]| Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
        let own = mac(secret).chain_update("kiln key of signed urls 1").finalize().into_bytes();
        Self(mac(&own))
    }

    /// 64 hexadecimals.
    pub fn sign(&self, claims: &Claims) -> String {
        let signature = self.0.clone().chain_update(claims.canonical()).finalize().into_bytes();
        Digest(signature.into()).to_string()
    }

    /// Whether a signature is for exactly this, at this time. It takes as long for a wrong one.
    pub fn check(&self, claims: &Claims, signature: &str, now: u64) -> bool {
        let Ok(Digest(given)) = signature.parse() else { return false };
        let mac = self.0.clone().chain_update(claims.canonical());
        mac.verify_slice(&given).is_ok() && now < claims.expires
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Claims> {
        // Few letters and small numbers, so that two of them often differ in how they are cut alone.
        let word = || "[ab/0]{0,4}";
        let number = || prop_oneof![0..3_u64, any::<u64>()];
        let job = prop_oneof![Just(None), (0..3_i64).prop_map(Some), any::<i64>().prop_map(Some)];
        let fields = (word(), word(), (number(), number()), number(), 0..3_i64, job);
        fields.prop_map(|(method, object, bounds, expires, organization, job)| Claims {
            method,
            object,
            bounds,
            expires,
            organization,
            job,
        })
    }

    proptest! {
        /// C3
        #[test]
        fn a_signature_is_good_for_its_own_claims_and_no_others(one in claims(), two in claims()) {
            let key = UrlKey::derive(b"secret");
            let signature = key.sign(&one);
            prop_assert_eq!(key.check(&one, &signature, 0), one.expires > 0);
            prop_assert!(!key.check(&one, &signature, one.expires));
            prop_assert_eq!(key.check(&two, &signature, 0), one == two && one.expires > 0);
            prop_assert_eq!(one.canonical() == two.canonical(), one == two);
            prop_assert!(!UrlKey::derive(b"other").check(&one, &signature, 0));
        }

        #[test]
        fn letters_cannot_move_from_one_field_to_the_next(
            text in "[a-z/]{2,12}", cut in 0..12_usize, other in 0..12_usize,
        ) {
            let (cut, other) = (cut % text.len(), other % text.len());
            let claims = |cut: usize| Claims {
                method: text[..cut].to_owned(),
                object: text[cut..].to_owned(),
                bounds: (0, 1),
                expires: 9,
                organization: 1,
                job: None,
            };
            let key = UrlKey::derive(b"secret");
            let is_good = key.check(&claims(other), &key.sign(&claims(cut)), 0);
            prop_assert_eq!(is_good, cut == other);
        }
    }

    #[test]
    fn each_field_counts_and_no_letter_of_a_signature_can_be_changed() {
        let key = UrlKey::derive(b"secret");
        let base = Claims {
            method: "PUT".to_owned(),
            object: "uploads/1".to_owned(),
            bounds: (5, 9),
            expires: 1_000,
            organization: 1,
            job: Some(7),
        };
        let signature = key.sign(&base);
        assert!(key.check(&base, &signature, 999));
        let others = [
            Claims { method: "GET".to_owned(), ..base.clone() },
            Claims { object: "uploads/2".to_owned(), ..base.clone() },
            Claims { bounds: (9, 5), ..base.clone() },
            Claims { bounds: (5, 10), ..base.clone() },
            Claims { expires: 1_001, ..base.clone() },
            Claims { organization: 2, ..base.clone() },
            Claims { job: Some(8), ..base.clone() },
            Claims { job: None, ..base.clone() },
        ];
        for other in others {
            assert!(!key.check(&other, &signature, 0), "{other:?}");
        }
        for at in 0..signature.len() {
            let letter = if signature.as_bytes()[at] == b'0' { "1" } else { "0" };
            let changed = format!("{}{letter}{}", &signature[..at], &signature[at + 1..]);
            assert!(!key.check(&base, &changed, 0), "{at}");
        }
        for broken in ["", &signature[1..], &signature.to_uppercase(), &format!("{signature}0")] {
            assert!(!key.check(&base, broken, 0), "{broken}");
        }
    }
}
