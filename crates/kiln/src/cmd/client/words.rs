//! What the server's words for a state are to people: a mark, a word, and a colour that only helps.

use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::api::{Job, PastClaim};

use crate::Outcome;
use crate::output::one_line;
use crate::output::table::Cell;
use crate::output::text::{CALM, mark, style};
use crate::output::time::{self, between};

/// How a run, a job or a step stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) mark: char,
    pub(super) word: String,
    pub(super) style: Style,
}

/// The standing for a status and, at the end, a conclusion.
pub(super) fn standing(status: &str, conclusion: Option<&str>) -> Standing {
    if let Some(word) = conclusion {
        return match Conclusion::of_github(word) {
            Some(known) => {
                Standing { mark: mark(known), word: known.word().to_owned(), style: style(known) }
            }
            None => Standing { mark: '?', word: word.replace('_', " "), style: CALM },
        };
    }
    let (mark, word, style) = match status {
        "in_progress" => ('●', "running", AnsiColor::Cyan.on_default()),
        "completed" => ('?', "ended", CALM),
        other => ('○', other, Style::new()),
    };
    Standing { mark, word: word.replace('_', " "), style }
}

impl Standing {
    pub(super) fn cell(&self) -> Cell {
        Cell::styled(format!("{} {}", self.mark, self.word), self.style)
    }
}

/// Whether it is over and somebody must look at it.
pub(super) fn is_bad(conclusion: Option<&str>) -> bool {
    conclusion.is_some_and(|word| !matches!(word, "success" | "skipped" | "cancelled" | "neutral"))
}

/// Why a job was tried again, in words.
pub(super) fn tried(past: &PastClaim) -> String {
    let runner = past.runner.as_deref().map(|name| format!(" on {}", one_line(name)));
    let ended = match past.outcome.as_str() {
        "lost" => "was lost",
        "retried" => "failed and was tried again",
        _ => "was given back",
    };
    let reason = past.reason.as_deref().map(|reason| format!(": {}", one_line(reason)));
    let (runner, reason) = (runner.unwrap_or_default(), reason.unwrap_or_default());
    format!("claim {}{runner} {ended}{reason}", past.attempt)
}

/// The exit code for how a run ended.
pub(super) fn outcome(conclusion: Option<&str>) -> Outcome {
    match conclusion {
        Some("success" | "skipped" | "neutral") => Outcome::Clean,
        Some("cancelled") => Outcome::Cancelled,
        _ => Outcome::Errors,
    }
}

/// How long a job has run, or ran.
pub(super) fn job_took(job: &Job, now: Timestamp) -> Option<Duration> {
    between(job.started_at.as_deref().or(job.claimed_at.as_deref()), job.ended_at.as_deref(), now)
}

/// The short name of a branch or tag.
pub(super) fn short_ref(reference: &str) -> &str {
    reference
        .strip_prefix("refs/heads/")
        .or_else(|| reference.strip_prefix("refs/tags/"))
        .or_else(|| reference.strip_prefix("refs/"))
        .unwrap_or(reference)
}

/// The file name of a workflow's path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Why a job waits. A reason may say that it waits by itself.
pub(super) fn waits(reason: &str) -> String {
    let reason = one_line(reason);
    if reason.starts_with("waits") { reason } else { format!("waits: {reason}") }
}

/// A duration, or the sign for none.
pub(super) fn lasted(took: Option<Duration>) -> String {
    took.map_or_else(|| time::NOTHING.to_owned(), time::lasted)
}

/// `1 job`, `2 jobs`.
pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_mark_and_a_word() {
        for (status, conclusion, expect) in [
            ("completed", Some("success"), "✓ succeeded"),
            ("completed", Some("timed_out"), "✗ timed out"),
            ("completed", Some("cancelled"), "- cancelled"),
            ("completed", Some("action_required"), "? action required"),
            ("in_progress", None, "● running"),
            ("queued", None, "○ queued"),
            ("completed", None, "? ended"),
        ] {
            let found = standing(status, conclusion);
            assert_eq!(format!("{} {}", found.mark, found.word), expect);
        }
    }

    #[test]
    fn the_exit_code_says_how_a_run_ended() {
        assert_eq!(outcome(Some("success")), Outcome::Clean);
        assert_eq!(outcome(Some("skipped")), Outcome::Clean);
        assert_eq!(outcome(Some("cancelled")), Outcome::Cancelled);
        assert_eq!(outcome(Some("timed_out")), Outcome::Errors);
        assert_eq!(outcome(Some("new_word")), Outcome::Errors);
        assert_eq!(outcome(None), Outcome::Errors);
    }

    #[test]
    fn refs_are_short() {
        for (long, short) in [
            ("refs/heads/a/b", "a/b"),
            ("refs/tags/v1", "v1"),
            ("refs/pull/3/merge", "pull/3/merge"),
            ("x", "x"),
        ] {
            assert_eq!(short_ref(long), short);
        }
    }
}
