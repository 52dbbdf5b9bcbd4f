//! Names of things: 64-bit numbers for machines, slugs such as `r-9ix` for people.
//!
//! A slug is the number in base 36 behind a letter for its kind, so that the two are never mixed up.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Ids stay below this, so that every JSON reader can hold them.
pub const LIMIT: i64 = 1 << 53;

/// How many jobs a run can make over all its attempts.
pub const JOBS_PER_RUN: i64 = 1 << 20;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(pub i64);

            impl $name {
                const PREFIX: char = $prefix;

                /// What people see.
                pub fn slug(self) -> String {
                    format!("{}-{}", Self::PREFIX, base_36(self.0))
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, "{}", self.0)
                }
            }

            /// Reads a slug or a plain number.
            impl FromStr for $name {
                type Err = NotAnId;

                fn from_str(text: &str) -> Result<Self, NotAnId> {
                    parse(text, Self::PREFIX).map(Self)
                }
            }
        )*
    };
}

ids! {
    OrgId 'o';
    UserId 'u';
    TeamId 't';
    RepoId 'p';
    WorkflowId 'w';
    RunId 'r';
    /// One leg of a job of a plan, in one attempt of a run.
    JobId 'j';
    RunnerId 'n';
    PoolId 'l';
    QueueId 'q';
    LaneId 'e';
    EnvironmentId 'v';
    RegistrationKeyId 'k';
    /// What a program proves with on whose behalf it speaks.
    TokenId 'y';
    ScheduleId 's';
    /// What a forge sent.
    DeliveryId 'd';
    BlobId 'b';
    ObjectId 'x';
    ManifestId 'm';
    ArtifactId 'a';
    CacheId 'c';
    /// Bytes on their way.
    UploadId 'z';
}

impl JobId {
    /// The job of a run with this count, over all attempts.
    pub fn of(run: RunId, count: i64) -> Self {
        Self(run.0 * JOBS_PER_RUN + count)
    }

    /// The run it belongs to, without a search.
    pub fn run(self) -> RunId {
        RunId(self.0 / JOBS_PER_RUN)
    }
}

/// A text that names nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnId {
    text: String,
    prefix: char,
}

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an id; expected a number or a slug such as `{}-9ix`",
            self.text, self.prefix
        )
    }
}

impl std::error::Error for NotAnId {}

fn parse(text: &str, prefix: char) -> Result<i64, NotAnId> {
    let slug = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    let digits = slug.unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    let number: Result<i64, ParseIntError> =
        i64::from_str_radix(digits, if slug.is_some() { 36 } else { 10 });
    match number {
        Ok(number) if plain && (0..LIMIT).contains(&number) => Ok(number),
        _ => Err(NotAnId { text: text.chars().take(40).collect(), prefix }),
    }
}

fn base_36(mut number: i64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(number.rem_euclid(36)).unwrap_or_default();
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
        if number <= 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_names_its_kind_and_leads_back() {
        assert_eq!(RunId(12_345).slug(), "r-9ix");
        assert_eq!("r-9ix".parse(), Ok(RunId(12_345)));
        assert_eq!("12345".parse(), Ok(RunId(12_345)));
        assert_eq!(RunId(0).slug(), "r-0");
        assert_eq!(RunId(LIMIT - 1).slug().parse(), Ok(RunId(LIMIT - 1)));
    }

    #[test]
    fn a_slug_of_another_kind_is_refused() {
        for text in
            ["j-9ix", "r-", "", "-1", "+1", "r-+1", "r-9IX", "9007199254740992", "r-zzzzzzzzzzzz"]
        {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        let error = "j-1".parse::<RunId>().unwrap_err().to_string();
        assert_eq!(error, "`j-1` is not an id; expected a number or a slug such as `r-9ix`");
    }

    #[test]
    fn a_job_leads_to_its_run() {
        assert_eq!(JobId::of(RunId(7), 3).run(), RunId(7));
        assert!(JobId::of(RunId(1 << 32), JOBS_PER_RUN - 1).0 < LIMIT);
    }
}
