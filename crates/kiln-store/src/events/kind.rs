//! The kinds of events: a stable word for each, and what it carries.

use std::borrow::Cow;

use kiln_core::id::RunnerId;
use kiln_core::run::Conclusion;
use serde::{Deserialize, Serialize};

/// What happened. The words are part of the interface: readers of streams know them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "payload", rename_all = "snake_case")]
pub enum EventKind {
    RunCreated,
    RunStarted,
    RunDone {
        #[serde(with = "word")]
        conclusion: Conclusion,
    },
    CancelAsked {
        by: String,
        reason: String,
        forced: bool,
    },
    JobQueued,
    JobClaimed {
        #[serde(with = "number")]
        runner: RunnerId,
        claim: u32,
    },
    JobStarted,
    JobUploading,
    JobDone {
        #[serde(with = "word")]
        conclusion: Conclusion,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The runner is gone, or failed in a way that another try may mend.
    JobLost {
        reason: String,
    },
    /// A claim was given back unused.
    JobReturned {
        reason: String,
    },
    /// A declared retry waits until then.
    JobRetry {
        at: u64,
    },
    StepStarted {
        number: u32,
        name: String,
    },
    /// It failed, and is tried again.
    StepRetried {
        number: u32,
        failed_try: u32,
    },
    StepFinished {
        number: u32,
        /// What counts, after `continue-on-error`.
        #[serde(with = "word")]
        conclusion: Conclusion,
        /// How it was.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "word_if_any")]
        outcome: Option<Conclusion>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    Annotation(Annotation),
    TestResult(TestResult),
    /// Markdown that a step wrote for the page of the run.
    Summary {
        step: u32,
        text: String,
    },
    /// What a newer Kiln wrote.
    #[serde(skip)]
    Other {
        kind: String,
        payload: Option<String>,
    },
}

/// A remark about a place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    pub level: Level,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_column: Option<u32>,
    /// The step that said it, by the runner's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What the tool calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Notice,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    pub suite: String,
    pub name: String,
    pub outcome: Outcome,
    pub seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    Skipped,
    Errored,
}

impl EventKind {
    /// The word and the payload, as JSON.
    pub(super) fn encode(&self) -> (Cow<'static, str>, Option<String>) {
        // Every job has these, so they take the short way.
        match self {
            Self::Other { kind, payload } => return (kind.clone().into(), payload.clone()),
            Self::JobQueued => return ("job_queued".into(), None),
            Self::JobStarted => return ("job_started".into(), None),
            Self::JobClaimed { runner, claim } => {
                let payload = format!(r#"{{"runner":{runner},"claim":{claim}}}"#);
                return ("job_claimed".into(), Some(payload));
            }
            Self::JobDone { conclusion, note: None } => {
                let payload = format!(r#"{{"conclusion":"{}"}}"#, conclusion.github());
                return ("job_done".into(), Some(payload));
            }
            Self::RunStarted => return ("run_started".into(), None),
            Self::RunDone { conclusion } => {
                let payload = format!(r#"{{"conclusion":"{}"}}"#, conclusion.github());
                return ("run_done".into(), Some(payload));
            }
            _ => {}
        }
        let value = serde_json::to_value(self).expect("kinds consist of texts and numbers");
        let word = value["kind"].as_str().expect("the kind is the tag").to_owned();
        (word.into(), value.get("payload").map(ToString::to_string))
    }

    pub(super) fn decode(kind: String, payload: Option<String>) -> Self {
        let value = payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let known = match value {
            Some::<serde_json::Value>(value) => {
                serde_json::from_value(serde_json::json!({ "kind": kind, "payload": value }))
            }
            None => serde_json::from_value(serde_json::json!({ "kind": kind })),
        };
        known.unwrap_or(Self::Other { kind, payload })
    }
}

/// Conclusions in the words of GitHub's API, which never change.
mod word {
    use kiln_core::run::Conclusion;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(
        conclusion: &Conclusion,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(conclusion.github())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Conclusion, D::Error> {
        let word = String::deserialize(deserializer)?;
        Conclusion::of_github(&word).ok_or_else(|| D::Error::custom("unknown conclusion"))
    }
}

/// The same where there may be none.
mod word_if_any {
    use kiln_core::run::Conclusion;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes references"
    )]
    pub(super) fn serialize<S: Serializer>(
        conclusion: &Option<Conclusion>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        conclusion.map(Conclusion::github).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Conclusion>, D::Error> {
        let known = |word: String| {
            Conclusion::of_github(&word).ok_or_else(|| D::Error::custom("unknown conclusion"))
        };
        Option::<String>::deserialize(deserializer)?.map(known).transpose()
    }
}

/// Ids as plain numbers.
mod number {
    use kiln_core::id::RunnerId;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(
        runner: &RunnerId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(runner.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<RunnerId, D::Error> {
        i64::deserialize(deserializer).map(RunnerId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &EventKind, word: &str, payload: Option<&str>) {
        let (written, content) = kind.encode();
        assert_eq!((&*written, content.as_deref()), (word, payload));
        assert_eq!(EventKind::decode(written.into_owned(), content), *kind);
    }

    #[test]
    fn every_kind_has_its_word_and_leads_back() {
        check(&EventKind::RunCreated, "run_created", None);
        check(
            &EventKind::RunDone { conclusion: Conclusion::TimedOut },
            "run_done",
            Some(r#"{"conclusion":"timed_out"}"#),
        );
        check(
            &EventKind::JobClaimed { runner: RunnerId(7), claim: 2 },
            "job_claimed",
            Some(r#"{"runner":7,"claim":2}"#),
        );
        check(
            &EventKind::JobDone { conclusion: Conclusion::Failure, note: None },
            "job_done",
            Some(r#"{"conclusion":"failure"}"#),
        );
        let annotation = Annotation {
            level: Level::Error,
            message: "no".to_owned(),
            title: None,
            file: Some("a.rs".to_owned()),
            line: Some(3),
            end_line: None,
            column: None,
            end_column: None,
            step: None,
            code: None,
        };
        let finished = EventKind::StepFinished {
            number: 2,
            conclusion: Conclusion::Success,
            outcome: Some(Conclusion::Failure),
            exit_code: None,
        };
        check(
            &finished,
            "step_finished",
            Some(r#"{"number":2,"conclusion":"success","outcome":"failure"}"#),
        );
        check(
            &EventKind::Annotation(annotation),
            "annotation",
            Some(r#"{"level":"error","message":"no","file":"a.rs","line":3}"#),
        );
    }

    #[test]
    fn what_a_newer_kiln_wrote_is_kept_as_it_is() {
        for (kind, payload) in [
            ("job_teleported", Some(r#"{"to":"mars"}"#)),
            ("job_teleported", None),
            ("run_done", Some(r#"{"conclusion":"enlightened"}"#)),
            ("run_done", Some("no json")),
        ] {
            let other =
                EventKind::Other { kind: kind.to_owned(), payload: payload.map(Into::into) };
            check(&other, kind, payload);
        }
    }
}
