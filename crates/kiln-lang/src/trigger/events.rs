//! The events of GitHub Actions: their activity types, their filters, and whether Kiln takes them.

/// Keys that may stand below an event in `on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKey {
    Types,
    /// `branches` or `branches-ignore`.
    Branches,
    /// `tags` or `tags-ignore`.
    Tags,
    /// `paths` or `paths-ignore`.
    Paths,
    Workflows,
    /// The list of `cron` entries, which stands in place of a mapping.
    Schedule,
    Inputs,
    Secrets,
    Outputs,
    Names,
    Versions,
}

/// Which activity types run a workflow that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultTypes {
    /// All types the event has.
    All,
    Only(&'static [&'static str]),
}

/// Whether workflows may listen to an event here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Supported,
    /// The event can never arrive; the text says why and what to do.
    Refused(&'static str),
}

/// What is known about one event.
#[derive(Debug, Clone, Copy)]
pub struct EventSpec {
    pub name: &'static str,
    /// The activity types it can have; none if it has no types or, as with
    /// `repository_dispatch`, senders make them up.
    pub types: &'static [&'static str],
    pub default_types: DefaultTypes,
    pub filters: &'static [FilterKey],
    pub state: Support,
    pub doc: &'static str,
}

impl EventSpec {
    pub fn accepts(&self, key: FilterKey) -> bool {
        self.filters.contains(&key)
    }

    /// The types that run a workflow which names none; empty means that any will do.
    pub fn types_by_default(&self) -> &'static [&'static str] {
        match self.default_types {
            DefaultTypes::All => self.types,
            DefaultTypes::Only(types) => types,
        }
    }

    const fn plain(name: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            types: &[],
            default_types: DefaultTypes::All,
            filters: &[],
            state: Support::Supported,
            doc,
        }
    }

    const fn typed(
        name: &'static str,
        types: &'static [&'static str],
        filters: &'static [FilterKey],
        doc: &'static str,
    ) -> Self {
        Self { types, filters, ..Self::plain(name, doc) }
    }

    const fn refused(self, why: &'static str) -> Self {
        Self { state: Support::Refused(why), ..self }
    }

    const fn by_default(self, types: &'static [&'static str]) -> Self {
        Self { default_types: DefaultTypes::Only(types), ..self }
    }
}

/// The event of that name, which is case-sensitive.
pub fn event(name: &str) -> Option<&'static EventSpec> {
    EVENTS.iter().find(|spec| spec.name == name)
}

const TYPES: &[FilterKey] = &[FilterKey::Types];
const PULL_REQUEST_KEYS: &[FilterKey] = &[FilterKey::Types, FilterKey::Branches, FilterKey::Paths];
const CREATED_EDITED_DELETED: &[&str] = &["created", "edited", "deleted"];
const PULL_REQUEST_DEFAULTS: &[&str] = &["opened", "synchronize", "reopened"];
const PULL_REQUEST_TYPES: &[&str] = &[
    "assigned",
    "unassigned",
    "labeled",
    "unlabeled",
    "opened",
    "edited",
    "closed",
    "reopened",
    "synchronize",
    "converted_to_draft",
    "locked",
    "unlocked",
    "enqueued",
    "dequeued",
    "milestoned",
    "demilestoned",
    "ready_for_review",
    "review_requested",
    "review_request_removed",
    "auto_merge_enabled",
    "auto_merge_disabled",
    "stacked",
];

const PROJECTS_ARE_GONE: &str =
    "GitHub has retired classic projects, so the event is never sent; remove it";

/// All events a workflow file can name, in alphabetical order.
pub static EVENTS: &[EventSpec] = &[
    EventSpec::typed(
        "branch_protection_rule",
        CREATED_EDITED_DELETED,
        TYPES,
        "A rule that protects a branch was made, changed or removed.",
    ),
    EventSpec::typed(
        "check_run",
        &["created", "rerequested", "completed", "requested_action"],
        TYPES,
        "A single check of another app on a commit started, ended or is asked for again.",
    ),
    EventSpec::typed(
        "check_suite",
        &["completed"],
        TYPES,
        "All checks of another app on a commit are done.",
    ),
    EventSpec::plain("create", "A branch or tag was created."),
    EventSpec::plain("delete", "A branch or tag was deleted."),
    EventSpec::plain("deployment", "Somebody asked for a deployment."),
    EventSpec::plain("deployment_status", "A deployment reported how it is doing."),
    EventSpec::typed(
        "discussion",
        &[
            "created",
            "edited",
            "deleted",
            "transferred",
            "pinned",
            "unpinned",
            "labeled",
            "unlabeled",
            "locked",
            "unlocked",
            "category_changed",
            "answered",
            "unanswered",
        ],
        TYPES,
        "A discussion was opened or changed.",
    ),
    EventSpec::typed(
        "discussion_comment",
        CREATED_EDITED_DELETED,
        TYPES,
        "A comment on a discussion was written or changed.",
    ),
    EventSpec::plain("fork", "Somebody forked the repository."),
    EventSpec::plain("gollum", "A page of the wiki was written or changed."),
    EventSpec::typed(
        "image_version",
        &["created", "ready", "deleted"],
        &[FilterKey::Types, FilterKey::Names, FilterKey::Versions],
        "A custom image for GitHub's hosted runners has a new version.",
    )
    .refused("only GitHub's hosted runners have such images; start the workflow in another way"),
    EventSpec::typed(
        "issue_comment",
        CREATED_EDITED_DELETED,
        TYPES,
        "A comment on an issue or a pull request was written or changed.",
    ),
    EventSpec::typed(
        "issues",
        &[
            "opened",
            "edited",
            "deleted",
            "transferred",
            "pinned",
            "unpinned",
            "closed",
            "reopened",
            "assigned",
            "unassigned",
            "labeled",
            "unlabeled",
            "locked",
            "unlocked",
            "milestoned",
            "demilestoned",
            "field_added",
            "field_removed",
            "typed",
            "untyped",
        ],
        TYPES,
        "An issue was opened or changed.",
    ),
    EventSpec::typed("label", CREATED_EDITED_DELETED, TYPES, "A label was made or changed."),
    EventSpec::typed(
        "merge_group",
        &["checks_requested"],
        &[FilterKey::Types, FilterKey::Branches],
        "A merge queue wants its next group of pull requests checked.",
    ),
    EventSpec::typed(
        "milestone",
        &["created", "closed", "opened", "edited", "deleted"],
        TYPES,
        "A milestone was made or changed.",
    ),
    EventSpec::plain("page_build", "The GitHub Pages site of the repository was built."),
    EventSpec::typed(
        "project",
        &["created", "closed", "reopened", "edited", "deleted"],
        TYPES,
        "A classic project board was made or changed.",
    )
    .refused(PROJECTS_ARE_GONE),
    EventSpec::typed(
        "project_card",
        &["created", "moved", "converted", "edited", "deleted"],
        TYPES,
        "A card on a classic project board was made or changed.",
    )
    .refused(PROJECTS_ARE_GONE),
    EventSpec::typed(
        "project_column",
        &["created", "updated", "moved", "deleted"],
        TYPES,
        "A column of a classic project board was made or changed.",
    )
    .refused(PROJECTS_ARE_GONE),
    EventSpec::plain("public", "The repository became public."),
    EventSpec::typed(
        "pull_request",
        PULL_REQUEST_TYPES,
        PULL_REQUEST_KEYS,
        "A pull request was opened, updated or otherwise changed; runs on its merge commit.",
    )
    .by_default(PULL_REQUEST_DEFAULTS),
    EventSpec::plain("pull_request_comment", "Not an event, although its name is accepted.")
        .refused("GitHub never sends this event; use `issue_comment`, which covers pull requests"),
    EventSpec::typed(
        "pull_request_review",
        &["submitted", "edited", "dismissed"],
        TYPES,
        "A review of a pull request was given, changed or dismissed.",
    ),
    EventSpec::typed(
        "pull_request_review_comment",
        CREATED_EDITED_DELETED,
        TYPES,
        "A comment on the changes of a pull request was written or changed.",
    ),
    EventSpec::typed(
        "pull_request_target",
        PULL_REQUEST_TYPES,
        PULL_REQUEST_KEYS,
        "As `pull_request`, but runs trusted code with secrets instead of the proposed change.",
    )
    .by_default(PULL_REQUEST_DEFAULTS),
    EventSpec::typed(
        "push",
        &[],
        &[FilterKey::Branches, FilterKey::Tags, FilterKey::Paths],
        "Commits or a tag were pushed.",
    ),
    EventSpec::typed(
        "registry_package",
        &["published", "updated"],
        TYPES,
        "A package on GitHub Packages was published or updated.",
    ),
    EventSpec::typed(
        "release",
        &["published", "unpublished", "created", "edited", "deleted", "prereleased", "released"],
        TYPES,
        "A release was published or changed.",
    ),
    EventSpec::typed(
        "repository_dispatch",
        &[],
        TYPES,
        "A program asked for it by API, with a type of its own making.",
    ),
    EventSpec::typed(
        "schedule",
        &[],
        &[FilterKey::Schedule],
        "A time given in cron fields has come.",
    ),
    EventSpec::plain("status", "A commit got a status from outside."),
    EventSpec::typed("watch", &["started"], TYPES, "Somebody starred the repository."),
    EventSpec::typed(
        "workflow_call",
        &[],
        &[FilterKey::Inputs, FilterKey::Secrets, FilterKey::Outputs],
        "Another workflow uses this one as a job.",
    ),
    EventSpec::typed(
        "workflow_dispatch",
        &[],
        &[FilterKey::Inputs],
        "Somebody started the workflow by hand or by API.",
    ),
    EventSpec::typed(
        "workflow_run",
        &["completed", "requested", "in_progress"],
        &[FilterKey::Types, FilterKey::Workflows, FilterKey::Branches],
        "A run of another workflow was requested, began or ended.",
    ),
];
