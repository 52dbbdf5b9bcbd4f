//! How things end, and what every audience calls that.

use serde::{Deserialize, Serialize};

/// The end of a job leg, of a job over all its legs, or of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    Success,
    /// Not run because its condition did not hold.
    Skipped,
    Cancelled,
    /// Ended by its wall-clock limit.
    TimedOut,
    Failure,
    /// The workflow could not start at all.
    StartupFailure,
}

impl Conclusion {
    /// What `needs.<id>.result` and `steps.<id>.conclusion` say. A job that ran out of time was
    /// cancelled by the clock, as far as its dependents are concerned.
    pub fn result(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skipped => "skipped",
            Self::Cancelled | Self::TimedOut => "cancelled",
            Self::Failure | Self::StartupFailure => "failure",
        }
    }

    /// What GitHub's REST API says.
    pub fn github(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::StartupFailure => "startup_failure",
            other => other.result(),
        }
    }

    /// The reverse of [`Self::github`].
    pub fn of_github(word: &str) -> Option<Self> {
        let all = [
            Self::Success,
            Self::Skipped,
            Self::Cancelled,
            Self::TimedOut,
            Self::Failure,
            Self::StartupFailure,
        ];
        all.into_iter().find(|conclusion| conclusion.github() == word)
    }

    /// What a person reads.
    pub fn word(self) -> &'static str {
        match self {
            Self::Success => "succeeded",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::Failure => "failed",
            Self::StartupFailure => "could not start",
        }
    }

    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failure | Self::StartupFailure)
    }

    /// Whether re-running what failed runs this again.
    pub fn wants_another_try(self) -> bool {
        !matches!(self, Self::Success | Self::Skipped)
    }

    pub fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled | Self::TimedOut)
    }
}

/// The end of a whole from the ends of its parts: a job from its legs, a run or a called workflow
/// from its jobs. Parts that may fail are given as their tolerated selves.
pub fn conclude(parts: impl IntoIterator<Item = Conclusion>) -> Conclusion {
    let mut any_success = false;
    let mut worst = None;
    for part in parts {
        match part {
            Conclusion::Failure | Conclusion::StartupFailure => return Conclusion::Failure,
            Conclusion::Cancelled => worst = Some(Conclusion::Cancelled),
            Conclusion::TimedOut => worst = worst.or(Some(Conclusion::TimedOut)),
            Conclusion::Success => any_success = true,
            Conclusion::Skipped => {}
        }
    }
    worst.unwrap_or(if any_success { Conclusion::Success } else { Conclusion::Skipped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Conclusion::{Cancelled, Failure, Skipped, Success, TimedOut};

    fn check(parts: &[Conclusion], expect: Conclusion) {
        assert_eq!(conclude(parts.iter().copied()), expect, "{parts:?}");
    }

    /// P7
    #[test]
    fn failure_weighs_most_then_cancellation_then_success() {
        check(&[Success, Failure, Cancelled], Failure);
        check(&[Success, Cancelled, TimedOut], Cancelled);
        check(&[Success, TimedOut], TimedOut);
        check(&[Skipped, Success], Success);
        check(&[Skipped, Skipped], Skipped);
        check(&[], Skipped);
    }

    #[test]
    fn it_is_kept_by_the_word_of_the_api() {
        for word in ["success", "skipped", "cancelled", "timed_out", "failure", "startup_failure"] {
            let conclusion = Conclusion::of_github(word).expect("it is a word of the API");
            let text = serde_json::to_string(&conclusion).expect("it is a word");
            assert_eq!(text, format!("\"{word}\""));
            assert_eq!(serde_json::from_str(&text).ok(), Some(conclusion));
        }
        assert!(serde_json::from_str::<Conclusion>("\"succeeded\"").is_err());
    }

    #[test]
    fn a_timeout_is_a_cancellation_to_dependents_and_a_timeout_to_the_api() {
        assert_eq!(TimedOut.result(), "cancelled");
        assert_eq!(TimedOut.github(), "timed_out");
        assert_eq!(Conclusion::StartupFailure.result(), "failure");
    }
}
