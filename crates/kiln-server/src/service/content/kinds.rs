//! Kinds of runs, and how long what they leave is kept.

use std::time::Duration;

use kiln_core::id::RunId;
use kiln_store::directory::repositories;
use kiln_store::{Scope, StoreError, Tx};

use crate::config::{Content, OfKind};

/// What a run is for, as far as it matters to how long it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    PullRequest,
    /// Of a tag, or of a release, which has one.
    Tag,
    Schedule,
    DefaultBranch,
    Other,
}

impl RunKind {
    fn of(event: &str, reference: &str, default_branch: &str) -> Self {
        match event {
            "schedule" => Self::Schedule,
            "release" => Self::Tag,
            _ if event.starts_with("pull_request") => Self::PullRequest,
            _ if reference.starts_with("refs/pull/") => Self::PullRequest,
            _ if reference.starts_with("refs/tags/") => Self::Tag,
            _ if reference.strip_prefix("refs/heads/") == Some(default_branch) => {
                Self::DefaultBranch
            }
            _ => Self::Other,
        }
    }

    /// How long that is kept, if it was said for this kind.
    fn kept(self, set: &OfKind) -> Option<Duration> {
        match self {
            Self::PullRequest => set.pull_requests,
            Self::Tag => set.tags,
            Self::Schedule => set.schedules,
            Self::DefaultBranch => set.default_branch,
            Self::Other => None,
        }
    }
}

/// How long what a run leaves is kept, if that was said for its kind.
pub(crate) async fn kept(
    tx: &mut Tx<'_>,
    scope: Scope,
    set: &OfKind,
    run: RunId,
) -> Result<Option<Duration>, StoreError> {
    if *set == OfKind::default() {
        return Ok(None);
    }
    let run = kiln_store::runs::get(tx, scope, run).await?;
    let repo = repositories::get(tx, scope, run.repo).await?;
    Ok(RunKind::of(&run.event, &run.reference, &repo.default_branch).kept(set))
}

/// How long an artifact of a run is kept, at most.
pub(crate) async fn longest(
    tx: &mut Tx<'_>,
    scope: Scope,
    content: &Content,
    run: RunId,
) -> Result<Duration, StoreError> {
    Ok(kept(tx, scope, &content.of_kind, run).await?.unwrap_or(content.artifacts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5
    #[test]
    fn runs_are_told_apart_by_event_and_ref() {
        let check = |event: &str, reference: &str, expect: RunKind| {
            assert_eq!(RunKind::of(event, reference, "trunk"), expect, "{event} {reference}");
        };
        check("push", "refs/heads/trunk", RunKind::DefaultBranch);
        check("workflow_dispatch", "refs/heads/trunk", RunKind::DefaultBranch);
        check("push", "refs/heads/main", RunKind::Other);
        check("push", "refs/heads/trunk/2", RunKind::Other);
        check("push", "refs/tags/v1", RunKind::Tag);
        check("release", "refs/tags/v1", RunKind::Tag);
        check("pull_request", "refs/pull/7/merge", RunKind::PullRequest);
        check("pull_request_target", "refs/heads/trunk", RunKind::PullRequest);
        check("schedule", "refs/heads/trunk", RunKind::Schedule);
        check("issue_comment", "", RunKind::Other);
    }

    #[test]
    fn only_what_was_set_for_a_kind_counts() {
        let day = Duration::from_hours(24);
        let set = OfKind { tags: Some(day), ..OfKind::default() };
        assert_eq!(RunKind::Tag.kept(&set), Some(day));
        assert_eq!((RunKind::Schedule.kept(&set), RunKind::Other.kept(&set)), (None, None));
    }
}
