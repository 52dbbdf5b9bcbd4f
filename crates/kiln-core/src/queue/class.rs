//! Priority classes, and the head start that each gives a job.
//!
//! A head start is time: a job is sorted as if it had been queued that much earlier. All jobs age at
//! the same rate, so their order never changes while they wait, and no class is starved.

use std::fmt;

use serde_json::Value;

/// How much a job is in a hurry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Urgent,
    High,
    Normal,
    Low,
}

impl Class {
    pub const ALL: [Self; 4] = [Self::Urgent, Self::High, Self::Normal, Self::Low];

    /// The class of a job that does not name one.
    ///
    /// A schedule runs on the default branch, so it is asked about before the branch.
    pub fn of(environment: bool, default_branch: bool, schedule: bool) -> Self {
        match (environment, schedule, default_branch) {
            (true, _, _) => Self::Urgent,
            (_, true, _) => Self::Low,
            (_, _, true) => Self::High,
            _ => Self::Normal,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.word() == word)
    }

    /// Its weight in the policy that scores.
    pub(super) fn weight(self) -> f64 {
        match self {
            Self::Urgent => 3.0,
            Self::High => 2.0,
            Self::Normal => 1.0,
            Self::Low => 0.5,
        }
    }
}

/// Where a job stands in its lane, and among the lanes of its repository: lower goes first.
pub fn key(queued_at: i64, class: Class, starts: &HeadStarts) -> i64 {
    queued_at.saturating_sub(starts.of(class))
}

/// The head start of each class, in milliseconds. A negative one holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadStarts([i64; 4]);

const MINUTE: i64 = 60_000;

/// A day: more would mean that a class goes first for good.
const MOST_SECONDS: i64 = 24 * 60 * 60;

/// Far more than the four numbers need.
const MOST_TEXT: usize = 1024;

impl Default for HeadStarts {
    fn default() -> Self {
        Self([15 * MINUTE, 5 * MINUTE, 0, -5 * MINUTE])
    }
}

impl HeadStarts {
    /// First in, first out: classes mean nothing.
    pub const OFF: Self = Self([0; 4]);

    pub fn of(&self, class: Class) -> i64 {
        self.0[class as usize]
    }

    /// Reads `false` (off), `true` (the defaults), or seconds for some classes: `{"urgent": 600}`.
    pub fn parse(text: &str) -> Result<Self, NotHeadStarts> {
        if text.len() > MOST_TEXT {
            return Err(NotHeadStarts(format!("they are longer than {MOST_TEXT} bytes")));
        }
        match serde_json::from_str(text) {
            Ok(Value::Bool(false)) => Ok(Self::OFF),
            Ok(Value::Bool(true)) => Ok(Self::default()),
            Ok(Value::Object(given)) => {
                let mut starts = Self::default();
                for (word, value) in &given {
                    let class = Class::parse(word)
                        .ok_or_else(|| NotHeadStarts(format!("`{word}` is no class")))?;
                    starts.0[class as usize] = seconds(word, value)? * 1000;
                }
                Ok(starts)
            }
            Ok(_) => Err(NotHeadStarts("they are neither an object nor a boolean".to_owned())),
            Err(error) => Err(NotHeadStarts(format!("they are not JSON: {error}"))),
        }
    }
}

fn seconds(word: &str, value: &Value) -> Result<i64, NotHeadStarts> {
    value.as_i64().filter(|seconds| (-MOST_SECONDS..=MOST_SECONDS).contains(seconds)).ok_or_else(
        || {
            let most = MOST_SECONDS;
            NotHeadStarts(format!("`{word}` is not a whole number from -{most} to {most}"))
        },
    )
}

/// A text that sets no head starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotHeadStarts(String);

impl fmt::Display for NotHeadStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the head starts of priority classes cannot be read: {}; expected `false`, or seconds \
             for `urgent`, `high`, `normal` or `low` such as `{{\"urgent\": 600}}`",
            self.0
        )
    }
}

impl std::error::Error for NotHeadStarts {}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8
    #[test]
    fn a_job_gets_its_class_from_what_it_does() {
        let check = |environment, default_branch, schedule, expect| {
            assert_eq!(Class::of(environment, default_branch, schedule), expect);
        };
        check(true, true, true, Class::Urgent);
        check(true, false, false, Class::Urgent);
        check(false, true, false, Class::High);
        check(false, true, true, Class::Low);
        check(false, false, true, Class::Low);
        check(false, false, false, Class::Normal);
    }

    #[test]
    fn classes_are_read_back_from_their_words() {
        for class in Class::ALL {
            assert_eq!(Class::parse(class.word()), Some(class));
        }
        assert_eq!(Class::parse("Urgent"), None);
    }

    /// S8
    #[test]
    fn a_head_start_counts_as_time_already_waited() {
        let starts = HeadStarts::default();
        let check = |class, expect| assert_eq!(key(1_000_000_000, class, &starts), expect);
        check(Class::Urgent, 1_000_000_000 - 900_000);
        check(Class::High, 1_000_000_000 - 300_000);
        check(Class::Normal, 1_000_000_000);
        check(Class::Low, 1_000_000_000 + 300_000);
        assert_eq!(key(i64::MIN, Class::Urgent, &starts), i64::MIN);
        assert_eq!(key(5, Class::Urgent, &HeadStarts::OFF), 5);
    }

    /// S8
    #[test]
    fn a_repository_sets_head_starts_or_switches_them_off() {
        let check = |text, expect| assert_eq!(HeadStarts::parse(text), Ok(expect), "{text}");
        check("false", HeadStarts::OFF);
        check("true", HeadStarts::default());
        check("{}", HeadStarts::default());
        check(r#"{"urgent": 60, "low": -7200}"#, HeadStarts([60_000, 5 * MINUTE, 0, -7_200_000]));
    }

    #[test]
    fn head_starts_that_make_no_sense_are_refused() {
        let check = |text: &str, expect| {
            let error = HeadStarts::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("", "not JSON");
        check("7", "neither an object nor a boolean");
        check(r#"{"soon": 1}"#, "`soon` is no class");
        check(r#"{"high": 86401}"#, "whole number from -86400 to 86400");
        check(r#"{"high": 1.5}"#, "whole number");
        check(&" ".repeat(2000), "longer than 1024 bytes");
        check(&"[".repeat(1000), "not JSON");
    }
}
