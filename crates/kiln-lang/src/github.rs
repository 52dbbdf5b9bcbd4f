//! The `github` context, from what is known when a run begins.

use kiln_core::value::{Object, Value};

use crate::trigger::GitRef;

/// What the context is made of. All of it is plain text but the payload of the event.
#[derive(Debug, Clone, Default)]
pub struct Facts<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub sha: &'a str,
    /// The full ref.
    pub reference: &'a str,
    pub event: &'a str,
    pub payload: Object,
    /// What the workflow calls itself, else its path.
    pub workflow: &'a str,
    pub workflow_path: &'a str,
    pub actor: &'a str,
    pub run_id: i64,
    pub run_number: i64,
    pub server_url: &'a str,
    pub api_url: &'a str,
}

/// The context of a first attempt. What belongs to a step, such as `action` and `token`, is empty.
pub fn context(facts: Facts<'_>) -> Object {
    let Facts { repository, reference, .. } = facts;
    let (kind, name) = match GitRef::parse(reference) {
        GitRef::Tag(name) => ("tag", name),
        GitRef::Branch(name) | GitRef::Other(name) => ("branch", name),
    };
    let text = |path: &[&str]| {
        facts.payload.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let pairs: [(&str, String); 25] = [
        ("repository", repository.to_owned()),
        ("repository_owner", repository.split('/').next().unwrap_or_default().to_owned()),
        ("sha", facts.sha.to_owned()),
        ("ref", reference.to_owned()),
        ("ref_name", name.to_owned()),
        ("ref_type", kind.to_owned()),
        ("ref_protected", "false".to_owned()),
        ("head_ref", text(&["pull_request", "head", "ref"])),
        ("base_ref", text(&["pull_request", "base", "ref"])),
        ("event_name", facts.event.to_owned()),
        ("workflow", facts.workflow.to_owned()),
        ("workflow_ref", format!("{repository}/{}@{reference}", facts.workflow_path)),
        ("workflow_sha", facts.sha.to_owned()),
        ("actor", facts.actor.to_owned()),
        ("triggering_actor", facts.actor.to_owned()),
        ("run_id", facts.run_id.to_string()),
        ("run_number", facts.run_number.to_string()),
        ("run_attempt", "1".to_owned()),
        ("server_url", facts.server_url.to_owned()),
        ("api_url", facts.api_url.to_owned()),
        ("graphql_url", format!("{}/graphql", facts.api_url)),
        ("repositoryurl", format!("git://{repository}")),
        ("retention_days", "90".to_owned()),
        ("action", String::new()),
        ("token", String::new()),
    ];
    let mut github: Object =
        pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    github.insert("event", Value::object(facts.payload));
    github
}
