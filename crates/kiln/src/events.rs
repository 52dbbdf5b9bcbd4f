//! Events: what happened, what a workflow listens to, and what is known before a run.

use kiln_core::value::{Object, Value};
use kiln_lang::trigger::{self, ChangedFiles, GitRef, Rule, WorkflowRun};

/// One event that starts a workflow, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) event: String,
    /// A filter and its patterns, such as `branches` and `main`.
    pub(crate) filters: Vec<(String, Vec<String>)>,
}

impl Trigger {
    fn of(trigger: &trigger::Trigger) -> Self {
        let mut filters = Vec::new();
        let mut add = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                filters.push((name.to_owned(), values));
            }
        };
        add("types", trigger.types.clone());
        for (name, rule) in
            [("branches", &trigger.branches), ("tags", &trigger.tags), ("paths", &trigger.paths)]
        {
            let (suffix, filter) = match rule {
                None => continue,
                Some(Rule::Only(filter)) => ("", filter),
                Some(Rule::Except(filter)) => ("-ignore", filter),
            };
            let patterns = filter.patterns().iter().map(|pattern| pattern.text().to_owned());
            add(&format!("{name}{suffix}"), patterns.collect());
        }
        add("workflows", trigger.workflows.clone());
        let zone = |schedule: &trigger::Schedule| match &schedule.timezone {
            Some(zone) => format!("{} ({zone})", schedule.cron),
            None => schedule.cron.clone(),
        };
        add("cron", trigger.schedules.iter().map(zone).collect());
        Self { event: trigger.event.clone(), filters }
    }
}

/// What happened, as far as the caller knows.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// The payload; empty when there is none.
    pub(crate) payload: Object,
    /// The full ref, `refs/heads/main`; for pull requests the base branch.
    pub(crate) reference: Option<String>,
    /// `None` when it is not known which files changed.
    pub(crate) changed: Option<Vec<String>>,
}

/// Whether an event starts a workflow, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Run(String),
    Skip(String),
}

/// The events a workflow listens to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Triggers(pub(crate) Vec<trigger::Trigger>);

impl Triggers {
    pub(crate) fn shown(&self) -> Vec<Trigger> {
        self.0.iter().map(Trigger::of).collect()
    }

    /// Whether the event starts the workflow. What the caller did not say is assumed, and named in the
    /// reason.
    pub(crate) fn decide(&self, event: &Event) -> Decision {
        let (happened, assumed) = self.assume(event);
        let assumed = if assumed.is_empty() {
            String::new()
        } else {
            format!(" (assuming {})", assumed.join(", "))
        };
        match trigger::matches(&self.0, &happened) {
            trigger::Decision::Run => Decision::Run(format!("`{}` starts it{assumed}", event.name)),
            trigger::Decision::Skip(reason) => Decision::Skip(format!("{reason}{assumed}")),
        }
    }

    /// Fills in what only a payload would tell: an activity type, the schedule, the workflow, a ref.
    fn assume(&self, event: &Event) -> (trigger::Event, Vec<String>) {
        let mut happened = happened(event);
        let mut assumed = Vec::new();
        let Some(own) = self.0.iter().find(|trigger| trigger.event == event.name) else {
            return (happened, assumed);
        };
        let defaults = trigger::event(&event.name).map_or(&[][..], |spec| spec.types_by_default());
        let first =
            own.types.first().cloned().or_else(|| defaults.first().map(|kind| (*kind).to_owned()));
        if let (None, Some(kind)) = (&happened.action, first) {
            assumed.push(format!("the activity type `{kind}`"));
            happened.action = Some(kind);
        }
        if let (None, Some(schedule)) = (&happened.schedule, own.schedules.first()) {
            assumed.push(format!("the schedule `{}`", schedule.cron));
            happened.schedule = Some(schedule.cron.clone());
        }
        if let (None, Some(workflow)) = (&happened.workflow_run, own.workflows.first()) {
            assumed.push(format!("a run of `{workflow}`"));
            happened.workflow_run =
                Some(WorkflowRun { workflow: workflow.clone(), branch: Some("main".to_owned()) });
        }
        let filtered = own.branches.is_some() || own.tags.is_some();
        if event.reference.is_none() && filtered && happened.base_ref.is_none() {
            assumed.push("the branch `main`".to_owned());
            happened.base_ref = Some("main".to_owned());
        }
        if own.paths.is_some() && event.changed.is_none() {
            assumed.push("that the path filter lets it through".to_owned());
        }
        (happened, assumed)
    }
}

/// The event as the language sees it: what was typed first, then what the payload says.
fn happened(event: &Event) -> trigger::Event {
    let changed = match &event.changed {
        Some(files) => ChangedFiles::Known(files.clone()),
        None => ChangedFiles::Unknown,
    };
    trigger::Event::of_payload(&event.name, &event.payload, event.reference.as_deref(), changed)
}

/// What is known before a run: much of `github`, and the inputs of a dispatch.
pub(crate) fn known_contexts(event: &Event, inputs: Option<Object>) -> Object {
    let happened = happened(event);
    let reference = happened.git_ref.as_str();
    let (kind, name) = match GitRef::parse(reference) {
        GitRef::Tag(name) => ("tag", name),
        GitRef::Branch(name) | GitRef::Other(name) => ("branch", name),
    };
    let mut github = Object::new();
    github.insert("event_name", Value::from(event.name.as_str()));
    if event.reference.is_some() {
        github.insert("ref", Value::from(reference));
        github.insert("ref_name", Value::from(name));
        github.insert("ref_type", Value::from(kind));
    }
    if !event.payload.is_empty() {
        github.insert("event", Value::object(event.payload.clone()));
    }
    let mut known: Object = [("github", Value::object(github))].into_iter().collect();
    if let Some(inputs) = inputs {
        known.insert("inputs", Value::object(inputs));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_fills_in_what_was_not_typed() {
        let base: Object = [("ref", Value::from("release/1"))].into_iter().collect();
        let pull: Object = [("base", Value::object(base))].into_iter().collect();
        let payload: Object =
            [("action", Value::from("opened")), ("pull_request", Value::object(pull))]
                .into_iter()
                .collect();
        let event = Event { name: "pull_request".into(), payload, reference: None, changed: None };
        let event = happened(&event);
        assert_eq!(event.base_ref.as_deref(), Some("release/1"));
        assert_eq!(event.action.as_deref(), Some("opened"));
        assert_eq!(event.changed_files, ChangedFiles::Unknown);
    }
}
