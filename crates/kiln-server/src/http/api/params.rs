//! What follows the question mark, where routes share it or need more than a word.

use serde::Deserialize;
use utoipa::IntoParams;

/// A list that belongs to an organization.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfOwner {
    /// The organization; the whole installation when it is left out.
    pub(super) owner: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many.
    #[param(minimum = 1)]
    pub(super) limit: Option<u32>,
}

/// Which objects.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfObjects {
    /// The organization.
    pub(super) owner: Option<String>,
    /// What they are.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// Only those that have all of these, with commas between them.
    pub(super) tags: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many, 100 at most.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
}

/// Which tags.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfTags {
    /// The organization.
    pub(super) owner: Option<String>,
    /// How they begin.
    pub(super) prefix: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many, 100 at most.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
}

/// Which part of a log, and how.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfLog {
    /// Which claim of the job; the last one when it is left out.
    #[param(minimum = 1)]
    pub(super) attempt: Option<u32>,
    /// Where to begin, in bytes of the kept log.
    pub(super) from: Option<u64>,
    /// How many bytes of the kept log, at most.
    pub(super) limit: Option<u64>,
    /// Goes on until the job is done.
    pub(super) follow: Option<bool>,
    /// `text` has lines as they were printed; `raw` has them with time and step, `numbered` also with their number
    /// before that, `timed` with the time as GitHub shows it; `json` is a message `log_line` on each line.
    pub(super) format: Option<String>,
    /// The first line, from 1.
    #[param(minimum = 1)]
    pub(super) from_line: Option<u64>,
    /// How many lines, at most.
    pub(super) lines: Option<u64>,
    /// Only of these steps: numbers from 1, with commas between them.
    pub(super) step: Option<String>,
    /// Only lines from this time on, in RFC 3339.
    pub(super) since: Option<String>,
    /// Only lines with this text in them.
    pub(super) grep: Option<String>,
    /// Whether `grep` is a regular expression.
    pub(super) regex: Option<bool>,
    /// Whether `grep` finds capital and small letters alike.
    pub(super) ignore_case: Option<bool>,
    /// Only so many of the last of these lines, and what comes.
    pub(super) tail: Option<u64>,
}

/// Which runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfRuns {
    /// `owner/name`.
    pub(super) repo: Option<String>,
    /// The path of the workflow's file, its file name, or what it calls itself.
    pub(super) workflow: Option<String>,
    /// `queued`, `pending`, `in_progress` or `completed`.
    pub(super) status: Option<String>,
    /// Such as `success` or `failure`.
    pub(super) conclusion: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) event: Option<String>,
    /// The whole hash of the commit.
    pub(super) sha: Option<String>,
    /// Who triggered it first.
    pub(super) actor: Option<String>,
    /// A part of the title or of the branch.
    pub(super) q: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many, 100 at most.
    #[param(minimum = 1)]
    pub(super) limit: Option<u32>,
}

/// Which attempt of a run.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfAttempt {
    /// An earlier attempt; the current one when it is left out.
    #[param(minimum = 1)]
    pub(super) attempt: Option<u32>,
}

/// Which summaries of a run.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfSummaries {
    /// An earlier attempt; the current one when it is left out.
    #[param(minimum = 1)]
    pub(super) attempt: Option<u32>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
}

/// Which waiting jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfQueue {
    /// `owner/name`.
    pub(super) repo: Option<String>,
    /// The number or slug of a run.
    pub(super) run: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many, 500 at most.
    #[param(minimum = 1, maximum = 500)]
    pub(super) limit: Option<usize>,
}

/// What waits for concurrency groups.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfHeld {
    /// `owner/name`.
    pub(super) repo: Option<String>,
    /// The number or slug of a run.
    pub(super) run: Option<String>,
    /// The `next` of the piece before.
    pub(super) after: Option<String>,
    /// How many, 500 at most.
    #[param(minimum = 1, maximum = 500)]
    pub(super) limit: Option<usize>,
}

/// Which file of a commit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfFile {
    /// A branch, a tag or a commit; the default branch when it is left out.
    #[serde(rename = "ref")]
    #[param(rename = "ref")]
    pub(super) reference: Option<String>,
}

/// Where to begin with a log that is followed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct OfLive {
    /// Which claim of the job, and no other; the last one, and those that follow, when it is left out.
    #[param(minimum = 1)]
    pub(super) attempt: Option<u32>,
    /// What was seen last, as `Last-Event-ID` has it: `attempt-line`.
    pub(super) after: Option<String>,
    /// The first line, from 1.
    #[param(minimum = 1)]
    pub(super) from_line: Option<u64>,
    /// Only so many of the lines that there are now, and what comes.
    pub(super) tail: Option<u64>,
}

/// What is looked for in logs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct OfSearch {
    /// The text, or the regular expression.
    pub(super) q: String,
    /// Whether `q` is a regular expression.
    pub(super) regex: Option<bool>,
    pub(super) ignore_case: Option<bool>,
    /// Only in these steps: numbers from 1, with commas between them.
    pub(super) step: Option<String>,
    /// Lines before and after each, 10 at most.
    #[param(maximum = 10)]
    pub(super) context: Option<u64>,
    /// How many lines, 1000 at most.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<usize>,
    /// The `next` of the answer before.
    pub(super) after: Option<String>,
    /// Only one attempt: the claim of a job, or the attempt of a run. All of them if nothing is said.
    pub(super) attempt: Option<u32>,
}

/// What a signed address says of itself.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct Signed {
    pub(super) org: i64,
    pub(super) job: Option<i64>,
    pub(super) size: u64,
    /// Milliseconds since 1970.
    pub(super) expires: u64,
    pub(in crate::http) signature: String,
}

/// Whose bytes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfBlob {
    /// The organization; that of the job for tokens of jobs.
    pub(super) owner: Option<String>,
}
