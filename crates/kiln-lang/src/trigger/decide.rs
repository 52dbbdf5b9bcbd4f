//! The rules, from the outside in: event, commit message, activity, refs, paths.

use super::{
    ChangedFiles, Decision, Event, GitRef, MAX_FILES_LOOKED_AT, NameKind, Rule, Skip, Trigger,
    event, skip_marker,
};
use crate::filter::{Filter, Pattern};

/// Whether the event starts a workflow with these triggers. Of several that could have started
/// it, the first one's reason is told.
pub fn matches(triggers: &[Trigger], event: &Event) -> Decision {
    let mut reason = None;
    for trigger in triggers.iter().filter(|trigger| trigger.event == event.name) {
        match check(trigger, event) {
            Ok(()) => return Decision::Run,
            Err(skip) => {
                reason.get_or_insert(skip);
            }
        }
    }
    Decision::Skip(reason.unwrap_or_else(|| Skip::NotListening {
        event: event.name.clone(),
        listens_to: triggers.iter().map(|trigger| trigger.event.clone()).collect(),
    }))
}

fn check(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    if event.name == "push" && event.commits.delete_the_ref() {
        return Err(Skip::RefDeleted { git_ref: event.git_ref.clone() });
    }
    check_message(event)?;
    check_activity(trigger, event)?;
    match event.name.as_str() {
        "push" => check_push(trigger, event),
        "pull_request" | "pull_request_target" => {
            check_base(trigger, event)?;
            check_paths(trigger, event)
        }
        "merge_group" => check_base(trigger, event),
        "workflow_run" => check_workflow_run(trigger, event),
        "schedule" => check_schedule(trigger, event),
        _ => Ok(()),
    }
}

/// Only these two events obey the commit message: `pull_request_target` runs trusted code, which
/// the author of a change must not be able to switch off.
fn check_message(event: &Event) -> Result<(), Skip> {
    if !matches!(event.name.as_str(), "push" | "pull_request") {
        return Ok(());
    }
    let marker = event.commit_message.as_deref().and_then(skip_marker::find);
    marker.map_or(Ok(()), |marker| Err(Skip::Asked { marker }))
}

fn check_activity(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    let defaults = || {
        let types = self::event(&event.name).map_or(&[][..], |spec| spec.types_by_default());
        types.iter().map(|&name| name.to_owned()).collect()
    };
    let allowed: Vec<String> =
        if trigger.types.is_empty() { defaults() } else { trigger.types.clone() };
    let fits = allowed.is_empty() || event.action.as_ref().is_some_and(|it| allowed.contains(it));
    if fits {
        return Ok(());
    }
    Err(Skip::ActivityType { action: event.action.clone(), allowed })
}

/// A filter for one kind of ref shuts the other kind out, unless that has a filter too.
fn check_push(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    let other_kind = |pushed, name: &str, filtered| Skip::OtherKindOfRef {
        pushed,
        name: name.to_owned(),
        filtered,
    };
    match (GitRef::parse(&event.git_ref), &trigger.branches, &trigger.tags) {
        (GitRef::Branch(name), Some(rule), _) => {
            check_name(rule, NameKind::Branch, name)?;
            check_paths(trigger, event)
        }
        (GitRef::Branch(name), None, Some(_)) => {
            Err(other_kind(NameKind::Branch, name, NameKind::Tag))
        }
        (GitRef::Branch(_), None, None) => check_paths(trigger, event),
        (GitRef::Tag(name), _, Some(rule)) => check_name(rule, NameKind::Tag, name),
        (GitRef::Tag(name), Some(_), None) => {
            Err(other_kind(NameKind::Tag, name, NameKind::Branch))
        }
        (GitRef::Tag(_), None, None) => Ok(()),
        (GitRef::Other(name), ..) => Err(Skip::NotABranchOrTag { git_ref: name.to_owned() }),
    }
}

/// Pull requests and merge groups are filtered by where they go, not by where they come from.
fn check_base(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    let base = event.base_ref.as_deref();
    check_branch(trigger, NameKind::BaseBranch, base)
}

fn check_branch(trigger: &Trigger, kind: NameKind, name: Option<&str>) -> Result<(), Skip> {
    let Some(rule) = &trigger.branches else {
        return Ok(());
    };
    let name = name.ok_or(Skip::NoName { kind })?;
    check_name(rule, kind, name.strip_prefix("refs/heads/").unwrap_or(name))
}

fn check_name(rule: &Rule, kind: NameKind, name: &str) -> Result<(), Skip> {
    let excluded = |pattern: &Pattern| Skip::Excluded {
        kind,
        name: name.to_owned(),
        pattern: pattern.text().to_owned(),
    };
    match rule {
        Rule::Only(filter) if filter.never_matches() && !filter.patterns().is_empty() => {
            let key = if kind == NameKind::Tag { "tags" } else { "branches" };
            Err(Skip::OnlyNegated { key })
        }
        Rule::Only(filter) => match filter.deciding(name) {
            Some(pattern) if pattern.is_negated() => Err(excluded(pattern)),
            Some(_) => Ok(()),
            None => Err(Skip::NotIncluded { kind, name: name.to_owned(), patterns: texts(filter) }),
        },
        Rule::Except(filter) => match filter.deciding(name) {
            Some(pattern) if !pattern.is_negated() => Err(excluded(pattern)),
            _ => Ok(()),
        },
    }
}

fn check_paths(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    // Where nobody can tell what changed, to run once too often is the safe mistake.
    let (Some(rule), ChangedFiles::Known(files)) = (&trigger.paths, &event.changed_files) else {
        return Ok(());
    };
    if files.is_empty() {
        return Err(Skip::NoChangedFiles);
    }
    let mut looked_at = files.iter().take(MAX_FILES_LOOKED_AT);
    match rule {
        Rule::Only(filter) if filter.never_matches() && !filter.patterns().is_empty() => {
            Err(Skip::OnlyNegated { key: "paths" })
        }
        Rule::Only(filter) if looked_at.any(|file| filter.matches(file)) => Ok(()),
        Rule::Only(filter) => {
            Err(Skip::NoFileIncluded { files: files.len(), patterns: texts(filter) })
        }
        Rule::Except(filter) if looked_at.all(|file| filter.matches(file)) => {
            Err(Skip::AllFilesIgnored { files: files.len() })
        }
        Rule::Except(_) => Ok(()),
    }
}

fn check_workflow_run(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    let run = event.workflow_run.as_ref();
    if !run.is_some_and(|run| trigger.workflows.contains(&run.workflow)) {
        return Err(Skip::OtherWorkflow {
            workflow: run.map(|run| run.workflow.clone()),
            workflows: trigger.workflows.clone(),
        });
    }
    check_branch(trigger, NameKind::Branch, run.and_then(|run| run.branch.as_deref()))
}

fn check_schedule(trigger: &Trigger, event: &Event) -> Result<(), Skip> {
    let due = event.schedule.as_ref();
    if due.is_some_and(|due| trigger.schedules.iter().any(|schedule| schedule.cron == *due)) {
        return Ok(());
    }
    let schedules = trigger.schedules.iter().map(|schedule| schedule.cron.clone()).collect();
    Err(Skip::OtherSchedule { schedule: due.cloned(), schedules })
}

fn texts(filter: &Filter) -> Vec<String> {
    filter.patterns().iter().map(|pattern| pattern.text().to_owned()).collect()
}
