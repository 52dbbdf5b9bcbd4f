//! Whether an event starts a workflow, decided over plain data.
//!
//! A [`Trigger`] is one entry of `on`, an [`Event`] is what happened, and [`matches()`] gives the
//! verdict with a reason that can be shown to the person who wonders why nothing ran.

mod decide;
mod diff;
mod events;
mod payload;
mod reason;
mod skip_marker;
#[cfg(test)]
mod tests;

pub use decide::matches;
pub use diff::{Commits, Comparison, compare_for};
pub use events::{DefaultTypes, EVENTS, EventSpec, FilterKey, Support, event};
pub use reason::{NameKind, Skip};

use crate::filter::Filter;

/// How many changed files a path filter looks at; GitHub ignores the rest.
pub const MAX_FILES_LOOKED_AT: usize = 3000;

/// One entry of `on`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trigger {
    pub event: String,
    /// Activity types; empty means the defaults of the event.
    pub types: Vec<String>,
    pub branches: Option<Rule>,
    pub tags: Option<Rule>,
    pub paths: Option<Rule>,
    /// The workflows whose runs start this one, for `workflow_run`.
    pub workflows: Vec<String>,
    /// For `schedule`.
    pub schedules: Vec<Schedule>,
}

impl Trigger {
    /// An entry without filters.
    pub fn on(event: &str) -> Self {
        Self { event: event.to_owned(), ..Self::default() }
    }
}

/// A filter in one of its two spellings, which exclude each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// `branches`, `tags` or `paths`.
    Only(Filter),
    /// `branches-ignore`, `tags-ignore` or `paths-ignore`.
    Except(Filter),
}

/// One entry of `schedule`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The fields as written; `github.event.schedule` repeats them.
    pub cron: String,
    /// An IANA name; none means UTC.
    pub timezone: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    /// The activity type, or the `event_type` of a `repository_dispatch`.
    pub action: Option<String>,
    /// The full ref that was pushed, such as `refs/heads/main`.
    pub git_ref: String,
    /// The branch a pull request or merge group goes into.
    pub base_ref: Option<String>,
    pub commits: Commits,
    pub changed_files: ChangedFiles,
    /// The message of the newest commit of a push or pull request.
    pub commit_message: Option<String>,
    /// For `workflow_run`.
    pub workflow_run: Option<WorkflowRun>,
    /// The cron fields that came due, for `schedule`.
    pub schedule: Option<String>,
}

/// The run that a `workflow_run` event tells about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRun {
    pub workflow: String,
    /// The branch it ran on; a run for a tag has none.
    pub branch: Option<String>,
}

/// The files an event changed, as far as anybody knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChangedFiles {
    Known(Vec<String>),
    /// The comparison was too large or took too long.
    TooMany,
    /// Nobody has compared anything.
    #[default]
    Unknown,
}

/// The verdict on one workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Run,
    Skip(Skip),
}

/// What kind of ref a full name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitRef<'a> {
    Branch(&'a str),
    Tag(&'a str),
    /// Notes, stashes, pull requests and whatever else lives below `refs/`.
    Other(&'a str),
}

impl<'a> GitRef<'a> {
    pub fn parse(full: &'a str) -> Self {
        if let Some(branch) = full.strip_prefix("refs/heads/") {
            Self::Branch(branch)
        } else if let Some(tag) = full.strip_prefix("refs/tags/") {
            Self::Tag(tag)
        } else {
            Self::Other(full)
        }
    }
}
