//! The `github` context of a run on this machine, from the repository and the event.

use std::path::Path;

use kiln_core::value::{Object, Value};

use crate::git::{GitError, Head, Repository};

/// The event that a run answers.
#[derive(Debug, Clone)]
pub struct EventSource {
    pub name: String,
    pub payload: Object,
    /// The full ref, when it is not the branch that is checked out.
    pub reference: Option<String>,
}

/// Builds the context. What only a server knows has the values of a first run.
pub fn github_context(
    repository: &Repository,
    head: &Head,
    workflow: (&str, &str),
    event: &EventSource,
) -> Result<Object, GitError> {
    let commit = head.commit.as_str();
    let reference = event.reference.clone().or_else(|| head.reference.clone()).unwrap_or_default();
    let (kind, name) =
        match (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/tags/")) {
            (_, Some(tag)) => ("tag", tag),
            (Some(branch), None) => ("branch", branch),
            (None, None) => ("branch", reference.as_str()),
        };
    let settings = repository.settings(r"^(user\.name|remote\.origin\.url)$");
    let slug = slug(repository, &settings);
    let owner = slug.split('/').next().unwrap_or_default().to_owned();
    let user = settings.iter().rfind(|(name, _)| name == "user.name");
    let actor = user.map_or_else(|| "kiln".to_owned(), |(_, value)| value.clone());
    let server = "https://github.com";
    let text = |path: &[&str]| {
        event.payload.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (workflow_name, workflow_path) = workflow;
    let pairs: [(&str, String); 25] = [
        ("repository", slug.clone()),
        ("repository_owner", owner),
        ("sha", commit.to_owned()),
        ("ref", reference.clone()),
        ("ref_name", name.to_owned()),
        ("ref_type", kind.to_owned()),
        ("ref_protected", "false".to_owned()),
        ("head_ref", text(&["pull_request", "head", "ref"])),
        ("base_ref", text(&["pull_request", "base", "ref"])),
        ("event_name", event.name.clone()),
        ("workflow", workflow_name.to_owned()),
        ("workflow_ref", format!("{slug}/{workflow_path}@{reference}")),
        ("workflow_sha", commit.to_owned()),
        ("actor", actor.clone()),
        ("triggering_actor", actor),
        ("run_id", "1".to_owned()),
        ("run_number", "1".to_owned()),
        ("run_attempt", "1".to_owned()),
        ("server_url", server.to_owned()),
        ("api_url", "https://api.github.com".to_owned()),
        ("graphql_url", "https://api.github.com/graphql".to_owned()),
        ("repositoryurl", format!("git://{slug}")),
        ("retention_days", "90".to_owned()),
        ("action", String::new()),
        ("token", String::new()),
    ];
    let mut github: Object =
        pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    github.insert("event", Value::object(event.payload.clone()));
    Ok(github)
}

/// `owner/name` from the remote, else from the folder.
fn slug(repository: &Repository, settings: &[(String, String)]) -> String {
    let remote = settings.iter().find(|(name, _)| name == "remote.origin.url");
    let remote = remote.map(|(_, url)| url.as_str()).unwrap_or_default();
    let path = remote.trim_end_matches('/').trim_end_matches(".git").replace(':', "/");
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    if let (Some(name), Some(owner)) = (parts.next(), parts.next()) {
        return format!("{owner}/{name}");
    }
    let folder = repository.root().canonicalize().ok();
    let name =
        folder.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    format!("local/{}", name.unwrap_or_else(|| "repository".to_owned()))
}
