//! Which commits to compare to learn the changed files of an event.

use super::{Event, GitRef};

/// The commits an event brings along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Commits {
    #[default]
    None,
    /// A push; an id of zeros means that the ref did not exist before or does not exist after.
    Push {
        before: String,
        after: String,
        /// The first of the pushed commits, in the order of history.
        oldest: Option<String>,
    },
    PullRequest {
        base: String,
        head: String,
    },
}

impl Commits {
    /// Whether these commits are the end of a ref.
    pub fn delete_the_ref(&self) -> bool {
        matches!(self, Self::Push { after, .. } if is_zero(after))
    }
}

/// A comparison to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison<'a> {
    /// The two trees as they are, also after a forced push.
    TwoDot { before: &'a str, after: &'a str },
    /// The head against the commit where it left the base.
    ThreeDot { base: &'a str, head: &'a str },
    /// The parent of the oldest pushed commit against the newest. A branch that brought no commits
    /// of its own has no oldest one and changed nothing.
    NewBranch { oldest: Option<&'a str>, after: &'a str },
    /// Paths play no part: tags, deletions, and events without commits.
    None,
}

/// The comparison that tells the changed files of an event.
pub fn compare_for(event: &Event) -> Comparison<'_> {
    match &event.commits {
        Commits::None => Comparison::None,
        Commits::PullRequest { base, head } => Comparison::ThreeDot { base, head },
        Commits::Push { .. } if event.commits.delete_the_ref() => Comparison::None,
        Commits::Push { .. } if !matches!(GitRef::parse(&event.git_ref), GitRef::Branch(_)) => {
            Comparison::None
        }
        Commits::Push { before, after, oldest } if is_zero(before) => {
            Comparison::NewBranch { oldest: oldest.as_deref(), after }
        }
        Commits::Push { before, after, .. } => Comparison::TwoDot { before, after },
    }
}

/// Git writes "no commit" as zeros, forty of them or sixty-four.
fn is_zero(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte == b'0')
}
