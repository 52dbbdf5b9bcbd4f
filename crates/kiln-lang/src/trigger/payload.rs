//! What a payload tells about its event.

use kiln_core::value::{Object, Value};

use super::{ChangedFiles, Commits, Event, WorkflowRun};

impl Event {
    /// The event that a payload is about. `reference` is the full ref if the caller knows it; for pull
    /// requests it is the base branch.
    pub fn of_payload(
        name: &str,
        payload: &Object,
        reference: Option<&str>,
        changed_files: ChangedFiles,
    ) -> Self {
        let text = |path: &[&str]| payload.path(path).and_then(Value::as_str).map(str::to_owned);
        let deleted = matches!(payload.get("deleted"), Some(Value::Bool(true)));
        let commits = match (text(&["before"]), text(&["after"])) {
            (Some(before), Some(after)) => Commits::Push { before, after, oldest: None },
            _ if deleted => {
                Commits::Push { before: "1".repeat(40), after: "0".repeat(40), oldest: None }
            }
            _ => Commits::None,
        };
        let branch = |full: &str| full.strip_prefix("refs/heads/").unwrap_or(full).to_owned();
        Self {
            name: name.to_owned(),
            action: text(&["action"]),
            git_ref: reference.unwrap_or("refs/heads/main").to_owned(),
            base_ref: text(&["pull_request", "base", "ref"])
                .or_else(|| text(&["merge_group", "base_ref"]).map(|full| branch(&full)))
                .or_else(|| reference.map(branch)),
            commits,
            changed_files,
            commit_message: text(&["head_commit", "message"]),
            workflow_run: text(&["workflow_run", "name"]).map(|workflow| WorkflowRun {
                workflow,
                branch: text(&["workflow_run", "head_branch"]),
            }),
            schedule: text(&["schedule"]),
        }
    }
}
