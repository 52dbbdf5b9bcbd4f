//! Secrets that we hand out: how they are made, told apart, kept and checked.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kiln_core::id::{JobId, OrgId, RepoId, RunnerId};
use kiln_core::time::Timestamp;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

/// What a secret is for; its first letters say so, also to tools that search for leaked ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Api,
    RegistrationKey,
    RunnerCredential,
    OneTime,
}

impl Kind {
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Api => "kpat_",
            Self::RegistrationKey => "krk_",
            Self::RunnerCredential => "krc_",
            Self::OneTime => "kot_",
        }
    }

    /// Whether a text could be one.
    pub fn fits(self, text: &str) -> bool {
        text.starts_with(self.prefix())
    }
}

/// A secret as it is shown once. It does not appear in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new one that nobody can guess.
    pub fn new(kind: Kind) -> Self {
        Self(format!("{}{}", kind.prefix(), BASE64.encode(random::<32>())))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> Vec<u8> {
        hash(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is kept of a secret. They are long and random, so that a plain hash is enough.
pub fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0_u8; BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("the kernel always has random bytes");
    bytes
}

/// Signs what is not kept: tokens of runners and of jobs.
#[derive(Clone)]
pub struct Signer(Hmac<Sha256>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

/// What an access token says: which runner, of which epoch, until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub runner: RunnerId,
    pub epoch: i64,
    pub until: Timestamp,
}

/// What the tokens of a job say. They are good as long as there is a lease with this claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobAccess {
    pub job: JobId,
    pub claim: u32,
    pub runner: RunnerId,
    pub org: OrgId,
    pub repo: RepoId,
}

const ACCESS: &str = "kra_";
const JOB: &str = "kjt_";
const READING: &str = "kgt_";

impl Signer {
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("a key of any length will do"))
    }

    /// A secret of its own for something else, which tells nothing about this one.
    pub fn derive(&self, purpose: &str) -> Vec<u8> {
        self.mac("derive ", purpose.as_bytes()).finalize().into_bytes().to_vec()
    }

    pub fn access(&self, access: Access) -> String {
        self.sign(ACCESS, &[access.runner.0, access.epoch, millis(access.until)])
    }

    /// What an access token says, if it is one of ours and not too old.
    pub fn check_access(&self, token: &str, now: Timestamp) -> Option<Access> {
        let [runner, epoch, until] = self.check(ACCESS, token)?;
        let until = Timestamp(u64::try_from(until).ok()?);
        let access = Access { runner: RunnerId(runner), epoch, until };
        (now < until).then_some(access)
    }

    /// The token with which a runner speaks for its job.
    pub fn job(&self, access: JobAccess) -> String {
        self.of_job(JOB, access)
    }

    /// What a job token says, if it is one of ours; whether the lease lives is for the store to say.
    pub fn check_job(&self, token: &str) -> Option<JobAccess> {
        self.check_of_job(JOB, token)
    }

    /// The token that the steps of a job see: it reads the job's repository, and says nothing for the job.
    pub fn reading(&self, access: JobAccess) -> String {
        self.of_job(READING, access)
    }

    /// What a token of steps says; see [`Signer::check_job`].
    pub fn check_reading(&self, token: &str) -> Option<JobAccess> {
        self.check_of_job(READING, token)
    }

    fn of_job(&self, prefix: &str, access: JobAccess) -> String {
        let JobAccess { job, claim, runner, org, repo } = access;
        self.sign(prefix, &[job.0, claim.into(), runner.0, org.0, repo.0])
    }

    fn check_of_job(&self, prefix: &str, token: &str) -> Option<JobAccess> {
        let [job, claim, runner, org, repo] = self.check(prefix, token)?;
        let claim = u32::try_from(claim).ok()?;
        let (job, runner) = (JobId(job), RunnerId(runner));
        Some(JobAccess { job, claim, runner, org: OrgId(org), repo: RepoId(repo) })
    }

    /// Numbers of a fixed length each, so that no two lists are signed alike.
    fn sign(&self, prefix: &str, numbers: &[i64]) -> String {
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        let signature = self.mac(prefix, &body).finalize().into_bytes();
        format!("{prefix}{}", BASE64.encode([&*body, &signature[..]].concat()))
    }

    fn check<const COUNT: usize>(&self, prefix: &str, token: &str) -> Option<[i64; COUNT]> {
        let bytes = BASE64.decode(token.strip_prefix(prefix)?).ok()?;
        let (body, signature) = bytes.split_at_checked(8 * COUNT)?;
        self.mac(prefix, body).verify_slice(signature).ok()?;
        let mut numbers = body
            .chunks_exact(8)
            .map(|bytes| i64::from_be_bytes(bytes.try_into().expect("a chunk has eight bytes")));
        Some(std::array::from_fn(|_| numbers.next().unwrap_or_default()))
    }

    fn mac(&self, prefix: &str, body: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(prefix).chain_update(body)
    }
}

fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS_OF_7: Access = Access { runner: RunnerId(7), epoch: 2, until: Timestamp(90_000) };

    /// S5
    #[test]
    fn an_access_token_is_good_until_its_time_and_only_with_its_key() {
        let signer = Signer::new(b"one");
        let token = signer.access(ACCESS_OF_7);
        assert!(token.starts_with("kra_"));
        assert_eq!(signer.check_access(&token, Timestamp(89_999)), Some(ACCESS_OF_7));
        assert_eq!(signer.check_access(&token, Timestamp(90_000)), None);
        assert_eq!(Signer::new(b"two").check_access(&token, Timestamp(0)), None);
    }

    #[test]
    fn no_part_of_a_token_can_be_changed_or_used_for_another_kind() {
        let signer = Signer::new(b"one");
        let token = signer.access(ACCESS_OF_7);
        for at in 4..token.len() {
            let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            // The last letter holds bits that mean nothing; a strict reader refuses those, too.
            assert_eq!(signer.check_access(&changed, Timestamp(0)), None, "{at}");
        }
        let job = JobAccess {
            job: JobId(1),
            claim: 1,
            runner: RunnerId(1),
            org: OrgId(1),
            repo: RepoId(1),
        };
        let token = signer.job(job);
        assert_eq!(signer.check_job(&token), Some(job));
        assert_eq!(signer.check_job(&token.replace("kjt_", "kra_")), None);
        assert_eq!(signer.check_access(&token.replace("kjt_", "kra_"), Timestamp(0)), None);
        let reading = signer.reading(job);
        assert_eq!((signer.check_reading(&reading), signer.check_job(&reading)), (Some(job), None));
        assert_eq!(signer.check_job(&reading.replace("kgt_", "kjt_")), None);
        assert_eq!(signer.check_reading(&token.replace("kjt_", "kgt_")), None);
        for broken in ["", "kjt_", "kjt_AAAA", "kjt_ä", &token[..token.len() - 1]] {
            assert_eq!(signer.check_job(broken), None, "{broken}");
        }
    }

    #[test]
    fn secrets_differ_name_their_kind_and_are_not_shown() {
        let [one, two] = [(); 2].map(|()| Secret::new(Kind::Api));
        assert_ne!(one, two);
        assert!(Kind::Api.fits(one.reveal()) && !Kind::OneTime.fits(one.reveal()));
        assert!(!format!("{one:?}").contains(one.reveal()));
        assert_eq!(one.hash(), hash(one.reveal()));
    }
}
