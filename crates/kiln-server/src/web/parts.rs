//! Small pieces of pages: how something stands, in a shape and in words; times and durations.

use std::time::Duration;

use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_store::runs::{RunStatus, RunSummary, StepStatus, StepView};
use maud::{Markup, PreEscaped, html};

use crate::clock;
use crate::service::jobs::Seen;

/// How something stands. Each has a shape and a word of its own, so that colour is never all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    Failed,
    TimedOut,
    /// It failed, and that is allowed.
    Tolerated,
    Running,
    Queued,
    /// For another job, a group or a time.
    Waiting,
    Cancelled,
    Success,
    Skipped,
}

impl Look {
    pub(super) fn ended(conclusion: Conclusion) -> Self {
        match conclusion {
            Conclusion::Success => Self::Success,
            Conclusion::Skipped => Self::Skipped,
            Conclusion::Cancelled => Self::Cancelled,
            Conclusion::TimedOut => Self::TimedOut,
            Conclusion::Failure | Conclusion::StartupFailure => Self::Failed,
        }
    }

    pub(super) fn of_run(run: &RunSummary) -> Self {
        match (run.conclusion, run.status) {
            (Some(conclusion), _) => Self::ended(conclusion),
            (None, RunStatus::InProgress) => Self::Running,
            (None, RunStatus::Pending) => Self::Waiting,
            (None, _) => Self::Queued,
        }
    }

    pub(super) fn of_job(job: &Seen) -> Self {
        match (job.conclusion, job.status) {
            (Some(end), _) if job.tolerated && end.is_failure() => Self::Tolerated,
            (Some(conclusion), _) => Self::ended(conclusion),
            (None, "in_progress") => Self::Running,
            (None, "queued") => Self::Queued,
            (None, _) => Self::Waiting,
        }
    }

    pub(super) fn of_step(step: &StepView) -> Self {
        let failed = step.outcome.is_some_and(Conclusion::is_failure);
        match (step.conclusion, step.status) {
            (Some(Conclusion::Success), _) if failed => Self::Tolerated,
            (Some(conclusion), _) => Self::ended(conclusion),
            (None, StepStatus::InProgress) => Self::Running,
            (None, _) => Self::Waiting,
        }
    }

    /// The worst of several: what one looks at first.
    pub(super) fn worst(looks: impl IntoIterator<Item = Self>) -> Self {
        looks.into_iter().min().unwrap_or(Self::Waiting)
    }

    /// Also the class in the stylesheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Tolerated => "tolerated",
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Waiting => "waiting",
            Self::Cancelled => "cancelled",
            Self::Success => "success",
            Self::Skipped => "skipped",
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::TimedOut => "Timed out",
            Self::Tolerated => "Failed, allowed to",
            Self::Running => "Running",
            Self::Queued => "Queued",
            Self::Waiting => "Waiting",
            Self::Cancelled => "Cancelled",
            Self::Success => "Succeeded",
            Self::Skipped => "Skipped",
        }
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Queued | Self::Waiting)
    }

    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }

    /// What is drawn in a square of 16, in `currentColor`.
    pub(super) fn shape(self) -> PreEscaped<&'static str> {
        PreEscaped(match self {
            Self::Success => {
                r#"<circle class="disc" cx="8" cy="8" r="7"/><path class="sign" d="M4.8 8.300 7.100 10.500 11.300 5.900"/>"#
            }
            Self::Failed => {
                r#"<circle class="disc" cx="8" cy="8" r="7"/><path class="sign" d="M5.500 5.500 10.500 10.500M10.500 5.500 5.500 10.500"/>"#
            }
            Self::TimedOut => {
                r#"<circle class="disc" cx="8" cy="8" r="7"/><path class="sign" d="M8 4.300V8l2.600 1.900"/>"#
            }
            Self::Tolerated => {
                r#"<path class="disc" d="M8 1.200 15.200 14.300H.8z"/><path class="sign" d="M8 6v3.600M8 11.700v.6"/>"#
            }
            Self::Running => {
                r#"<circle class="ring" cx="8" cy="8" r="6"/><path class="turn" d="M8 2a6 6 0 0 1 6 6"/><circle class="core" cx="8" cy="8" r="2.200"/>"#
            }
            Self::Queued => {
                r#"<circle class="ring" cx="8" cy="8" r="6"/><path class="line" d="M8 4.600V8h3"/>"#
            }
            Self::Waiting => {
                r#"<circle class="ring dashed" cx="8" cy="8" r="6"/><circle class="core" cx="8" cy="8" r="1.600"/>"#
            }
            Self::Cancelled => {
                r#"<circle class="disc" cx="8" cy="8" r="7"/><path class="sign" d="M4.800 8h6.400"/>"#
            }
            Self::Skipped => {
                r#"<circle class="ring" cx="8" cy="8" r="6"/><path class="line" d="M5.300 10.700 10.700 5.300"/>"#
            }
        })
    }

    /// The shape alone, which says its word to those who do not see it.
    pub(super) fn icon(self) -> Markup {
        html! {
            svg class={ "status " (self.class()) } viewBox="0 0 16 16" role="img" aria-label=(self.word()) {
                title { (self.word()) } (self.shape())
            }
        }
    }

    /// Shape and word.
    pub(super) fn pill(self) -> Markup {
        html! {
            span class={ "pill " (self.class()) } {
                svg class={ "status " (self.class()) } viewBox="0 0 16 16" aria-hidden="true" { (self.shape()) }
                (self.word())
            }
        }
    }
}

/// How long something took, for people: `42 s`, `3 min 5 s`, `2 h 10 min`.
pub(super) fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.subsec_millis() > 0 => format!("{} ms", duration.subsec_millis()),
        0..10 if duration.subsec_millis() >= 100 => {
            format!("{seconds}.{} s", duration.subsec_millis() / 100)
        }
        0..60 => format!("{seconds} s"),
        60..3_600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// How long it took, or takes until now.
pub(super) fn took(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<Duration> {
    from.map(|from| to.unwrap_or_else(clock::now).since(from))
}

/// A duration that grows as one looks at it, while there is no end.
pub(super) fn clocked(from: Option<Timestamp>, to: Option<Timestamp>) -> Markup {
    let Some(start) = from else { return html! {} };
    let since = to.is_none().then_some(start.0);
    html! { span.length data-since=[since] { (took(from, to).map(length).unwrap_or_default()) } }
}

/// A moment, as far away as it is.
pub(super) fn when(at: Timestamp) -> Markup {
    let exact = at.rfc3339();
    html! { time datetime=(exact) title=(plain(at)) { (ago(clock::now().since(at))) } }
}

pub(super) fn ago(since: Duration) -> String {
    let seconds = since.as_secs();
    match seconds {
        0..10 => "just now".to_owned(),
        10..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..172_800 => "yesterday".to_owned(),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Date and time of day, in UTC.
pub(super) fn plain(at: Timestamp) -> String {
    let text = at.rfc3339();
    format!("{} {} UTC", &text[..10], &text[11..19])
}

/// A branch or tag without `refs/heads/`.
pub(super) fn short_reference(reference: &str) -> &str {
    let tag = reference.strip_prefix("refs/tags/");
    tag.or_else(|| reference.strip_prefix("refs/heads/")).unwrap_or(reference)
}

/// The first letters of a commit.
pub(super) fn short_sha(sha: &str) -> &str {
    sha.get(..7).unwrap_or(sha)
}

/// Nothing is here yet: what that means, and what to do.
pub(super) fn empty(title: &str, advice: &Markup) -> Markup {
    html! {
        div.empty {
            svg viewBox="0 0 64 40" aria-hidden="true" {
                path d="M8 38V22a24 20 0 0 1 48 0v16" {}
                path d="M22 38v-6a10 9 0 0 1 20 0v6" {}
                path d="M2 38h60" {}
            }
            p.title { (title) }
            p { (advice) }
        }
    }
}

/// Bytes, for people: `812 B`, `4.2 MB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut whole, mut unit) = (bytes, 0);
    while whole >= 1_000_000 && unit + 1 < UNITS.len() {
        whole /= 1_000;
        unit += 1;
    }
    format!("{}.{} {}", whole / 1_000, whole % 1_000 / 100, UNITS[unit])
}

/// Singular or plural.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_for_people() {
        let check = |millis: u64, expect: &str| {
            assert_eq!(length(Duration::from_millis(millis)), expect);
        };
        check(0, "0 s");
        check(250, "250 ms");
        check(1_740, "1.7 s");
        check(59_900, "59 s");
        check(60_000, "1 min");
        check(185_000, "3 min 5 s");
        check(7_800_000, "2 h 10 min");
    }

    #[test]
    fn sizes_are_written_for_people() {
        let shown = [0, 999, 1_000, 4_240_000, 10_000_000_000, u64::MAX].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "4.2 MB", "10.0 GB", "18446.7 PB"]);
    }

    #[test]
    fn moments_are_as_far_away_as_they_are() {
        let check = |seconds: u64, expect: &str| {
            assert_eq!(ago(Duration::from_secs(seconds)), expect);
        };
        check(3, "just now");
        check(42, "42 s ago");
        check(3_599, "59 min ago");
        check(90_000, "yesterday");
        check(260_000, "3 days ago");
    }

    #[test]
    fn the_worst_of_several_is_what_one_looks_at() {
        assert_eq!(Look::worst([Look::Success, Look::Running, Look::Failed]), Look::Failed);
        assert_eq!(Look::worst([Look::Skipped, Look::Success]), Look::Success);
        assert_eq!(Look::worst([]), Look::Waiting);
    }
}
