//! Why a workflow did not run, for people.

use std::fmt;

use super::MAX_FILES_LOOKED_AT;

/// What a filtered name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Branch,
    BaseBranch,
    Tag,
}

impl NameKind {
    fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::BaseBranch => "base branch",
            Self::Tag => "tag",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Branch | Self::BaseBranch => "branches",
            Self::Tag => "tags",
        }
    }
}

/// Why a workflow did not run; its text is a sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    NotListening {
        event: String,
        listens_to: Vec<String>,
    },
    RefDeleted {
        git_ref: String,
    },
    /// The commit message asks for it.
    Asked {
        marker: &'static str,
    },
    ActivityType {
        action: Option<String>,
        allowed: Vec<String>,
    },
    /// A push of something that is neither a branch nor a tag.
    NotABranchOrTag {
        git_ref: String,
    },
    /// A branch was pushed and only tags are filtered, or the other way round.
    OtherKindOfRef {
        pushed: NameKind,
        name: String,
        filtered: NameKind,
    },
    /// The event names no branch although the filter wants one.
    NoName {
        kind: NameKind,
    },
    NotIncluded {
        kind: NameKind,
        name: String,
        patterns: Vec<String>,
    },
    /// Taken out by a `!` pattern, or by one of an `-ignore` list.
    Excluded {
        kind: NameKind,
        name: String,
        pattern: String,
    },
    /// A list of only `!` patterns.
    OnlyNegated {
        key: &'static str,
    },
    NoChangedFiles,
    NoFileIncluded {
        files: usize,
        patterns: Vec<String>,
    },
    AllFilesIgnored {
        files: usize,
    },
    OtherWorkflow {
        workflow: Option<String>,
        workflows: Vec<String>,
    },
    OtherSchedule {
        schedule: Option<String>,
        schedules: Vec<String>,
    },
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListening { event, listens_to } if listens_to.is_empty() => {
                write!(f, "the workflow is not triggered by `{event}`; it listens to nothing")
            }
            Self::NotListening { event, listens_to } => write!(
                f,
                "the workflow is not triggered by `{event}`; it listens to {}",
                quoted(listens_to)
            ),
            Self::RefDeleted { git_ref } => {
                write!(f, "the push deleted `{git_ref}`, so there is no commit to run on")
            }
            Self::Asked { marker } => write!(f, "the commit message says {marker}"),
            Self::ActivityType { action: Some(action), allowed } => {
                write!(f, "activity type `{action}` is not among {}", allowed.join(", "))
            }
            Self::ActivityType { action: None, allowed } => write!(
                f,
                "the event has no activity type, and the workflow wants {}",
                allowed.join(", ")
            ),
            Self::NotABranchOrTag { git_ref } => {
                write!(f, "`{git_ref}` is neither a branch nor a tag")
            }
            Self::OtherKindOfRef { pushed, name, filtered } => write!(
                f,
                "{} `{name}` was pushed, and the workflow asks only for {}; \
                 add a `{}` filter to run for both",
                pushed.word(),
                filtered.key(),
                pushed.key()
            ),
            Self::NoName { kind } => {
                write!(f, "the event has no {}, and the workflow filters them", kind.word())
            }
            Self::NotIncluded { kind, name, patterns } => {
                write!(f, "{} `{name}` matches none of {}", kind.word(), quoted(patterns))
            }
            Self::Excluded { kind, name, pattern } => {
                write!(f, "{} `{name}` is excluded by `{pattern}`", kind.word())
            }
            Self::OnlyNegated { key } => write!(
                f,
                "`{key}` has only patterns that start with `!`, so nothing can match; \
                 use `{key}-ignore`"
            ),
            _ => self.fmt_rest(f),
        }
    }
}

impl Skip {
    /// The reasons that are not about names.
    fn fmt_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoChangedFiles => {
                f.write_str("no files changed, and the workflow filters by path")
            }
            Self::NoFileIncluded { files: 1, patterns } => {
                write!(f, "the changed file matches none of {}", quoted(patterns))
            }
            Self::NoFileIncluded { files, patterns } => {
                write!(f, "none of the {} matches {}", counted(*files), quoted(patterns))
            }
            Self::AllFilesIgnored { files: 1 } => {
                f.write_str("the changed file is excluded by `paths-ignore`")
            }
            Self::AllFilesIgnored { files } => {
                write!(f, "all {} are excluded by `paths-ignore`", counted(*files))
            }
            Self::OtherWorkflow { workflow: Some(workflow), workflows } => {
                write!(f, "workflow `{workflow}` is not among {}", quoted(workflows))
            }
            Self::OtherWorkflow { workflow: None, .. } => {
                f.write_str("the event does not say which workflow ran")
            }
            Self::OtherSchedule { schedule: Some(schedule), schedules } => {
                write!(f, "schedule `{schedule}` is not among {}", quoted(schedules))
            }
            _ => f.write_str("the event does not say which schedule came due"),
        }
    }
}

fn quoted(names: &[String]) -> String {
    if names.is_empty() {
        return "an empty list".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn counted(files: usize) -> String {
    if files > MAX_FILES_LOOKED_AT {
        format!("first {MAX_FILES_LOOKED_AT} of {files} changed files")
    } else {
        format!("{files} changed files")
    }
}
